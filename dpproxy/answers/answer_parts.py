"""What there is of one answer so far: inputs that are evaluated, measurements that are released, arrays that are written.

Knows: a plan's inputs, measurements and arrays, what depends on what, stored answers. Must not know: charges, engines. Nothing in
this file costs anything: it shows what a role has seen already, and says what is still open. `delivery` asks it what would be
charged, `answering` charges that.

A measurement may have inputs in it, an input may need the release of another measurement: so the parts become ready in rounds.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpproxy.answers.question import Literals, Question
from dpproxy.answers.statement_end import internal
from dpproxy.answers.virtual_rows import virtual_columns
from dpproxy.backends.base import in_measuring_thread
from dpproxy.facade.database import column_text
from dpproxy.mechanisms.noise import Int64, Released
from dpproxy.plan.model import Array, Plan
from dpproxy.privacy.measurement import Measurement
from dpproxy.reuse.lookup import AnswerLookup
from dpproxy.reuse.matching import Asked, SpelledValues, any_noise, check_size
from dpproxy.reuse.store import Found
from dpproxy.sql.template import Param, Template
from dpproxy.tree.expr import Hole, walk

# Released columns as PostgreSQL array literals.
#
# Knows: Arrow, the text form of arrays. Must not know: where a column came from; it is given `Released` values, policy and
# ledger entries only. Vectorised, since an answer may have a million groups; but for short columns, for which a call of a
# vector's function costs more than its work.


SHORT = 500
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\0": None})
"""NUL cannot be part of a PostgreSQL text; an engine may return one."""


def array_literal(column: pa.Array | pa.ChunkedArray | Int64) -> bytes:
    """Return `{...}` in UTF-8: numbers bare, everything else quoted, NULL for a missing value."""
    if len(column) <= SHORT and (items := _items(column)) is not None:
        return ("{" + ",".join(items) + "}").encode()
    if isinstance(column, np.ndarray):
        column = pa.array(column)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    text = column_text(column)
    if not (pa.types.is_integer(column.type) or pa.types.is_decimal(column.type)):
        text = _quoted(text)
    text = pc.fill_null(text, "NULL")
    whole = pa.ListArray.from_arrays(pa.array([0, len(text)], pa.int32()), text)
    return b"{" + (pc.binary_join(whole, ",")[0].as_py() or "").encode() + b"}"


def _items(column: pa.Array | pa.ChunkedArray | Int64) -> list[str] | None:
    """Of integers and texts; None for others."""
    if isinstance(column, np.ndarray):
        return [str(value) for value in column.tolist()]
    if pa.types.is_integer(column.type):
        return ["NULL" if value is None else str(value) for value in column.to_pylist()]
    if pa.types.is_string(column.type):
        return ["NULL" if value is None else f'"{value.translate(_ESCAPES)}"' for value in column.to_pylist()]
    return None


def text_literal(values: Sequence[str | None]) -> bytes:
    """Return the array literal of a list of texts."""
    return array_literal(pa.array(values, pa.string()))


def _quoted(text: pa.Array) -> pa.Array:
    for plain, escape in (("\\", "\\\\"), ('"', '\\"'), ("\0", "")):
        text = pc.replace_substring(text, plain, escape)
    return pc.binary_join_element_wise('"', text, '"', "")


FEW: Final = 2000
"""Released numbers that are looked through at once; more of them in a thread, so that others do not wait."""


@dataclass(frozen=True)
class Source:
    """Where a measurement is answered from: a release, or what is computed from some. `made`: the times of these releases."""

    made: tuple[dt.datetime, ...]
    computed: bool


class AnswerParts:
    """The parts of one answer. Measurements, inputs and arrays are named by their indexes in the plan.

    `released`: measurements that are; `values`: what was released of each, of groups that are shown; `free`: those that cost
    nothing, and their sources. `read`: readings of reports that are shown.
    """

    def __init__(self, question: Question, parameters: Sequence[str | None]) -> None:
        """`parameters` are text forms of the client's values."""
        plan = question.plan
        self.released: set[int] = set()
        self.values: dict[int, tuple[Int64, ...]] = {}
        self.free: dict[int, Source] = {}
        self.read: set[int] = set()
        self._question = question
        self._plan: Plan = plan
        self._parameters = parameters
        self._literals: Literals = [None] * len(plan.arrays)
        self._inputs: list[str | None] = [None] * len(plan.inputs)
        self._evaluated: set[int] = set()
        self._lookup: AnswerLookup | None = None
        self.spelled = SpelledValues(question.dataset.literal, question.dataset.spelling)

    @classmethod
    async def begun(cls, question: Question, parameters: Sequence[str | None]) -> AnswerParts:
        """Return the parts with all that needs no measurement. Raises Refusal, StatementFailed, LinkLost."""
        parts, dataset = cls(question, parameters), question.dataset
        check_size(parameters, question.asker.role.query.parameter_bytes)
        await parts._fill_virtual()
        await parts.evaluate_ready()
        await parts._send_signals()
        names = (dataset.policy.dataset, question.asker.role.name)
        spelled = (dataset.backend.dialect, parts.spelled)
        reuse = dataset.reuse if question.plan.measurements or question.plan.readings else None
        mode = question.mode if dataset.reuse is not None else "off"
        parts._lookup = await AnswerLookup.opened(reuse, mode, *names, *spelled, question.statement)
        return parts

    @property
    def lookup(self) -> AnswerLookup:
        """Return what this statement's role may find among stored answers."""
        assert self._lookup is not None, "`begun` opens it"
        return self._lookup

    async def _fill_virtual(self) -> None:
        """What no measurement fills. In a thread: a ledger that several proxies share has to be asked, rows have to be invented.
        Raises Refusal."""
        dataset, asker = self._question.dataset, self._question.asker
        tables = {a.virtual for a in self._plan.arrays if a.virtual is not None}
        asked = any(a.invented is not None for a in self._plan.arrays)
        try:
            columns = {t: await asyncio.to_thread(virtual_columns, t, dataset, asker) for t in tables}
            invented = await asyncio.to_thread(dataset.invented.rows, dataset.policy, dataset.catalog) if asked else {}
        except Exception as error:
            raise internal(error, statement=self._question.statement) from error
        for i, array in enumerate(self._plan.arrays):
            if array.virtual is not None:
                self._literals[i] = text_literal(columns[array.virtual][array.column])
            elif array.invented is not None:
                self._literals[i] = text_literal(invented[array.invented[0]][array.invented[1]])

    async def _send_signals(self) -> None:
        """Where the statement is run. Raises Refusal where it was its own session's statement that was to be cancelled."""
        question = self._question
        for i, array in enumerate(self._plan.arrays):
            number = self._inputs[array.column] if array.signal is not None else None
            if array.signal is None or question.kind == "explain":
                continue
            reached = None if number is None else "t" if await question.reach(array.signal, int(number)) else "f"
            self._literals[i] = text_literal([reached])
        question.ending.check()

    async def evaluate_ready(self) -> None:
        """Evaluate inputs whose measurements are all released, in one question to the facade."""
        ready = [
            i
            for i, given in enumerate(self._plan.inputs)
            if i not in self._evaluated and self.released.issuperset(given.measurements) and self.read.issuperset(given.readings)
        ]
        if ready:
            for i, value in zip(ready, await self._question.evaluate(ready, self._literals), strict=True):
                self._inputs[i] = value
            self._evaluated.update(ready)
            values = [value for value, given in zip(self._inputs, self._plan.inputs, strict=True) if not given.rows]
            check_size(self._parameters, self._question.asker.role.query.parameter_bytes, values)
        parts = (*self._plan.measurements, *self._plan.readings)
        await self.spelled.prepare(self._question.dataset.backend.dialect, parts, self.bound())

    # what is open

    def open(self) -> list[int]:
        """Return measurements that are not yet released, in the order in which they must run."""
        return [i for i in range(len(self._plan.measurements)) if i not in self.released]

    def ready(self) -> list[int]:
        """Return open measurements whose values are all known."""
        return [i for i in self.open() if self._needs(i) <= self._evaluated]

    def waiting(self) -> bool:
        """Return whether an open measurement needs the answer of another."""
        return any(self._needs(i) - self._evaluated for i in self.open())

    def bound(self) -> list[str | None]:
        """Return the values of a measurement's holes: the client's parameters, then the inputs."""
        return [*self._parameters, *self._inputs]

    def wanted(self) -> dict[int, tuple[Asked, Measurement]]:
        """Return ready measurements as they are looked for; without those that are not reused."""
        named = {i: (self.asked(i), self._plan.measurements[i]) for i in self.ready()}
        return {i: (asked, m) for i, (asked, m) in named.items() if asked is not None}

    def asked(self, index: int) -> Asked | None:
        """Return what a measurement is looked for as; None where it is not reused."""
        return self.lookup.asked(self._plan.measurements[index], self.bound())

    def unread(self) -> list[int]:
        """Return readings that are not shown, whose values are all known."""
        found = [i for i in range(len(self._plan.readings)) if i not in self.read]
        return [i for i in found if self._inputs_of(self._plan.readings[i].queries) | self._weighed_by(i) <= self._evaluated]

    def _weighed_by(self, index: int) -> set[int]:
        """The inputs that the weights of a reading are made of."""
        first = self._plan.parameters
        holes = (part for one in self._plan.weighings[index] for part in walk(one.expr) if isinstance(part, Hole))
        return {hole.index - first for hole in holes if hole.index >= first}

    def _needs(self, index: int) -> set[int]:
        """The inputs a measurement has in it."""
        return self._inputs_of(self._plan.measurements[index].queries)

    def _inputs_of(self, queries: Sequence[Template]) -> set[int]:
        first = self._plan.parameters
        parts = (p for query in queries for p in query.parts if isinstance(p, Param))
        return {p.index - first for p in parts if p.index >= first}

    # what is shown

    async def show_seen(self) -> tuple[bool, dict[int, Found]]:
        """Show what costs nothing, and what is asked because of it. Return whether there was any, and what else is stored."""
        shown = False
        while True:
            found = await self.lookup.find(self.wanted())
            seen = {i: f for i, f in found.items() if f.seen(self._question.asker.role.name)}
            if not seen:
                return shown, found
            for i, each in seen.items():
                await self.show(i, each.released, Source(each.made, each.stored is None))
            await self.evaluate_ready()
            shown = True

    async def show(self, index: int, released: Released, source: Source | None = None) -> None:
        """Write a measurement's arrays. `source`: where it is from if it cost nothing."""
        await self._write({i: a for i, a in enumerate(self._plan.arrays) if a.measurement == index}, released)
        self.released.add(index)
        self.values[index] = self._shown(index, released)
        if source is not None:
            self.free[index] = source

    async def show_reading(self, index: int, released: Released) -> None:
        """Write a reading's arrays."""
        await self._write({i: a for i, a in enumerate(self._plan.arrays) if a.reading == index}, released)
        self.read.add(index)

    async def _write(self, arrays: Mapping[int, Array], released: Released) -> None:
        columns = (*released.keys, *released.values)

        def literals() -> dict[int, bytes]:
            return {i: array_literal(columns[array.column]) for i, array in arrays.items()}

        made = literals() if released.rows <= FEW else await in_measuring_thread(literals)
        for i, literal in made.items():
            self._literals[i] = literal

    async def seen_values(self) -> dict[int, tuple[Int64, ...]]:
        """Return what this role has seen of each measurement, however noisy: groups are about as large as they were then."""
        if not self._plan.measurements:
            return {}
        loose = {i: (any_noise(asked), m) for i, (asked, m) in self.wanted().items()}
        found = await self.lookup.find(loose)
        role = self._question.asker.role.name
        return self.values | {i: self._shown(i, f.released) for i, f in found.items() if f.seen(role)}

    def _shown(self, index: int, released: Released) -> tuple[Int64, ...]:
        """Released values of the groups that are shown, from which errors are stated."""
        unshown = self._plan.unshown[index] if self._plan.unshown else ()
        if not unshown:
            return released.values
        kept = np.ones(released.rows, dtype=np.bool_)
        for key, value in unshown:
            cells = released.keys[key]
            others = pc.is_null(cells) if value is None else pc.fill_null(pc.equal(cells, value), False)
            kept &= ~others.to_numpy(zero_copy_only=False)
        return tuple(values[kept] for values in released.values)

    def complete(self) -> tuple[bytes, ...]:
        """Return all arrays. Raises Refusal when one is missing, which must not happen."""
        complete = tuple(literal for literal in self._literals if literal is not None)
        if len(complete) != len(self._literals):
            error = RuntimeError("an array of the outer query was not released")
            raise internal(error, statement=self._question.statement)
        return complete

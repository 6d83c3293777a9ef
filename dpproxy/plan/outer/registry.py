"""What one statement has measured so far, and the parameters of its outer query: arrays, and values the facade evaluates first.

Knows: compiled measurements, numbers of parameters. Must not know: how a SELECT is rewritten. Equal measurements are registered
once, whoever asks for them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dpproxy.engines import EngineSpeller
from dpproxy.errors import PROGRAM_LIMIT_EXCEEDED, STATEMENT_TOO_COMPLEX, UNDEFINED_TABLE, Refusal
from dpproxy.plan.bind import joins
from dpproxy.plan.context import Context, Counter
from dpproxy.plan.measure import amplification, bound_cuts, fingerprint, normal_form
from dpproxy.plan.measure.compiler import Compiled, Compiler, column_notes
from dpproxy.plan.measure.fingerprint import moves
from dpproxy.plan.measure.request import Drafted, MeasurementRequest, extra_columns, running_of
from dpproxy.plan.measure.specs import BasisSpec, SelectionSpec
from dpproxy.plan.model import Array, Input
from dpproxy.plan.outer.staged_rows import array_source
from dpproxy.plan.properties import fanout
from dpproxy.privacy.measurement import EXTRA
from dpproxy.sql.dialect import copied, position
from dpproxy.sql.types import wire_type
from dpproxy.sql.virtual_tables import VIRTUAL_TABLES
from dpproxy.tree.expr import Agg, Call, Expr, Hole, conjunction
from dpproxy.tree.measured import ReadingQuery
from dpproxy.tree.relation import Beside, Rows
from dpproxy.tree.spelling import Speller

MAX_READINGS = 64  # of one statement
MAX_MEASUREMENTS = 64  # of one statement: each costs a backend query
MAX_NUMBERS = 4_000_000  # of one statement's declared groups: the proxy takes 85 bytes for each while it makes an answer

Keys = Sequence[tuple[str, Expr]]
Specs = Sequence[BasisSpec]
Selections = Sequence[SelectionSpec]


@dataclass
class Registry:
    """The registry holds what one statement measures; nothing outlives its plan.

    `first_array[i]` is the number of the first array of measurement i. `in_sets`: the measurements that grouping sets are made
    of, `averaged` those of them that are made to agree. `beside` says, by hole, what is known of the rows that the facade hands
    over. `texts`: bytes of texts that all measurements build of one row.
    """

    context: Context
    counter: Counter
    compiled: list[Compiled] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    first_array: list[int] = field(default_factory=list)
    texts: int = 0
    numbers: int = 0
    in_sets: set[int] = field(default_factory=set)
    averaged: set[int] = field(default_factory=set)
    beside: dict[int, Beside] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)  # by the alias of a released source, its measurement
    readings: list[Drafted] = field(default_factory=list)
    first_of_reading: list[int] = field(default_factory=list)
    _aliases: int = 0
    _virtual: dict[str, int] = field(default_factory=dict)

    def next_alias(self) -> str:
        self._aliases += 1
        return f"dpproxy_m{self._aliases}"

    def input(self, sql: str, type_: str) -> Hole:
        arrays, measurements = self._used(sql)
        readings = {self.arrays[a].reading for a in arrays}
        self.inputs.append(Input(sql, type_, arrays, measurements, tuple(sorted(r for r in readings if r is not None))))
        return Hole(type_, len(self.context.parameters) + len(self.inputs) - 1)

    def reads_released(self, sql: str) -> bool:
        """Whether a text of the facade reads what a measurement released."""
        arrays, measurements = self._used(sql)
        return bool(measurements) or any(self.arrays[a].reading is not None for a in arrays)

    def _used(self, sql: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        first = len(self.context.parameters)
        numbers = {int(n) - first - 1 for n in re.findall(r"\$(\d+)", sql)}
        arrays = tuple(sorted(n for n in numbers if 0 <= n < len(self.arrays)))
        measurements = {self.arrays[a].measurement for a in arrays}
        return arrays, tuple(sorted(m for m in measurements if m is not None))

    def constant(self, sql: str, type_: str) -> Expr:
        wanted = Input(sql, type_)
        if wanted not in self.inputs:
            self.inputs.append(wanted)
        return Hole(type_, len(self.context.parameters) + self.inputs.index(wanted))

    def virtual(self, node: exp.Table, name: str) -> None:
        """Replace a table of schema dpproxy by arrays that the session fills."""
        table = VIRTUAL_TABLES.get(name)
        if table is None:
            raise Refusal(
                UNDEFINED_TABLE, f'relation "dpproxy.{name}" does not exist', position(node), hint="SELECT * FROM dpproxy.help."
            )
        if name not in self._virtual:
            self._virtual[name] = len(self.arrays)
            self.arrays += [Array(c.type, None, i, name) for i, c in enumerate(table.columns)]
        first = len(self.context.parameters) + 1 + self._virtual[name]
        alias = copied(node.args["alias"].this) if node.args.get("alias") is not None else exp.to_identifier(name)
        source = array_source("dpproxy_v", first, [(c.name, c.type) for c in table.columns])
        source.args["alias"].set("this", alias)
        node.replace(source)

    def compile(self, request: MeasurementRequest, rows: Rows, members: tuple[int, ...]) -> Compiled:
        """Compile what is asked for by some of the keys."""
        return self.compile_sets(request, rows, [members])[0]

    def compile_sets(self, request: MeasurementRequest, rows: Rows, sets: Sequence[tuple[int, ...]]) -> list[Compiled]:
        """Compile what is asked for by each of several sets of keys, over rows that are spelled once."""
        used = sorted({i for members in sets for i in members})
        keys = [request.keys[i] for i in used]
        for members in sets:
            fanout.check_repetitions(rows, [request.keys[i][1] for i in members])
        rows, keys, specs, selections = normal_form.normal(rows, keys, request.specs, request.selections)
        compilers: dict[Speller, Compiler] = {}
        found = []
        for members in sets:
            chosen = [keys[used.index(i)] for i in members]
            speller = self.speller_for(rows, chosen, specs, selections)
            compiler = compilers.setdefault(speller, Compiler(rows, self.context, speller))
            found.append(self._compiled(compiler, request, chosen, specs, selections))
        return found

    def _compiled(
        self, compiler: Compiler, request: MeasurementRequest, keys: Keys, specs: Specs, selections: Selections
    ) -> Compiled:
        context, rows = self.context, compiler.rows
        compiled = compiler.compiled(keys, specs, selections, request.top)
        beyond = bound_cuts.tests(compiled) if context.role.query.measure_bounds else ()
        cut = compiler.cut(keys, beyond) if beyond else None
        names, more = fingerprint.names(compiler, keys, compiled), column_notes(compiled, context.policy.unit_name)
        told = replace(compiled.bounding, notes=(*compiled.bounding.notes, *more))
        moving = moves((rows.node, keys, specs, selections))
        outputs = tuple(request.outputs)
        made = replace(compiled, bounding=told, outputs=outputs, names=names, cut=cut, moving=moving, conditions=rows.conditions)
        made = compiler.read(made)
        return replace(made, running=running_of(made, request.series))

    def speller_for(
        self,
        rows: Rows,
        keys: Sequence[tuple[str, Expr]],
        specs: Sequence[BasisSpec] = (),
        selections: Sequence[SelectionSpec] = (),
    ) -> Speller:
        """Return the speller of texts, cut as the measurement's cost demands. Raises Refusal when nothing bounds the cost."""
        items = [key for _, key in keys]
        items += [e for s in specs for e in (s.value, s.where) if e is not None]
        items += [e for c in selections for e in (c.value, c.where) if e is not None]
        cut, cost = amplification.chosen_cut(rows.node, items, self.context, self.beside)
        self.texts += cost.texts
        amplification.check_statement(self.texts, self.context.policy.unit_name)
        return EngineSpeller(self.context.dialect, cut)

    def shared_values(self, request: MeasurementRequest, agg: Agg) -> tuple[str, exp.Expr]:
        """Return the values that enough units share in each group of a measured SELECT, as a source of its own; its columns are
        the keys and then the value. Declared values are looked for like others: that they may be there does not say that they
        are."""
        value = agg.args[0]
        present = Call("bool", "is_not_null", (value,))
        rows = joins.filtered(request.rows, conjunction((*([agg.where] if agg.where is not None else []), present)))
        call = f"{agg.name}()"
        keys = [*(request.keys[i] for i in request.sets[0]), (f"values of {call}", value)]
        rows, keys, _, _ = normal_form.normal(rows, keys, [], [])
        compiler = Compiler(rows, self.context, self.speller_for(rows, keys), declared=False)
        compiled = compiler.compiled(keys)
        alias = self.next_alias()
        compiled = compiler.read(replace(compiled, names=fingerprint.names(compiler, keys, compiled), values_of=call))
        return alias, self.set_source(alias, compiled, tuple(range(len(keys))))

    def set_source(self, alias: str, compiled: Compiled, members: tuple[int, ...]) -> exp.Expr:
        """Write `unnest(...)` of a measurement's arrays, its keys named after their place among all keys."""
        index = self.sources[alias] = self.register(compiled)
        types = [(f"k{i}", type_) for i, (_, type_) in zip(members, compiled.keys, strict=True)]
        # the compiled measurement may have a column more than was asked for: the units behind its threshold
        types += [(f"b{i}", "int8") for i in range(len(compiled.specs))]
        types += [(f"s{i}_{j}", "int8") for i, s in enumerate(compiled.selections) for j in range(s.columns)]
        stepped = [i for i, spec in enumerate(compiled.specs) if spec.steps(compiled.bounding) > 1]
        types += [(name, "int8") for i in stepped for name in extra_columns(i)]
        return array_source(alias, self.first_parameter(index), types)

    def first_parameter(self, measurement: int) -> int:
        """Return the number of the parameter of the outer query that is a measurement's first array."""
        return len(self.context.parameters) + 1 + self.first_array[measurement]

    def read(self, drafted: Drafted, keys: Sequence[str]) -> int:
        """Register a reading, whose released keys have these types; return its number. Raises Refusal."""
        known = [(one.reading, one.weighings) for one in self.readings]
        if (drafted.reading, drafted.weighings) in known:
            return known.index((drafted.reading, drafted.weighings))
        if len(self.readings) >= MAX_READINGS:
            told = f"statement needs more than {MAX_READINGS} readings of reports"
            raise Refusal(STATEMENT_TOO_COMPLEX, told, hint="Ask for fewer aggregates in one statement.")
        index, reading = len(self.readings), drafted.reading
        self.readings.append(drafted)
        self.first_of_reading.append(len(self.arrays))
        width = len(reading.estimates) + 2 * len(reading.ends) + len(reading.spreads)
        types = [*map(wire_type, keys), *["int8"] * width]
        self.arrays += [Array(type_, None, i, reading=index) for i, type_ in enumerate(types)]
        return index

    def first_reading_parameter(self, reading: int) -> int:
        """Return the number of the parameter of the outer query that is a reading's first array."""
        return len(self.context.parameters) + 1 + self.first_of_reading[reading]

    def reading_text(self, tree: ReadingQuery) -> str:
        """Spell a query of a reading."""
        return EngineSpeller(self.context.dialect).reading(tree)

    def register(self, compiled: Compiled) -> int:
        for i, known in enumerate(self.compiled):
            if (known.sql, known.specs, known.selections, known.top) == (
                compiled.sql, compiled.specs, compiled.selections, compiled.top,
            ):  # fmt: skip
                outputs = tuple(dict.fromkeys((*known.outputs, *compiled.outputs)))
                running = known.running if known.running == compiled.running else None  # else groups are asked for as well
                values_of = known.values_of if known.values_of == compiled.values_of else ""
                self.compiled[i] = replace(known, outputs=outputs, running=running, values_of=values_of)
                return i
        if len(self.compiled) >= MAX_MEASUREMENTS:
            raise Refusal(
                STATEMENT_TOO_COMPLEX,
                f"statement needs more than {MAX_MEASUREMENTS} measurements",
                hint="Ask for fewer aggregates in one statement.",
            )
        stepped = sum(spec.steps(compiled.bounding) > 1 for spec in compiled.specs)
        width = len(compiled.specs) + sum(s.columns for s in compiled.selections) + EXTRA * stepped
        self._count(compiled, width)
        index = len(self.compiled)
        self.compiled.append(compiled)
        self.first_array.append(len(self.arrays))
        self.arrays += [Array(wire_type(t), index, i) for i, (_, t) in enumerate(compiled.keys)]
        self.arrays += [Array("int8", index, len(compiled.keys) + i) for i in range(width)]
        return index

    def _count(self, compiled: Compiled, width: int) -> None:
        """Count what a measurement of `width` columns releases of declared groups. Raises Refusal 54000 for too much."""
        dense = compiled.bounding.dense
        self.numbers += ((dense.expected or 0) if dense is not None else 0) * (len(compiled.keys) + width)
        if self.numbers > MAX_NUMBERS:
            raise Refusal(
                PROGRAM_LIMIT_EXCEEDED,
                f"an answer of {self.numbers:,} values, empty groups included, is too large: at most {MAX_NUMBERS:,} are made",
                hint="Ask for fewer groups or for fewer aggregates in one statement.",
            )

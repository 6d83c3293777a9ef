"""A measurement compiled: keys and aggregates over rows of units become bounded integer columns of one backend query.

Knows: PRIVACY.md section 3, relations, a speller of queries. Must not know: engines, clients, ledgers, how noise is drawn. Every
number that decides privacy (bounds, sensitivities, L0) is made here, before anything runs; `noise_scales` adds noise,
`bounding` builds the query's tree. A step of bounding is skipped only by one of the two rules stated in `_bounding`: a bound
may rest only on what the generated SQL enforces.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from dpproxy.errors import PROGRAM_LIMIT_EXCEEDED, NoRoom
from dpproxy.kernel.verdict import Trees
from dpproxy.plan.context import Context
from dpproxy.plan.measure import clamps, coverage, stored_shapes
from dpproxy.plan.measure.bounding import Builder
from dpproxy.plan.measure.output_weights import Output
from dpproxy.plan.measure.specs import (
    BasisSpec,
    Bounding,
    SelectionSpec,
    TopSpec,
)
from dpproxy.plan.model import LeftOut, Unshown
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.fanout import contribution
from dpproxy.plan.properties.key_domains import Dense, dense_domain, too_many
from dpproxy.policy.names import plural
from dpproxy.privacy.measurement import Names
from dpproxy.privacy.running_sums import Running
from dpproxy.sql.effort import step
from dpproxy.tree.expr import Expr
from dpproxy.tree.measured import Statement, Test
from dpproxy.tree.relation import Rows, of_somebody
from dpproxy.tree.spelling import Query, Speller

WORTH_CHOOSING = 20  # declared groups a unit may be in, for each of the k asked for: their counts are several times as exact
MAX_MAGNITUDE = 2**60  # of one unit's contribution in grid units: far from 2**62 where results saturate


@dataclass(frozen=True)
class Compiled:
    """A measurement without noise: its query, bases and bounding."""

    query: Query
    keys: tuple[tuple[str, str], ...]  # label, type
    specs: tuple[BasisSpec, ...]
    selections: tuple[SelectionSpec, ...]
    side: tuple[Query, ...]  # of each selection; equal ones are asked once
    bounding: Bounding
    threshold: int | None  # index of the units basis, when keys are undeclared
    min_units: int
    top: TopSpec | None = None  # the groups are chosen by this, not by a threshold
    rest: bool = False  # one row for what is in no released group
    outputs: tuple[Output, ...] = ()  # what is made of the columns
    names: Names | None = None
    cut: Query | None = None  # says how many units the bounds cut, where that is to be measured
    cutting: bool = False  # this is such a query
    moving: bool = False  # with the time of day (`plan.measure.fingerprint`)
    clamped: tuple[str, ...] = ()  # columns whose range may cut values (`plan.measure.clamps`)
    limited: tuple[str, ...] = ()  # contribution bounds that hold values, in words
    all_rows: bool = False  # no unit has more rows in a group than count, by the statement itself
    left_out: tuple[LeftOut, ...] = ()  # rows in none of the declared groups
    first: Query | None = None  # of the round before, where there is one (`mechanisms.key_rounds`)
    shape: str = ""  # where it is read from, where there are stored tables
    conditions: tuple[Expr, ...] = ()  # which every row satisfies
    running: Running | None = None  # the sums that are measured where noise is Gaussian (`plan.measure.request`)
    values_of: str = ""  # the aggregate whose values are its groups (`plan.outer.registry.Registry.shared_values`)
    unshown: tuple[Unshown, ...] = ()

    @property
    def sql(self) -> str:
        return self.query.text

    @cached_property
    def holds_all(self) -> bool:
        """Tell whether every row is in one of the declared groups."""
        dense = self.bounding.dense
        return dense is not None and coverage.holds_all(dense, self.conditions)

    @property
    def asked(self) -> tuple[Query, ...]:
        """The queries of the measurement, each once: that of the groups, then those of selections."""
        return (self.query, *dict.fromkeys(self.side))

    @property
    def trees(self) -> Trees:
        """What the kernel checks."""
        main, *side = (query.tree for query in self.asked)
        return Trees(main, tuple(side), self.first.tree if self.first is not None else None)


@dataclass
class Compiler:
    """Compiles measurements of the same rows, whose FROM is written once. `rows.unit` must be known. Not `declared`: keys count
    as undeclared, whatever is known of them, so that only groups of enough units are released."""

    rows: Rows
    context: Context
    speller: Speller
    declared: bool = True
    _boundings: dict[tuple[tuple[Expr, ...], bool], Bounding] = field(default_factory=dict)
    _texts: dict[tuple[tuple[Expr, ...], tuple[BasisSpec, ...]], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unit = self.rows.unit
        assert unit is not None
        self._unit = unit
        self._source = self.speller.rows(of_somebody(self.rows.node, unit))

    def read(self, compiled: Compiled) -> Compiled:
        """Return the measurement as it is read: from stored tables, where there are some that hold what it is made of."""
        if not self.context.stored:
            return compiled
        source, speller, stored = self._source, self.speller, self.context.stored
        shape = stored_shapes.shape(compiled.query.tree, source, speller, stored)
        first = compiled.first
        if first is not None:
            first = stored_shapes.shape(first.tree, source, speller, stored).query or first
        side = tuple(stored_shapes.side(query, speller, stored) for query in compiled.side)
        return replace(compiled, query=shape.query or compiled.query, first=first, side=side, shape=shape.told)

    def over(self, rows: Rows) -> Compiler:
        return Compiler(rows, self.context, self.speller)

    def compiled(
        self,
        keys: Sequence[tuple[str, Expr]],
        specs: Sequence[BasisSpec] = (),
        selections: Sequence[SelectionSpec] = (),
        top: TopSpec | None = None,
    ) -> Compiled:
        """Return the backend query of a measurement. `top` is heeded where it costs less than releasing all groups."""
        plain = tuple(k for _, k in keys)
        bounding, threshold = _in_classes(self._bounding(plain, bool(selections)), specs), None
        if top is not None and self._heeded(top, bounding, specs, selections):
            bounding = replace(bounding, kept=top.k)
        else:
            top = None
            specs, threshold = self._with_threshold(specs, bounding, bool(keys))
        least, undeclared = self.context.role.min_units, threshold is not None or (top is not None and bounding.dense is None)
        query = self._main(plain, specs, bounding, undeclared)
        side = tuple(self._query(self._builder(bounding).buckets(plain, s)) for s in selections)
        labels = tuple((label, k.type) for label, k in keys)
        rounds = any(spec.round == 2 for spec in specs)
        first = self._query(self._builder(bounding, specs).first_round(plain, least)) if rounds else None
        made = Compiled(query, labels, tuple(specs), tuple(selections), side, bounding, threshold, least, top, first=first)
        return self._told(made, plain)

    def text(self, keys: Sequence[tuple[str, Expr]], specs: Sequence[BasisSpec] = ()) -> str:
        """Return the text of the query of such a measurement, and nothing else of it."""
        plain = tuple(k for _, k in keys)
        asked = plain, tuple(specs)
        text = self._texts.get(asked)
        if text is None:
            bounding = _in_classes(self._bounding(plain, False), specs)
            specs, threshold = self._with_threshold(specs, bounding, bool(keys))
            text = self._texts[asked] = self._main(plain, specs, bounding, threshold is not None).text
        return text

    def _main(self, keys: tuple[Expr, ...], specs: Sequence[BasisSpec], bounding: Bounding, undeclared: bool) -> Query:
        """The query of all groups; of undeclared ones, those of as many units as the role may see. Raises NoRoom."""
        for spec in specs:
            whole = spec.linf(bounding.rows) * spec.fine(bounding)
            if whole > MAX_MAGNITUDE:
                raise NoRoom(
                    PROGRAM_LIMIT_EXCEEDED,
                    f"what one {self.context.policy.unit_name} may contribute to an aggregate would exceed 64 bits",
                    hint="Clamp it in SQL, `least(greatest(x, 0), 100)`, or ask the policy's author for a tighter `range`.",
                    times=-(-whole // MAX_MAGNITUDE),
                )
        least = self.context.role.min_units if undeclared else 1
        query = self._query(self._builder(bounding, specs).query(keys, least))
        step(20 + len(query.text) // 200)
        return query

    def _told(self, made: Compiled, keys: Sequence[Expr]) -> Compiled:
        """Say which rows are in no group, and which bounds may cut something."""
        conditions = self.rows.conditions
        return replace(
            made,
            left_out=coverage.left_out(made.bounding.dense, conditions),
            clamped=clamps.clamped_columns(made.specs, made.selections, conditions),
            limited=clamps.limited_columns(made.specs, made.selections),
            all_rows=clamps.rows_within(self.rows, keys, made.bounding.rows),
        )

    def cut(self, keys: Sequence[tuple[str, Expr]], tests: tuple[Test, ...]) -> Query:
        """Return the query that counts units, and those that one of the tests is true of (`plan.measure.bound_cuts`)."""
        plain = tuple(k for _, k in keys)
        return self._query(self._builder(self._bounding(plain, False)).beyond(plain, tests))

    @staticmethod
    def _heeded(top: TopSpec, bounding: Bounding, specs: Sequence[BasisSpec], selections: Sequence[SelectionSpec]) -> bool:
        """k choices cost as much as noise for k groups; all groups need noise for the l0 that a unit may be in.

        Declared groups need no threshold: there is less to gain, and what is released of all of them answers other questions
        too. With the charge halved k choices miss by about 2 k ln(groups) / epsilon rows, and noise for all is about 9
        sqrt(l0) / epsilon (Gaussian, the largest of some).
        """
        counts = specs[top.score].kind in ("count", "units")
        if bounding.norm or not counts or selections:
            return False
        if bounding.dense is None:
            return top.k < bounding.l0
        size = bounding.dense.size
        few = WORTH_CHOOSING * top.k <= bounding.l0
        return few and size is not None and 2 * top.k * math.log(max(size, 3)) <= 9 * math.sqrt(bounding.l0)

    def _builder(self, bounding: Bounding, specs: Sequence[BasisSpec] = ()) -> Builder:
        return Builder(self._source, self._unit, bounding, tuple(specs), self.context.pick_key)

    def _query(self, tree: Statement) -> Query:
        return self._source.query(tree)

    def dense(self, keys: Sequence[Expr]) -> Dense | None:
        """Return the declared groups by these keys, None where they are not declared."""
        if not keys:
            return None
        return self._bounding(tuple(keys), False).dense if self.declared else dense_domain(keys, self.rows)

    def _bounding(self, keys: tuple[Expr, ...], unscaled: bool) -> Bounding:
        if (keys, unscaled) not in self._boundings:
            self._boundings[keys, unscaled] = _bounding(self.rows, list(keys), self.context, unscaled, self.declared)
        return self._boundings[keys, unscaled]

    def _with_threshold(
        self, specs: Sequence[BasisSpec], bounding: Bounding, keyed: bool
    ) -> tuple[Sequence[BasisSpec], int | None]:
        """Undeclared keys need the number of units in each group: the index of the basis that says it, added if need be."""
        if not keyed or bounding.dense is not None:
            return specs, None
        unit = self.context.policy.unit_name
        if bounding.spread:
            weight = BasisSpec("weight", None, None, f"weight of {plural(unit)}, 1 over all groups of each")
            if bounding.norm != 2:
                return [*specs, weight], len(specs)
            rounds = (replace(weight, label=f"weight of {plural(unit)}, {which}", round=i) for i, which in ROUNDS.items())
            return [*specs, *rounds], len(specs)
        for i, spec in enumerate(specs):
            if spec.kind == "units" and spec.where is None and spec.value is None:
                return specs, i
        for i, spec in enumerate(specs):
            if bounding.rows == 1 and _counts_rows(spec) and not spec.norm(bounding):
                return specs, i  # one row per unit in a group: the number of rows is the number of units
        units = BasisSpec("units", None, None, f"distinct {plural(unit)}")
        return [*specs, units], len(specs)


def _in_classes(bounding: Bounding, specs: Sequence[BasisSpec]) -> Bounding:
    """Values of which a unit has one are looked at by unit, to be told apart by size."""
    return replace(bounding, per_unit=True) if any(spec.doublings for spec in specs) else bounding


def _counts_rows(spec: BasisSpec) -> bool:
    return spec.kind == "count" and spec.value is None and spec.where is None


def _bounding(rows: Rows, keys: list[Expr], context: Context, unscaled: bool, declared: bool) -> Bounding:
    """The two skip rules: no per-unit step when a unit has one row; no choice of groups when the rows themselves leave a
    unit no more groups than are claimed (`_reach`).
    `unscaled`: something is measured that cannot be scaled down, and costs noise for every group of a unit."""
    known = dense_domain(keys, rows) if keys else None
    dense = known if declared else None
    limits = contribution(rows, keys)
    unit = context.policy.unit_name
    l0, pick, note = _reach(rows, keys, known, declared, limits.groups, rows.limits.whole and not unscaled)
    notes = [note.format(unit=unit)] if note else []
    notes += [UNTRIED] if dense is not None and dense.untried else []
    notes += [TOO_MANY.format(unit=unit)] if known is None and keys and too_many(keys, rows) else []
    norm, one = 0, rows.one
    limit = 1 if one else limits.rows
    if rows.limits.whole and not one:
        norm = _norm(context) if l0 > 1 else 1
        over = f" in all groups together (l{norm} norm); more is scaled down" if l0 > 1 else ""
        notes.append(f"one {unit} counts like at most {limit} rows{over}")
    elif one:
        notes.append(f"one row per {unit}: no per-{unit} step")
    else:
        notes.append(f"at most {limit} rows per {unit} and group")
    return Bounding(limit, l0, not one, pick, dense, tuple(notes), norm, greatest=1 if one else limits.greatest)


UNTRIED = "conditions that compare several keys are not tried on the declared groups: there are too many combinations"
TOO_MANY = "the declared values of the keys have too many combinations to be listed: only groups of enough {unit}s are shown"


def _reach(
    rows: Rows, keys: list[Expr], dense: Dense | None, declared: bool, bound: int | None, scaled: bool
) -> tuple[int, bool, str]:
    """How many groups a unit reaches, whether groups of it must be picked for that to be true, and what EXPLAIN says of it.

    No group is picked only where the generated SQL leaves a unit no more of them by itself: it has one row, or one value of
    the keys, or the whole key is declared, so that the join with the declared groups drops all others (`bounding`). An
    undeclared key beside declared ones is joined with nothing: NULL and values that are not declared are groups then,
    however many. As many as are declared are picked of them. Leaving undeclared values out instead would spare the step, but
    lose rows that SQL counts, and whose groups a threshold may well release.
    """
    varying = [k for k in keys if not facts(k).constant]
    if not keys:
        return 1, False, ""
    if rows.one or not varying:
        return 1, False, "keys are constant per {unit}: one group per {unit}"
    own = dense if len(varying) == len(keys) else dense_domain(varying, rows)
    sizes = [d.size for d in (own, dense) if d is not None and d.size is not None]
    size = min(sizes, default=None)
    if size is not None and (bound is None or bound >= size):
        if dense is not None and declared:
            return size, False, f"a {{unit}} may reach {'all ' if size == dense.size else ''}{size} groups: none is cut"
        return size, True, f"at most {size} groups per {{unit}}, as many as are declared; others and NULL are groups as well"
    known = [n for n in (bound, *(d.expected for d in (own, dense) if d is not None)) if n is not None]
    if known:
        return min(known), True, f"at most {min(known)} groups per {{unit}}"
    # `groups: all` needs a domain whose size the policy fixes
    l0 = DEFAULT_WHOLE_GROUPS if scaled else DEFAULT_GROUPS
    if dense is not None and declared:
        return l0, True, f"at most {l0} groups per {{unit}}, since a public table declares them and the policy bounds no `groups`"
    return l0, True, f"at most {l0} groups per {{unit}}, since keys are not declared and the policy bounds no `groups`"


def _norm(context: Context) -> int:
    """In which norm a whole contribution is bounded: as Gaussian noise needs it where it may be used, else as Laplace's."""
    return 2 if context.policy.mechanism != "laplace" and context.role.query.delta > 0 else 1


ROUNDS = {2: "1 over all groups of each that were not found before", 1: "1 over all groups of each: first round"}
"""The weights of two rounds, the one that the threshold is about before the other (`mechanisms.key_rounds`)."""

STEPPED = (
    "counts and sums: {units} with more than {rows} rows are measured separately, in classes that double in size. Each "
    "class is scaled down to {rows} rows. A class that stands out from its noise is scaled back up (to {most} rows at most). "
    "Where noise hides how a class is spread over groups, it is spread like the class below it, but for groups that differ."
)

VALUED = (
    "sums of what is computed within a {unit}: nothing cuts a {unit}'s rows. Values beyond what a bound of rows would leave are "
    "measured separately, in classes that double in size. Each is scaled down; one that stands out from its noise is scaled up"
)

UNSCALED = "percentiles: at most {rows} rows per {unit} and group"
PICKED = "aggregates of DISTINCT values: of the values of a {unit} as many are counted as make up {rows} rows"


def column_notes(compiled: Compiled, unit: str) -> tuple[str, ...]:
    """Say what the bound of whole contributions means for the columns of a measurement."""
    bounding, found = compiled.bounding, []
    if any(spec.doublings for spec in compiled.specs):
        found.append(VALUED.format(unit=unit))
    if any(spec.steps(bounding) > 1 and not spec.doublings for spec in compiled.specs):
        found.append(STEPPED.format(units=plural(unit), rows=bounding.rows, most=bounding.rows << bounding.classes - 1))
    if bounding.norm and any(spec.distinct for spec in compiled.specs):
        found.append(PICKED.format(unit=unit, rows=bounding.rows))
    if bounding.norm and compiled.selections:
        found.append(UNSCALED.format(unit=unit, rows=bounding.rows))
    found += [f"{held}: that end is open" for held in compiled.limited]
    return tuple(found)


DEFAULT_GROUPS = 5  # where `groups: all` meets undeclared keys; the same default as the sample policy's
DEFAULT_WHOLE_GROUPS = 1000  # the same where contributions are scaled: more groups cost a threshold its logarithm only

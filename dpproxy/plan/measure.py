"""A measurement compiled: keys and aggregates over rows of units become bounded integer columns of one backend query.

Knows: PRIVACY.md section 3, relations, an engine's spelling. Must not know: clients, ledgers, how noise is drawn. Every
number that decides privacy (bounds, sensitivities, L0) is made here, before anything runs; `finish` adds noise scales.
The order of bounding is fixed: rows -> per unit and group -> groups per unit -> across units; a step is skipped only by
one of the two rules stated in `_shape`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dpproxy.plan.domains import Dense, dense_domain
from dpproxy.plan.engines.base import Engine
from dpproxy.plan.expr import Call, Expr, Ref
from dpproxy.plan.facts import facts
from dpproxy.plan.model import Names
from dpproxy.plan.nominal import Output
from dpproxy.plan.relation import Filter, Relation, Rows
from dpproxy.plan.render import Block, Renderer
from dpproxy.plan.scope import Context

MAX_MAGNITUDE = 2**60  # of one unit's contribution in grid units: far from 2**62 where results saturate
MAX_STEPS = 2**32  # grid units of one value: with any sane row and group bounds, noise stays within 64 bits
AUTO_GRID_STEPS = 10**6  # without a declared resolution, a column's range is cut into about this many steps


@dataclass(frozen=True)
class BasisSpec:
    """A basis column before noise. `kind`: count | units | sum | distinct. `value` is what is counted or summed.

    `lo`, `hi`: one row's contribution in grid units; `center` is subtracted from the value first (for AVG). `mean`: the
    sum goes with a count into a mean; rows of a unit beyond the bound then weigh as many as the bound allows, all alike.
    """

    kind: str
    value: Expr | None
    where: Expr | None
    label: str
    lo: int = 0
    hi: int = 1
    grid: Fraction = Fraction(1)
    center: Fraction = Fraction(0)
    mean: bool = False

    def linf(self, rows: int) -> int:
        """The most one unit changes the column by in one group, in grid units."""
        if self.kind == "units":
            return 1
        return rows * max(abs(self.lo), abs(self.hi))


@dataclass(frozen=True)
class SelectionSpec:
    """A value to be selected before noise: `value` on the grid lo..hi (whole units of `grid`), or a declared value.

    `fractions` of PERCENTILE (0 is MIN, 1 is MAX); empty for MODE, whose candidates are `values`.
    """

    value: Expr
    where: Expr | None
    label: str
    lo: int
    hi: int
    grid: Fraction
    fractions: tuple[Fraction, ...]
    values: tuple[str | None, ...] = ()

    @property
    def size(self) -> int:
        return len(self.values) if self.values else self.hi - self.lo + 1

    @property
    def columns(self) -> int:
        return max(len(self.fractions), 1)


@dataclass(frozen=True)
class Shape:
    """How contributions are bounded. `per_unit`: the GROUP BY (unit, keys) step; `pick`: groups kept of each unit."""

    rows: int
    l0: int
    per_unit: bool
    pick: bool
    dense: Dense | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Compiled:
    """A measurement without noise: its query, bases and shape."""

    sql: str
    keys: tuple[tuple[str, str], ...]  # label, type
    specs: tuple[BasisSpec, ...]
    selections: tuple[SelectionSpec, ...]
    side: tuple[str, ...]  # the query of each selection
    shape: Shape
    threshold: int | None  # index of the units basis, when keys are undeclared
    min_units: int
    outputs: tuple[Output, ...] = ()  # what is made of the columns
    names: Names | None = None


def grid_of(expr: Expr) -> tuple[int, int, Fraction]:
    """(lo, hi, grid) of a bounded numeric expression in whole grid units, rounded outwards."""
    known = facts(expr)
    lo, hi = known.bound.ends
    return on_grid(lo, hi, known.grid)


def on_grid(lo: Fraction, hi: Fraction, grid: Fraction | None) -> tuple[int, int, Fraction]:
    """The interval in whole units of `grid`, or of one chosen from its width when none is known or it is too fine."""
    limit = MAX_STEPS
    if grid is None or max(abs(lo), abs(hi)) / grid > limit:
        grid = _auto_grid(max(hi - lo, Fraction(1, 10**12)))
        while max(abs(lo), abs(hi)) / grid > limit:
            grid *= 10
    return (lo / grid).__floor__(), (hi / grid).__ceil__(), grid


def _auto_grid(width: Fraction) -> Fraction:
    grid = Fraction(1)
    while width / grid < AUTO_GRID_STEPS:
        grid /= 10
    while width / grid > AUTO_GRID_STEPS * 10:
        grid *= 10
    return grid


def compile_measurement(
    rows: Rows,
    keys: Sequence[tuple[str, Expr]],
    specs: Sequence[BasisSpec],
    context: Context,
    engine: Engine,
    selections: Sequence[SelectionSpec] = (),
) -> Compiled:
    """The backend query of a measurement. `rows.unit` must be known."""
    assert rows.unit is not None
    shape = _shape(rows, [k for _, k in keys], specs, context)
    specs = list(specs)
    threshold = None
    if keys and shape.dense is None:
        threshold = next((i for i, s in enumerate(specs) if s.kind == "units" and s.where is None and s.value is None), None)
        if threshold is None and shape.rows == 1:
            # one row per unit in a group: the number of rows is the number of units
            threshold = next((i for i, s in enumerate(specs) if _counts_rows(s)), None)
        if threshold is None:
            threshold = len(specs)
            specs.append(BasisSpec("units", None, None, f"distinct {context.policy.unit_name}s"))
    for spec in specs:
        if spec.linf(shape.rows) > MAX_MAGNITUDE:
            raise ValueError("a contribution is too large for 64-bit sums")
    present = Call("bool", "is_not_null", (Ref(rows.unit.type, rows.unit),))
    node = Filter(rows.node.columns, rows.node, present) if rows.unit.nullable else rows.node
    plain = [k for _, k in keys]
    writer = _Writer(Renderer(engine), engine, shape, tuple(specs))
    sql = writer.write(node, rows, plain, context.role.min_units if threshold is not None else 1)
    side = tuple(_Writer(Renderer(engine), engine, shape, ()).buckets(node, rows, plain, s) for s in selections)
    labels = tuple((label, k.type) for label, k in keys)
    return Compiled(sql, labels, tuple(specs), tuple(selections), side, shape, threshold, context.role.min_units)


def _counts_rows(spec: BasisSpec) -> bool:
    return spec.kind == "count" and spec.value is None and spec.where is None


def _shape(rows: Rows, keys: list[Expr], specs: Sequence[BasisSpec], context: Context) -> Shape:
    """The two skip rules: no per-unit step when a unit has one row; no choice of groups when keys are constant
    within a unit (L0 = 1) or when a unit may reach all groups there can be."""
    notes = []
    dense = dense_domain(keys, rows) if keys else None
    constant = all(facts(k).constant for k in keys)
    size = dense.size if dense is not None else None
    bound = rows.limits.groups
    unit = context.policy.unit_name
    if not keys:
        l0, pick = 1, False
    elif rows.one or constant:
        l0, pick = 1, False
        notes.append(f"keys are constant per {unit}: one group per {unit}")
    elif size is not None and (bound is None or bound >= size):
        l0, pick = size, False
        notes.append(f"a {unit} may reach all {size} groups: none is cut")
    elif bound is not None:
        l0, pick = bound, True
        notes.append(f"at most {bound} groups per {unit}")
    else:
        # `groups: all` needs a domain whose size the policy fixes
        l0, pick = DEFAULT_GROUPS, True
        notes.append(f"`groups: all` needs declared keys; at most {DEFAULT_GROUPS} groups per {unit}")
    one = rows.one
    limit = 1 if one else rows.limits.rows
    if one:
        notes.append(f"one row per {unit}: no per-{unit} step")
    else:
        notes.append(f"at most {limit} rows per {unit} and group")
    return Shape(limit, l0, not one, pick, dense, tuple(notes))


DEFAULT_GROUPS = 5  # where `groups: all` meets undeclared keys; the same default as the sample policy's


@dataclass
class _Writer:
    renderer: Renderer
    engine: Engine
    shape: Shape
    specs: tuple[BasisSpec, ...]
    types: dict[str, str] = field(default_factory=dict)  # of the keys, by name

    def write(self, node: Relation, rows: Rows, keys: list[Expr], min_units: int) -> str:
        assert rows.unit is not None
        block = self.renderer.block(node)
        unit = block.names[rows.unit.id]
        key_names = [f"k{i}" for i in range(len(keys))]
        key_items = [f"{self.renderer.output(k, block.names)} AS k{i}" for i, k in enumerate(keys)]
        self.types = {f"k{i}": k.type for i, k in enumerate(keys)}
        if self.shape.per_unit:
            ctes, sums, source = self._bounded(block, unit, key_items, key_names)
        else:
            ctes, sums, source = self._direct(block, key_items)
        group = f" GROUP BY {', '.join(key_names)}" if keys else ""
        having = f" HAVING count(*) >= {min_units}" if min_units > 1 and keys else ""
        body = f"SELECT {', '.join([*key_names, *sums]) or 'count(*) * 0 AS one'} FROM {source}{group}{having}"
        if self.shape.dense is None:
            order = f" ORDER BY {', '.join(key_names)}" if keys else ""
            return f"{self._with(ctes)}{body}{order}"
        return self._fill(ctes, body, key_names)

    def buckets(self, node: Relation, rows: Rows, keys: list[Expr], spec: SelectionSpec) -> str:
        """`k0.., bucket, n`: how many contributions fall on each grid point, at most `rows` of each unit and group."""
        assert rows.unit is not None
        block = self.renderer.block(node)
        key_names = [f"k{i}" for i in range(len(keys))]
        self.types = {f"k{i}": k.type for i, k in enumerate(keys)}
        items = [f"{self.renderer.output(k, block.names)} AS k{i}" for i, k in enumerate(keys)]
        items.append(f"{self._bucket(spec, block)} AS bucket")
        unit = block.names[rows.unit.id]
        ctes = [f"r AS (SELECT {', '.join([f'{unit} AS u', *items])} FROM {block.source}{block.where_text})"]
        source = "r"
        if self.shape.per_unit:
            group = ["u", *key_names]
            if self.shape.pick:
                order = f"{self.engine.pick_hash(group)}, {', '.join(key_names)}"
                ranked = f"SELECT *, row_number() OVER (PARTITION BY u ORDER BY {order}) AS rank FROM p"
                ctes.append(f"p AS (SELECT {', '.join(group)} FROM r GROUP BY {', '.join(group)})")
                ctes.append(f"q AS (SELECT * FROM ({ranked}) AS ranked WHERE rank <= {self.shape.l0})")
                ctes.append(f"s AS (SELECT r.* FROM r JOIN q ON {self._same('r', 'q', group)})")
                source = "s"
            order = f"{self.engine.pick_hash(['u', 'bucket'])}, bucket"
            window = f"row_number() OVER (PARTITION BY {', '.join(group)} ORDER BY {order}) AS turn"
            ranked = f"SELECT *, {window} FROM {source} WHERE bucket IS NOT NULL"
            source = f"(SELECT * FROM ({ranked}) AS turns WHERE turn <= {self.shape.rows}) AS kept"
        by = ", ".join([*key_names, "bucket"])
        body = f"SELECT {by}, CAST(count(*) AS BIGINT) AS n FROM {source} WHERE bucket IS NOT NULL GROUP BY {by}"
        return f"{self._with(ctes)}{body}"

    def _bucket(self, spec: SelectionSpec, block: Block) -> str:
        if spec.values:
            value = self.renderer.expr(spec.value, block.names)
            arms = " ".join(
                f"WHEN {value} = {self.engine.literal(spec.value.type, v)} THEN {i}" for i, v in enumerate(spec.values)
            )
            text = f"CAST(CASE {arms} END AS BIGINT)"
        else:
            text = self.engine.fixed(spec.value, spec.lo, spec.hi, spec.grid, Fraction(0), block.names)
            text = f"({text}) - ({spec.lo})"
        if spec.where is not None:
            text = f"CASE WHEN {self.renderer.expr(spec.where, block.names)} THEN ({text}) END"
        return text

    def _same(self, a: str, b: str, names: Sequence[str]) -> str:
        """The same unit and keys in two relations; the unit is never NULL."""
        pairs = ((n, f"{a}.{n}", f"{b}.{n}") for n in names)
        return " AND ".join(f"{x} = {y}" if n == "u" else self.engine.same(x, y, self.types[n]) for n, x, y in pairs)

    def _with(self, ctes: list[str]) -> str:
        return f"WITH {', '.join(ctes)} " if ctes else ""

    def _row_items(self, block: Block) -> list[str]:
        """One integer column x{i} a spec: what a row adds, NULL for nothing."""
        return [f"{self._row_value(spec, block)} AS x{i}" for i, spec in enumerate(self.specs)]

    def _row_value(self, spec: BasisSpec, block: Block) -> str:
        condition = [self.renderer.expr(spec.where, block.names)] if spec.where is not None else []
        if spec.kind == "sum":
            assert spec.value is not None
            text = self.engine.fixed(spec.value, spec.lo, spec.hi, spec.grid, spec.center, block.names)
            return f"CASE WHEN {condition[0]} THEN ({text}) END" if condition else f"({text})"
        if spec.kind == "distinct":
            assert spec.value is not None
            text = self.renderer.expr(spec.value, block.names)
            return f"CASE WHEN {condition[0]} THEN {text} END" if condition else text
        if spec.value is not None:
            condition.append(f"{self.renderer.expr(spec.value, block.names)} IS NOT NULL")
        return f"CASE WHEN {' AND '.join(condition)} THEN 1 END" if condition else "1"

    def _direct(self, block: Block, key_items: list[str]) -> tuple[list[str], list[str], str]:
        """One row per unit: no per-unit step, every row is a whole contribution."""
        sums = []
        for i, spec in enumerate(self.specs):
            plain = spec.kind in ("count", "units") and spec.value is None and spec.where is None
            if plain:
                text = "count(*)"
            elif spec.kind == "sum":
                text = self.engine.wide_sum(f"x{i}")
            elif spec.kind == "distinct":
                text = f"count(DISTINCT x{i})"
            else:
                text = f"count(x{i})"
            sums.append(f"{text} AS b{i}")
        needed = [
            f"x{i}"
            for i, s in enumerate(self.specs)
            if not (s.kind in ("count", "units") and s.value is None and s.where is None)
        ]
        items = [*key_items, *(t for i, t in enumerate(self._row_items(block)) if f"x{i}" in needed)]
        inner = f"SELECT {', '.join(items) or '1 AS one'} FROM {block.source}{block.where_text}"
        return [], sums, f"({inner}) AS r"

    def _bounded(self, block: Block, unit: str, key_items: list[str], key_names: list[str]) -> tuple[list[str], list[str], str]:
        items = [f"{unit} AS u", *key_items, *self._row_items(block)]
        rows = f"r AS (SELECT {', '.join(items)} FROM {block.source}{block.where_text})"
        group = ", ".join(["u", *key_names])
        partials = [f"{self._partial(spec, i)} AS p{i}" for i, spec in enumerate(self.specs) if spec.kind != "distinct"]
        per = f"p AS (SELECT {', '.join([group, *partials])} FROM r GROUP BY {group})"
        ctes, source = [rows, per], "p"
        if self.shape.pick:
            order = f"{self.engine.pick_hash(['u', *key_names])}, {', '.join(key_names)}"
            ranked = f"SELECT *, row_number() OVER (PARTITION BY u ORDER BY {order}) AS rank FROM p"
            ctes.append(f"q AS (SELECT * FROM ({ranked}) AS ranked WHERE rank <= {self.shape.l0})")
            source = "q"
        distinct = [i for i, spec in enumerate(self.specs) if spec.kind == "distinct"]
        for i in distinct:
            ctes.append(self._distinct(i, source, key_names))
        sums = [self._total(i, spec) for i, spec in enumerate(self.specs)]
        joined = self._join_distinct(source, distinct, key_names)
        return ctes, sums, joined

    def _partial(self, spec: BasisSpec, i: int) -> str:
        """A unit's contribution to a group, clamped (the Linf bound)."""
        if spec.kind == "units":
            return "1" if spec.where is None and spec.value is None else f"max(CASE WHEN x{i} IS NULL THEN 0 ELSE 1 END)"
        if spec.kind == "count":
            return f"least(count(x{i}), {self.shape.rows})"
        k = self.shape.rows
        total = f"coalesce(sum(x{i}), 0)"
        if spec.mean:  # as the count is cut to k rows, so is the sum: a clamped sum of m > k rows would move the mean
            total = self.engine.quotient(f"({total} * {k})", f"greatest(count(x{i}), {k})")
        return f"CAST(least(greatest({total}, {k * min(spec.lo, 0)}), {k * max(spec.hi, 0)}) AS BIGINT)"

    def _total(self, i: int, spec: BasisSpec) -> str:
        if spec.kind == "distinct":
            return f"coalesce(max(n{i}), 0) AS b{i}"
        if spec.kind == "units" and spec.where is None and spec.value is None:
            return f"count(*) AS b{i}"
        return f"{self.engine.wide_sum(f'p{i}')} AS b{i}"

    def _distinct(self, i: int, source: str, key_names: list[str]) -> str:
        """COUNT(DISTINCT x): at most `rows` distinct values of each unit and group, then distinct across units."""
        group = ["u", *key_names]
        join = f" JOIN (SELECT {', '.join(group)} FROM {source}) AS s ON {self._same('r', 's', group)}"
        base = f"SELECT DISTINCT {', '.join(f'r.{g}' for g in group)}, r.x{i} FROM r{join} WHERE r.x{i} IS NOT NULL"
        order = f"{self.engine.pick_hash(['u', f'x{i}'])}, x{i}"
        ranked = f"SELECT *, row_number() OVER (PARTITION BY {', '.join(group)} ORDER BY {order}) AS rank FROM ({base}) AS v"
        keys = "".join(f"{k}, " for k in key_names)
        by = f" GROUP BY {', '.join(key_names)}" if key_names else ""
        return f"d{i} AS (SELECT {keys}count(DISTINCT x{i}) AS n FROM ({ranked}) AS w WHERE rank <= {self.shape.rows}{by})"

    def _join_distinct(self, source: str, distinct: list[int], key_names: list[str]) -> str:
        if not distinct:
            return source
        text = f"{source} AS m"
        for i in distinct:
            text += f" LEFT JOIN d{i} ON {self._same('m', f'd{i}', key_names) or 'TRUE'}"
        partials = [f"m.p{i} AS p{i}" for i, s in enumerate(self.specs) if s.kind != "distinct"]
        counts = [f"d{i}.n AS n{i}" for i in distinct]
        items = [*(f"m.{k} AS {k}" for k in key_names), "m.u AS u", *partials, *counts]
        return f"(SELECT {', '.join(items)} FROM {text}) AS j"

    def _fill(self, ctes: list[str], body: str, key_names: list[str]) -> str:
        """Every declared group in a fixed order, empty ones as zeros."""
        assert self.shape.dense is not None
        domain = self.shape.dense.render(Renderer(self.engine))
        on = self._same("d", "a", key_names)
        bases = [f"coalesce(a.b{i}, 0) AS b{i}" for i in range(len(self.specs))]
        items = ", ".join([*(f"d.{k} AS {k}" for k in key_names), *bases])
        if not self.specs:
            keys = ", ".join(f"d.{k} AS {k}" for k in key_names)
            return f"SELECT {keys} FROM ({domain}) AS d ORDER BY {', '.join(key_names)}"
        order = ", ".join(f"d.{k}" for k in key_names)
        all_ctes = [*ctes, f"a AS ({body})", f"d AS ({domain})"]
        return f"{self._with(all_ctes)}SELECT {items} FROM d LEFT JOIN a ON {on} ORDER BY {order}"

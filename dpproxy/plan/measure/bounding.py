"""The generated SQL of a measurement: rows of units in, bounded integer columns by group out.

Knows: PRIVACY.md section 3, relations, an engine's spelling. Must not know: policies, how bounds were chosen, noise. The
order of bounding is fixed: rows (values clamped, on their grid) -> per unit and group -> groups per unit -> across units.
Sums are of integers (or of DECIMALs on the grid), so that no order of addition changes them; a centre is subtracted from
a sum, not from each value, which costs nothing and is exact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dpproxy.plan.engines.base import FOUND, Engine
from dpproxy.plan.engines.key_domains import groups_text
from dpproxy.plan.engines.relations import Block, Renderer
from dpproxy.plan.logical.expr import Column, Expr, Ref
from dpproxy.plan.measure import norm_scaling
from dpproxy.plan.measure.specs import BasisSpec, Bounding, SelectionSpec

HELD = -1  # id of a held column: counters start at 0
_COLUMN = re.compile(r'\w+\.("([^"]|"")*"|\w+)(::\w+)?')  # a column as it is: nothing to compute, wherever it is named


def columns(i: int, steps: int) -> list[str]:
    """Name what basis i is returned as (`privacy.measurement.Basis`)."""
    return [f"b{i}"] if steps == 1 else [f"b{i}s{j}" for j in range(steps)]


def _has_partial(spec: BasisSpec) -> bool:
    """Whether a unit's contribution to a group is a column before units are added up."""
    return spec.kind != "distinct" and spec.round != 1


@dataclass
class _Inner:
    """Rows with the value of each expression in a column of its own, v0, v1, ...: what repeats it costs a look-up only."""

    renderer: Renderer
    block: Block
    _texts: dict[str, str] = field(default_factory=dict)

    def _name(self, expr: Expr) -> str:
        return self._texts.setdefault(self.renderer.output(expr, self.block.names), f"v{len(self._texts)}")

    def held(self, expr: Expr) -> tuple[Ref, dict[int, str]]:
        """Return the expression as a reference to its column, and the column's name in scope."""
        column = expr.column if isinstance(expr, Ref) else Column(HELD, "held", expr.type)
        return Ref(expr.type, column), {column.id: self._name(expr)}

    def where(self, condition: Expr | None, text: str) -> str:
        """Write `text` in rows that satisfy the condition, NULL in others."""
        return text if condition is None else f"CASE WHEN {self._name(condition)} THEN {text} END"

    def select(self, plain: list[str], items: list[str]) -> str:
        """Write `plain` (`expression AS name`) and items over held columns. To be called last."""
        names = [text.rpartition(" AS ")[2] for text in plain]
        held = [f"{text} AS {name}" for text, name in self._texts.items()]
        rows = f"SELECT {', '.join([*plain, *held]) or '1 AS one'} FROM {self.block.source}{self.block.where_text}"
        if not items:
            return rows
        begin, end = self.renderer.engine.fence if any(not _COLUMN.fullmatch(text) for text in self._texts) else ("", "")
        return f"SELECT {', '.join([*names, *items])} FROM ({begin}{rows}{end}) AS v"


@dataclass
class Writer:
    """Writes a statement of one measurement over the rows of `block`, whose unit is in column `unit`."""

    renderer: Renderer
    block: Block
    unit: str
    bounding: Bounding
    specs: tuple[BasisSpec, ...]
    pick_key: int
    types: dict[str, str] = field(default_factory=dict)  # of the keys, by name
    order: list[str] = field(default_factory=list)  # the keys' names by their texts: any order of keys picks the same groups

    @property
    def engine(self) -> Engine:
        return self.renderer.engine

    def write(self, keys: Sequence[Expr], min_units: int) -> str:
        block, unit = self.block, self.unit
        key_names = [f"k{i}" for i in range(len(keys))]
        key_items = [f"{self.renderer.key(k, block.names)} AS k{i}" for i, k in enumerate(keys)]
        self.types = {f"k{i}": "text" if k.type == "interval" else k.type for i, k in enumerate(keys)}
        self.order = self._order(keys)
        if self.bounding.per_unit:
            ctes, sums, source = self._bounded(block, unit, key_items, key_names)
        else:
            ctes, sums, source = self._direct(block, key_items)
        group = f" GROUP BY {', '.join(key_names)}" if keys else ""
        having = f" HAVING count(*) >= {min_units}" if min_units > 1 and keys else ""
        body = f"SELECT {', '.join([*key_names, *sums]) or 'count(*) * 0 AS one'} FROM {source}{group}{having}"
        if self.bounding.dense is None:
            order = f" ORDER BY {', '.join(key_names)}" if keys else ""
            return f"{self._with(ctes)}{body}{order}"
        return self._fill(ctes, body, key_names)

    def first_round(self, keys: Sequence[Expr], min_units: int) -> str:
        """Write the query of `k0.., b0, h`: what each group weighs, and its number (`fresh`)."""
        plain = self.write(keys, min_units)
        names = [f"k{i}" for i in range(len(keys))]
        return f"SELECT {', '.join(names)}, b0, {self._number()} AS h FROM ({plain}) AS weights ORDER BY {', '.join(names)}"

    def _number(self) -> str:
        return self.engine.group_number(self.order, self.pick_key)

    def buckets(self, keys: Sequence[Expr], spec: SelectionSpec) -> str:
        """Write the query of `k0.., bucket, n`: how many contributions fall on each grid point, at most `rows` of each unit and
        group."""
        block = self.block
        key_names = [f"k{i}" for i in range(len(keys))]
        self.types = {f"k{i}": "text" if k.type == "interval" else k.type for i, k in enumerate(keys)}
        self.order = self._order(keys)
        plain = [f"{self.unit} AS u"]
        plain += [f"{self.renderer.key(k, block.names)} AS k{i}" for i, k in enumerate(keys)]
        inner = _Inner(self.renderer, block)
        ctes = [f"r AS ({inner.select(plain, [f'{self._bucket(spec, inner)} AS bucket'])})"]
        source = "r"
        if self.bounding.per_unit:
            group = ["u", *key_names]
            if self.bounding.pick:
                order = f"{self._pick_hash(['u', *self.order])}, {', '.join(self.order)}"
                ranked = f"SELECT *, row_number() OVER (PARTITION BY u ORDER BY {order}) AS rank FROM p"
                ctes.append(f"p AS (SELECT {', '.join(group)} FROM r GROUP BY {', '.join(group)})")
                ctes.append(f"q AS (SELECT * FROM ({ranked}) AS ranked WHERE rank <= {self.bounding.l0})")
                ctes.append(f"s AS (SELECT r.* FROM r JOIN q ON {self._same('r', 'q', group)})")
                source = "s"
            order = f"{self._pick_hash(['u', 'bucket'])}, bucket"
            window = f"row_number() OVER (PARTITION BY {', '.join(group)} ORDER BY {order}) AS turn"
            ranked = f"SELECT *, {window} FROM {source} WHERE bucket IS NOT NULL"
            source = f"(SELECT * FROM ({ranked}) AS turns WHERE turn <= {self.bounding.rows}) AS kept"
        by = ", ".join([*key_names, "bucket"])
        body = f"SELECT {by}, CAST(count(*) AS BIGINT) AS n FROM {source} WHERE bucket IS NOT NULL GROUP BY {by}"
        return f"{self._with(ctes)}{body}"

    def beyond(self, keys: Sequence[Expr], condition: str) -> str:
        """Count the units, and how many of these are beyond bounds; see `plan.measure.bound_cuts.condition`."""
        group = ["u", *(f"k{i}" for i in range(len(keys)))]
        items = [f"{self.unit} AS u", *(f"{self.renderer.output(k, self.block.names)} AS k{i}" for i, k in enumerate(keys))]
        rows = f"SELECT {', '.join(items)} FROM {self.block.source}{self.block.where_text}"
        n = f"least(count(*), {norm_scaling.MOST})"
        groups = f"SELECT u, {n} AS n FROM ({rows}) AS r GROUP BY {', '.join(group)}"
        size = "sum(n)" if self.bounding.norm == 1 else "sum(n * n)"
        units = f"SELECT max(n) AS most, {size} AS size, count(*) AS groups FROM ({groups}) AS g GROUP BY u"
        return f"SELECT count(*) AS b0, count(CASE WHEN {condition} THEN 1 END) AS b1 FROM ({units}) AS p"

    def _bucket(self, spec: SelectionSpec, inner: _Inner) -> str:
        value, names = inner.held(spec.value)
        text = names[value.column.id]
        if spec.values:
            arms = " ".join(f"WHEN {text} = {self.engine.literal(value.type, v)} THEN {i}" for i, v in enumerate(spec.values))
            text = f"CAST(CASE {arms} END AS BIGINT)"
        else:
            text = self.engine.fixed(value, spec.lo, spec.hi, spec.grid, Fraction(0), names)
            text = f"CAST({text} AS BIGINT) - ({spec.lo})"
        return inner.where(spec.where, text)

    def _same(self, a: str, b: str, names: Sequence[str]) -> str:
        """The same unit and keys in two relations; the unit is never NULL."""
        pairs = ((n, f"{a}.{n}", f"{b}.{n}") for n in names)
        return " AND ".join(f"{x} = {y}" if n == "u" else self.engine.same(x, y, self.types[n]) for n, x, y in pairs)

    def _with(self, ctes: list[str]) -> str:
        return f"WITH {', '.join(ctes)} " if ctes else ""

    def _row_value(self, spec: BasisSpec, inner: _Inner) -> tuple[str, int]:
        """What a row adds, NULL for nothing, and the grid units in one unit of it. Centres are subtracted from sums."""
        if spec.value is None:
            return inner.where(spec.where, "1"), 1
        value, names = inner.held(spec.value)
        text, factor = names[value.column.id], 1
        if spec.kind == "sum":
            shift = spec.shift
            bounds = (spec.lo + shift, spec.hi + shift, spec.grid)
            if self.bounding.per_unit or not isinstance(spec.value, Ref):
                text = self.engine.fixed(value, *bounds, Fraction(0), names)
            else:
                text, factor = self.engine.addend(value, *bounds, names)
        return inner.where(spec.where, text), factor

    def _direct(self, block: Block, key_items: list[str]) -> tuple[list[str], list[str], str]:
        """One row per unit: no per-unit step, every row is a whole contribution."""
        inner = _Inner(self.renderer, block)
        sums, items = [], []
        for i, spec in enumerate(self.specs):
            if spec.kind in ("count", "units") and spec.value is None and spec.where is None:
                sums.append(f"count(*) AS b{i}")
                continue
            text, factor = self._row_value(spec, inner)
            items.append(f"{text} AS x{i}")
            if spec.kind == "sum":
                sums.append(f"{self.engine.saturated(self.engine.total(f'x{i}', spec.shift, factor))} AS b{i}")
            else:
                sums.append(f"count({'DISTINCT ' if spec.kind == 'distinct' else ''}x{i}) AS b{i}")
        return [], sums, f"({inner.select(key_items, items)}) AS r"

    def _bounded(self, block: Block, unit: str, key_items: list[str], key_names: list[str]) -> tuple[list[str], list[str], str]:
        inner = _Inner(self.renderer, block)
        items = [f"{self._row_value(spec, inner)[0]} AS x{i}" for i, spec in enumerate(self.specs)]
        group = ", ".join(["u", *key_names])
        totals = [text for i, spec in enumerate(self.specs) for text in self._totals(spec, i)]
        partials = [f"{self._partial(spec, i)} AS p{i}" for i, spec in enumerate(self.specs) if _has_partial(spec)]
        ctes = [
            f"r AS ({inner.select([f'{unit} AS u', *key_items], items)})",
            f"g AS (SELECT {', '.join([group, *totals])} FROM r GROUP BY {group})",
        ]
        if any(spec.norm(self.bounding) and spec.scaled for spec in self.specs):
            return self._scaled(ctes, partials, key_names)
        ctes.append(f"p AS (SELECT {', '.join([group, *partials])} FROM g)")
        source = "p"
        if self.bounding.pick:
            ctes.append(self._picked(source))
            source = "q"
        return self._across(ctes, source, key_names)

    def _scaled(self, ctes: list[str], partials: list[str], key_names: list[str]) -> tuple[list[str], list[str], str]:
        """The rest for `Bounding.norm`: groups are picked first, then each unit's vector over them is scaled down."""
        source = "g"
        if self.bounding.pick:
            ctes.append(self._picked(source))
            source = "q"
        if any(spec.round == 2 for spec in self.specs):
            ctes.append(f"f AS (SELECT *, CASE WHEN {self._number()} IN (NULL{FOUND}) THEN 0 ELSE 1 END AS fresh FROM {source})")
            source = "f"
        own = [(i, spec) for i, spec in enumerate(self.specs) if self._counter(i) == i]
        norms = [f"{text} AS s{i}" for i, spec in own if (text := norm_scaling.norm(spec, i, self.bounding))]
        steps = [f"{text} AS m{i}" for i, spec in own if (text := norm_scaling.step(spec, i, self.bounding))]
        sizes = f"SELECT {', '.join(['u', *norms])} FROM {source} GROUP BY u"
        ctes.append(f"w AS (SELECT {', '.join(['*', *steps])} FROM ({sizes}) AS sizes)" if steps else f"w AS ({sizes})")
        columns = [f"{source}.{name}" for name in ["u", *key_names]]
        columns += [f"w.m{i}" for i in self._stepped()]
        ctes.append(f"p AS (SELECT {', '.join([*columns, *partials])} FROM {source} JOIN w ON {source}.u = w.u)")
        return self._across(ctes, "p", key_names)

    def _order(self, keys: Sequence[Expr]) -> list[str]:
        texts = [self.renderer.key(key, self.block.names) for key in keys]
        return [f"k{i}" for i in sorted(range(len(keys)), key=texts.__getitem__)]

    def _pick_hash(self, columns: list[str]) -> str:
        return self.engine.pick_hash(columns, self.pick_key)

    def _picked(self, source: str) -> str:
        order = f"{self._pick_hash(['u', *self.order])}, {', '.join(self.order)}"
        ranked = f"SELECT *, row_number() OVER (PARTITION BY u ORDER BY {order}) AS rank FROM {source}"
        return f"q AS (SELECT * FROM ({ranked}) AS ranked WHERE rank <= {self.bounding.l0})"

    def _across(self, ctes: list[str], source: str, key_names: list[str]) -> tuple[list[str], list[str], str]:
        """Sums over units of what `source` has of each."""
        distinct = [i for i, spec in enumerate(self.specs) if spec.kind == "distinct"]
        for i in distinct:
            ctes.append(self._distinct(i, source, key_names))
        sums = [text for i, spec in enumerate(self.specs) for text in self._total(i, spec)]
        return ctes, sums, self._join_distinct(source, distinct, key_names)

    def _totals(self, spec: BasisSpec, i: int) -> list[str]:
        """What all rows of a unit in a group add up to, before it is bounded: t{i}, and how many they are: n{i}."""
        if spec.kind in ("distinct", "weight") or (spec.kind == "units" and spec.where is None and spec.value is None):
            return []
        counted = f"count(x{i}) AS n{i}"
        if spec.kind != "sum":
            return [counted]
        total = f"{self.engine.unit_total(f'x{i}', spec.lo, spec.hi, spec.shift)} AS t{i}"
        return [counted, total] if spec.mean and self._counter(i) == i else [total]

    def _counter(self, i: int) -> int:
        """The basis whose count goes with `i`, a count or the sum of a mean: of the values it adds up, or of a few more (NaN is
        counted, not summed)."""
        spec = self.specs[i]
        same = (j for j, s in enumerate(self.specs[:i]) if s.kind == "count" and (s.value, s.where) == (spec.counted, spec.where))
        return next(same, i) if spec.mean and spec.kind == "sum" else i

    def _partial(self, spec: BasisSpec, i: int) -> str:
        """A unit's contribution to a group, clamped (the Linf bound; of means, see BasisSpec)."""
        k = self.bounding.rows
        if spec.norm(self.bounding):
            return norm_scaling.partial(spec, i, self._counter(i), self.bounding)
        if spec.kind == "units":
            return "1" if spec.where is None and spec.value is None else f"CASE WHEN n{i} > 0 THEN 1 ELSE 0 END"
        if spec.kind == "count":
            return f"CASE WHEN n{i} > {k} THEN {k} ELSE n{i} END"
        if spec.mean:  # as the count is cut to k rows, so is the sum: a clamped sum of n > k rows would move the mean
            rows = f"n{self._counter(i)}"
            cut = self.engine.share(f"t{i}", k, rows, spec.lo, spec.hi, spec.shift)
            return f"CAST(CASE WHEN {rows} > {k} THEN {cut} ELSE coalesce(t{i}, 0) END AS BIGINT)"
        return self.engine.clamped(f"t{i}", k * min(spec.lo, 0), k * max(spec.hi, 0))

    def _stepped(self) -> list[int]:
        return [i for i, spec in enumerate(self.specs) if spec.steps(self.bounding) > 1]

    def _total(self, i: int, spec: BasisSpec) -> list[str]:
        if spec.kind == "distinct":
            return [f"coalesce(max(n{i}), 0) AS b{i}"]
        if spec.round == 1:
            return [f"CAST(0 AS BIGINT) AS b{i}"]
        if spec.kind == "units" and spec.where is None and spec.value is None and not spec.norm(self.bounding):
            return [f"count(*) AS b{i}"]
        steps = spec.steps(self.bounding)
        if steps == 1:
            return [f"{self.engine.wide_sum(f'p{i}')} AS b{i}"]
        parts = (f"CASE WHEN m{i} = {1 << j} THEN p{i} END" for j in range(steps))
        return [f"{self.engine.wide_sum(part)} AS b{i}s{j}" for j, part in enumerate(parts)]

    def _distinct(self, i: int, source: str, key_names: list[str]) -> str:
        """COUNT(DISTINCT x): as many distinct values of each unit as its bound allows, then distinct across units."""
        group = ["u", *key_names]
        join = f" JOIN (SELECT {', '.join(group)} FROM {source}) AS s ON {self._same('r', 's', group)}"
        base = f"SELECT DISTINCT {', '.join(f'r.{g}' for g in group)}, r.x{i} FROM r{join} WHERE r.x{i} IS NOT NULL"
        order = f"{self._pick_hash(['u', f'x{i}'])}, x{i}"
        ranked = f"SELECT *, row_number() OVER (PARTITION BY {', '.join(group)} ORDER BY {order}) AS rank FROM ({base}) AS v"
        within = f"SELECT * FROM ({ranked}) AS w WHERE rank <= {self.specs[i].linf(self.bounding.rows)}"
        if self.specs[i].norm(self.bounding) and self.bounding.spread:
            within = self._distinct_overall(within)
        keys = "".join(f"{k}, " for k in key_names)
        by = f" GROUP BY {', '.join(key_names)}" if key_names else ""
        return f"d{i} AS (SELECT {keys}count(DISTINCT x{i}) AS n FROM ({within}) AS kept{by})"

    def _distinct_overall(self, within: str) -> str:
        """Values of all groups of a unit in turn, each group's first ones before any second ones, for as long as their numbers a
        group have a norm of at most `rows`: the r-th value of a group adds 1 to the l1 norm, r**2 - (r - 1)**2 to the square
        of the l2 norm."""
        added, most = ("1", self.bounding.rows) if self.bounding.norm == 1 else ("2 * rank - 1", self.bounding.rows**2)
        order = f"rank, {self._pick_hash(['u', *self.order])}, {', '.join(self.order)}"
        running = f"sum({added}) OVER (PARTITION BY u ORDER BY {order} ROWS UNBOUNDED PRECEDING)"
        return f"SELECT * FROM (SELECT *, {running} AS filled FROM ({within}) AS turns) AS whole WHERE filled <= {most}"

    def _join_distinct(self, source: str, distinct: list[int], key_names: list[str]) -> str:
        if not distinct:
            return source
        text = f"{source} AS m"
        for i in distinct:
            text += f" LEFT JOIN d{i} ON {self._same('m', f'd{i}', key_names) or 'TRUE'}"
        partials = [f"m.p{i} AS p{i}" for i, s in enumerate(self.specs) if _has_partial(s)]
        counts = [f"d{i}.n AS n{i}" for i in distinct]
        counts += [f"m.m{i} AS m{i}" for i in self._stepped()]
        items = [*(f"m.{k} AS {k}" for k in key_names), "m.u AS u", *partials, *counts]
        return f"(SELECT {', '.join(items)} FROM {text}) AS j"

    def _fill(self, ctes: list[str], body: str, key_names: list[str]) -> str:
        """Every declared group in a fixed order, empty ones as zeros."""
        dense = self.bounding.dense
        assert dense is not None
        domain = self.renderer.whole(dense, lambda renderer: groups_text(dense, renderer))
        on = self._same("d", "a", key_names)
        bases = [f"coalesce(a.{b}, 0) AS {b}" for i, spec in enumerate(self.specs) for b in columns(i, spec.steps(self.bounding))]
        items = ", ".join([*(f"d.{k} AS {k}" for k in key_names), *bases])
        if not self.specs:
            keys = ", ".join(f"d.{k} AS {k}" for k in key_names)
            return f"SELECT {keys} FROM ({domain}) AS d ORDER BY {', '.join(key_names)}"
        order = ", ".join(f"d.{k}" for k in key_names)
        all_ctes = [*ctes, f"a AS ({body})", f"d AS ({domain})"]
        return f"{self._with(all_ctes)}SELECT {items} FROM d LEFT JOIN a ON {on} ORDER BY {order}"

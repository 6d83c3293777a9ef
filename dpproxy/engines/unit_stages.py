"""What is done to the groups of each unit, as common table expressions: groups are picked, parts are scaled, units are added up.

Knows: names of columns: `u` the unit, `k{i}` its keys, `n{i}` and `t{i}` counts and totals, `s{i}` sizes, `m{i}` steps, `p{i}`
parts. Must not know: trees, what a row is made of, engines; this SQL is common to all. Work is proportional to what there is to
do: only units with too many groups have theirs ranked, a unit's size is looked up only where it has several groups, and what all
units add is summed once for each step before a column is made of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpproxy.engines import norm_scaling
from dpproxy.engines.base import Engine
from dpproxy.engines.norm_scaling import COMMON, TURNS, Words
from dpproxy.sql.template import FOUND
from dpproxy.sql.types import TEXTS
from dpproxy.tree.expr import Expr
from dpproxy.tree.measured import Order, Part, PartSum, Scaled, Total


def picked(source: str, most: int, order: str, words: Words = COMMON) -> list[str]:
    """Write `q`: the first `most` groups of each unit in that order. Few units have more, as a rule: only theirs are ranked."""
    rank = f"row_number() OVER (PARTITION BY u ORDER BY {order}) AS rank"
    if not words.still:
        return [f"q AS (SELECT * FROM (SELECT *, {rank} FROM {source}) AS ranked WHERE rank <= {most})"]
    many = f"many AS (SELECT u FROM {source} GROUP BY u HAVING count(*) > {most})"
    of_many = f"SELECT * FROM {source} WHERE EXISTS (SELECT 1 FROM many WHERE many.u = {source}.u)"
    ranked = f"SELECT *, {rank} FROM ({of_many}) AS many_groups"
    others = f"SELECT *, 1 AS rank FROM {source} WHERE NOT EXISTS (SELECT 1 FROM many WHERE many.u = {source}.u)"
    return [many, f"q AS ({others} UNION ALL SELECT * FROM ({ranked}) AS ranked WHERE rank <= {most})"]


MOST_KEPT = 32
"""Of the rows of a unit's group that are kept by `min(..., n)`, which has room for as many of each."""


def first_buckets(source: str, group: Sequence[str], hashed: str, most: int, size: int, words: Words = COMMON) -> str:
    """Write the buckets, of `size` there are, of those `most` rows of each group of a unit that come first by `hashed`, a hash of
    unit and bucket, and then by bucket: where both are one number, by as much of the hash as there is room for."""
    names = ", ".join(group)
    if not words.turn or most > MOST_KEPT or size > TURNS:
        window = f"row_number() OVER (PARTITION BY {names} ORDER BY {hashed}, bucket) AS turn"
        ranked = f"SELECT *, {window} FROM {source} WHERE bucket IS NOT NULL"
        return f"SELECT * FROM ({ranked}) AS turns WHERE turn <= {most}"
    turns = f"min({words.turn.format(hashed, 'bucket')}, {most})"
    first = f"SELECT {names}, unnest({turns}) AS turn FROM {source} WHERE bucket IS NOT NULL GROUP BY {names}"
    return f"SELECT {names}, turn & {TURNS - 1} AS bucket FROM ({first}) AS turns"


def in_turn(within: str, norm: int, rows: int, order: str) -> str:
    """Write those values of `within` that a unit has in all its groups in turn, each group's first before any second ones, for as
    long as their numbers a group have a norm of at most `rows`: the r-th value of a group adds 1 to the l1 norm,
    r**2 - (r - 1)**2 to the square of the l2 norm."""
    added, most = ("1", rows) if norm == 1 else ("2 * rank - 1", rows**2)
    running = f"sum({added}) OVER (PARTITION BY u ORDER BY {order} ROWS UNBOUNDED PRECEDING)"
    return f"SELECT * FROM (SELECT *, {running} AS filled FROM ({within}) AS turns) AS whole WHERE filled <= {most}"


def scaled(
    source: str, group: Sequence[str], parts: Sequence[Part | None], texts: Sequence[str], words: Words = COMMON
) -> list[str]:
    """Write `p`: the `texts` of parts, some of which are scaled by the size of all the unit's groups in `source`."""
    own, kept = _own(parts), [f"m{i}" for i in stepped(parts)]
    if len(group) == 1 or not words.still:  # no keys: each unit is one row, whose size is the unit's
        size = norm_scaling.alone if len(group) == 1 else _within_unit
        sizes = f"SELECT {', '.join(['*', *(f'{size(p, words)} AS s{p.index}' for p in own)])} FROM {source}"
        return [f"p AS (SELECT {', '.join([*group, *kept, *texts])} FROM ({_decided(own, sizes, words)}) AS units)"]
    columns = [*(f"{source}.{name}" for name in group), *(f"w.{name}" for name in kept), *texts]
    return [
        f"w AS{words.once} ({_sized(own, source, words)})",
        f"p AS (SELECT {', '.join(columns)} FROM {source} JOIN w ON {source}.u = w.u)",
    ]


def picked_and_scaled(
    source: str, most: int, order: str, group: Sequence[str], parts: Sequence[Part | None], texts: Sequence[str], words: Words
) -> list[str]:
    """Write `p` as `scaled` does of what `picked` keeps: one look at `source` tells who has too many groups, and the sizes of all
    others. `cut`: a unit some of whose groups were left out; its groups are in `q`."""
    own = _own(parts)
    names, norms = [f"s{p.index}" for p in own], _norms(own, words)
    rank = f"row_number() OVER (PARTITION BY u ORDER BY {order}) AS rank"
    of_many = f"SELECT * FROM {source} WHERE {cut(most, f'{source}.u')}"
    few = f"SELECT {', '.join(['u', *names])}, FALSE AS cut FROM c WHERE groups <= {most}"
    many = f"SELECT {', '.join(['u', *norms])}, TRUE AS cut FROM q GROUP BY u"

    def of(groups: str, condition: str) -> str:
        columns = [*(f"{groups}.{name}" for name in group), *(f"w.m{i}" for i in stepped(parts)), *texts]
        return f"SELECT {', '.join(columns)} FROM {groups} JOIN w ON {groups}.u = w.u WHERE {condition}"

    return [
        f"c AS{words.once} (SELECT {', '.join(['u', 'count(*) AS groups', *norms])} FROM {source} GROUP BY u)",
        f"q AS{words.once} (SELECT * FROM (SELECT *, {rank} FROM ({of_many}) AS many_groups) AS ranked WHERE rank <= {most})",
        f"w AS{words.once} ({_decided(own, f'{few} UNION ALL {many}', words)})",
        f"p AS ({of(source, 'NOT w.cut')} UNION ALL {of('q', 'w.cut')})",
    ]


def cut(most: int, unit: str) -> str:
    """Write, after `picked_and_scaled`, whether a unit's groups are in `q` and not in what these were picked from."""
    return f"EXISTS (SELECT 1 FROM c WHERE c.u = {unit} AND c.groups > {most})"


def _own(parts: Sequence[Part | None]) -> list[Scaled]:
    """The parts that are scaled by their own size."""
    return [p for p in parts if isinstance(p, Scaled) and p.counter == p.index]


def _norms(own: Sequence[Scaled], words: Words) -> list[str]:
    return [f"{norm_scaling.norm(p, words)} AS s{p.index}" for p in own]


def _decided(own: Sequence[Scaled], sizes: str, words: Words) -> str:
    """`sizes`, and what they decide."""
    return f"SELECT {', '.join(['*', *(text for p in own for text in norm_scaling.decided(p, words))])} FROM ({sizes}) AS sizes"


def _sized(own: Sequence[Scaled], source: str, words: Words) -> str:
    """Each unit with the sizes of its groups in `source`, and what they decide."""
    return _decided(own, f"SELECT {', '.join(['u', *_norms(own, words)])} FROM {source} GROUP BY u", words)


def _within_unit(part: Scaled, words: Words) -> str:
    return f"{norm_scaling.norm(part, words)} OVER (PARTITION BY u)"


def stepped(parts: Sequence[Part | None]) -> list[int]:
    """Return which parts are counted in steps."""
    return [p.index for p in parts if isinstance(p, Scaled) and p.steps > 1]


@dataclass(frozen=True)
class Members:
    """Who is in which group: a relation of units and keys, and of which units it is not read (a condition on `sizes.u`)."""

    source: str
    but: str = ""


def weights(
    keys: Sequence[str], number: str, members: Sequence[tuple[Members, str]], part: Scaled, words: Words = COMMON
) -> list[str]:
    """Write `x`: what all units weigh in each group of `s` whose `number` no earlier round has found, by its place `i` there.
    `members`: each with its condition for being one of `h`. They are few, so they are picked out before anything is
    done for each of them, and have a number of few digits for their keys."""
    i, found = part.index, replace(part, fresh=False)
    stages = [f"h AS (SELECT {', '.join([*keys, 'i'])} FROM s WHERE CASE WHEN {number} IN (NULL{FOUND}) THEN 0 ELSE 1 END = 1)"]
    for k, (one, same) in enumerate(members):
        where = f" WHERE NOT {one.but}" if one.but else ""
        stages += [
            f"f{k} AS MATERIALIZED (SELECT {one.source}.u, h.i FROM {one.source} JOIN h ON {same})",
            f"z{k} AS ({_sized([found], f'f{k}', words)}{where})",
        ]
    each = [f"SELECT f{k}.i, z{k}.y{i} FROM f{k} JOIN z{k} ON f{k}.u = z{k}.u" for k in range(len(members))]
    summed = norm_scaling.added(part, norm_scaling.partial(found, words), words)
    return [*stages, f"x AS (SELECT i, {summed} AS p{i} FROM ({' UNION ALL '.join(each)}) AS fresh GROUP BY i)"]


@dataclass(frozen=True)
class Units:
    """What is added up to groups: a relation, how its units are counted, and fewer rows that add up to the same."""

    source: str
    count: str = "count(*)"


PAIRED = 15
"""Steps of each of two columns that one number of 31 bits tells apart."""

SUMMED = "CAST(coalesce(sum(units), 0) AS BIGINT)"


def by_step(
    source: str,
    keys: Sequence[str],
    parts: Sequence[Part | None],
    used: Sequence[int],
    words: Words = COMMON,
    *,
    apart: bool = False,
) -> tuple[list[str], Units]:
    """Write the parts `used` summed for each step of a group: a column for each step is then made of few rows. `apart`: columns
    of many kinds of steps as well, each by its own."""
    steps = [f"m{i}" for i in stepped(parts)]
    if apart and len(steps) > words.steps:
        return [_apart(source, keys, [i for i in stepped(parts) if i in used], used, words)], Units("o", SUMMED)
    if not 0 < len(steps) <= words.steps:
        return [], Units(source)
    sums = [f"{norm_scaling.added(parts[i], f'p{i}', words)} AS p{i}" for i in used]
    own, by = steps, [*keys, *steps]
    if len(steps) == 2 and not keys:
        # as one number: by two DuckDB would index a table of all pairs that there could be, 2**24 of them, most of it empty
        most = max(p.steps for p in parts if isinstance(p, Scaled))
        first = steps[0] if most <= PAIRED else f"CAST({steps[0]} AS BIGINT)"
        own, by = [f"max({m}) AS {m}" for m in steps], [f"{first} * {1 << most} + {steps[1]}"]
    text = f"o AS (SELECT {', '.join([*keys, *own, *sums, 'count(*) AS units'])} FROM {source} GROUP BY {', '.join(by)})"
    return [text], Units("o", SUMMED)


def _apart(source: str, keys: Sequence[str], steps: Sequence[int], used: Sequence[int], words: Words) -> str:
    """Write `o` of many columns of steps: a few rows for each of them, with 0 for all others, which are in no step."""
    plain = [f"{words.added.format(f'p{i}')} AS p{i}" for i in used if i not in steps]
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    zeros = ["0 AS m{0}", "0 AS p{0}"]
    first = [*keys, *(zero.format(i) for i in steps for zero in zeros), *plain, "count(*) AS units"]
    texts = [f"SELECT {', '.join(first)} FROM {source}{group}"]
    for step in steps:
        own = [f"m{step}", f"{words.added.format(f'p{step}')} AS p{step}"]
        items = [*keys, *(text for i in steps for text in (own if i == step else [z.format(i) for z in zeros]))]
        items += [f"0 AS p{i}" for i in used if i not in steps]
        texts.append(f"SELECT {', '.join([*items, '0 AS units'])} FROM {source} GROUP BY {', '.join([*keys, f'm{step}'])}")
    return f"o AS ({' UNION ALL '.join(texts)})"


def basis_columns(i: int, total: Total) -> list[str]:
    """Name what basis i is returned as (`privacy.measurement.Basis`)."""
    steps = total.steps if isinstance(total, PartSum) else 1
    return [f"b{i}"] if steps == 1 else [f"b{i}s{j}" for j in range(steps)]


# The columns that name a unit's group, u, k0, k1, ...: how groups are told apart, ordered and numbered in SQL.
#
# Knows: an engine's spelling, keyed orders. Must not know: rows, what groups add.


@dataclass(frozen=True)
class GroupNames:
    """The names of keys, and the types that their columns have."""

    engine: Engine
    keys: tuple[str, ...]
    types: tuple[str, ...]

    @classmethod
    def of(cls, engine: Engine, keys: Sequence[Expr]) -> GroupNames:
        types = ("text" if key.type == "interval" else key.type for key in keys)
        return cls(engine, tuple(f"k{i}" for i in range(len(keys))), tuple(types))

    @property
    def group(self) -> list[str]:
        """Name a unit's group."""
        return ["u", *self.keys]

    def hash(self, order: Order, columns: list[str]) -> str:
        return self.engine.pick_hash(columns, order.key)

    def number(self, order: Order) -> str:
        """Number a group, whoever is in it."""
        names = [f"k{i}" for i in order.keys]
        if len(names) == 1 and self.types[order.keys[0]] in TEXTS:
            return self.engine.text_number(names[0], order.key)
        return self.engine.group_number(names, order.key)

    def turn(self, order: Order) -> str:
        """Say in what order a unit's groups are picked."""
        names = [f"k{i}" for i in order.keys]
        return f"{self.hash(order, ['u', *names])}, {', '.join(names)}"

    def same(self, a: str, b: str, names: Sequence[str]) -> str:
        """The same unit and keys in two relations; the unit is never NULL."""
        types = dict(zip(self.keys, self.types, strict=True))
        pairs = ((n, f"{a}.{n}", f"{b}.{n}") for n in names)
        return " AND ".join(f"{x} = {y}" if n == "u" else self.engine.same(x, y, types[n]) for n, x, y in pairs)

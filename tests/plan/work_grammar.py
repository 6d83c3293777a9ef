"""Random SQL whose danger is in how often rows of one person meet one another: subqueries that read rows around them, anywhere.

Knows: SQL and the shop's columns. Must not know: the planner. Comparisons are true of nearly all rows of `work_world`, so that
what could be gone through is gone through.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Choose = Callable[[Sequence[Any]], Any]

TABLES = {"orders": ("qty", "big"), "visits": ("secs", "secs"), "customers": ("score", "score")}
"""Private tables and numbers in them; a customer has one row in the last."""


@dataclass(frozen=True)
class Item:
    """A table in a FROM by its name there."""

    alias: str
    table: str

    def number(self, choose: Choose) -> str:
        return f"{self.alias}.{choose(TABLES[self.table])}"

    @property
    def unit(self) -> str:
        return f"{self.alias}.customer_id"


class Names:
    """Aliases, none twice."""

    def __init__(self) -> None:
        self._made = 0

    def item(self, table: str) -> Item:
        self._made += 1
        return Item(f"t{self._made}", table)


def statement(choose: Choose) -> str:
    """A query of one count over one or two tables of rows, with one or two conditions or columns of the kinds below."""
    names = Names()
    source, items, conditions = _source(choose, names, (1, 1, 1, 2))
    form = choose((_filtered, _filtered, _filtered, _keyed, _counted, _derived, _framed))
    return str(form(choose, names, source, items, conditions))


def _source(choose: Choose, names: Names, sizes: Sequence[int]) -> tuple[str, list[Item], list[str]]:
    items = [names.item(choose(("orders", "orders", "visits", "visits", "customers"))) for _ in range(choose(sizes))]
    conditions = [f"{a.unit} = {b.unit}" for a, b in itertools.pairwise(items)]
    return ", ".join(f"{i.table} {i.alias}" for i in items), items, conditions


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _filtered(choose: Choose, names: Names, source: str, items: list[Item], conditions: list[str]) -> str:
    more = [condition(choose, names, items, 2) for _ in range(choose((1, 1, 2)))]
    return f"SELECT count(*) FROM {source}{_where([*conditions, *more])}"


def _keyed(choose: Choose, names: Names, source: str, items: list[Item], conditions: list[str]) -> str:
    return f"SELECT {condition(choose, names, items, 2)} AS k, count(*) FROM {source}{_where(conditions)} GROUP BY 1"


def _counted(choose: Choose, names: Names, source: str, items: list[Item], conditions: list[str]) -> str:
    return f"SELECT count(*) FILTER (WHERE {condition(choose, names, items, 2)}) FROM {source}{_where(conditions)}"


def _derived(choose: Choose, names: Names, source: str, items: list[Item], conditions: list[str]) -> str:
    """A column that holds a subquery is read beside other rows, or by another subquery."""
    unit, other = items[0].unit, names.item(choose(("orders", "visits", "customers")))
    below = f"SELECT {unit} AS customer_id, {scalar(choose, names, items, 2)} AS x FROM {source}{_where(conditions)}"
    read = choose((f"{other.number(choose)} < d.x + 100000", f"d.x IS NOT NULL AND {other.unit} IS NOT NULL"))
    distinct = choose(("", "", "DISTINCT "))
    return (
        f"SELECT count(*) FROM ({below.replace('SELECT ', f'SELECT {distinct}', 1)}) d JOIN {other.table} {other.alias} "
        f"ON {other.unit} = d.customer_id WHERE {read}"
    )


def _framed(choose: Choose, names: Names, source: str, items: list[Item], conditions: list[str]) -> str:
    item = items[0]
    frame = choose((
        "3 PRECEDING AND CURRENT ROW", "UNBOUNDED PRECEDING AND CURRENT ROW", "CURRENT ROW AND UNBOUNDED FOLLOWING",
        "5000 PRECEDING AND 5000 FOLLOWING",
    ))  # fmt: skip
    window = f"max({item.number(choose)}) OVER (PARTITION BY {item.unit} ORDER BY {item.number(choose)} ROWS BETWEEN {frame})"
    return (
        f"SELECT count(*) FROM (SELECT {item.unit} AS customer_id, {window} AS x FROM {source}{_where(conditions)}) d WHERE x > 0"
    )


# --- subqueries


def condition(choose: Choose, names: Names, around: Sequence[Item], depth: int) -> str:
    """A condition on rows of `around` that holds a subquery."""
    first = choose(around)
    kind = choose(("scalar", "scalar", "exists", "in", "quantified", "either", "case"))
    if kind == "scalar":
        return f"{first.number(choose)} < {scalar(choose, names, around, depth)} + 100000"
    if kind == "in":
        item, body = _rows(choose, names, around, depth)
        word, value = choose(("IN", "NOT IN")), choose(("number", "unit"))
        pair = (first.unit, item.unit) if value == "unit" else (first.number(choose), item.number(choose))
        return f"{pair[0]} {word} (SELECT {pair[1]} FROM {body})"
    if kind == "quantified":
        item, body = _rows(choose, names, around, depth)
        return f"{first.number(choose)} + 100000 {choose(('> ALL', '= ANY', '> ANY'))} (SELECT {item.number(choose)} FROM {body})"
    body = _rows(choose, names, around, depth)[1]
    exists = f"{choose(('', 'NOT '))}EXISTS (SELECT 1 FROM {body})"
    if kind == "either":
        return f"({exists} OR {first.number(choose)} < -100)"
    return f"CASE WHEN {exists} THEN 1 ELSE 0 END = 1" if kind == "case" else exists


def scalar(choose: Choose, names: Names, around: Sequence[Item], depth: int) -> str:
    item, body = _rows(choose, names, around, depth)
    return f"(SELECT {choose(('count', 'max', 'avg'))}({item.number(choose)}) FROM {body})"


def _rows(choose: Choose, names: Names, around: Sequence[Item], depth: int) -> tuple[Item, str]:
    """Rows of the same person, by the unit and by what else is compared with rows around."""
    source, items, conditions = _source(choose, names, (1, 1, 2))
    conditions.append(f"{items[0].unit} = {choose(around).unit}")
    for item in items:
        if choose((True, False)):
            own, other = item.number(choose), choose(around).number(choose)
            conditions.append(choose((f"{own} < {other} + 100000", f"{own} <> {other} + 100000", f"{own} = {other}")))
    if depth and choose((True, False, False)):
        conditions.append(condition(choose, names, [*items, *choose(((), tuple(around)))], depth - 1))
    return items[0], f"{source}{_where(conditions)}"

"""Keys held against data: how many groups a unit reaches that has everything, and whether every row has its group that is
not said to have none.

Knows: plans, `key_grammar`, the shops of both engines. Must not know: how the planner counts. The rows are all that the columns
of a key can hold, declared or not, in all combinations: of one unit, or, those declared, each of a unit of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import key_grammar
import plan_harness
from key_grammar import HELD
from plan_harness import AnyShop

from dpproxy.errors import Refusal
from dpproxy.plan.model import LeftOut, Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Bounds, Policy
from dpproxy.table_terms import TableName

_OTHERS = {"category": "VARCHAR", "coupon": "VARCHAR", "big": "BIGINT", "note": "VARCHAR"}
_TYPES = {"status": "VARCHAR", "paid": "BOOLEAN", "qty": "INTEGER", "due": "DATE", "ts": "TIMESTAMP", "amount": "DECIMAL(12,2)",
          "weight": "DOUBLE PRECISION"}  # fmt: skip


WITH_NULLS = ("qty", "due", "ts")  # columns of which NULL is declared where `nulls` is asked for


@lru_cache
def everything(nulls: bool) -> Policy:
    """The shop's policy with room for all rows and groups of a unit."""
    given, orders = plan_harness.policy(), TableName("public", "orders")
    table = given.tables[orders]
    columns = {n: replace(c, nulls=c.nulls or (nulls and n in WITH_NULLS)) for n, c in table.columns.items()}
    return replace(given, tables={**given.tables, orders: replace(table, columns=columns, bounds=Bounds(10**6, None))})


def grouped(left_out: Sequence[LeftOut]) -> str:
    """The condition of rows that are in a group, by what is said of those that are not."""
    parts = [f"{out.column} IS NOT NULL" for out in left_out if out.nulls]
    parts += [f"({HELD[out.column].declared} OR {out.column} IS NULL)" for out in left_out if out.others]
    return " AND ".join(parts) or "true"


class Cover:
    """Tables of orders that hold everything, made as they are asked for."""

    def __init__(self, shop: AnyShop) -> None:
        self._shop = shop
        self._made: set[tuple[str, ...]] = set()
        shop.execute("CREATE SCHEMA IF NOT EXISTS cover")

    def problems(self, keys: Sequence[str], where: str, nulls: bool, found: Catalog) -> list[str] | None:
        """What the claims for the keys have against the data; None where the statement is refused."""
        condition = f" WHERE {where}" if where else ""
        numbers = ", ".join(str(i + 1) for i in range(len(keys)))
        sql = f"SELECT {', '.join(keys)}, count(*) FROM orders{condition} GROUP BY {numbers}"
        columns = key_grammar.used(" ".join([*keys, where]))
        if not self._shop.takes(sql):
            return None
        try:
            plan = plan_harness.plan(sql, found, everything(nulls))
        except Refusal:
            return None
        if columns not in self._made:
            self._make("_".join(columns) or "none", columns)
            self._made.add(columns)
        return self._judged(plan, "_".join(columns) or "none", condition)

    def _judged(self, plan: Plan, name: str, condition: str) -> list[str]:
        (m,) = plan.measurements
        (sql,) = plan_harness.queries(m, [])
        problems = []
        counts = self._counts(sql, f"cover.one_{name}")
        reached = sum(n != 0 for n in counts)
        if reached > m.l0:
            problems.append(f"a unit reaches {reached} groups, l0 is {m.l0}")
        if not re.search(r"rank <= \d", sql) and len(counts) > m.l0:
            problems.append(f"{len(counts)} groups are declared, l0 is {m.l0} and none is picked")
        if m.dense:
            own = f"(SELECT * FROM cover.own_{name} WHERE {grouped(plan.left_out)})"
            (rows,) = self._counts(f'SELECT count(*) AS b0 FROM "main"."orders" AS o{condition}', own)
            counted = sum(self._counts(sql, own))
            if counted != rows:
                problems.append(f"{counted} of {rows} rows are in declared groups, beside those said to be in none")
        return problems

    def _counts(self, sql: str, source: str) -> list[int]:
        found = self._shop.run(sql.replace('"main"."orders"', source))
        return [int(n) for n in found.column("b0").to_pylist()]

    def _make(self, name: str, columns: Sequence[str]) -> None:
        values = [HELD[c].few if len(columns) > 1 else HELD[c].values for c in columns]
        sources = " CROSS JOIN ".join(f"({text}) AS {c}(v)" for c, text in zip(columns, values, strict=True))
        items = [f"{c}.v AS {c}" if c in columns else f"CAST(NULL AS {type_}) AS {c}" for c, type_ in _TYPES.items()]
        items += [f"CAST(NULL AS {type_}) AS {c}" for c, type_ in _OTHERS.items()]
        body = f"{', '.join(items)}{f' FROM {sources}' if sources else ''}"
        ids = "CAST(row_number() OVER () AS BIGINT) AS order_id"
        self._shop.execute(f"CREATE TABLE cover.one_{name} AS SELECT {ids}, 1 AS customer_id, {body}")
        numbered = f"SELECT *, CAST(order_id AS INTEGER) AS customer_id FROM (SELECT {ids}, {body}) AS r"
        self._shop.execute(f"CREATE TABLE cover.own_{name} AS {numbered}")

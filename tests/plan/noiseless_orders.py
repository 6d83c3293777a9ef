"""Orders in a PostgreSQL, and outer queries over what their counts are without noise.

Knows: keys and counts of measurements. Must not know: generated SQL: each measurement is counted here by its labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plan_harness
import psycopg
from facade_answers import Cells, answered

from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog

ROWS = "('open', 1, true), ('open', 1, false), ('open', 4, true), ('open', 4, true), ('paid', 1, NULL), ('paid', 2, true), ('void', 5, false)"


class NoiselessOrders:
    """`orders` of a status, a quantity, and whether they are paid, which statements of counts may read."""

    def __init__(self, postgres: psycopg.Connection[Any], catalog: Catalog) -> None:
        self._postgres, self._catalog = postgres, catalog
        postgres.execute(f"CREATE TEMP TABLE orders AS SELECT * FROM (VALUES {ROWS}) AS t(status, qty, paid)".encode())

    def close(self) -> None:
        self._postgres.execute("DROP TABLE orders")

    def plan(self, sql: str, **settings: str) -> Plan:
        return plan_harness.plan(sql, self._catalog, **settings)

    def itself(self, sql: str) -> list[tuple[Any, ...]]:
        return self._postgres.execute(sql.encode()).fetchall()

    def answered(self, sql: str, arrays: Sequence[Cells]) -> list[tuple[Any, ...]]:
        return answered(self._postgres, sql, arrays)

    def released(self, sql: str) -> list[tuple[Any, ...]]:
        """The outer query over exact counts, in the groups of the rows that the statement keeps."""
        made = self.plan(sql)
        where = f" WHERE {sql.partition(' WHERE ')[2].partition(' GROUP BY ')[0]}" if " FROM orders WHERE " in sql else ""
        arrays: list[Cells] = []
        for measurement in made.measurements:
            keys = [key.label for key in measurement.keys]
            counts = [basis.label for basis in measurement.bases]
            listed = ", ".join([*(f"({k})::text" for k in keys), *(c if c.startswith("count(*)") else "0" for c in counts)])
            alias = " AS o" if " orders o " in sql else ""
            group = f" GROUP BY {', '.join(f'({k})' for k in keys)}" if keys else ""
            found = self.itself(f"SELECT {listed} FROM orders{alias}{where}{group}")
            arrays += [list(column) for column in zip(*found, strict=True)]
        return self.answered(made.outer, arrays)

"""A rule: `OFFSET 0`, which skips no row.

Knows: sqlglot's trees, before they are analysed. Must not know: engines. Prisma writes OFFSET in every subquery that it counts,
most often 0; below an aggregate any other OFFSET would choose single rows, and stays to be refused. A value that came as a
parameter is a constant with a cast by now.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.plan.known_tables import KnownTables
from dpproxy.sql.nodes import every


def apply(tree: exp.Expr, tables: KnownTables) -> bool:
    """Leave OFFSET out where it skips nothing; whether there were any.

    Before: `SELECT count(*) FROM (SELECT 1 FROM t OFFSET 0) s`
    After: `SELECT count(*) FROM (SELECT 1 FROM t) s`
    """
    void = [offset for offset in every(tree, exp.Offset) if _skips_nothing(offset.expression)]
    for offset in void:
        offset.pop()
    return bool(void)


def _skips_nothing(value: exp.Expr) -> bool:
    value = value.unnest()
    if isinstance(value, exp.Cast):
        value = value.this.unnest()
    return isinstance(value, exp.Null) or (isinstance(value, exp.Literal) and str(value.this).strip() == "0")

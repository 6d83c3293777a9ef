"""Calls of `dpproxy.low(e)`, `dpproxy.high(e)` and `dpproxy.stderr(e)`: which are they, and where they may not stand.

Knows: sqlglot's trees. Must not know: how an interval is computed (`intervals.writer`).
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.sql.dialect import ident, position
from dpproxy.sql.statements import VIRTUAL_SCHEMA

NAMES = ("low", "high", "stderr")


def interval_call(node: exp.Expr) -> str | None:
    """Say which of `NAMES` a node calls in schema dpproxy; None for any other node."""
    if not isinstance(node, exp.Dot) or ident(node.this) != VIRTUAL_SCHEMA or not isinstance(node.expression, exp.Anonymous):
        return None
    name = str(node.expression.this).lower()
    return name if name in NAMES else None


def misplaced_call(node: exp.Expr) -> Refusal:
    name = interval_call(node)
    return Refusal(
        FEATURE_NOT_SUPPORTED,
        f"dpproxy.{name}() must stand around an aggregate of private rows",
        position(node),
        hint=f"Write it where the aggregate is: SELECT count(*), dpproxy.{name}(count(*)) FROM ...",
    )


def refuse_misplaced(select: exp.Expr) -> None:
    """Refuse these calls in a SELECT over released rows, which knows their values only, not how they were drawn. Raises
    Refusal."""
    for node in select.walk(prune=lambda n: n is not select and isinstance(n, exp.Select | exp.SetOperation)):
        if interval_call(node):
            raise misplaced_call(node)

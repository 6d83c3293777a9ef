"""Whether a measurement looks at the time of day at which it is asked for: then it is another one each time it is asked.

Knows: expressions, relations, which literals move (`plan.functions.constant_times`). Must not know: stored answers. A stored
answer is found by what the measurement would compute, so one that ends at this very second finds none, and is charged anew.
"""

from __future__ import annotations

from dataclasses import fields

from dpproxy.plan.measure.specs import BasisSpec, SelectionSpec
from dpproxy.tree.expr import Column, Expr, Lit, Relation

MOVING = (
    "the time of day is in this query, so that asking again measures and charges again; "
    "compare with current_date or date_trunc('hour', now()) to have the answer kept"
)
"""What is said of such a measurement."""


def moves(value: object) -> bool:
    """Tell whether an expression, a relation, or anything that holds some has a constant that moves with the time of day."""
    if isinstance(value, Lit):
        return value.moving
    if isinstance(value, tuple | list):
        return any(map(moves, value))
    if isinstance(value, Column) or not isinstance(value, Expr | Relation | BasisSpec | SelectionSpec):
        return False
    return any(moves(getattr(value, field.name)) for field in fields(value) if field.name != "columns")

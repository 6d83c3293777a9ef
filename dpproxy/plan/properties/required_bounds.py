"""Arguments of numeric aggregates must have closed bounds, and the refusal says whose are missing.

Knows: facts of expressions. Must not know: mechanisms.
"""

from __future__ import annotations

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.refusals import OTHER_TYPE, unsupported
from dpproxy.sql.types import NUMBERS, TEXTS
from dpproxy.tree.expr import Agg, Column, Expr, Ref, Taint, references

LARGEST = 10**60  # of any summed value: its square and the products of two still are doubles


def bounded_argument(agg: Agg) -> Expr:
    """Return the argument of a numeric aggregate, with a closed bound. Raises Refusal naming the column and the remedies."""
    (value,) = agg.args
    if value.type not in NUMBERS:
        raise unsupported(f"{agg.name}() of {value.type}", OTHER_TYPE)
    known = facts(value)
    if known.taint != Taint.NONE and isinstance(value, Ref):
        raise unsupported(f"{agg.name}() of an identifier", "Count it: count(DISTINCT ...).")
    if not known.reach.closed:
        columns = ", ".join(f'"{c.name}"' for c in _open_columns(value))
        what = f"column {columns}" if columns else "this expression"
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            f"{agg.name}() needs bounds, and {what} has none",
            hint=f"Clamp it in SQL, `{agg.name}(LEAST(GREATEST(x, 0), 100))`, or ask the policy's author for "
            f"a `{'length' if columns and _texts(value) else 'range'}` of the column.",
        )
    if not known.reach.within(LARGEST):
        raise unsupported(
            f"{agg.name}() of values beyond 1e{len(str(LARGEST)) - 1}",
            "Divide them, or clamp them: least(greatest(x, 0), 1000000).",
        )
    return value


def _texts(value: Expr) -> bool:
    return all(c.type in TEXTS for c in _open_columns(value))


def _open_columns(value: Expr) -> list[Column]:
    """The columns to name in the refusal."""
    return [c for c in references(value) if not facts(Ref(c.type, c)).reach.closed]

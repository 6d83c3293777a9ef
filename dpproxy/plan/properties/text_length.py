"""The most characters a text can have, as far as its form and the policy tell: the bound of its length().

Knows: expressions. Must not know: engines. A policy's `length` is a promise like a `range` is: lengths beyond it are cut to it
where they are added up, so a false one costs accuracy, never privacy.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.lengths import MOST
from dpproxy.tree.expr import Call, Case, Cast, Expr, Lit, Ref


def longest_text(expr: Expr) -> int | None:
    """Characters at most; None for a text that may have any number."""
    match expr:
        case Ref(column=column):
            return column.length
        case Lit(text=text):
            return len(text or "")
        case Cast(arg=arg) if expr.type in ("text", "varchar") and arg.type in ("text", "varchar", "unknown"):
            return min([n for n in (longest_text(arg), *expr.length[:1]) if n is not None], default=None)
        case Case(whens=whens, default=default):
            return _largest([*(value for _, value in whens), *([default] if default is not None else [])])
        case Call(op=op, args=args) if (rule := operation(op).length) is not None:
            sizes = [MOST if n is None else n for n in map(longest_text, args)]
            return found if (found := rule(sizes, args)) < MOST else None
    return None


def _largest(parts: Sequence[Expr]) -> int | None:
    found = [longest_text(p) for p in parts]
    return None if None in found or not found else max(n or 0 for n in found)

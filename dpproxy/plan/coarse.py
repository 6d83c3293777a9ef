"""What no longer identifies: answers of yes or no, numbers of characters, a letter or two, the domain of an address.

Knows: calls of the planner's expressions. Must not know: data, engines. A policy's `key` and `unit` columns are counted,
compared and joined on, and never shown. Whether an id is 0, how long a name is, its initial, or the part of an address after
its @ is said of many people, and groups of such values are measured like any others. This rule is not what protects
anybody: noise, bounds and thresholds do, whatever the keys are.
"""

from __future__ import annotations

from dpproxy.plan.expr import Expr, Lit

LETTERS = 2
"""Initials, the code of a country or of a state."""
_COUNTS = frozenset({"length", "octet_length", "strpos"})
_STARTS = {"left": 1, "right": 1, "substring": 2}
"""Where these functions say how many characters they keep."""


def is_coarse(op: str, type_: str, args: tuple[Expr, ...]) -> bool:
    """Whether a call's value does not identify anybody, whatever its arguments do."""
    if type_ == "bool" or op in _COUNTS:
        return True
    if op in _STARTS:
        kept = _number(args[_STARTS[op]])
        return kept is not None and 0 <= kept <= LETTERS
    if op == "split_part":
        part = _number(args[2])
        return part is not None and part > 1 and args[1] == Lit("text", "@")
    return False


def _number(expr: Expr) -> int | None:
    return int(expr.text) if isinstance(expr, Lit) and expr.text is not None else None

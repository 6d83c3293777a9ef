"""The most characters a text can have, as far as its form and the policy tell: the bound of its length().

Knows: expressions. Must not know: engines. A policy's `length` is a promise like a `range` is: lengths beyond it are cut to it
where they are added up, so a false one costs accuracy, never privacy.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.tree.expr import Call, Case, Cast, Expr, Lit, Ref

_SAME = {"lower", "upper", "trim", "btrim", "ltrim", "rtrim", "reverse", "substring_from", "split_part", "initcap", "translate"}
"""No longer than their first argument."""
_ONE_OF = {"coalesce", "least", "greatest"}
_UP_TO = {"left": 1, "right": 1, "substring": 2}
"""No longer than the number at this place, nor than their first argument."""
_FIXED = {"md5": 32}


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
        case Call(op="concat", args=args):
            parts = [longest_text(a) for a in args]
            return None if None in parts else sum(n or 0 for n in parts)
        case Call(op=op, args=args) if op in _ONE_OF:
            return _largest(args)
        case Call(op=op, args=args) if op in _SAME or op == "nullif":
            return longest_text(args[0])
        case Call(op=op, args=args) if op in _UP_TO:
            number = args[_UP_TO[op]]
            known = [longest_text(args[0])]
            if isinstance(number, Lit) and (number.text or "").isdigit():
                known.append(int(number.text or 0))
            return min([n for n in known if n is not None], default=None)
        case Call(op=op):
            return _FIXED.get(op)
    return None


def _largest(parts: Sequence[Expr]) -> int | None:
    found = [longest_text(p) for p in parts]
    return None if None in found or not found else max(n or 0 for n in found)

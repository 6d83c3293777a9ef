"""Texts that grow: concatenation, replacement and repetition of columns that are cut to a length.

Knows: the planner's expressions, lengths in characters. Must not know: tables. `x || x` nested thirty deep makes a
billion characters of one; a value of a hostile row would then raise where others do not, which says that the row is there.
Leaves are cut to the length with which `plan.measure.amplification` found the whole measurement to stay within its limits; what
is cut is decided by `plan.properties.text_growth` alone, for that estimate and for the text written here. Functions that need
several bytes for one are not computed of texts beyond a length.
"""

from __future__ import annotations

from typing import Protocol

from dpproxy.engines.base import Names
from dpproxy.plan.operations.operation import constant
from dpproxy.plan.properties import text_growth
from dpproxy.plan.properties.text_growth import grows
from dpproxy.sql.types import TEXTS
from dpproxy.tree.expr import Call, Cast, Expr, Hole, Lit

LONG = 100_000_000  # bytes of a text that functions of `WIDENING` are given: they may take eight for one, and raise beyond 1 GB
WIDENING = {"lower", "upper", "initcap", "trim", "ltrim", "rtrim", "regex", "iregex", "ilike", "translate", "regexp_extract"}
WIDENING |= {"regexp_count"}
_SHORTENING = {"left", "right", "substring", "substring_from", "split_part", "reverse"}


class Speller(Protocol):
    """Cutting texts needs this of the engine."""

    def as_type(self, expr: Expr, type_: str, names: Names) -> str: ...

    def replaced(self, text: str, rest: list[str]) -> str:
        """regexp_replace of a text by pattern, replacement and flags."""
        ...


class Growth:
    """Renders what makes longer texts of shorter ones, for one engine."""

    def __init__(self, speller: Speller, cut: int) -> None:
        self._speller, self._cut = speller, cut

    def text(self, expr: Call, names: Names) -> str:
        return self._tree(expr, names)

    def _tree(self, expr: Expr, names: Names) -> str:
        if isinstance(expr, Lit):
            return self._speller.as_type(expr, "text", names)
        if text_growth.leaf(expr):
            return f"left({self._speller.as_type(expr, 'text', names)}, {self._cut})"
        assert isinstance(expr, Call)
        first = self._tree(expr.args[0], names)
        if expr.op == "repeat":
            return f"repeat({first}, {int(constant(expr.args[1]))})"
        if expr.op == "regexp_replace":
            return self._speller.replaced(first, [self._speller.as_type(a, "text", names) for a in expr.args[1:]])
        texts = [first, *(self._tree(a, names) for a in expr.args[1:])]
        return f"({' || '.join(texts)})" if expr.op == "concat" else f"{expr.op}({', '.join(texts)})"


def null_beyond_limit(op: str, body: str, args: tuple[Expr, ...], texts: list[str]) -> str:
    """NULL where an argument is too long for `op` to be computed."""
    long = [text for arg, text in zip(args, texts, strict=True) if not _known_short(arg)] if op in WIDENING else []
    if not long:
        return body
    return f"(CASE WHEN {' AND '.join(f'octet_length({text}) <= {LONG}' for text in long)} THEN {body} END)"


def _known_short(arg: Expr) -> bool:
    """Whether a text is at most `LONG` whatever the data: a constant, formatted, guarded, or a part of such a one."""
    match arg:
        case Lit() | Hole():
            return True
        case Cast(arg=inner):
            return inner.type not in (*TEXTS, "unknown") or _known_short(inner)
        case Call(op=op, args=args):
            if op in _SHORTENING:
                return _known_short(args[0])
            return op in WIDENING or grows(arg) or op in ("md5", "strftime", "lpad", "rpad")
    return False

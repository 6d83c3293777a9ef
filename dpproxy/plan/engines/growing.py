"""Texts that grow: concatenation and replacement held below PostgreSQL's limit of one gigabyte a value, and any memory.

Knows: the planner's expressions, lengths in characters. Must not know: tables. `x || x` nested thirty deep makes a
billion characters of one; a value of a hostile row would then raise where others do not, which says that the row is there.
Leaves are cut to a length with which the whole expression stays small; the first that suffices is taken, so ordinary texts
are never cut. Functions that need several bytes for one are not computed of texts beyond a length.
"""

from __future__ import annotations

from typing import Protocol

from dpproxy.errors import STATEMENT_TOO_COMPLEX, Refusal
from dpproxy.plan.engines.base import Names
from dpproxy.plan.expr import Call, Cast, Expr, Hole, Lit
from dpproxy.sql.types import TEXTS

LONGEST = 25_000_000  # characters: 100 MB in UTF-8
LONG = 100_000_000  # bytes of a text that functions of `WIDENING` are given: they may take eight for one, and raise beyond 1 GB
WIDENING = {"lower", "upper", "initcap", "trim", "ltrim", "rtrim", "regex", "iregex", "ilike", "translate", "regexp_extract"}
WIDENING |= {"regexp_count"}
_SHORTENING = {"left", "right", "substring", "substring_from", "split_part", "reverse"}
CUTS = (1_000_000, 10_000, 500)  # characters at which leaves are cut


GROWING = frozenset({"concat", "concat_ws", "replace", "repeat", "regexp_replace"})


class Speller(Protocol):
    """What this needs of the engine."""

    def as_type(self, expr: Expr, type_: str, names: Names) -> str: ...

    def replaced(self, text: str, rest: list[str]) -> str:
        """regexp_replace of a text by pattern, replacement and flags."""
        ...


class _TooLong(Exception):
    pass


class Growth:
    """Renders what makes longer texts of shorter ones, for one engine."""

    def __init__(self, speller: Speller) -> None:
        self._speller = speller

    def text(self, expr: Call, names: Names) -> str:
        """Raises Refusal when no cut keeps the text short enough."""
        for cut in CUTS:
            try:
                return self._tree(expr, names, cut)[0]
            except _TooLong:
                continue
        raise Refusal(STATEMENT_TOO_COMPLEX, "this expression makes texts of unlimited length")

    def _tree(self, expr: Expr, names: Names, cut: int) -> tuple[str, int]:
        """Text and greatest length of its value."""
        if isinstance(expr, Lit):
            return self._speller.as_type(expr, "text", names), len(expr.text or "")
        if isinstance(expr, Call) and expr.op in ("repeat", "regexp_replace"):
            return self._multiplied(expr, names, cut)
        if isinstance(expr, Call) and expr.op in ("concat", "concat_ws", "replace", "coalesce"):
            parts = [self._tree(a, names, cut) for a in expr.args]
            texts, sizes = [p[0] for p in parts], [p[1] for p in parts]
            if expr.op == "coalesce":
                return f"coalesce({', '.join(texts)})", max(sizes)
            if expr.op == "concat":
                return f"({' || '.join(texts)})", _short(sum(sizes))
            if expr.op == "concat_ws":
                return f"concat_ws({', '.join(texts)})", _short(sum(sizes[1:]) + sizes[0] * len(sizes))
            return f"replace({', '.join(texts)})", _short(sizes[0] * max(sizes[2], 1))
        return f"left({self._speller.as_type(expr, 'text', names)}, {cut})", cut

    def _multiplied(self, expr: Call, names: Names, cut: int) -> tuple[str, int]:
        """repeat(text, n), and regexp_replace, of which every character may become the replacement."""
        text, size = self._tree(expr.args[0], names, cut)
        rest = [a.text or "" for a in expr.args[1:] if isinstance(a, Lit)]
        if expr.op == "repeat":
            return f"repeat({text}, {int(rest[0])})", _short(size * int(rest[0]))
        spelled = [self._speller.as_type(a, "text", names) for a in expr.args[1:]]
        return self._speller.replaced(text, spelled), _short(size * (len(rest[1]) + 1))


def guarded(op: str, body: str, args: tuple[Expr, ...], texts: list[str]) -> str:
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
            return op in WIDENING or op in GROWING or op in ("md5", "strftime", "lpad", "rpad")
    return False


def _short(length: int) -> int:
    if length > LONGEST:
        raise _TooLong
    return length

"""How long texts get: of each expression the longest value, and what is made on the way to it.

Knows: expressions, lengths in characters. Must not know: relations, engines' spelling. Engines cut where this says it cuts
(`engines.postgres_operations`): a column, or anything else whose length its form does not tell, to `cut` characters where it is
put together, replaced in or repeated. Every text that a function, CASE or coalesce makes counts, since engines may hold them all
at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpproxy.plan.operations.bounds import MOST
from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.operation import constant
from dpproxy.sql.types import TEXTS
from dpproxy.tree.expr import Agg, Call, Case, Cast, Expr, Hole, InList, Lit, Ref, Win, children

CUTS = (1_000_000, 100_000, 10_000, 2_000, 1_000, 500, 250, 100)
"""Characters at which columns are cut where longer texts are made of them: the first that suffices."""

USUAL = 64  # characters of a text whose length nothing tells, where it is not cut
PARAMETER = 10_000  # characters of a text that a client or the facade gives when the statement runs
BYTES = 4  # of a character at most
Lengths = Mapping[int, int]
"""Of columns, by id."""


def leaf(expr: Expr) -> bool:
    """Tell whether a part of a growing text is cut."""
    return not (isinstance(expr, Lit) or grows(expr) or _is_first_of(expr))


def grows(expr: Expr) -> bool:
    """Tell whether it is an operation that makes longer texts of shorter ones."""
    return isinstance(expr, Call) and operation(expr.op).grows


def _is_first_of(expr: Expr) -> bool:
    """Whether it is the first operand that is not NULL: what is looked into for leaves to cut."""
    return isinstance(expr, Call) and expr.op == "coalesce"


def length(expr: Expr, lengths: Lengths, cut: int) -> int:
    """Bound the length of the value, in characters."""
    return _Sizes(lengths, cut).length(expr)


def made(expr: Expr, lengths: Lengths, cut: int) -> int:
    """Bytes of all texts that are made for one value, and one for each operation."""
    return _Sizes(lengths, cut).made(expr)


def built(expr: Expr, lengths: Lengths, cut: int) -> int:
    """Bytes of the texts that are built for one value: put together, repeated, padded, changed or formatted. What CASE and
    coalesce choose is there already."""
    return _Sizes(lengths, cut).built(expr)


class _Sizes:
    def __init__(self, lengths: Lengths, cut: int) -> None:
        self._lengths, self._cut = lengths, cut
        self._known: dict[int, int] = {}
        self._made: dict[int, int] = {}
        self._built: dict[int, int] = {}

    def length(self, expr: Expr) -> int:
        if id(expr) not in self._known:
            self._known[id(expr)] = min(self._length(expr), MOST)
        return self._known[id(expr)]

    def _length(self, expr: Expr) -> int:
        match expr:
            case Lit(text=text):
                return len(text or "")
            case Ref(column=column):
                return self._lengths.get(column.id, USUAL if column.length is None else column.length)
            case Hole():
                return PARAMETER if expr.type in (*TEXTS, "unknown") else USUAL
            case Case(whens=whens, default=default):
                return max(self.length(e) for e in (*(value for _, value in whens), *([default] if default is not None else [])))
            case Cast(arg=arg, length=most):
                found = self.length(arg) if arg.type in (*TEXTS, "unknown") else USUAL
                return min(found, most[0]) if most and expr.type in TEXTS else found
            case Agg(args=args) | Win(args=args):
                return max((self.length(a) for a in args), default=USUAL)
            case Call():
                return self._of_call(expr)
        return USUAL

    def _of_call(self, expr: Call) -> int:
        row, args = operation(expr.op), expr.args
        if row.length is not None:
            return row.length([self._part(a) if row.grows else self.length(a) for a in args], args)
        return sum(map(self.length, args)) + USUAL

    def _part(self, expr: Expr) -> int:
        """Of an argument of a growing operation, as `engines.postgres_operations` writes it."""
        if isinstance(expr, Call) and _is_first_of(expr):
            return max(map(self._part, expr.args))
        return min(self._cut, _sure(expr)) if leaf(expr) else self.length(expr)

    def made(self, expr: Expr) -> int:
        if id(expr) not in self._made:
            below = sum(self.made(e) for e in _below(expr))
            self._made[id(expr)] = min(1 + below + self._own(expr), MOST)
        return self._made[id(expr)]

    def built(self, expr: Expr) -> int:
        if id(expr) not in self._built:
            below, own = self._built_below(expr), 0
            if expr.type in TEXTS and isinstance(expr, Call) and not operation(expr.op).chooses:
                own = self.length(expr) * (1 if operation(expr.op).prints else BYTES)
            elif isinstance(expr, Cast) and expr.type in TEXTS and expr.arg.type not in (*TEXTS, "unknown"):
                own = self.length(expr)
            self._built[id(expr)] = min(below + own, MOST)
        return self._built[id(expr)]

    def _built_below(self, expr: Expr) -> int:
        """Of a CASE the results of one arm: engines compute an arm for the rows that take it."""
        if isinstance(expr, Case):
            arms = [e for e in (*(result for _, result in expr.whens), expr.default) if e is not None]
            return sum(self.built(test) for test, _ in expr.whens) + max(map(self.built, arms))
        return sum(self.built(e) for e in _joined(expr))

    def _own(self, expr: Expr) -> int:
        """Of its own value where it is a text that is not there anyway; of a pattern, one for each character looked at."""
        searched = 0
        if isinstance(expr, Call) and operation(expr.op).matches:
            text = self._part(expr.args[0]) if grows(expr) else self.length(expr.args[0])
            searched = text * (1 + len(constant(expr.args[1])) // 8)
        copied = isinstance(expr, Call | Case | Cast | Agg | Win) and expr.type in TEXTS
        return searched + (BYTES * self.length(expr) if copied else 0)


def _sure(expr: Expr) -> int:
    """The longest value of an expression by its form alone, whatever columns hold."""
    rule = operation(expr.op).length if isinstance(expr, Call) else None
    return min(rule([MOST] * len(expr.args), expr.args), MOST) if rule is not None and isinstance(expr, Call) else MOST


def _joined(expr: Expr) -> Sequence[Expr]:
    """What is below an expression; of texts put together in turn, which engines keep no part of, all that are."""
    if not (isinstance(expr, Call) and expr.op == "concat"):
        return _below(expr)
    parts = ((e,) if not (isinstance(e, Call) and e.op == "concat") else _joined(e) for e in expr.args)
    return [e for part in parts for e in part]


def _below(expr: Expr) -> tuple[Expr, ...]:
    return (expr.arg,) if isinstance(expr, InList) else children(expr)


# The most characters a text can have, as far as its form and the policy tell: the bound of its length().
#
# Knows: expressions. Must not know: engines. A policy's `length` is a promise like a `range` is: lengths beyond it are cut to
# it where they are added up, so a false one costs accuracy, never privacy.


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

"""Parts of a text: substring, left, right, split_part, at places that are constants or values of the row.

Knows: PostgreSQL's meaning of them. Must not know: engines. Places that PostgreSQL would raise for (a negative length, field 0)
make the part NULL. What engines are given is within a billion and, of substring, not before the first character, so that no
two of them can differ, and no sum of two places overflows.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.errors import INVALID_PARAMETER_VALUE, SUBSTRING_ERROR, Refusal
from dpproxy.plan.functions.operators import as_text, check_count, coerce, compare, minus, plus
from dpproxy.plan.functions.plain import Builder
from dpproxy.plan.refusals import OTHER_TYPE, unsupported
from dpproxy.sql.types import TEXTS
from dpproxy.tree.expr import Call, Case, Expr, Lit

FAR = 1_000_000_000  # characters: more than any text has
_PLACES = ("int2", "int4")
_ZERO, _ONE = Lit("int4", "0"), Lit("int4", "1")


def _constant(value: Expr) -> int | None:
    return int(value.text) if isinstance(value, Lit) and value.text is not None else None


def _place(value: Expr, what: str) -> Expr:
    """A whole number that says where a part begins or ends. Raises Refusal."""
    value = coerce(value, "int4")
    if value.type not in _PLACES or (isinstance(value, Lit) and value.text is None):
        raise unsupported(f"{what} that is {value.type if value.type not in _PLACES else 'NULL'}")
    return value


def _within(value: Expr, least: int, most: int) -> Expr:
    """A number moved to the nearer end of a range; NULL stays NULL."""
    held = Call("int4", "greatest", (Call("int4", "least", (value, Lit("int4", str(most)))), Lit("int4", str(least))))
    return Case("int4", ((Call("bool", "is_not_null", (value,)), held),), None)


def substring(args: Sequence[Expr]) -> Expr:
    """substring(text, start [, length]), from 1 on: a start before it takes from the length."""
    if len(args) not in (2, 3):
        raise unsupported("`substring` of this form")
    value, start = coerce(args[0], "text"), _place(args[1], "the start of `substring`")
    if value.type not in TEXTS:
        raise unsupported(f"`substring` of {value.type}", OTHER_TYPE)
    length = _place(args[2], "the length of `substring`") if len(args) == 3 else None
    begins, takes = _constant(start), None if length is None else _constant(length)
    if begins is not None and (length is None or takes is not None):
        return _substring_at(value, begins, takes)
    if length is None:
        return Call("text", "substring_from", (value, _within(start, 1, FAR)))
    first, size = _within(start, 1, FAR), _within(length, -1, FAR)
    early = minus(plus(size, _within(start, -FAR, 1)), _ONE)  # what is left of the length behind the first character
    whens = (
        (compare("<", size, _ZERO), Lit("int4", None)),
        (compare(">=", start, _ONE), size),
        (compare("<", early, _ZERO), _ZERO),
        (compare("<", start, _ONE), early),
    )
    # abs() changes nothing where the conditions hold: they are also tried in combinations that no row has (`engines.key_stages`)
    return Call("text", "substring", (value, first, Call("int4", "abs", (Case("int4", whens, None),))))


def _substring_at(value: Expr, start: int, length: int | None) -> Expr:
    if length is not None and length < 0:
        raise Refusal(SUBSTRING_ERROR, "negative substring length not allowed")
    if start < 1:
        length = None if length is None else max(length + start - 1, 0)
        start = 1
    if length is None:
        return Call("text", "substring_from", (value, Lit("int4", str(start))))
    return Call("text", "substring", (value, Lit("int4", str(start)), Lit("int4", str(length))))


def _side(name: str) -> Builder:
    """left(text, n) and right(text, n); of a negative n all but so many."""

    def build(args: Sequence[Expr]) -> Expr:
        check_count(name, args, 2)
        size = _place(args[1], f"an argument of `{name}`")
        if _constant(size) is None:
            size = _within(size, -FAR, FAR)
        return Call("text", name, (as_text(args[0], f"`{name}`"), size))

    return build


def split_part(args: Sequence[Expr]) -> Expr:
    """split_part(text, delimiter, n); without a delimiter the text is its only field."""
    check_count("split_part", args, 3)
    value, mark = as_text(args[0], "`split_part`"), as_text(args[1], "`split_part`")
    index = _place(args[2], "the field of `split_part`")
    known = _constant(index)
    if known == 0:
        raise Refusal(INVALID_PARAMETER_VALUE, "field position must not be zero")
    if isinstance(mark, Lit) and not mark.text:
        raise unsupported("`split_part` with an empty delimiter")
    place = index if known is not None else Call("int4", "nullif", (_within(index, -FAR, FAR), _ZERO))
    part = Call("text", "split_part", (value, mark, place))
    whens: list[tuple[Expr, Expr]] = []
    if known is None:
        missing = Call("bool", "or", (compare("=", index, _ZERO), Call("bool", "is_null", (index,))))
        whens.append((missing, Lit("text", None)))
    if not isinstance(mark, Lit):
        empty = compare("=", mark, Lit("text", ""))
        only = Call("bool", "or", (compare("=", index, _ONE), compare("=", index, Lit("int4", "-1"))))
        whens += [(Call("bool", "and", (empty, only)), value), (empty, Lit("text", ""))]
    return Case("text", tuple(whens), part) if whens else part


FUNCTIONS: dict[str, Builder] = {
    "substr": substring, "substring": substring, "left": _side("left"), "right": _side("right"), "split_part": split_part,
}  # fmt: skip

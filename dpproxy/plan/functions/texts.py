"""Text functions of the allow-list that are more than a name and its arguments.

Knows: PostgreSQL's meaning of them. Must not know: engines. Most are spelled with functions the engines already have; a text
that could grow without limit is bounded by a constant.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.errors import INVALID_PARAMETER_VALUE, PROGRAM_LIMIT_EXCEEDED, SUBSTRING_ERROR, Refusal
from dpproxy.plan.functions.operators import as_text, coerce, compare, literal_text, minus, multiply, plus
from dpproxy.plan.functions.scalars import boolean_letter
from dpproxy.plan.refusals import OTHER_ARGUMENTS, unsupported
from dpproxy.sql.types import TEXTS
from dpproxy.tree.expr import Call, Case, Cast, Expr, Lit, walk

MAX_REPEATS = 1000
MAX_FIELDS = 100


def _printed(value: Expr) -> Expr:
    """As format and concat_ws write it."""
    value = boolean_letter(coerce(value, "text"))
    return value if value.type in TEXTS else Cast("text", value)


def whole_number(value: Expr, what: str) -> int:
    text = literal_text(coerce(value, "int4"), what)
    try:
        return int(text)
    except ValueError:
        raise unsupported(f"{what} that is not a whole number") from None


def concat_ws(args: Sequence[Expr]) -> Expr:
    """Separator, then texts of which NULLs are left out."""
    if len(args) < 2:
        raise unsupported("`concat_ws` without texts")
    mark = Lit("text", literal_text(coerce(args[0], "text"), "the separator of `concat_ws`"))
    return Call("text", "concat_ws", (mark, *(_printed(a) for a in args[1:])))


def formatted(args: Sequence[Expr]) -> Expr:
    """Bind format(): %s and %% only; NULL is an empty text."""
    form = literal_text(coerce(args[0], "text"), "the text of `format`") if args else ""
    pieces = form.replace("%%", "\x01").split("%s")
    if any("%" in p for p in pieces):
        raise unsupported("`format` with other fields than %s", "Use `||`.")
    if len(pieces) > len(args):
        raise Refusal(INVALID_PARAMETER_VALUE, "too few arguments for format()")
    parts: list[Expr] = [Lit("text", pieces[0].replace("\x01", "%"))]
    for value, piece in zip(args[1:], pieces[1:], strict=False):
        parts.append(Call("text", "coalesce", (_printed(value), Lit("text", ""))))
        parts.append(Lit("text", piece.replace("\x01", "%")))
    return Call("text", "concat", tuple(parts))


def translate(args: Sequence[Expr]) -> Expr:
    if len(args) != 3:
        raise unsupported(f"`translate` with {len(args)} arguments", OTHER_ARGUMENTS)
    known = [Lit("text", literal_text(coerce(a, "text"), "an alphabet of `translate`")) for a in args[1:]]
    return Call("text", "translate", (as_text(args[0], "`translate`"), *known))


def overlay(args: Sequence[Expr]) -> Expr:
    """overlay(text placing new from start for length)"""
    if len(args) not in (3, 4):
        raise unsupported("`overlay` of this form")
    value, new = as_text(args[0], "`overlay`"), as_text(args[1], "`overlay`")
    start = whole_number(args[2], "the start of `overlay`")
    if len(args) == 3 and not isinstance(new, Lit):
        raise unsupported("`overlay` without a length", "Add FOR with a constant.")
    length = whole_number(args[3], "the length of `overlay`") if len(args) == 4 else len(getattr(new, "text", "") or "")
    if start < 1:
        raise Refusal(SUBSTRING_ERROR, "negative substring length not allowed")
    before = Call("text", "left", (value, Lit("int4", str(start - 1))))
    after = Call("text", "substring_from", (value, Lit("int4", str(max(start + length, 1)))))
    return Call("text", "concat", (before, new, after))


def repeat(args: Sequence[Expr]) -> Expr:
    if len(args) != 2:
        raise unsupported(f"`repeat` with {len(args)} arguments", OTHER_ARGUMENTS)
    times = max(whole_number(args[1], "the number of `repeat`"), 0)
    if times > MAX_REPEATS:
        raise unsupported(f"`repeat` more than {MAX_REPEATS} times", "Compare lengths instead: length(x).")
    if any(isinstance(e, Call) and e.op == "repeat" for e in walk(args[0])):
        raise unsupported("`repeat` within `repeat`")
    return Call("text", "repeat", (as_text(args[0], "`repeat`"), Lit("int4", str(times))))


def character(args: Sequence[Expr]) -> Expr:
    code = whole_number(args[0], "the argument of `chr`") if len(args) == 1 else 0
    if not 0 < code < 0x110000 or 0xD800 <= code < 0xE000:
        raise Refusal(PROGRAM_LIMIT_EXCEEDED, "requested character not valid for encoding")
    return Lit("text", chr(code))


# --- arrays that are made to be taken apart at once


def split_field(value: Expr, mark: Expr, index: int) -> Expr:
    """Bind (string_to_array(text, mark))[index]: NULL beyond the last field, also of an empty text."""
    if not 1 <= index <= MAX_FIELDS:
        raise unsupported(f"field {index} of `string_to_array`")
    fields = split_count(value, mark)
    part = Call("text", "split_part", (as_text(value, "`string_to_array`"), _mark(mark), Lit("int4", str(index))))
    return Case("text", ((compare(">=", fields, Lit("int4", str(index))), part),), None)


def split_count(value: Expr, mark: Expr) -> Expr:
    """Bind array_length(string_to_array(text, mark), 1): NULL for an empty text."""
    value, sign = as_text(value, "`string_to_array`"), _mark(mark)
    without = Call("int4", "length", (Call("text", "replace", (value, sign, Lit("text", ""))),))
    size = len(sign.text or "")
    found = multiply("/", minus(Call("int4", "length", (value,)), without), Lit("int4", str(size)))
    return Case("int4", ((compare("<>", value, Lit("text", "")), plus(found, Lit("int4", "1"))),), None)


def _mark(mark: Expr) -> Lit:
    text = literal_text(coerce(mark, "text"), "the delimiter of `string_to_array`")
    if not text:
        raise unsupported("`string_to_array` with an empty delimiter")
    return Lit("text", text)


FUNCTIONS = {
    "concat_ws": concat_ws, "format": formatted, "translate": translate, "overlay": overlay, "repeat": repeat,
    "chr": character,
}  # fmt: skip

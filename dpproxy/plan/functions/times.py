"""Dates and times on the allow-list: their fields (EXTRACT), ages, bins, and dates put together from numbers.

Knows: PostgreSQL's fields. Must not know: engines, formats, time zones. A field that engines lack is computed of one that all
have; what PostgreSQL would raise for is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.functions.operators import (
    check_count,
    coerce,
    compare,
    literal_text,
    minus,
    multiply,
    negate,
    plus,
    typed_literal,
)
from dpproxy.plan.functions.plain import Builder, plain, timestamp
from dpproxy.plan.operations.catalogue import CATALOGUE, operation
from dpproxy.plan.operations.units import UNITS, unit_name
from dpproxy.plan.refusals import CONSTANT, OTHER_TYPE, unsupported
from dpproxy.sql.translation import PARTS
from dpproxy.sql.types import TIMES
from dpproxy.tree.expr import Call, Case, Cast, Expr, Lit

_DERIVED = {"century": (99, 100), "millennium": (999, 1000)}
_JULIAN = "julian"


def _parts_of_second(unit: str) -> int:
    """How many of a unit are a second; 0 where it is no shorter."""
    known = UNITS.get(unit)
    return 10**6 // known.micros if known is not None and 0 < known.micros < 10**6 else 0


def _fields(type_: str) -> list[str]:
    """The fields that EXTRACT takes of a type."""
    known = [row.name for row in CATALOGUE.values() if row.field and row.accepts_first(type_)]
    return [*known, *(unit for unit in UNITS if _parts_of_second(unit) and operation("second").accepts_first(type_))]


def _known_fields() -> str:
    of_times = {*_fields("date"), *_fields("timestamp"), *_DERIVED}
    return f"Fields are {', '.join(sorted(of_times))}; of an interval {', '.join(sorted(_fields('interval')))}."


def extract(unit: str, value: Expr, *, result: str = "numeric") -> Expr:
    unit, value = unit_name(unit), coerce(value, "timestamp")
    per_second = _parts_of_second(unit)
    row = operation("second" if per_second else unit)
    if value.type == "interval" and not row.accepts_first("interval"):
        raise unsupported(f"EXTRACT({unit}) of an interval", _known_fields())
    if value.type == "time" and not row.accepts_first("time"):
        raise unsupported(f"EXTRACT({unit}) of a time", "Fields of a time are hour, minute, second, epoch.")
    if value.type not in (*TIMES, "interval", "time"):
        raise unsupported(f"EXTRACT of {value.type}", OTHER_TYPE)
    if value.type == "date" and row.field and not row.accepts_first("date"):
        value = Cast("timestamp", value)
    if per_second:
        seconds = multiply("*", Call("numeric", row.name, (value,)), Lit("int4", str(per_second)))
        return Cast(result, Call("numeric", "round", (seconds, Lit("int4", str(9 - len(str(per_second)))))))
    if row.field and not row.dense and row.step is None:  # it has a fraction
        return Call(result, unit, (value,))
    if unit == _JULIAN and value.type == "date":
        return Cast(result, plus(minus(value, Lit("date", "1970-01-01")), Lit("int4", "2440588")))
    # the engine yields a whole number; numeric (or float8, for date_part) is PostgreSQL's type of it
    return Cast(result, part(unit, value))


def part(unit: str, value: Expr) -> Expr:
    """Bind a field that is a whole number."""
    if operation(unit).field:
        return Call("int8", unit, (value,))
    year, zero = Call("int8", "year", (value,)), Lit("int8", "0")
    if unit == "decade":
        ten = Lit("int8", "10")
        before = multiply("/", minus(Lit("int8", "8"), year), ten)
        whens = ((compare(">", year, zero), multiply("/", year, ten)), (compare("<", year, zero), negate(before)))
        return Case("int8", whens, None)
    if unit in _DERIVED:  # centuries begin in the year 1
        rest, size = (Lit("int8", str(n)) for n in _DERIVED[unit])
        up, down = multiply("/", plus(year, rest), size), multiply("/", minus(rest, year), size)
        return Case("int8", ((compare(">", year, zero), up), (compare("<", year, zero), negate(down))), None)
    raise unsupported(f"EXTRACT({unit})", _known_fields())


def _date_part(args: Sequence[Expr]) -> Expr:
    check_count("date_part", args, 2)
    return extract(literal_text(args[0], "the unit of `date_part`"), args[1], result="float8")


def _part(name: str) -> Builder:
    """A part of a date as a function of its own, as other engines have it."""

    def build(args: Sequence[Expr]) -> Expr:
        check_count(name, args, 1)
        return Cast("int4", extract(name, coerce(args[0], "timestamp")))

    return build


def make_timestamp(args: Sequence[Expr]) -> Expr:
    """make_timestamp(year, month, day, hour, minute, second), the time of day a constant."""
    check_count("make_timestamp", args, 6)
    hour, minute, second = (literal_text(a, "the time of day of `make_timestamp`") for a in args[3:])
    if not all(part.isdigit() for part in (hour, minute, second)) or int(hour) > 24 or int(minute) > 59 or int(second) > 60:
        raise unsupported("`make_timestamp` with this time of day", "Use whole numbers, or date + time.")
    return plus(
        Cast("timestamp", plain("make_timestamp", operation("make_date"))(args[:3])),
        typed_literal("interval", f"{hour} hours {minute} minutes {second} seconds"),
    )


# --- putting together, ages, bins


def date_bin(args: Sequence[Expr]) -> Expr:
    check_count("date_bin", args, 3)
    stride, value = coerce(args[0], "interval"), timestamp(args[1], "`date_bin`")
    origin = coerce(args[2], "timestamp")
    if isinstance(origin, Lit) and origin.type == "date":
        origin = typed_literal("timestamp", origin.text)
    if not isinstance(stride, Lit) or not isinstance(origin, Lit) or not stride.text or not origin.text:
        raise unsupported("`date_bin` of a stride or origin that is not constant", CONSTANT)
    months, days, micros = (int(x) for x in stride.text.split())
    if months or days * 86400 * 10**6 + micros <= 0:
        raise Refusal(
            FEATURE_NOT_SUPPORTED, "timestamps cannot be binned into intervals containing months or years", hint="Use date_trunc."
        )
    type_ = "timestamptz" if value.type == "timestamptz" else "timestamp"
    return Call(type_, "date_bin", (stride, value, Lit("timestamp", origin.text)))


def make_interval(named: Sequence[tuple[str, Expr]]) -> Expr:
    """make_interval(days => n): one field, or several that are constants."""
    total: Expr | None = None
    for name, value in named:
        unit = UNITS.get(unit_name(name))
        if unit is None:
            raise unsupported(f"`make_interval` with {name}")
        one = multiply("*", coerce(value, "int4"), Lit("interval", " ".join(map(str, unit.interval))))
        total = one if total is None else plus(total, one)
    if total is None:
        raise unsupported("`make_interval` without named fields", "Name the field: make_interval(days => n).")
    return total


FUNCTIONS: dict[str, Builder] = {
    "date_part": _date_part, "make_timestamp": make_timestamp,
    **{name: _part(name) for name in PARTS}, "date_bin": date_bin,
}  # fmt: skip

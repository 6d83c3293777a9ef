"""Dates and times on the allow-list: EXTRACT, to_char, to_date, ages, bins, zones.

Knows: PostgreSQL's fields and formats. Must not know: engines. A format is taken apart here into pieces every engine can print, a
date in a text is put together again as ISO: what does not have the form is NULL, where PostgreSQL would raise (or guess).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.functions import time_zones
from dpproxy.plan.functions.numbers import number_format
from dpproxy.plan.functions.patterns import regex
from dpproxy.plan.functions.scalars import (
    Builder,
    as_text,
    coerce,
    compare,
    literal_text,
    minus,
    multiply,
    negate,
    plus,
    typed_literal,
)
from dpproxy.plan.logical.expr import (
    Call,
    Case,
    Cast,
    Expr,
    Lit,
)
from dpproxy.plan.refusals import unsupported
from dpproxy.sql.strftime import PARTS, as_to_char
from dpproxy.sql.types import INTEGERS, NUMBERS, TIMES

_WHOLE = {"year", "month", "day", "quarter", "dow", "isodow", "doy", "week", "hour", "minute", "isoyear"}
_DERIVED = {"century": (99, 100), "millennium": (999, 1000)}
_FRACTIONS = {"milliseconds": 1000, "microseconds": 10**6}
_OF_INTERVALS = {"year", "month", "day", "hour", "minute", "second", "epoch", "milliseconds", "microseconds"}
_OF_TIMES = {"hour", "minute", "second", "epoch", "milliseconds", "microseconds"}
_ALIASES = {"millisecond": "milliseconds", "microsecond": "microseconds", "century": "century", "hr": "hour", "min": "minute",
            "sec": "second", "mon": "month", "centuries": "century", "millennia": "millennium"}  # fmt: skip


def timestamp(value: Expr, what: str) -> Expr:
    """A date or timestamp as a timestamp."""
    value = coerce(value, "timestamp")
    if value.type not in TIMES:
        raise unsupported(f"{what} of {value.type}")
    return value if value.type != "date" else Cast("timestamp", value)


def extract(unit: str, value: Expr, *, result: str = "numeric") -> Expr:
    unit = unit.lower()
    unit = _ALIASES.get(unit, unit[:-1] if unit.endswith("s") and unit[:-1] in _WHOLE | {"second", "decade"} else unit)
    value = coerce(value, "timestamp")
    if value.type == "interval" and unit not in _OF_INTERVALS:
        raise unsupported(f"EXTRACT({unit}) of an interval")
    if value.type == "time" and unit not in _OF_TIMES:
        raise unsupported(f"EXTRACT({unit}) of a time")
    if value.type not in (*TIMES, "interval", "time"):
        raise unsupported(f"EXTRACT of {value.type}")
    if unit in _OF_TIMES - {"epoch"} and value.type == "date":
        value = Cast("timestamp", value)
    if unit in ("epoch", "second"):
        return Call(result, unit, (value,))
    if unit in _FRACTIONS:
        seconds = multiply("*", Call("numeric", "second", (value,)), Lit("int4", str(_FRACTIONS[unit])))
        return Cast(result, Call("numeric", "round", (seconds, Lit("int4", str(9 - len(str(_FRACTIONS[unit])))))))
    if unit == "julian" and value.type == "date":
        return Cast(result, plus(minus(value, Lit("date", "1970-01-01")), Lit("int4", "2440588")))
    # the engine yields a whole number; numeric (or float8, for date_part) is PostgreSQL's type of it
    return Cast(result, part(unit, value))


def part(unit: str, value: Expr) -> Expr:
    """A field that is a whole number."""
    if unit in _WHOLE:
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
    raise unsupported(f"EXTRACT({unit})")


def _date_part(args: Sequence[Expr]) -> Expr:
    _count("date_part", args, 2)
    return extract(literal_text(args[0], "the unit of `date_part`"), args[1], result="float8")


def _count(name: str, args: Sequence[Expr], *counts: int) -> None:
    if len(args) not in counts:
        raise unsupported(f"`{name}` with {len(args)} arguments")


# --- to_char

_TOKEN = re.compile(
    r"(FM|fm)?(HH24|HH12|HH|MI|SS|IYYY|YYYY|YY|IW|WW|W(?![A-Za-z])|DDD|MM|Q|ID|AM|PM|DD|D(?![A-Za-z])|MONTH|DAY|MON|DY)"
    r'|"([^"]*)"|([-/:., _()0-9]+)',
    re.IGNORECASE,
)
_PRINTED = {"YYYY": "%Y", "YY": "%y", "MM": "%m", "DD": "%d", "HH24": "%H", "MI": "%M", "SS": "%S"}
_NUMBERS = {"MM": ("month", 2), "DD": ("day", 2), "HH24": ("hour", 2), "MI": ("minute", 2), "IW": ("week", 2),
            "IYYY": ("isoyear", 4), "DDD": ("doy", 3), "Q": ("quarter", 1), "ID": ("isodow", 1)}  # fmt: skip
_NAMED = {"MONTH": "%B", "MON": "%b", "DAY": "%A", "DY": "%a"}


def to_char(args: Sequence[Expr]) -> Expr:
    _count("to_char", args, 2)
    value, form = coerce(args[0], "timestamp"), literal_text(coerce(args[1], "text"), "the format of `to_char`")
    if value.type in NUMBERS and (found := number_format(value, form)) is not None:
        return found
    if value.type not in TIMES or not form:
        hint = "Group by the number and format the released key." if value.type in NUMBERS else _LATER
        raise unsupported(f"`to_char` of {value.type} with format '{form}'", hint)
    stamp, pieces, at = timestamp(value, "`to_char`"), [], 0
    for match in _TOKEN.finditer(form):
        if match.start() != at:
            break
        at = match.end()
        pieces.append(_piece(stamp, match))
    if at != len(form):
        raise unsupported(f"`to_char` with format '{form}'", _LATER)
    return _joined(stamp, pieces)


def strftime(args: Sequence[Expr]) -> Expr:
    """to_char as other engines have it; some have the format first."""
    _count("strftime", args, 2)
    form, value = args if isinstance(args[0], Lit) and "%" in (args[0].text or "") else args[::-1]
    wanted = literal_text(coerce(form, "text"), "the format of `strftime`")
    known = as_to_char(wanted)
    if known is None:
        raise unsupported(f"`strftime` with format '{wanted}'", _LATER)
    return to_char((value, Lit("text", known)))


def _part(name: str) -> Builder:
    """A part of a date as a function of its own, as other engines have it."""

    def build(args: Sequence[Expr]) -> Expr:
        _count(name, args, 1)
        return Cast("int4", extract(name, coerce(args[0], "timestamp")))

    return build


def make_timestamp(args: Sequence[Expr]) -> Expr:
    """make_timestamp(year, month, day, hour, minute, second), the time of day a constant."""
    _count("make_timestamp", args, 6)
    hour, minute, second = (literal_text(a, "the time of day of `make_timestamp`") for a in args[3:])
    if not all(part.isdigit() for part in (hour, minute, second)) or int(hour) > 24 or int(minute) > 59 or int(second) > 60:
        raise unsupported("`make_timestamp` with this time of day", "Use whole numbers, or date + time.")
    return plus(
        Cast("timestamp", make_date(args[:3])), typed_literal("interval", f"{hour} hours {minute} minutes {second} seconds")
    )


_LATER = "Group by date_trunc(...) and format the released key."


def _piece(stamp: Expr, match: re.Match[str]) -> str | Expr:
    """Of strftime where it can print the field, else an expression."""
    bare, token, quoted, marks = match.group(1), match.group(2), match.group(3), match.group(4)
    if quoted is not None:
        return Lit("text", quoted)
    if token is None:
        return marks if not set(marks) - set("-/: ") else Lit("text", marks)
    name = token.upper()
    if name in _NAMED:
        text: Expr = Call("text", "strftime", (stamp, Lit("text", _NAMED[name])))
        if token.isupper():
            text = Call("text", "upper", (text,))
        elif token.islower():
            text = Call("text", "lower", (text,))
        elif bare or name in ("MON", "DY"):
            return _NAMED[name]
        return text if bare or name in ("MON", "DY") else Call("text", "rpad", (text, Lit("int4", "9"), Lit("text", " ")))
    if name in ("AM", "PM"):
        morning = compare("<", Call("int8", "hour", (stamp,)), Lit("int8", "12"))
        words = [w.lower() if token.islower() else w for w in ("AM", "PM")]
        afternoon = Call("bool", "not", (morning,))
        return Case("text", ((morning, Lit("text", words[0])), (afternoon, Lit("text", words[1]))), None)
    if name in _PRINTED and not bare:
        return _PRINTED[name]
    return _digits(stamp, name, bool(bare))


def _digits(stamp: Expr, name: str, bare: bool) -> Expr:
    one = Lit("int8", "1")
    if name in ("HH", "HH12"):
        hour = plus(Call("int8", "hour", (stamp,)), Lit("int8", "11"))
        number, width = plus(multiply("%", hour, Lit("int8", "12")), one), 2
    elif name == "D":
        number, width = plus(Call("int8", "dow", (stamp,)), one), 1
    elif name == "WW":
        number, width = plus(multiply("/", minus(Call("int8", "doy", (stamp,)), one), Lit("int8", "7")), one), 2
    elif name == "W":
        number, width = plus(multiply("/", minus(Call("int8", "day", (stamp,)), one), Lit("int8", "7")), one), 1
    elif name in _NUMBERS:
        unit, width = _NUMBERS[name]
        number = Call("int8", unit, (stamp,))
    else:
        raise unsupported(f"`to_char` with format 'FM{name}'", _LATER)
    text = Cast("text", number)
    return text if bare or width == 1 else Call("text", "lpad", (text, Lit("int4", str(width)), Lit("text", "0")))


def _joined(stamp: Expr, pieces: list[str | Expr]) -> Expr:
    parts: list[Expr] = []
    run = ""
    for piece in [*pieces, Lit("text", "")]:
        if isinstance(piece, str):
            run += piece
            continue
        if run:
            parts.append(Call("text", "strftime", (stamp, Lit("text", run))) if "%" in run else Lit("text", run))
            run = ""
        if piece != Lit("text", ""):
            parts.append(piece)
    return parts[0] if len(parts) == 1 else Call("text", "concat", tuple(parts))


# --- texts that are dates

_DATES = {
    "YYYY-MM-DD": r"^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}$", "YYYY/MM/DD": r"^[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}$",
    "DD/MM/YYYY": r"^[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}$", "MM/DD/YYYY": r"^[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}$",
    "DD-MM-YYYY": r"^[0-9]{1,2}-[0-9]{1,2}-[0-9]{4}$", "DD.MM.YYYY": r"^[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}$",
    "YYYYMMDD": r"^[0-9]{8}$", "YYYY-MM": r"^[0-9]{4}-[0-9]{1,2}$",
}  # fmt: skip
_CLOCK = r"[ T][0-9]{2}:[0-9]{2}:[0-9]{2}"


def to_date(args: Sequence[Expr]) -> Expr:
    _count("to_date", args, 2)
    return Cast("date", _iso("to_date", args[0], args[1]))


def to_timestamp(args: Sequence[Expr]) -> Expr:
    """Of seconds since 1970, or of a text and its format."""
    _count("to_timestamp", args, 1, 2)
    if len(args) == 1:
        seconds = coerce(args[0], "float8")
        if seconds.type not in NUMBERS:
            raise unsupported(f"`to_timestamp` of {seconds.type}")
        return Call("timestamptz", "from_epoch", (seconds if seconds.type == "float8" else Cast("float8", seconds),))
    return Cast("timestamptz", Cast("timestamp", _iso("to_timestamp", args[0], args[1])))


def _iso(name: str, value: Expr, form: Expr) -> Expr:
    """The text as an ISO date (and time); NULL where it does not have the form."""
    value, text = as_text(value, f"`{name}`"), literal_text(coerce(form, "text"), f"the format of `{name}`")
    date, clock, _ = text.partition(" HH24:MI:SS")
    pattern = _DATES.get(date.upper())
    if pattern is None or (clock and name == "to_date") or date + clock != text:
        known = ", ".join(_DATES)
        raise unsupported(f"`{name}` with format '{text}'", f"Formats: {known}; with HH24:MI:SS behind for to_timestamp.")
    fits = regex("regex", value, Lit("text", pattern[:-1] + _CLOCK + "$" if clock else pattern))
    parts: tuple[Expr, ...] = tuple(_field(value, date.upper(), f) for f in ("YYYY", "MM", "DD"))
    dashed = [p for i, part_ in enumerate(parts) for p in ((Lit("text", "-"), part_) if i else (part_,))]
    if clock:
        dashed += [Lit("text", " "), Call("text", "right", (value, Lit("int4", "8")))]
    return Case("text", ((fits, Call("text", "concat", tuple(dashed))),), None)


def _field(value: Expr, form: str, name: str) -> Expr:
    marks = [c for c in form if not c.isalpha()]
    if name not in form:
        return Lit("text", "01")
    if not marks:
        at = form.index(name) + 1
        return Call("text", "substring", (value, Lit("int4", str(at)), Lit("int4", str(len(name)))))
    field_ = str(form.split(marks[0]).index(name) + 1)
    day = Call("text", "split_part", (value, Lit("text", marks[0]), Lit("int4", field_)))
    width = len(name) if field_ == str(len(marks) + 1) else 0  # a time may follow the last field
    return Call("text", "split_part", (day, Lit("text", " "), Lit("int4", "1"))) if width else day


# --- putting together, ages, bins


def make_date(args: Sequence[Expr]) -> Expr:
    _count("make_date", args, 3)
    parts = [coerce(a, "int4") for a in args]
    if any(p.type not in NUMBERS for p in parts):
        raise unsupported("`make_date` of other than numbers")
    return Call("date", "make_date", tuple(p if p.type in INTEGERS else Cast("int4", p) for p in parts))


def age(later: Expr, earlier: Expr) -> Expr:
    return Call("interval", "age", (timestamp(later, "`age`"), timestamp(earlier, "`age`")))


def date_bin(args: Sequence[Expr]) -> Expr:
    _count("date_bin", args, 3)
    stride, value = coerce(args[0], "interval"), timestamp(args[1], "`date_bin`")
    origin = coerce(args[2], "timestamp")
    if isinstance(origin, Lit) and origin.type == "date":
        origin = typed_literal("timestamp", origin.text)
    if not isinstance(stride, Lit) or not isinstance(origin, Lit) or not stride.text or not origin.text:
        raise unsupported("`date_bin` of a stride or origin that is not constant")
    months, days, micros = (int(x) for x in stride.text.split())
    if months or days * 86400 * 10**6 + micros <= 0:
        raise Refusal(
            FEATURE_NOT_SUPPORTED, "timestamps cannot be binned into intervals containing months or years", hint="Use date_trunc."
        )
    type_ = "timestamptz" if value.type == "timestamptz" else "timestamp"
    return Call(type_, "date_bin", (stride, value, Lit("timestamp", origin.text)))


_MAKES = {"years": "1 year", "months": "1 month", "weeks": "7 days", "days": "1 day", "hours": "1 hour", "mins": "1 minute",
          "secs": "1 second"}  # fmt: skip


def make_interval(named: Sequence[tuple[str, Expr]]) -> Expr:
    """make_interval(days => n): one field, or several that are constants."""
    total: Expr | None = None
    for name, value in named:
        if name not in _MAKES:
            raise unsupported(f"`make_interval` with {name}")
        one = multiply("*", coerce(value, "int4"), typed_literal("interval", _MAKES[name]))
        total = one if total is None else plus(total, one)
    if total is None:
        raise unsupported("`make_interval` without named fields", "Name the field: make_interval(days => n).")
    return total


# --- zones


def at_time_zone(value: Expr, zone: Expr, session: str | None) -> Expr:
    """Of a timestamp, the instant it is in the zone; of an instant, the zone's local timestamp."""
    name = literal_text(coerce(zone, "text"), "a time zone")
    if name.upper() in ("UTC", "GMT"):
        name = "UTC"
    elif not time_zones.is_known_zone(name):
        raise unsupported(f"the time zone '{name}'", "Use a zone's full name, such as 'Europe/Paris', or 'UTC'.")
    value = coerce(value, "timestamptz")
    if value.type not in TIMES:
        raise unsupported(f"AT TIME ZONE of {value.type}")
    if value.type in ("timestamptz", "date"):  # a date is taken for its midnight, an instant
        return Call("timestamp", "from_utc", (time_zones.instant(timestamp(value, "AT TIME ZONE"), session), Lit("text", name)))
    return time_zones.local_time(Call("timestamptz", "to_utc", (timestamp(value, "AT TIME ZONE"), Lit("text", name))), session)


def shifted_instant(operation: Callable[[Expr, Expr], Expr], a: Expr, b: Expr, zone: str | None) -> Expr:
    """`a + b` or `a - b`, one of them an instant: days and months are added to what the clock shows, hours to the instant."""
    if zone is None:
        return operation(a, b)
    if a.type in TIMES and b.type in TIMES:
        return operation(time_zones.instant(a, zone), time_zones.instant(b, zone))
    (moment, span) = (a, coerce(b, "interval")) if a.type in TIMES else (coerce(a, "interval"), b)
    constant = moment if moment.type not in TIMES else span
    if isinstance(constant, Call) and constant.op == "interval_times":
        constant = constant.args[1]
    days, hours = _pieces(constant)
    if (days and hours) or not isinstance(constant, Lit):
        raise unsupported(
            f"an interval of both days and hours, in the time zone {zone},", "Add the days first; or SET TimeZone = 'UTC'."
        )
    if not hours:
        return operation(moment, span)
    return time_zones.local_time(
        operation(*(time_zones.instant(e, zone) if e.type in TIMES else e for e in (moment, span))), zone
    )


def _pieces(interval: Expr) -> tuple[bool, bool]:
    """Whether a constant interval has days or months, and hours or less."""
    if not isinstance(interval, Lit) or interval.text is None:
        return False, False
    months, days, micros = (int(x) for x in interval.text.split())
    return bool(months or days), bool(micros)


def _zoned_part(args: Sequence[Expr], zone: str) -> Expr:
    _count("date_part", args, 2)
    unit = literal_text(args[0], "the unit of `date_part`")
    return extract(unit, of_instant(unit, args[1], zone), result="float8")


def of_instant(unit: str, value: Expr, zone: str | None) -> Expr:
    """What EXTRACT looks at: what the clock shows, but for the epoch."""
    return time_zones.instant(value, zone) if unit.lower() == "epoch" and value.type == "timestamptz" else value


def _zoned_moment(args: Sequence[Expr], zone: str) -> Expr:
    made = to_timestamp(args)
    return time_zones.local_time(made, zone) if len(args) == 1 else made


def _zoned_bin(args: Sequence[Expr], zone: str) -> Expr:
    raise unsupported("`date_bin` of instants in another time zone than UTC", "SET TimeZone = 'UTC'; or use date_trunc().")


ZONED: dict[str, Callable[[Sequence[Expr], str], Expr]] = {
    "date_part": _zoned_part, "to_timestamp": _zoned_moment, "date_bin": _zoned_bin,
    "timezone": lambda args, zone: at_time_zone(args[1], args[0], zone) if len(args) == 2 else _timezone(args),
}  # fmt: skip
"""Functions of instants, or that make them, in a session whose time zone is not UTC."""


def _isfinite(args: Sequence[Expr]) -> Expr:
    _count("isfinite", args, 1)
    value = coerce(args[0], "timestamp")
    if value.type not in TIMES:
        raise unsupported(f"`isfinite` of {value.type}")
    return Call("bool", "isfinite", (value,))


def _age(args: Sequence[Expr]) -> Expr:
    _count("age", args, 2)
    return age(*args)


def _timezone(args: Sequence[Expr]) -> Expr:
    _count("timezone", args, 2)
    return at_time_zone(args[1], args[0], None)


FUNCTIONS: dict[str, Builder] = {
    "date_part": _date_part, "to_char": to_char, "to_date": to_date, "to_timestamp": to_timestamp, "make_date": make_date,
    "date_from_parts": make_date, "strftime": strftime, "make_timestamp": make_timestamp, **{name: _part(name) for name in PARTS},
    "age": _age, "date_bin": date_bin, "isfinite": _isfinite, "timezone": _timezone,
}  # fmt: skip

"""Times made of constants, computed while planning as PostgreSQL does it: `now() - interval '13 months'`, `current_date - 90`.

Knows: literals of dates, timestamps and intervals, time zones. Must not know: clocks, engines, columns. A comparison with a
constant narrows the declared days of a column and names what is measured, so an expression of constants has to become one.
What is not computed here (years outside 1 to 9999, forms without a rule, NULL) stays an expression, and the engine computes it.

A literal is `moving` when its value changes within the day (`Lit.moving`): a measurement that it is part of is another one each
time. What is cut to whole days, or to hours or minutes because the analyst says so, moves no more.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
import zoneinfo
from collections.abc import Callable, Sequence
from dataclasses import replace

from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.operation import Test
from dpproxy.plan.operations.units import start_of
from dpproxy.sql.types import INTEGERS, TIMES
from dpproxy.tree.expr import Call, Cast, Expr, Lit, rebuilt

_STAMPS = ("timestamp", "timestamptz")
_MICRO = dt.timedelta(microseconds=1)
_DAY_MICROS = 86_400 * 10**6
Interval = tuple[int, int, int]
"""Months, days, microseconds."""


def folded(expr: Expr) -> Expr:
    """Return the constant that an expression of constant times comes to; the expression itself where none is known."""
    if not isinstance(expr, Call | Cast) or not _of_literals(expr):
        return expr
    inner = rebuilt(expr, folded)
    found = _of_call(inner) if isinstance(inner, Call) else _of_cast(inner) if isinstance(inner, Cast) else None
    return inner if found is None else found


def _of_literals(expr: Expr) -> bool:
    if isinstance(expr, Lit):
        return expr.text is not None
    parts = expr.args if isinstance(expr, Call) else (expr.arg,) if isinstance(expr, Cast) else ()
    return bool(parts) and all(map(_of_literals, parts))


def stamp_of(constant: Expr) -> dt.datetime | None:
    """Return a constant date (its midnight) or timestamp as a value; None for other expressions."""
    if not isinstance(constant, Lit) or constant.text is None or constant.type not in TIMES:
        return None
    try:
        return dt.datetime.fromisoformat(constant.text)
    except ValueError:
        return None


def literal(type_: str, stamp: dt.datetime, *, moving: bool = False) -> Lit:
    """Write a value as a constant of a type of time."""
    return Lit(type_, stamp.date().isoformat() if type_ == "date" else stamp.isoformat(sep=" "), moving)


_SMALL = {"int2": 2**15, "int4": 2**31, "int8": 2**31, "numeric": 2**31, "float8": 2**31}
"""Below these a whole number is of the type, as it is."""


def _of_cast(expr: Cast) -> Expr | None:
    arg = expr.arg
    if isinstance(arg, Lit) and arg.type in INTEGERS and expr.type in _SMALL and not expr.length:  # a field that EXTRACT gave
        return Lit(expr.type, arg.text) if abs(int(arg.text or 0)) < _SMALL[expr.type] else None
    if isinstance(arg, Lit) and arg.type == "numeric" and expr.type in INTEGERS and (arg.text or "").isdigit():
        return Lit(expr.type, arg.text) if int(arg.text or 0) < _SMALL[expr.type] else None
    stamp = stamp_of(arg)
    if stamp is None or expr.type not in TIMES or expr.length or not isinstance(arg, Lit):
        return None
    return literal(expr.type, stamp, moving=arg.moving and expr.type != "date")


def _of_call(expr: Call) -> Expr | None:
    literals = [a for a in expr.args if isinstance(a, Lit)]
    rule = _RULES.get(expr.op)
    if rule is None or len(literals) < len(expr.args):
        return None
    try:
        found = rule(expr, literals)
    except (ValueError, OverflowError):
        return None
    moving = any(a.moving for a in literals) and expr.op not in _CUTTING
    return found if found is None or found.moving == moving else replace(found, moving=moving)


# --- rules: a call and its literals to a literal


def _shifted(expr: Call, literals: Sequence[Lit]) -> Lit | None:
    """A timestamp plus or minus an interval: months first, on the last day where a month is too short, then days, then time."""
    stamp, span = stamp_of(literals[0]), interval_of(literals[1])
    if stamp is None or span is None:
        return None
    sign = 1 if expr.op == "ts_add" else -1
    months, days, micros = (sign * part for part in span)
    return literal(expr.type, _months_later(stamp, months) + dt.timedelta(days=days) + micros * _MICRO)


def _months_later(stamp: dt.datetime, months: int) -> dt.datetime:
    year, month = divmod(stamp.year * 12 + stamp.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise ValueError(year)
    return stamp.replace(year=year, month=month + 1, day=min(stamp.day, calendar.monthrange(year, month + 1)[1]))


def interval_of(constant: Expr) -> Interval | None:
    """Return a constant interval's months, days and microseconds."""
    if not isinstance(constant, Lit) or constant.type != "interval" or constant.text is None:
        return None
    months, days, micros = map(int, constant.text.split())
    return months, days, micros


def _day_shifted(expr: Call, literals: Sequence[Lit]) -> Lit | None:
    stamp, days = stamp_of(literals[0]), literals[1]
    if stamp is None or days.type not in INTEGERS or days.text is None:
        return None
    return literal("date", stamp + (1 if expr.op == "date_add" else -1) * dt.timedelta(days=int(days.text)))


def _days_between(expr: Call, literals: Sequence[Lit]) -> Lit | None:
    later, earlier = stamp_of(literals[0]), stamp_of(literals[1])
    return None if later is None or earlier is None else Lit("int4", str((later - earlier).days))


def _time_between(expr: Call, literals: Sequence[Lit]) -> Lit | None:
    """Days and a time of less than a day, both of one sign."""
    later, earlier = stamp_of(literals[0]), stamp_of(literals[1])
    if later is None or earlier is None:
        return None
    micros = (later - earlier) // _MICRO
    days, rest = divmod(abs(micros), _DAY_MICROS)
    sign = 1 if micros >= 0 else -1
    return Lit("interval", f"0 {sign * days} {sign * rest}")


def _truncated(expr: Call, literals: Sequence[Lit]) -> Lit | None:
    stamp = stamp_of(literals[1])
    start = None if stamp is None else start_of(stamp, literals[0].text or "")
    return None if start is None else literal(expr.type, start)


_FIELDS: dict[str, Callable[[dt.datetime], int]] = {
    "year": lambda t: t.year, "month": lambda t: t.month, "day": lambda t: t.day, "hour": lambda t: t.hour,
    "minute": lambda t: t.minute, "quarter": lambda t: (t.month + 2) // 3, "dow": lambda t: t.isoweekday() % 7,
    "isodow": lambda t: t.isoweekday(), "doy": lambda t: t.timetuple().tm_yday, "week": lambda t: t.isocalendar()[1],
    "isoyear": lambda t: t.isocalendar()[0],
}  # fmt: skip


def _field(expr: Call, literals: Sequence[Lit]) -> Lit | None:
    stamp = stamp_of(literals[0])
    return None if stamp is None else Lit("int8", str(_FIELDS[expr.op](stamp)))


_PRINTED = {"%Y": "{0.year:04}", "%m": "{0.month:02}", "%d": "{0.day:02}", "%H": "{0.hour:02}", "%M": "{0.minute:02}",
            "%S": "{0.second:02}"}  # fmt: skip


def _printed(expr: Call, literals: Sequence[Lit]) -> Lit | None:
    """strftime() of digits; names of months and days are the engine's."""
    stamp, pattern = stamp_of(literals[0]), literals[1].text or ""
    for code, form in _PRINTED.items():
        pattern = pattern.replace(code, form)
    return None if stamp is None or "%" in pattern else Lit("text", pattern.format(stamp))


def _from_utc(expr: Call, literals: Sequence[Lit]) -> Lit | None:
    stamp, zone = stamp_of(literals[0]), zoneinfo.ZoneInfo(literals[1].text or "")
    return None if stamp is None else literal(expr.type, stamp.replace(tzinfo=dt.UTC).astimezone(zone).replace(tzinfo=None))


def _to_utc(expr: Call, literals: Sequence[Lit]) -> Lit | None:
    """What clocks show twice is the second time; what they skip is counted on from the time before."""
    stamp, zone = stamp_of(literals[0]), zoneinfo.ZoneInfo(literals[1].text or "")
    if stamp is None:
        return None
    first, second = (stamp.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    before, after = first.utcoffset(), second.utcoffset()
    assert before is not None
    assert after is not None
    return literal(expr.type, stamp - min(before, after))


def _made(expr: Call, literals: Sequence[Lit]) -> Lit | None:
    year, month, day = (int(a.text or "") for a in literals)
    return literal("date", dt.datetime(year, month, day))


def _compared(expr: Call, literals: Sequence[Lit]) -> Lit | None:
    a, b = map(stamp_of, literals)
    if a is None or b is None:
        return None
    said = {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[expr.op]
    return Lit("bool", "true" if said else "false")


_CUTTING = {"trunc_time", *_FIELDS, "strftime", "date_diff", "=", "<>", "<", "<=", ">", ">="}
"""What is left of a time of day after these is what the analyst asked for, or a truth that seldom changes."""
_RULES: dict[str, Callable[[Call, Sequence[Lit]], Lit | None]] = {
    "ts_add": _shifted, "ts_sub": _shifted, "date_add": _day_shifted, "date_sub": _day_shifted, "date_diff": _days_between,
    "ts_diff": _time_between, "trunc_time": _truncated, "strftime": _printed, "from_utc": _from_utc, "to_utc": _to_utc,
    "make_date": _made, **dict.fromkeys(_FIELDS, _field), **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _compared),
}  # fmt: skip


# --- texts read by a format

_CODES = {"YYYY": (r"\d{4}", "%Y"), "MM": (r"\d\d", "%m"), "DD": (r"\d\d", "%d"), "HH24": (r"\d\d", "%H"),
          "MI": (r"\d\d", "%M"), "SS": (r"\d\d", "%S"), "US": (r"\d{6}", "%f"), "MS": (r"\d{3}", "%f")}  # fmt: skip
_FORMAT = re.compile(r"YYYY|HH24|MM|DD|MI|SS|US|MS|([-/:. ])", re.IGNORECASE)


def read_time(type_: str, text: str, form: str) -> Lit | None:
    """Return what to_date() or to_timestamp() make of a text that has every digit its format asks for; None for other texts,
    which PostgreSQL reads, or refuses, in ways of its own."""
    tokens = [m.group().upper() for m in _FORMAT.finditer(form)]
    known = [_CODES.get(token, (re.escape(token), token)) for token in tokens]
    digits = [token for token in tokens if token in _CODES]
    if "".join(tokens) != form.upper() or "YYYY" not in tokens or len(set(digits)) < len(digits):
        return None
    if re.fullmatch("".join(pattern for pattern, _ in known), text, re.ASCII) is None:
        return None
    try:
        stamp = dt.datetime.strptime(text, "".join(code for _, code in known))
    except ValueError:
        return None
    return literal(type_, stamp)


# --- a column beside a constant of another type of time

_DAY = dt.timedelta(days=1)


def beside_column(op: str, a: Expr, b: Expr) -> tuple[str, Expr, Expr]:
    """Return a comparison whose constant has the type of what it is compared with, where that is the same for every value.

    A date is after a moment when it is after the moment's day, so the moment becomes a day, and moves no more.
    """
    if isinstance(a, Lit) and not isinstance(b, Lit) and _orders(op):
        mirrored, other, constant = beside_column(operation(op).mirrored, b, a)
        return operation(mirrored).mirrored, constant, other
    stamp = stamp_of(b)
    if stamp is None or not isinstance(b, Lit) or isinstance(a, Lit):
        return op, a, b
    if a.type in _STAMPS:
        return op, a, literal(a.type, stamp, moving=b.moving) if b.type != a.type else b
    if a.type != "date" or b.type not in _STAMPS or not _orders(op):
        return op, a, b
    day = stamp.replace(hour=0, minute=0, second=0, microsecond=0)
    if day == stamp:
        return op, a, literal("date", day)
    return {">=": ">", ">": ">", "<": "<=", "<=": "<="}[op], a, literal("date", day)


def _orders(op: str) -> bool:
    return operation(op).test is Test.ORDER

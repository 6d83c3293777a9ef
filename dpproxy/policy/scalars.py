"""Scalars of a policy: text to numbers, dates, amounts of budget, durations.

Knows: how values are spelled (YAML 1.2 core schema, ISO 8601 dates). Must not know: fields, files. Numbers are
`Decimal`, never floats: 0.1 means 0.1. Spellings that other YAML readers understand differently (`010`, `1_000`,
`.nan`, `0x10`) are refused rather than guessed. Each function returns None for what is not of its kind; the caller
has the place and words the error.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import ROUND_FLOOR, Context, Decimal

from dpproxy.amounts import ATTO, MICRO
from dpproxy.policy.model import Value
from dpproxy.policy.tree import Scalar

_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z", re.ASCII)
_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][-+]?[0-9]{1,3})?\Z", re.ASCII)
_AMBIGUOUS = re.compile(r"[-+]?(0[0-9_]+|[0-9][0-9_]*_[0-9_]*|0[xob][0-9a-fA-F_]+|\.(inf|nan))\Z", re.ASCII | re.I)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z", re.ASCII)
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[-+][0-9]{2}:[0-9]{2})?\Z", re.ASCII
)
_UNITS = {"week": 7 * 86_400, "day": 86_400, "hour": 3600, "minute": 60, "min": 60, "second": 1, "sec": 1}  # in seconds
_LENGTH = re.compile(rf"([-+]?[0-9]{{1,9}}) ({'|'.join(_UNITS)})s?\Z", re.ASCII | re.I)
_DURATION = re.compile(r"([1-9][0-9]{0,8})(ms|s|m|h|d|w)\Z", re.ASCII)
_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_RELOAD = re.compile(r"reload at ([01][0-9]|2[0-3]):([0-5][0-9])( UTC)?\Z", re.ASCII | re.I)
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}

MAX_INTERVAL = 10_000 * 365  # days: what no interval of people reaches, and every engine adds up
MAX_DIGITS = 38  # PostgreSQL and DuckDB DECIMAL(38); nothing longer can be compared exactly in every engine
_CONTEXT = Context(prec=4 * MAX_DIGITS)  # wide enough that scaling an amount by ATTO never rounds


def is_null(scalar: Scalar) -> bool:
    return scalar.plain and scalar.text in _NULL


def is_ambiguous(scalar: Scalar) -> bool:
    """Return whether a scalar is spelled so that readers of YAML disagree on its value, or is no finite number."""
    return scalar.plain and _AMBIGUOUS.match(scalar.text) is not None


def flag(scalar: Scalar) -> bool | None:
    return _BOOL.get(scalar.text) if scalar.plain else None


def integer(scalar: Scalar) -> int | None:
    number = decimal(scalar)
    return int(number) if number is not None and _INT.match(scalar.text) else None


def decimal(scalar: Scalar) -> Decimal | None:
    """Return the exact value of a plain decimal number with at most `MAX_DIGITS` digits before and after the point."""
    text = scalar.text
    if not scalar.plain or not _NUMBER.match(text) or not any(c.isdigit() for c in text.lower().split("e")[0]):
        return None
    number = Decimal(text)
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)  # finite: the pattern has no NaN
    fits = exponent >= -MAX_DIGITS and number.adjusted() < MAX_DIGITS and len(digits) <= MAX_DIGITS
    return number if fits else None


def moment(scalar: Scalar) -> dt.date | dt.datetime | None:
    """Return a date, or a timestamp without zone (one with an offset is turned into UTC)."""
    if not scalar.plain:
        return None
    try:
        if _DATE.match(scalar.text):
            return dt.date.fromisoformat(scalar.text)
        if _TIME.match(scalar.text):
            when = dt.datetime.fromisoformat(scalar.text)
            return when.astimezone(dt.UTC).replace(tzinfo=None) if when.tzinfo else when
    except (ValueError, OverflowError):  # 2024-02-30, or year 0001 shifted below the calendar
        return None
    return None


def length(scalar: Scalar) -> dt.timedelta | None:
    """Return the length of an interval such as `30 days`, `1 day 12 hours`, `-1 week`; months and years have several lengths."""
    words = scalar.text.split()
    parts = [_LENGTH.match(" ".join(words[i : i + 2])) for i in range(0, len(words), 2)]
    if not parts or not all(parts):
        return None
    seconds = sum(int(part[1]) * _UNITS[part[2].lower()] for part in parts if part)
    return dt.timedelta(seconds=seconds) if abs(seconds) < MAX_INTERVAL * _UNITS["day"] else None


def length_text(whole: dt.timedelta) -> str:
    """Write the length of an interval as policies do."""
    day, hour, minute = dt.timedelta(days=1), dt.timedelta(hours=1), dt.timedelta(minutes=1)
    found, rest = [], whole
    for word, unit in (("day", day), ("hour", hour), ("minute", minute), ("second", dt.timedelta(seconds=1))):
        number = abs(rest) // unit * (-1 if rest < dt.timedelta() else 1)
        found += [f"{number} {word}{'s' if abs(number) != 1 else ''}"] if number else []
        rest -= number * unit
    return " ".join(found) or "0 days"


def value(scalar: Scalar) -> Value:
    """Return what a declared value means: quoted is text; plain is null, boolean, number, date, or else text."""
    if is_null(scalar):
        return None
    for read in (flag, integer, decimal, moment):
        found = read(scalar)
        if found is not None:
            return found
    return scalar.text


def micro(amount: Decimal) -> int:
    """Return epsilon as micro-epsilon, rounded down: a limit is never exceeded by rounding."""
    return int((_CONTEXT.multiply(amount, Decimal(MICRO))).to_integral_value(ROUND_FLOOR))


def atto(amount: Decimal) -> int:
    """Return delta as atto-delta, rounded down."""
    return int((_CONTEXT.multiply(amount, Decimal(ATTO))).to_integral_value(ROUND_FLOOR))


def milliseconds(text: str) -> int | None:
    """Return a duration such as `50ms`, `10m`, `1d` in milliseconds."""
    found = _DURATION.match(text)
    return int(found[1]) * _MILLISECONDS[found[2]] if found else None


def reload_time(text: str) -> dt.time | None:
    """Return the time of day in `reload at 03:00` (UTC). Raises ValueError for a text that begins so and names no time of day."""
    if not text.lower().startswith("reload"):
        return None
    found = _RELOAD.match(text)
    if found is None:
        raise ValueError("write `reload at 03:00`, in UTC")
    return dt.time(int(found[1]), int(found[2]))

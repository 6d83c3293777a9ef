"""Constants for which an operation is total: places within the length of a text, units and zones that there are, strides of time.

Knows: what engines raise for at the first row that meets such a constant. Must not know: how operations are spelled, the
planner's own checks of the same. A constant that is not tested here for more than its being one may be any of its kind.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable, Sequence
from functools import lru_cache

_UNITS = frozenset(
    ["microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade"]
)
_FOREIGN = re.compile(r"\(\?(?!:)|\\(?![\\.dwsDWS$^()\[\]{}|*+?/-])|\{[0-9]*,?[0-9]{3}")
"""In a pattern: what not every engine knows, or repeats more often than one of them does."""
_SPAN = 4001 * 12 * 31 * 86_400 * 10**6
"""Microseconds that are added to a moment at most."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_LARGEST = {"int2": 2**15, "int4": 2**31, "int8": 2**63}


def number(type_: str, text: str) -> bool:
    """Tell whether a constant is a number of its type."""
    if type_ in _LARGEST:
        return _WHOLE.fullmatch(text) is not None and -_LARGEST[type_] <= int(text) < _LARGEST[type_]
    return _NUMBER.fullmatch(text) is not None


@lru_cache(4096)
def total(op: str, texts: tuple[str, ...]) -> bool:
    """Tell whether an operation is total with these constants, the operands that are named in `allowed.CONSTANT`."""
    test = _TESTS.get(op)
    try:
        return test is None or test(*texts)
    except ValueError:  # no number
        return False


def _within(lo: int, hi: int) -> Callable[[str], bool]:
    return lambda text: lo <= int(text) <= hi


def _pad(size: str, fill: str) -> bool:
    return 0 <= int(size) <= 1000 and fill != ""


def _pattern(text: str, *_: str) -> bool:
    try:
        return len(text) <= 500 and _FOREIGN.search(text) is None and re.compile(text) is not None
    except re.error:
        return False


def _replacement(pattern: str, by: str, flags: str) -> bool:
    groups = re.compile(pattern).groups if _pattern(pattern) else -1
    used = re.findall(r"\\(.?)", by)
    return all(u in "123456789"[: max(groups, 0)] and u for u in used) and groups >= 0 and set(flags) <= {"g", "i"}


def _extracted(pattern: str, group: str, flags: str) -> bool:
    return _pattern(pattern) and 0 <= int(group) <= re.compile(pattern).groups and set(flags) <= {"i"}


def _buckets(low: str, high: str, size: str) -> bool:
    return max(abs(float(low)), abs(float(high))) <= 1e300 and float(low) < float(high) and 1 <= int(size) <= 10_000


def _stride(interval: str, origin: str) -> bool:
    months, days, micros = _fields(interval)
    return months == 0 and 0 < days * 86_400 * 10**6 + micros <= 10_001 * 366 * 86_400 * 10**6 and origin[:4].isdigit()


def _fields(interval: str) -> Sequence[int]:
    months, days, micros = (int(x) for x in interval.split())
    return months, days, micros


def _times(interval: str, most: str) -> bool:
    months, days, micros = map(abs, _fields(interval))
    return 0 <= int(most) < 2**31 and int(most) * ((months * 31 + days) * 86_400 * 10**6 + micros) <= _SPAN


def _parts(days: str, micros: str, most: str) -> bool:
    return abs(int(days)) < 2**31 and _times(f"0 {days} {micros}", most)


@lru_cache(256)
def _zone(name: str) -> bool:
    try:
        return zoneinfo.ZoneInfo(name) is not None
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False


_TESTS: dict[str, Callable[..., bool]] = {
    "round": _within(-15, 15), "trunc": _within(-15, 15), "repeat": _within(0, 1000), "bitright": _within(0, 15),
    "nth_value": _within(1, 2**31 - 1), "lpad": _pad, "rpad": _pad, "trunc_time": _UNITS.__contains__, "strftime": bool,
    "from_utc": _zone, "to_utc": _zone,
    "regex": _pattern, "iregex": _pattern, "regexp_count": _pattern, "regexp_extract": _extracted, "regexp_replace": _replacement,
    "bucket_float": _buckets, "bucket_numeric": _buckets, "date_bin": _stride, "interval_times": _times, "interval_parts": _parts,
    "like": lambda mark: len(mark) <= 1, "ilike": lambda mark: len(mark) <= 1,
}  # fmt: skip

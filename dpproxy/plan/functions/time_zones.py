"""Instants in a session whose time zone is not UTC: what its clocks show.

Knows: names of time zones, their offsets. Must not know: SQL text, engines, sessions. Below an aggregate an instant
(`timestamptz`) is the time that the session's clocks show, as a timestamp: columns are turned into it where a table is read
(`column_in_zone`), and date_trunc, EXTRACT, to_char, casts and comparisons with dates look at just that. What looks at the
instant itself - differences, EXTRACT(epoch), hours added, another zone's clocks - is given it (`instant`), and turned back
(`local_time`).

Clocks show the hour at the end of summer time twice. Its two halves are one where instants are grouped or compared, and an
instant taken back from it is that of the second time, as PostgreSQL reads such a time.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.operations.times import FROM_UTC, TO_UTC
from dpproxy.tree.expr import Call, Cast, Column, Expr, Lit, SeriesDomain
from dpproxy.tree.interval import Interval

_NAME = re.compile(r"[A-Z][A-Za-z_]+(/[A-Z][A-Za-z_+\-0-9]+){1,2}")
_DAY = 86400
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@lru_cache
def is_known_zone(name: str) -> bool:
    """Tell whether this is a zone's full name, which all engines know alike; abbreviations mean different things to each."""
    if not _NAME.fullmatch(name):
        return False
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def checked_zone(zone: str | None) -> str | None:
    """Return the session's zone where instants are looked at; None is UTC. Raises Refusal for one that is not known by its full
    name."""
    if zone is None or is_known_zone(zone):
        return zone
    raise Refusal(
        FEATURE_NOT_SUPPORTED,
        f"the time zone '{zone}' of this session is not supported below an aggregate over private rows",
        hint="SET TimeZone to a zone's full name, such as 'Europe/Paris', or to 'UTC'.",
    )


def column_in_zone(column: Column, zone: str | None) -> Column:
    """Return a table's column as the session's clocks show it: its bounds and declared days are those of the zone."""
    if zone is None or column.type != "timestamptz" or not is_known_zone(zone):
        return column
    if column.taint:  # two ids of the hour that is shown twice are two
        return replace(column, usable=False, reason=f"an identifier, in the time zone {zone}; SET TimeZone = 'UTC'")
    low, high = column.bound.lo, column.bound.hi
    bound = Interval(
        None if low is None else low + min(_offsets(zone, low, low + _DAY)),
        None if high is None else high + max(_offsets(zone, high - _DAY, high)),
    )
    domain = column.domain
    if isinstance(domain, SeriesDomain):
        first, end = Fraction(domain.lo * _DAY), Fraction((domain.hi + 1) * _DAY)
        first += min(_offsets(zone, first, first + _DAY))
        end += max(_offsets(zone, end - _DAY, end))
        domain = replace(domain, lo=first // _DAY, hi=(end - 1) // _DAY)
    return replace(column, zone=zone, bound=bound, domain=domain)


def _offsets(zone: str, *seconds: Fraction) -> list[Fraction]:
    """Seconds east of UTC at instants (seconds since 1970); a day each way where they cannot be said."""
    found = []
    for second in seconds:
        try:
            offset = (_EPOCH + dt.timedelta(seconds=float(second))).astimezone(zoneinfo.ZoneInfo(zone)).utcoffset()
        except (OverflowError, ValueError):
            return [Fraction(-_DAY), Fraction(_DAY)]
        found.append(Fraction(offset.total_seconds()) if offset is not None else Fraction(0))
    return found


def local_time(instant_: Expr, zone: str | None) -> Expr:
    """Return an instant, as a timestamp in UTC, as the session's clocks show it."""
    return instant_ if zone is None else Call("timestamptz", FROM_UTC, (instant_, Lit("text", zone)))


def instant(value: Expr, zone: str | None) -> Expr:
    """Return, as the instant in UTC, what the session's clocks show (a date: at midnight), as the instant, in UTC."""
    if zone is None:
        return value
    if isinstance(value, Call) and value.op == FROM_UTC and value.args[1] == Lit("text", zone):
        return value.args[0]
    value = Cast("timestamp", value) if value.type == "date" else value
    return Call("timestamptz", TO_UTC, (value, Lit("text", zone)))

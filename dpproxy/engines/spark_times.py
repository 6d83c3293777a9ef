"""Dates and times as Spark SQL: total, and the same on Spark and Sail.

Knows: Spark's calendar (years 1 to 9999; what is beyond, files may hold all the same), the planner's units and formats. Must
not know: expressions, policies. Every operation is guarded to that calendar: beyond it both engines raise or wrap around.
Moments are TIMESTAMP_NTZ; the session's zone is UTC, so that turning one into a TIMESTAMP, which some functions want, shifts
nothing. Parts of a second are computed from microseconds: Sail's date_trunc rounds those before 1970 up.
"""

from __future__ import annotations

from dpproxy.engines.spark_types import quote, refused, written
from dpproxy.plan.operations.units import DAY_MICROS, UNITS
from dpproxy.sql.types import TIMES

NTZ = "TIMESTAMP_NTZ"
DAYS = "BETWEEN DATE'0001-01-01' AND DATE'9999-12-31'"
MOMENTS = "BETWEEN TIMESTAMP_NTZ'0001-01-01 00:00:00' AND TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"
MOST_MONTHS, MOST_DAYS = 48_000, 1_500_000  # of a constant interval: 4,000 years

_CALENDAR = {
    "day": "{0}", "week": "date_add({0}, 1 - (pmod(dayofweek({0}) + 5, 7) + 1))", "month": "date_add({0}, 1 - day({0}))",
    "quarter": "add_months(date_add({0}, 1 - day({0})), -((month({0}) - 1) % 3))", "year": "date_add({0}, 1 - dayofyear({0}))",
}  # fmt: skip
"""The first day of a day's week, month and so on. Sail's date_trunc raises before 1677 and after 2262."""
_HOUR, _MINUTE = UNITS["hour"].micros, UNITS["minute"].micros
_OF_DIFFERENCE = {"day": (1, DAY_MICROS), "hour": (DAY_MICROS, _HOUR), "minute": (_HOUR, _MINUTE)}
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip
_WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_TWO = {"m": "month({0})", "d": "day({0})", "H": "hour({0})", "M": "minute({0})", "S": "second({0})", "y": "year({0}) % 100"}


def guarded(text: str, type_: str, body: str) -> str:
    """Spell `body` where a date or moment is within the calendar, NULL elsewhere."""
    return f"(CASE WHEN {text} {DAYS if type_ == 'date' else MOMENTS} THEN {body} END)"


def moment(text: str, type_: str) -> str:
    """Spell a date or moment as a moment."""
    return guarded(text, "date", f"CAST({text} AS {NTZ})") if type_ == "date" else text


def day(text: str, type_: str) -> str:
    """Spell a date or moment as a date."""
    return text if type_ == "date" else guarded(text, type_, f"CAST({text} AS DATE)")


def micros(text: str) -> str:
    """Spell a moment as microseconds since 1970."""
    return f"unix_micros(CAST({text} AS TIMESTAMP))"


def numbered(text: str, type_: str) -> str:
    """Spell a date or moment as a number: beyond the calendar, Sail writes one text for all. What is neither stays as it is."""
    if type_ == "date":
        return f"unix_date({text})"
    return micros(text) if type_ in TIMES else text


def of_micros(text: str) -> str:
    return f"CAST(timestamp_micros({text}) AS {NTZ})"


def part(form: str, text: str, type_: str) -> str:
    """Spell a field by its template."""
    return guarded(text, type_, f"CAST({form.format(text)} AS BIGINT)")


def epoch(text: str, type_: str) -> str:
    """Spell seconds since 1970, as DOUBLE."""
    stamp = moment(text, type_)
    return guarded(stamp, "timestamp", f"CAST({micros(stamp)} AS DOUBLE) / 1000000e0")


def second(text: str) -> str:
    """Spell the seconds of the minute, with their fraction, as DOUBLE."""
    return guarded(text, "timestamp", f"CAST(pmod({micros(text)}, {_MINUTE}) AS DOUBLE) / 1000000e0")


def micros_between(later: str, earlier: str) -> str:
    """Spell the microseconds from one moment to another."""
    return f"(CASE WHEN {later} {MOMENTS} AND {earlier} {MOMENTS} THEN {micros(later)} - {micros(earlier)} END)"


def part_of_difference(name: str, later: str, earlier: str) -> str:
    """Spell a field of the interval between two moments: days, and the time of day beyond them."""
    between = micros_between(later, earlier)
    if name == "epoch":
        return f"(CAST({between} AS DOUBLE) / 1000000e0)"
    if name == "second":
        return f"(CAST({between} % {_MINUTE} AS DOUBLE) / 1000000e0)"
    if name not in _OF_DIFFERENCE:
        raise refused(f"EXTRACT({name}) of an interval")
    above, unit = _OF_DIFFERENCE[name]
    return f"({between}{f' % {above}' if above > 1 else ''} div {unit})"


def cut_to(unit: str, text: str) -> str:
    """Spell date_trunc of a moment."""
    if unit in UNITS and UNITS[unit].micros:
        body = of_micros(f"{micros(text)} - pmod({micros(text)}, {UNITS[unit].micros})")
    elif unit in _CALENDAR:
        date = f"CAST({text} AS DATE)"
        body = f"CAST({_CALENDAR[unit].format(date)} AS {NTZ})"
    elif unit == "decade":
        first = f"concat(lpad({written(f'year({text}) - year({text}) % 10')}, 4, '0'), '-01-01 00:00:00')"
        body = f"CASE WHEN year({text}) >= 10 THEN try_cast({first} AS {NTZ}) END"  # the first one begins before year 1
    else:
        raise refused(f"date_trunc('{unit}', ...)")
    return guarded(text, "timestamp", body)


def days_between(later: str, earlier: str) -> str:
    return f"(CASE WHEN {later} {DAYS} AND {earlier} {DAYS} THEN CAST(datediff({later}, {earlier}) AS BIGINT) END)"


def shift(sign: str, stamp: str, interval: str) -> str:
    """Spell a moment plus or minus a constant interval (`months days microseconds`): months first, as PostgreSQL does."""
    months, days, micro = (int(x) if sign == "+" else -int(x) for x in interval.split())
    if abs(months) > MOST_MONTHS or abs(days) > MOST_DAYS or abs(micro) > MOST_DAYS * DAY_MICROS:
        raise refused("an interval of more than 4,000 years")
    text = stamp + (f" + INTERVAL '{months}' MONTH" if months else "") + (f" + INTERVAL '{days}' DAY" if days else "")
    if micro:
        seconds, rest = divmod(abs(micro), 1_000_000)
        text += f" + INTERVAL '{'-' if micro < 0 else ''}{seconds}.{rest:06}' SECOND"
    return guarded(stamp, "timestamp", f"({text})")


def formatted(text: str, type_: str, form: str) -> str:
    """Spell strftime of the fields that `plan.functions.time_formats` asks for. Raises Refusal for another."""
    pieces, rest = [], form
    while rest:
        at = rest.find("%")
        if at:
            pieces.append(quote(rest if at < 0 else rest[:at]))
        if at < 0:
            break
        pieces.append(_field(rest[at + 1 : at + 2], text))
        rest = rest[at + 2 :]
    return guarded(text, type_, f"concat({', '.join(pieces)})")


def _field(letter: str, text: str) -> str:
    if letter == "Y":
        return f"lpad({written(f'year({text})')}, 4, '0')"
    if letter in _TWO:
        return f"lpad({written(_TWO[letter].format(text))}, 2, '0')"
    names = {"B": _MONTHS, "b": _MONTHS, "A": _WEEKDAYS, "a": _WEEKDAYS}.get(letter)
    if names is None:
        raise refused(f"a time's format with %{letter}")
    number = f"month({text})" if names is _MONTHS else f"pmod(dayofweek({text}) + 5, 7) + 1"
    arms = " ".join(f"WHEN {i} THEN '{n if letter.isupper() else n[:3]}'" for i, n in enumerate(names, 1))
    return f"CASE {number} {arms} END"


def from_numbers(year: str, month: str, of_month: str) -> str:
    """Spell a date of its parts, NULL where there is none."""
    guard = f"{year} BETWEEN 1 AND 9999 AND {month} BETWEEN 1 AND 12 AND {of_month} BETWEEN 1 AND 31"
    parts = ((year, 4), (month, 2), (of_month, 2))
    text = ", '-', ".join(f"lpad({written(p)}, {n}, '0')" for p, n in parts)
    return f"(CASE WHEN {guard} THEN try_cast(concat({text}) AS DATE) END)"


def from_epoch(seconds: str) -> str:
    """Spell a moment of seconds since 1970, a double."""
    body = of_micros(f"try_cast(round({seconds} * 1000000e0) AS BIGINT)")
    return f"(CASE WHEN {seconds} BETWEEN -62135596800 AND 253402300799 THEN {body} END)"


def clocks_of(zone: str, text: str) -> str:
    """Spell what a zone's clocks show at a moment of UTC."""
    return guarded(text, "timestamp", f"CAST(from_utc_timestamp(CAST({text} AS TIMESTAMP), {zone}) AS {NTZ})")

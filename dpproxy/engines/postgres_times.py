"""Dates and timestamps in PostgreSQL, guarded: the ends of the calendar and infinities raise nothing.

Knows: the ranges of `date` (4713 BC to 5874897) and `timestamp` (to 294276). Must not know: expressions, tables. Text in,
text out. Shifts and differences are computed between the years 1 and 9999 only, as on DuckDB: elsewhere they are NULL.
"""

from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal

FIRST, LAST = "'0001-01-01'", "'9999-12-31'"
LAST_STAMP = "'294276-12-31'"
BACK = 1_700_000  # days that any date from year 1 on can go back: PostgreSQL's calendar begins in 4714 BC

_FORMATS = {"%Y": "YYYY", "%m": "MM", "%d": "DD", "%H": "HH24", "%M": "MI", "%S": "SS", "%y": "YY", "%b": "Mon",
            "%B": "FMMonth", "%a": "Dy", "%A": "FMDay"}  # fmt: skip


def date_to_timestamp(text: str) -> str:
    test = f"{text} <= {LAST_STAMP}::date OR {text} = 'infinity'::date"
    return f"(CASE WHEN {test} THEN {text}::timestamp END)"


def part(unit: str, text: str, type_: str) -> str:
    """Spell a whole-number field of a date, timestamp, time or interval, as bigint: NULL for an infinite instant."""
    if type_ == "date":
        return f"EXTRACT({unit} FROM {text})::bigint"
    value = f"date_part('{unit}', {text})::bigint"
    return f"(CASE WHEN isfinite({text}) THEN {value} END)" if type_ == "interval" else value


def endless_part(unit: str, text: str, type_: str) -> str:
    """Spell such a field that is infinite for an infinite instant, for which it is to be NULL."""
    if type_ == "date":
        value = f"EXTRACT({unit} FROM {text})::bigint"
        return f"(CASE WHEN {text} BETWEEN '4713-01-01 BC'::date AND {LAST_STAMP}::date THEN {value} END)"
    return f"(CASE WHEN isfinite({text}) THEN date_part('{unit}', {text})::bigint END)"


def constant_shift(sign: str, stamp: str, interval: str, months: int, days: int, micros: int) -> str:
    """Spell a timestamp plus or minus a known interval of at most some 30,000 years."""
    flip = 1 if sign == "+" else -1
    back = sum(max(0, -flip * amount) for amount in (months * 31, days, Fraction(micros, 86_400_000_000))).__ceil__()
    if back <= BACK:
        first = FIRST
    elif back - BACK > 3_600_000:
        return "NULL::timestamp"
    else:
        first = f"'{(dt.date(1, 1, 1) + dt.timedelta(days=back - BACK)).isoformat()}'"
    return f"(CASE WHEN {stamp} BETWEEN {first}::timestamp AND {LAST}::timestamp THEN {stamp} {sign} {interval} END)"


def shift(sign: str, stamp: str, interval: str) -> str:
    """Spell a timestamp plus or minus an interval that is known only when the statement runs."""
    test = f"{interval} BETWEEN '-4000 years'::interval AND '4000 years'::interval"
    test += f" AND {stamp} BETWEEN {FIRST}::timestamp AND {LAST}::timestamp"
    return f"(CASE WHEN {test} THEN {stamp} {sign} {interval} END)"


def formatted(stamp: str, pattern: str) -> str:
    """to_char, from the pattern of strftime that the allow-list writes."""
    out = ""
    for token in re.findall(r"%.|[^%]", pattern):
        if token not in _FORMATS and token not in "-/: ":
            parts = "Use YYYY, YY, MM, Mon, FMMonth, DD, Dy, FMDay, HH24, MI, SS, blanks and -/: alone."
            raise Refusal(FEATURE_NOT_SUPPORTED, "this format is not supported over private tables", hint=parts)
        out += _FORMATS.get(token, token)
    return f"to_char({stamp}, '{out}')"


def interval_literal(text: str) -> str:
    """Spell an interval literal from "months days microseconds"."""
    months, days, micros = (int(x) for x in text.split())
    seconds = f"{'-' if micros < 0 else ''}{abs(micros) // 10**6}.{abs(micros) % 10**6:06d}"
    return f"make_interval(0, {months}, 0, {days}, 0, 0, {seconds})"

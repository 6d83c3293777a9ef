r"""Casts that raise in PostgreSQL, spelled so that a value that does not fit yields NULL.

Knows: what PostgreSQL's input functions accept (versions 14 to 18), its types and their ranges. Must not know:
expressions, tables. Text in, text out. `pg_input_is_valid` exists from version 16 only, so texts are tested by regular
expressions over ASCII classes: `\d` and `\s` match what the input functions reject. What they accept is narrower than
what PostgreSQL accepts in a few spellings (`1e400`, `Jan 5, 2024`, `0x1F`): those are NULL, never an error.
"""

from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal

_SPACE = "[ \\t\\n\\r\\f\\v]*"
_WHOLE = f"^{_SPACE}[-+]?[0-9]{{1,40}}{_SPACE}$"
_DECIMAL = f"^{_SPACE}([-+]?([0-9]{{1,90}}([.][0-9]{{0,90}})?|[.][0-9]{{1,90}})([eE][-+]?[0-9]{{1,2}})?"
_DECIMAL += f"|[-+]?([iI][nN][fF]([iI][nN][iI][tT][yY])?)|[nN][aA][nN]){_SPACE}$"
_YEAR = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_LEAP = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
_DAY = f"({_YEAR}-((0?[13578]|1[02])-(0?[1-9]|[12][0-9]|3[01])|(0?[469]|11)-(0?[1-9]|[12][0-9]|30)|0?2-(0?[1-9]|1[0-9]|2[0-8]))"
_DAY += f"|{_LEAP}-0?2-29)"
_COMPACT = f"({_YEAR}((0[13578]|1[02])(0[1-9]|[12][0-9]|3[01])|(0[469]|11)(0[1-9]|[12][0-9]|30)|02(0[1-9]|1[0-9]|2[0-8]))"
_COMPACT += f"|{_LEAP}0229)"
_TIME = "([ T]([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?)?"
_INSTANT = f"^({_SPACE}{_DAY}{_TIME}{_SPACE}|{_COMPACT})$"
_UUID = "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"
_TRUE = ("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1")
_FALSE = ("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0")

LONGEST = 1_000  # bytes of a text that is read as anything else; of very long ones, the test itself would raise
TYPES = {
    "int2": "bigint", "int4": "bigint", "int8": "bigint", "numeric": "numeric", "float4": "float8", "float8": "float8",
    "text": "text", "varchar": "text", "bpchar": "text", "name": "text", "unknown": "text", "bool": "boolean",
    "date": "date", "timestamp": "timestamp", "timestamptz": "timestamp", "interval": "interval", "uuid": "uuid",
    "time": "time",
}  # fmt: skip
"""In which type a value of each type is computed: see `engines.postgres`."""
RANGES = {"int2": 2**15, "int4": 2**31, "int8": 2**63}


def _matches(text: str, pattern: str) -> str:
    return f"CASE WHEN octet_length({text}) <= {LONGEST} THEN {text} ~ '{pattern}' END"


def text_to_int(text: str, type_: str) -> str:
    top = RANGES[type_]
    inner = f"CASE WHEN {text}::numeric BETWEEN '{-top}'::numeric AND '{top - 1}'::numeric THEN {text}::numeric::bigint END"
    return f"(CASE WHEN {_matches(text, _WHOLE)} THEN {inner} END)"


def int_to_int(text: str, type_: str) -> str:
    """Cast from bigint or numeric whole numbers."""
    top = RANGES[type_]
    return f"(CASE WHEN {text} BETWEEN '{-top}'::bigint AND '{top - 1}'::bigint THEN {text}::bigint END)"


def float_to_int(text: str, type_: str) -> str:
    """Rounds half to even, as PostgreSQL does."""
    top = RANGES[type_]
    low, high = (f"'{-top}'", f"'{top}'") if type_ == "int8" else (f"'{-top}.5'", f"'{top - 1}.5'")
    return f"(CASE WHEN {text} >= {low}::float8 AND {text} < {high}::float8 THEN {text}::bigint END)"


def numeric_to_int(text: str, type_: str) -> str:
    """Rounds half away from zero, as PostgreSQL does."""
    top = RANGES[type_]
    test = f"{text} > '{-top}.5'::numeric AND {text} < '{top - 1}.5'::numeric"
    return f"(CASE WHEN {test} THEN {text}::bigint END)"


def text_to_number(text: str, kind: str) -> str:
    return f"(CASE WHEN {_matches(text, _DECIMAL)} THEN {text}::{kind} END)"


def to_float4(text: str) -> str:
    """Round a float8 to float4 and back; float4's own limits become infinity and 0."""
    return (
        f"(CASE WHEN abs({text}) < '1e-37'::float8 THEN '0'::float8 WHEN abs({text}) <= '3.4e38'::float8 "
        f"THEN {text}::float4::float8 ELSE {text} * 'Infinity'::float8 END)"
    )


def text_to_date(text: str) -> str:
    return f"(CASE WHEN {_matches(text, _INSTANT)} THEN {text}::date END)"


def text_to_timestamp(text: str) -> str:
    return f"(CASE WHEN {_matches(text, _INSTANT)} THEN {text}::timestamp END)"


def text_to_uuid(text: str) -> str:
    return f"(CASE WHEN {_matches(text, _UUID)} THEN {text}::uuid END)"


def text_to_bool(text: str) -> str:
    def words(of: tuple[str, ...]) -> str:
        return ", ".join(f"'{w}'" for w in of)

    bare = f"lower(btrim({text}, E' \\t\\n\\r\\f\\v'))"
    known = f"CASE WHEN {bare} IN ({words(_TRUE)}) THEN TRUE WHEN {bare} IN ({words(_FALSE)}) THEN FALSE END"
    return f"(CASE WHEN octet_length({text}) <= {LONGEST} THEN {known} END)"


def is_uuid(text: str) -> bool:
    return re.match(_UUID, text) is not None


# Dates and timestamps in PostgreSQL, guarded: the ends of the calendar and infinities raise nothing.
#
# Knows: the ranges of `date` (4713 BC to 5874897) and `timestamp` (to 294276). Must not know: expressions, tables. Text in,
# text out. Shifts and differences are computed between the years 1 and 9999 only, as on DuckDB: elsewhere they are NULL.


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

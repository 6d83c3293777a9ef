"""Casts that raise in PostgreSQL, spelled so that a value that does not fit yields NULL.

Knows: what PostgreSQL's input functions accept (versions 14 to 18), its types and their ranges. Must not know:
expressions, tables. Text in, text out. `pg_input_is_valid` exists from version 16 only, so texts are tested by regular
expressions over ASCII classes: `\\d` and `\\s` match what the input functions reject. What they accept is narrower than
what PostgreSQL accepts in a few spellings (`1e400`, `Jan 5, 2024`, `0x1F`): those are NULL, never an error.
"""

from __future__ import annotations

import re

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

"""In which of Spark SQL's types a value is computed, and how its constants are written.

Knows: PostgreSQL's types, Spark's, spans of values, Spark's string syntax. Must not know: how operations are spelled. Whole
numbers are BIGINT or, where their span may pass it, DECIMAL(38, 0) or, beyond 37 digits, DOUBLE, as on DuckDB. NUMERIC computes
as DOUBLE; moments are TIMESTAMP_NTZ. What is not in `TYPES` is in no expression: times of day and intervals differ between
Spark and Sail, and identifiers of type uuid are texts there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpproxy.engines.doubles import quantum
from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.properties.facts import facts
from dpproxy.sql.types import FLOATS, INTEGERS
from dpproxy.tree.expr import Expr, Ref, walk
from dpproxy.tree.interval import Interval

INT64 = 2**63 - 1
INT32 = 2**31 - 1
WHOLE = 10**37
"""Whole numbers up to this are computed: a sum of two still fits 38 digits."""
WIDE = "DECIMAL(38, 0)"
SUMMAND = WIDE
"""Of what is added up: Spark adds such to DECIMAL(38, 0), and 2**63 rows of less than 2**63 each are below 10**38."""

TYPES = {
    "int2": "BIGINT", "int4": "BIGINT", "int8": "BIGINT", "numeric": "DOUBLE", "float4": "DOUBLE", "float8": "DOUBLE",
    "text": "STRING", "varchar": "STRING", "bpchar": "STRING", "name": "STRING", "unknown": "STRING", "bool": "BOOLEAN",
    "date": "DATE", "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP_NTZ",
}  # fmt: skip


ELSEWHERE = "Compute it around the aggregate, over what is released, or have the table's owner add it as a column."


def refused(what: str, why: str = "", hint: str = "") -> Refusal:
    """Return the refusal of what Spark would not answer as PostgreSQL does."""
    tail = f": {why}" if why else ""
    return Refusal(FEATURE_NOT_SUPPORTED, f"{what} over private tables is not supported on Spark{tail}", hint=hint or ELSEWHERE)


def representation(expr: Expr) -> str:
    """Return the type in which an expression is computed. Raises Refusal."""
    if expr.type in INTEGERS:
        return narrowest(facts(expr).span)
    if expr.type not in TYPES:
        raise refused(f"a value of type {expr.type}")
    return TYPES[expr.type]


def narrowest(span: Interval) -> str:
    """Return the narrowest type in which whole numbers of a span are computed."""
    if not span.within(WHOLE):
        return "DOUBLE"
    lo, hi = span.ends
    return "BIGINT" if lo >= -INT64 - 1 and hi <= INT64 else WIDE


def widest(kinds: Sequence[str]) -> str:
    """Return the type that holds what all of these hold, as far as one does."""
    return max(kinds, key=("BIGINT", WIDE, "DOUBLE").index)


def one_kind(exprs: Sequence[Expr]) -> bool:
    """Say whether these are columns of one of Spark's own types of numbers: their values need not be doubles to be compared."""
    kinds = {e.column.exact if isinstance(e, Ref) else "" for e in exprs}
    return len(kinds) == 1 and "" not in kinds


def quote(text: str) -> str:
    """Write a string literal. Spark reads backslashes in them, and puts settings and variables of its server's environment in the
    place of `${name}` wherever it stands in a statement, unless a setting tells it not to."""
    if "\x00" in text:
        raise Refusal(FEATURE_NOT_SUPPORTED, "a string contains a NUL character")
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{") + "'"


def written(text: str) -> str:
    """Spell a value as a text.

    Where a condition bounds a number, Sail casts the bounds as it does the number to see whether the order of rows is kept, and
    raises: of texts '6' is after '2147483647', the most that an INT can be. It does so for CAST, and not for try_cast.
    """
    return f"try_cast({text} AS STRING)"


def double(value: float) -> str:
    """Write a DOUBLE: numbers with a point are DECIMAL to Spark."""
    return f"CAST('{value!r}' AS DOUBLE)"


def whole(value: int) -> str:
    """Write a whole number of any size."""
    return str(value) if abs(value) <= INT64 else f"CAST('{value}' AS {WIDE})"


# Rounding and sums as Spark SQL, exact and total, and the same on Spark and Sail.
#
# Knows: doubles, Spark's DECIMAL. Must not know: expressions' trees, relations. floor and ceil of Spark are BIGINT and raise
# for what is too large; its rint rounds halves away from zero on Sail, so that rounding is spelled with casts that cut off. A
# sum of one unit's fractional values is one of whole multiples of a quantum (`engines.doubles`), so that the order of rows, and
# with it the number of machines, changes nothing.


EVEN = "4503599627370496e0"
"""Doubles from here on (2**52) are whole."""
UNITS = "DECIMAL(29, 0)"
"""Of a summand of a unit's fractional values: 2**95 each of 2**31 rows of one unit are below 10**38."""


def one_nan(text: str) -> str:
    """Spell a DOUBLE with one NaN for all: Sail tells those of a sign apart, and sorts them below everything."""
    return f"nanvl({text}, {double(float('nan'))})"


def unsigned_zero(text: str) -> str:
    """Spell a DOUBLE with one 0: NULLIF of Sail tells -0 from it, and a division by it raises."""
    return f"({text} + 0e0)"


def divisor(text: str) -> str:
    """Spell a DOUBLE by which is divided, NULL for 0."""
    return f"NULLIF({unsigned_zero(text)}, 0)"


def cut_off(text: str) -> str:
    """Spell the whole part of a double, as BIGINT; NULL where it fits none. Spark takes 2**63 for one that does."""
    return f"try_cast(NULLIF({text}, 9223372036854775808e0) AS BIGINT)"


def nearest(text: str) -> str:
    """Spell a double rounded to the nearest whole number, halves to the even one, as BIGINT; NULL where it fits none."""
    t = cut_off(text)
    up, down = f"{text} - {t} > 0.5D OR ({text} - {t} = 0.5D AND {t} % 2 <> 0)", f"{text} - {t} < -0.5D OR ({text} - {t} = -0.5D"
    return f"(CASE WHEN {up} THEN {t} + 1 WHEN {down} AND {t} % 2 <> 0) THEN {t} - 1 ELSE {t} END)"


def whole_double(text: str, rounded: str) -> str:
    """Spell a rounding of a double, as DOUBLE, by one that yields BIGINT: what is that large is whole already, as NaN is NaN."""
    return f"(CASE WHEN abs({text}) < {EVEN} THEN CAST({rounded} AS DOUBLE) ELSE {text} END)"


def truncated(text: str) -> str:
    return whole_double(text, cut_off(text))


def floor(text: str) -> str:
    return whole_double(text, f"floor({text})")


def ceiling(text: str) -> str:
    return whole_double(text, f"ceil({text})")


def sign(text: str) -> str:
    """Spell -1, 0 or 1; NULL for NaN, which Spark sorts above everything."""
    arms = f"WHEN {text} = 0 THEN 0 WHEN {text} < 0 THEN -1 WHEN {text} <= {double(float('inf'))} THEN 1"
    return f"CAST(CASE {arms} END AS BIGINT)"


_NAN, _INFINITE = double(math.nan), (double(math.inf), double(-math.inf))


def total(name: str, value: Expr, text: str, distinct: str, tail: str) -> str:
    """Spell `sum` or `avg` of a DOUBLE `text`, as DOUBLE; `tail` is FILTER or OVER. NaN and infinities act as in PostgreSQL.

    Sail drops casts to a type that a value has, and fails where two aggregates of a query are then one: so none here has the form
    of an aggregate that an analyst may ask for beside it, `min`, `max` or `count` of the same value.
    """
    q = quantum(value)
    inverse, most = double(float(q.inverse)), double(float(2**q.bits / q.inverse))
    units = f"CASE WHEN abs({text}) < {most} THEN try_cast({text} * {inverse} AS {UNITS}) "
    units += f"WHEN {text} > 0 THEN CAST('{2**q.bits}' AS {UNITS}) WHEN {text} < 0 THEN CAST('{-(2**q.bits)}' AS {UNITS}) END"
    made = f"(CAST(sum({distinct}{units}){tail} AS DOUBLE) / {inverse})"
    if name == "avg":
        made = mean(made, f"count({distinct}CASE WHEN {text} IS NOT NULL THEN {text if distinct else 1} END){tail}")
    if not any(e.type in FLOATS for e in walk(value)):
        return made
    finite, nan, (up, down) = f"bool_and(abs({text}) < {_INFINITE[0]}){tail}", _some(f"isnan({text})", tail), _INFINITE
    rises, falls = _some(f"{text} = {up}", tail), _some(f"{text} = {down}", tail)
    others = f"WHEN {nan} OR ({rises} AND {falls}) THEN {_NAN} WHEN {rises} THEN {up} WHEN {falls} THEN {down}"
    return f"(CASE WHEN {finite} THEN {made} {others} END)"


def extreme(name: str, text: str, tail: str) -> str:
    """Spell `min` or `max` of a DOUBLE, where NaN is above everything: in groups Sail takes whatever follows a NaN."""
    found, nan = f"{name}(CASE WHEN isnan({text}) THEN NULL ELSE {text} END){tail}", _some(f"isnan({text})", tail)
    if name == "max":
        return f"(CASE WHEN {nan} THEN {_NAN} ELSE {found} END)"
    return f"coalesce({found}, CASE WHEN {nan} THEN {_NAN} END)"


def _some(condition: str, tail: str) -> str:
    """Spell whether a condition is true of some row, also in a window whose frame moves."""
    return f"max(CASE WHEN {condition} THEN 1 ELSE 0 END){tail} = 1"


def whole_total(name: str, text: str, distinct: str, tail: str) -> str:
    """Spell `sum` of BIGINT, as DECIMAL(38, 0), or `avg`, as DOUBLE."""
    made = f"sum({distinct}CAST({text} AS {SUMMAND})){tail}"
    return mean(f"CAST({made} AS DOUBLE)", f"count({distinct}{text}){tail}") if name == "avg" else made


def mean(added: str, count: str) -> str:
    """Spell a quotient by a count; a division by 0 raises."""
    return f"({added} / NULLIF({count}, 0))"

"""In which of Spark SQL's types a value is computed, and how its constants are written.

Knows: PostgreSQL's types, Spark's, spans of values, Spark's string syntax. Must not know: how operations are spelled. Whole
numbers are BIGINT or, where their span may pass it, DECIMAL(38, 0) or, beyond 37 digits, DOUBLE, as on DuckDB. NUMERIC computes
as DOUBLE; moments are TIMESTAMP_NTZ. What is not in `TYPES` is in no expression: times of day and intervals differ between
Spark and Sail, and identifiers of type uuid are texts there.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.properties.facts import facts
from dpproxy.sql.types import INTEGERS
from dpproxy.tree.expr import Expr, Ref
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

"""In which of DuckDB's types a value is computed.

Knows: PostgreSQL's types, DuckDB's, and spans of values. Must not know: how operations are spelled. Whole numbers are BIGINT or,
where their span may pass it, HUGEINT or DOUBLE; NUMERIC computes as DOUBLE, but columns keep their own type until computed with.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.plan.properties.facts import facts
from dpproxy.sql.types import INTEGERS
from dpproxy.tree.expr import Expr, Ref
from dpproxy.tree.interval import Interval

INT64 = 2**63 - 1
NARROW = 2**32
INT128 = 2**126  # below HUGEINT's 2**127 - 1, so that a sum of two still fits

TYPES = {
    "int2": "BIGINT", "int4": "BIGINT", "int8": "BIGINT", "numeric": "DOUBLE", "float4": "DOUBLE", "float8": "DOUBLE",
    "text": "VARCHAR", "varchar": "VARCHAR", "bpchar": "VARCHAR", "unknown": "VARCHAR", "bool": "BOOLEAN", "date": "DATE",
    "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP", "interval": "INTERVAL", "uuid": "UUID", "time": "TIME",
}  # fmt: skip
NARROW_TYPES = {"int2": "SMALLINT", "int4": "INTEGER"}
"""Of whole numbers below 64 bits, what a cast to them is tried with."""


def adds_in_64_bits(lo: int, hi: int, shift: int) -> bool:
    """Tell whether a unit's values, which lie within [lo, hi] once `shift` is subtracted, are added up in 64 bits."""
    return max(abs(lo + shift), abs(hi + shift)) < NARROW


def representation(expr: Expr) -> str:
    """Return the DuckDB type in which an integer expression is computed."""
    return narrowest(facts(expr).span) if expr.type in INTEGERS else TYPES.get(expr.type, "VARCHAR")


def narrowest(span: Interval) -> str:
    """Return the narrowest type in which whole numbers of a span are computed."""
    if span.within(INT64):
        return "BIGINT"
    if span.within(INT128):
        return "HUGEINT"
    return "DOUBLE"


def one_kind(exprs: Sequence[Expr]) -> bool:
    """Say whether these are columns of one of DuckDB's own types of numbers: their values need not be doubles to be compared."""
    kinds = {e.column.exact if isinstance(e, Ref) else "" for e in exprs}
    return len(kinds) == 1 and "" not in kinds

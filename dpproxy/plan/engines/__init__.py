"""One file an engine: how the planner's expressions are spelled there, always total (no value can raise)."""

from __future__ import annotations

import json
import re

from dpproxy.plan.arrays import array_items
from dpproxy.plan.engines.base import Engine
from dpproxy.plan.engines.duckdb import DuckDB
from dpproxy.plan.engines.postgres import Postgres
from dpproxy.plan.expr import Lit
from dpproxy.plan.functions import NotPlain, typed_literal
from dpproxy.plan.model import Dialect
from dpproxy.sql.types import FLOATS


def engine(dialect: Dialect) -> Engine:
    """The spelling of a dialect. Raises ValueError for one we do not have."""
    if dialect == "duckdb":
        return DuckDB()
    if dialect == "postgres":
        return Postgres()
    raise ValueError(f"no engine for dialect {dialect}")


def literal(dialect: Dialect, type_: str, text: str | None) -> str:
    """A parameter's value, in PostgreSQL's text form, as a literal of the engine. Raises ValueError for what it can't take."""
    spelled = engine(dialect)
    if type_.startswith("rows("):
        return _rows(spelled, type_[5:-1].split(","), text)
    if type_.endswith("[]"):
        element = type_[:-2]
        items = array_items(text) if text is not None else [None]
        return ", ".join(literal(dialect, element, item) for item in items) or spelled.literal(element, None)
    if text is None or (type_ in FLOATS and text in _NOT_FINITE):
        return spelled.literal(type_, text)
    try:
        if type_ == "timestamptz":
            text = re.sub(r"[+-]\d\d(:?\d\d)*$", "", text)  # the session's local time, as all timestamptz are below
        value = typed_literal(type_, text)
    except NotPlain as error:
        raise ValueError(f"this value of type {type_} cannot be used") from error
    assert isinstance(value, Lit)
    return spelled.literal(type_, value.text)


_NOT_FINITE = {"NaN", "Infinity", "-Infinity"}
"""Columns may hold them, so expressions are total on them. Infinite dates are another matter: they cannot be subtracted."""
MAX_GIVEN_ROWS = 20_000  # rows the facade may hand to a measurement: they become constants of its text


def _rows(spelled: Engine, types: list[str], text: str | None) -> str:
    """A JSON array of arrays of texts as a FROM item without alias. Raises ValueError when there are too many rows."""
    rows = json.loads(text) if text is not None else []
    if len(rows) > MAX_GIVEN_ROWS:
        raise ValueError("too many rows are to be joined with private ones")
    if not rows:
        nulls = ", ".join(spelled.literal(t, None) for t in types)
        return f"(SELECT {nulls} WHERE FALSE)"
    cells = ("(" + ", ".join(literal(spelled.dialect, t, v) for t, v in zip(types, row, strict=True)) + ")" for row in rows)
    return f"(VALUES {', '.join(cells)})"


__all__ = ["array_items", "engine", "literal"]

"""One file an engine: how the planner's expressions are spelled there, always total (no value can raise)."""

from __future__ import annotations

import re

from dpproxy.plan.engines.base import Engine
from dpproxy.plan.engines.duckdb import DuckDB
from dpproxy.plan.expr import Lit
from dpproxy.plan.functions import NotPlain, typed_literal
from dpproxy.plan.model import Dialect


def engine(dialect: Dialect) -> Engine:
    """The spelling of a dialect. Raises ValueError for one we do not have."""
    if dialect == "duckdb":
        return DuckDB()
    raise ValueError(f"no engine for dialect {dialect}")


def literal(dialect: Dialect, type_: str, text: str | None) -> str:
    """A parameter's value, in PostgreSQL's text form, as a literal of the engine. Raises ValueError for what it can't take."""
    spelled = engine(dialect)
    if type_.endswith("[]"):
        element = type_[:-2]
        items = array_items(text) if text is not None else [None]
        return ", ".join(literal(dialect, element, item) for item in items) or spelled.literal(element, None)
    if text is None:
        return spelled.literal(type_, None)
    try:
        if type_ == "timestamptz":
            text = re.sub(r"[+-]\d\d(:?\d\d)*$", "", text)  # the session's local time, as all timestamptz are below
        value = typed_literal(type_, text)
    except NotPlain as error:
        raise ValueError(f"a value of type {type_} cannot be passed to the data backend") from error
    assert isinstance(value, Lit)
    return spelled.literal(type_, value.text)


def array_items(text: str) -> list[str | None]:
    """The elements of a one-dimensional array literal. Raises ValueError for other arrays."""
    body = text.strip()
    if not (body.startswith("{") and body.endswith("}")):
        raise ValueError("not a one-dimensional array")
    items: list[str | None] = []
    for match in _ITEM.finditer(body[1:-1]):
        quoted, plain = match.groups()
        if quoted is not None:
            items.append(re.sub(r"\\(.)", r"\1", quoted))
        elif plain:
            if "{" in plain:
                raise ValueError("not a one-dimensional array")
            items.append(None if plain.upper() == "NULL" else plain)
    return items


_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,]+)')

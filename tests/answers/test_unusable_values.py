"""The remedy of a value that cannot be given is for whoever gave it: a client's parameter, or a part of the statement."""

from __future__ import annotations

import json

import pytest

from dpproxy.answers.unusable_values import ROWS, TEXT, VALUE, no_literal
from dpproxy.engines import literal
from dpproxy.errors import Refusal
from dpproxy.plan.context import MAX_STAGED_ROWS, too_many_rows
from dpproxy.plan.properties.text_growth import PARAMETER
from dpproxy.sql.template import NoLiteral, Param, Template

DIALECTS = ("duckdb", "postgres", "spark")
TYPES = ("text", "varchar", "text[]", "date", "timestamp", "numeric", "date[]", "rows(date)", "rows(int8,text)")


def refused(type_: str, value: str, index: int, parameters: int, dialect: str = "duckdb") -> Refusal:
    with pytest.raises(NoLiteral) as unspelled:
        Template(dialect, ("SELECT ", Param(index, type_))).render((None,) * index + (value,), literal)  # type: ignore[arg-type]
    return no_literal(unspelled.value, parameters)


def unusable(type_: str) -> str:
    """A value of a type that no engine is given."""
    if type_ == "rows(date)":
        return json.dumps([["infinity"]])
    if type_.startswith("rows"):
        return json.dumps(too_many_rows(10))
    value = "x" * (PARAMETER + 1) if type_.removesuffix("[]") in ("text", "varchar") else "infinity"
    return f"{{{value}}}" if type_.endswith("[]") else value


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("type_", TYPES)
def test_a_parameter_is_named_where_there_is_one_and_nowhere_else(type_: str, dialect: str) -> None:
    computed = refused(type_, unusable(type_), 2, 2, dialect)
    assert computed.hint in (ROWS, TEXT, VALUE)
    assert "parameter" not in computed.message
    if type_.startswith("rows"):  # no client gives rows
        return
    given = refused(type_, unusable(type_), 2, 3, dialect)
    assert "$3" in (given.hint or "")
    assert "computes" not in (given.hint or "")
    texts = type_.startswith(("text", "varchar"))
    assert ("shorter" in (given.hint or ""), computed.hint == TEXT) == (texts, texts)


def test_too_many_rows_are_told_with_their_limit() -> None:
    told = refused("rows(int8,text)", unusable("rows(int8,text)"), 0, 0)
    assert told.message == "more than 10 rows that the statement computes are to be joined with private ones"
    assert (told.sqlstate, "LIMIT" in (told.hint or "")) == ("54000", True)
    many = refused("rows(int8)", json.dumps([["1"]] * (MAX_STAGED_ROWS + 1)), 0, 0)
    assert "more than 100,000 rows" in many.message

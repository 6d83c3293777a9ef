"""What stands in FROM is public only where its form is known to be; `fixtures/bind/sources.yaml` has the forms there are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.bind.sources import Sources
from dpproxy.sql.dialect import ident
from dpproxy.sql.statements import parse
from dpproxy.sql.trees import sources_of

NOBODY: Any = SimpleNamespace(context=None, counter=None)


@pytest.mark.parametrize("text", ["(VALUES (1), (2)) AS v(x)", "unnest(ARRAY[1, 2]) AS v(x)"])
def test_constants_are_public(text: str) -> None:
    select = parse(f"SELECT count(*) FROM {text}")
    assert isinstance(select, exp.Select)
    (item,) = Sources(NOBODY, {}, None).items(select)
    assert item.rows is None
    assert item.alias == "v"


@pytest.mark.parametrize(
    "node", [exp.Paren(this=exp.to_table("orders")), exp.to_identifier("orders"), exp.column("orders"), exp.Dot()]
)
def test_a_form_that_is_not_known_is_no_public_table(node: exp.Expr) -> None:
    """An identifier in place of a table was taken for public: what is not known is refused."""
    select = parse("SELECT count(*) FROM customers AS c")
    assert isinstance(select, exp.Select)
    (table,) = sources_of(select)
    assert ident(table.args["alias"].this) == "c"
    table.replace(node)
    with pytest.raises(Refusal) as refusal:
        Sources(NOBODY, {}, None).items(select)
    assert refusal.value.sqlstate == FEATURE_NOT_SUPPORTED

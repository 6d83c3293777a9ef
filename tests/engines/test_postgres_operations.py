"""PostgreSQL's operators and functions of constants: the values every engine gives, and NULL where PostgreSQL raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from operation_cases import UNHEARD, VALUES
from small_expressions import call, lit

from dpproxy.engines.postgres import Postgres
from dpproxy.errors import Refusal
from dpproxy.sql.template import hole
from dpproxy.tree.expr import Expr, Hole

Ask = Callable[[str], Any]


def test_values(ask_postgres: Ask) -> None:
    for expr, value in VALUES:
        found = ask_postgres(Postgres().expr(expr, {}))
        assert found == value or float(found) == value, expr


@pytest.mark.parametrize(("base", "exponent"), [("0", "-1"), ("-8", "0.5"), ("1e300", "2"), ("-1e300", "3")])
@pytest.mark.parametrize("type_", ["float8", "numeric"])
def test_powers_that_raise(base: str, exponent: str, type_: str, ask_postgres: Ask) -> None:
    power = call("power", lit(base, type_), lit(exponent, type_), type_=type_)
    assert ask_postgres(Postgres().expr(power, {})) is None


def test_patterns_of_clients(ask_postgres: Ask) -> None:
    """One that ends in its escape character raises, but only for rows that match so far."""
    text = Postgres().expr(call("like", lit("a", "text"), Hole("text", 0)), {})
    for pattern, found in (("a%", True), ("b", False), ("a\\", None), ("a\\\\", False)):
        assert ask_postgres(text.replace(hole(0, "text"), f"'{pattern}'::text")) is found


@pytest.mark.parametrize(("expr", "sqlstate"), [
    (UNHEARD, "0A000"),
    (call("like", lit("a", "text"), lit("a", "text"), lit("xy", "text")), "22025"),
])  # fmt: skip
def test_what_is_not_known_is_refused(expr: Expr, sqlstate: str) -> None:
    with pytest.raises(Refusal) as caught:
        Postgres().expr(expr, {})
    assert caught.value.sqlstate == sqlstate

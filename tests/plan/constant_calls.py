"""Functions of the allow-list applied to constants: what their SQL is worth, and what PostgreSQL's own call is."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from dpproxy.engines import engine
from dpproxy.errors import Refusal
from dpproxy.plan.functions.registry import called
from dpproxy.tree.expr import Expr, Lit

Args = tuple[tuple[str, str | None], ...]
"""Type and text of each argument; `int4` constants are written bare, since some functions take no other."""


def call(name: str, args: Args) -> Expr:
    """The built expression. Raises Refusal."""
    return called(name, [Lit(type_, text) for type_, text in args])


def ours(expr: Expr, postgres: psycopg.Connection[Any]) -> str | None:
    return _asked(engine("postgres").expr(expr, {}), postgres)


def theirs(name: str, args: Args, postgres: psycopg.Connection[Any]) -> str | None:
    """None where PostgreSQL raises: such values are NULL below an aggregate."""
    texts = ["NULL" if text is None else text if type_ == "int4" else f"'{text}'::{type_}" for type_, text in args]
    try:
        return _asked(f"{name}({', '.join(texts)})", postgres)
    except psycopg.DataError:
        return None


def is_postgresqls(name: str, args: Args, postgres: psycopg.Connection[Any]) -> None:
    """Fails where the call is worth something else than PostgreSQL's; of numbers, but for their last digits."""
    found, expected = ours(call(name, args), postgres), theirs(name, args, postgres)
    assert found == expected or (found is not None and expected is not None and float(found) == pytest.approx(float(expected)))


def is_refused(name: str, args: Args, sqlstate: str) -> None:
    """Fails where the call is taken, or refused with another SQLSTATE."""
    with pytest.raises(Refusal) as caught:
        call(name, args)
    assert caught.value.sqlstate == sqlstate


def _asked(text: str, postgres: psycopg.Connection[Any]) -> str | None:
    found = postgres.execute(f"SELECT ({text})::text".encode(), prepare=False).fetchone()
    assert found is not None
    value: str | None = found[0]
    return value

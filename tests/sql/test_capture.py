"""Expressions put into another scope: each name keeps its meaning, or the expression is not put there."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dpproxy.sql.capture import at_spot, hides, queries_between
from dpproxy.sql.dialect import ident, to_sql
from dpproxy.sql.statements import parse
from dpproxy.sql.trees import sources_of

COLUMNS = {"t": frozenset({"a", "b"}), "u": frozenset({"a", "c"})}


def columns(table: exp.Table) -> frozenset[str] | None:
    return COLUMNS.get(ident(table.this))


def placed(meaning: str, sql: str) -> str | None:
    """`meaning`, which sees the first item of FROM, in place of `x.s`; the second item is the one taken out."""
    home, value = parse(sql), parse(f"SELECT {meaning}").find(exp.Select)
    assert isinstance(home, exp.Select)
    assert value is not None
    (spot,) = (c for c in home.find_all(exp.Column) if ident(c.args.get("table")) == "x")
    first, *others = sources_of(home)
    made = at_spot(value.expressions[0], home, ([first], others), spot, columns)
    return None if made is None else to_sql(made)


@pytest.mark.parametrize(
    ("meaning", "sql", "made"),
    [
        ("a + 1", "SELECT x.s FROM t, x", "(t.a + 1)"),
        ("a + 1", "SELECT 1 FROM t, x WHERE EXISTS (SELECT 1 FROM u WHERE c = x.s)", "(t.a + 1)"),
        ("o.a", "SELECT 1 FROM t o, x WHERE EXISTS (SELECT 1 FROM u WHERE c = x.s)", "(o.a)"),
        ("a", "SELECT 1 FROM t, x WHERE EXISTS (SELECT 1 FROM u t WHERE t.c = x.s)", None),
        ("t.a", "SELECT 1 FROM t, x WHERE EXISTS (SELECT 1 FROM u WHERE c IN (SELECT x.s FROM t))", None),
        ("t.a", "SELECT 1 FROM t, x WHERE EXISTS (SELECT 1 FROM (v JOIN u t ON TRUE) WHERE c = x.s)", None),
        ("t.a", "SELECT x.s FROM t, x, u t", None),
        ("o.a", "SELECT x.s FROM t, x, u o", None),
        ("z", "SELECT x.s FROM t, x, v", None),
        ("z", "SELECT x.s FROM v, x", "(v.z)"),
        ("z", "SELECT 1 FROM (v JOIN w ON TRUE), x WHERE EXISTS (SELECT 1 FROM u WHERE c = x.s)", None),
        ("2", "SELECT x.s FROM t, x", "(2)"),
        ("2", "SELECT a FROM t, x ORDER BY x.s", None),
        ("2", "SELECT (SELECT max(x.s) FROM u) FROM t, x", None),
        ("(SELECT max(c) FROM u)", "SELECT x.s FROM t, x", None),
        ("t", "SELECT x.s FROM t, x", None),
    ],
)  # fmt: skip
def test_names_mean_there_what_they_meant(meaning: str, sql: str, made: str | None) -> None:
    assert placed(meaning, sql) == made


def test_the_queries_around_a_name() -> None:
    home = parse("SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM u o WHERE EXISTS (SELECT 1 FROM v WHERE k = 1))")
    assert isinstance(home, exp.Select)
    (column,) = home.find_all(exp.Column)
    inner, outer = queries_between(column, home)
    assert [hides(inner, "v"), hides(outer, "o"), hides(outer, "u"), hides(outer, "v")] == [True, True, False, False]

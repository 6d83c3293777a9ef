"""Hostile texts are cut off before the parser sees them: sqlglot is exponential on some of a hundred characters."""

from __future__ import annotations

import contextlib
from functools import partial

import pytest

from dpproxy.errors import Refusal
from dpproxy.sql.statements import parse, split
from tests.worlds.work import calls

NAMES = frozenset({"t"})
MOST = 1_000_000
"""Function calls that reading a text may take; none takes half of it. The worst of them take thousands of times as many without
the guard."""

HOSTILE = {
    "arrays 18 deep": "SELECT " + "ARRAY[" * 18 + "1" + "]" * 18 + " FROM t",
    "arrays 200 deep": "SELECT " + "ARRAY[" * 200 + "1" + "]" * 200 + " FROM t",
    "arrays never closed": "SELECT " + "ARRAY[" * 22 + " FROM t",
    "subscripts": "SELECT a" + "[1" * 30 + "]" * 30 + " FROM t",
    "subscripts of subscripts": "SELECT a" + "[1]" * 250 + " FROM t",
    "joins without ON": "SELECT count(*) FROM t " + "JOIN t " * 20,
    "joins, then as many ON": "SELECT count(*) FROM t " + "JOIN t " * 30 + "ON true " * 30,
    "many joins": "SELECT count(*) FROM t " + "JOIN t ON true " * 100,
    "natural joins": "SELECT count(*) FROM t " + "NATURAL JOIN t " * 200,
    "cross joins": "SELECT count(*) FROM t " + "CROSS JOIN t " * 200,
    "apply": "SELECT count(*) FROM t " + "CROSS APPLY t " * 200,
    "parentheses": "SELECT " + "(" * 60 + "1" + ")" * 60 + " FROM t",
    "parentheses never closed": "SELECT " + "(" * 2000 + " FROM t",
    "subqueries": "SELECT * FROM " + "(SELECT * FROM " * 100 + "t" + ") x" * 100,
    "negations": "SELECT " + "NOT " * 200 + "true FROM t",
    "minus signs": "SELECT " + "- " * 3000 + "1 FROM t",
    "tildes": "SELECT " + "~ " * 3000 + "1 FROM t",
    "conjunction": "SELECT count(*) FROM t WHERE " + " AND ".join(["a = 1"] * 3000),
    "sum": "SELECT " + " + ".join(["1"] * 3900) + " FROM t",
    "comparisons": "SELECT " + " < ".join(["1"] * 3900) + " FROM t",
    "dots": "SELECT " + ".".join(["a"] * 3000) + " FROM t",
    "casts": "SELECT 1" + "::int" * 2500 + " FROM t",
    "cases": "SELECT " + "CASE WHEN true THEN " * 400 + "1" + " END" * 400 + " FROM t",
    "unions": " UNION ".join(["SELECT 1 FROM t"] * 1500),
    "ctes": "WITH " + ", ".join(f"a{i} AS (SELECT 1 FROM t)" for i in range(700)) + " SELECT 1 FROM a1",
    "calls": "SELECT " + "f(" * 300 + "1" + ")" * 300 + " FROM t",
    "braces": "SELECT " + "{" * 300 + "}" * 300 + " FROM t",
    "intervals": "SELECT " + "INTERVAL " * 2000 + "'1 day' FROM t",
    "windows": "SELECT " + "sum(" * 22 + "1" + ") OVER (PARTITION BY 1)" * 22 + " FROM t",
    "long text": "SELECT '" + "x" * 70_000 + "' FROM t",
    "many tokens": "SELECT " + ",".join(["1"] * 5000) + " FROM t",
    "one long identifier": "SELECT " + "a" * 60_000 + " FROM t",
    "many quotes": "SELECT " + "''" * 20_000 + " FROM t",
    "comments": "SELECT 1 " + "/* */ " * 9_000 + "FROM t",
    "nested comments": "SELECT 1 " + "/*" * 15_000 + "*/" * 15_000 + " FROM t",
    "dollar quotes": "SELECT " + "$a$" * 3001 + " FROM t",
    "keywords": "SELECT " + "ORDER BY LIMIT GROUP " * 900 + "FROM t",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_cut_off(name: str) -> None:
    def read() -> None:
        with contextlib.suppress(Refusal):
            for statement in split(HOSTILE[name], NAMES):
                parse(statement.query)

    calls(read, MOST)


@pytest.mark.parametrize("name", ["arrays 18 deep", "joins without ON", "parentheses", "subqueries", "negations", "minus signs"])
def test_the_refusal_says_why(name: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse(HOSTILE[name])
    assert caught.value.sqlstate == "54001"
    assert caught.value.position is not None, "where"


@pytest.mark.parametrize("name", ["long text", "many tokens"])
def test_a_statement_that_is_too_long_is_told_how_to_be_short(name: str) -> None:
    with pytest.raises(Refusal) as caught:
        split(HOSTILE[name], NAMES)
    assert (caught.value.sqlstate, caught.value.hint) == (
        "54001",
        "Pass a long list as one array: x = ANY ($1), or x = ANY ('{1,2,3}').",
    )


def test_what_people_write_is_let_through() -> None:
    """Just below the caps; the largest statement of the acceptance corpus has 2,100 tokens and 12 levels."""
    deep = "SELECT count(*) FROM t WHERE " + "(" * 20 + "a = 1" + ")" * 20
    joins = "SELECT count(*) FROM t " + "".join(f"JOIN t t{i} ON t{i}.a = t.a " for i in range(35))
    wide = "SELECT count(*) FROM t WHERE " + " OR ".join(f"a = {i}" for i in range(900))
    listed = f"SELECT count(*) FROM t WHERE a IN ({', '.join(map(str, range(3500)))})"
    for text in (deep, joins, wide, listed):
        (statement,) = split(text, NAMES)
        assert statement.private
        calls(partial(parse, text), MOST)

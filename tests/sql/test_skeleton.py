"""A text's tree is the parser's, whatever was parsed before it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlglot import exp

from dpproxy.sql import skeleton
from dpproxy.sql.dialect import copied, to_sql
from dpproxy.sql.skeleton import written

TEXTS = [
    "(GREATEST(dpproxy_m1.b12, 0))",
    "(CASE WHEN dpproxy_m1.b0 >= 2 THEN CAST(sqrt((10.50 + -3 / GREATEST(dpproxy_m1.b0, 1)::float8)) AS numeric) END)",
    "SELECT 1 FROM unnest($1::int8[], $12::text[]) AS dpproxy_m2(k0, b0)",
    "CAST('12 ''5'' 7' AS text) || \"9 a\" || dpproxy_m3.s1_2",
    "x[1] + x[2] + 3",
    "0.5 * .5 * 5e3 * float8 '5' - 2",
    "CAST(a1 AS decimal(38, 9))",
    "(SELECT max(dpproxy_m1.k3) FROM t OFFSET 0)",
]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    skeleton._parsed_form.cache_clear()


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "change", [lambda t: t, lambda t: t.replace("2", "31").replace("0", "7"), lambda t: t.replace("1", "10")]
)
def test_as_the_parser_has_it(text: str, change: Callable[[str], str]) -> None:
    for asked in (text, change(text), text):
        found, expected = skeleton.parse_expression(asked), copied(skeleton.parsed(asked))
        assert repr(found) == repr(expected)
        assert to_sql(found) == to_sql(expected)


def test_a_form_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    plain = skeleton.parsed
    monkeypatch.setattr(skeleton, "parsed", lambda text: (asked.append(text), plain(text))[1])
    trees = [skeleton.parse_expression(f"(dpproxy_m{1}.b{i} * {i + 1}.25)") for i in range(50)]
    assert len(asked) == 1
    assert [to_sql(tree) for tree in trees[:2]] == ["(dpproxy_m1.b0 * 1.25)", "(dpproxy_m1.b1 * 2.25)"]


def test_trees_are_the_callers_own() -> None:
    text = "(dpproxy_m1.b0 + 1)"
    skeleton.parse_expression(text).this.set("expression", None)
    assert to_sql(skeleton.parse_expression(text)) == text


def test_a_number_that_the_parser_changes() -> None:
    """It counts elements from 0: their stand-ins are not found again."""
    assert to_sql(skeleton.parse_expression("x[1]")) == "x[1]"
    assert to_sql(skeleton.parse_expression("x[2]")) == "x[2]"
    assert skeleton._parsed_form("x[9000000000]", ("9000000000",)) is None


def test_a_text_is_written_as_it_stands() -> None:
    """Its calls are trees, which whoever knows their numbers replaces."""
    text = "WITH a AS (SELECT x::float8 -- f(1)\n FROM t) SELECT f(3, 1) + half(2), 'f(x)'"
    tree = written(text, "f")
    assert to_sql(tree) == text
    first, second = tree.expressions
    assert [first.sql(), second.sql()] == ["F(1)", "F(3, 1)"]
    second.replace(exp.Literal.number("0.5"))
    assert to_sql(tree) == text.replace("f(3, 1)", "0.5")

"""The outer query as text: what is replaced, what is quoted, which columns it gets; and the guess at it."""

from __future__ import annotations

import pytest

from dpproxy.session.outer_text import Outer, Outers, array_constant, same_columns, with_literals, wrapped
from dpproxy.wire.backend import Field


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT $1, $2", "SELECT A, B"),
        ("SELECT $12, $1", "SELECT $12, A"),
        ("SELECT '$1', \"$1\", $1", "SELECT '$1', \"$1\", A"),
        (r"SELECT E'\'$1', '$1''$1', $1", r"SELECT E'\'$1', '$1''$1', A"),
        ("SELECT $$ $1 $$, $x$ $1 $$ $x$, $1", "SELECT $$ $1 $$, $x$ $1 $$ $x$, A"),
        ("SELECT $1 -- $1\n, $2 /* $1 */", "SELECT A -- $1\n, B /* $1 */"),
        ("SELECT a$1, $1::text", "SELECT a$1, A::text"),
    ],
)
def test_parameters_become_literals_outside_strings(sql: str, expected: str) -> None:
    assert with_literals(sql, {1: "A", 2: "B"}) == expected


def test_array_constant_is_quoted() -> None:
    assert array_constant(b'{"a\'\\\\"}', "text") == """ E'{"a''\\\\\\\\"}'::text[]"""


def test_wrapping() -> None:
    fields = [Field('Na"me', 25), Field("n", 20)]
    assert not same_columns(fields, [Field("n", 25), Field("n", 20)])
    assert not same_columns(fields, fields[:1])
    assert same_columns(fields, [Field('Na"me', 25, table=5), Field("n", 20, modifier=7)])
    assert not same_columns([Field("n", 1700, modifier=655366)], [Field("n", 1700)])
    expected = 'SELECT c0::text AS "Na""me", c1::bigint AS "n" FROM (\nSELECT 1\n) AS _ (c0, c1)'
    assert wrapped("SELECT 1", fields, ["text", "bigint"]) == expected


def test_what_is_beyond_ascii_is_written_in_it() -> None:
    """Whatever the client's encoding is."""
    assert array_constant("{é,𝄞}".encode(), "text") == " E'{\\U000000e9,\\U0001d11e}'::text[]"


def test_lengths_count_where_the_original_has_them() -> None:
    assert same_columns([Field("n", 1043, modifier=-1)], [Field("n", 1043, modifier=14)])
    assert not same_columns([Field("n", 1043, modifier=14)], [Field("n", 1043, modifier=-1)])


def test_a_guess_is_of_the_role_and_the_text_and_the_oldest_goes_first() -> None:
    outers = Outers(2)
    one, two, three = (Outer("planned", f"text {i}", (), None) for i in range(3))
    outers.learn("analyst", "SELECT 1", one)
    outers.learn("clerk", "SELECT 1", two)
    assert outers.guess("analyst", "SELECT 1") is one
    assert outers.guess("clerk", "SELECT 1") is two
    assert outers.guess("analyst", "SELECT 2") is None
    outers.learn("analyst", "SELECT 1", one)
    outers.learn("clerk", "SELECT 2", three)
    assert [outers.guess(*k) for k in (("analyst", "SELECT 1"), ("clerk", "SELECT 1"), ("clerk", "SELECT 2"))] == [
        one,
        None,
        three,
    ]

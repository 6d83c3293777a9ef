"""What is the same in all engines: holes, quoting, and an end to what grows."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_expressions import call, column, lit, ref

from dpproxy.engines import engine
from dpproxy.engines.base import MAX_TEXT, check_number, quote
from dpproxy.errors import Refusal
from dpproxy.policy.names import quote_name
from dpproxy.sql.template import Dialect, Param, Template, hole, split_holes
from dpproxy.tree.expr import Case, Expr, Hole, InList

plain = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=8)
DIALECTS: tuple[Dialect, ...] = ("duckdb", "postgres")


@given(
    st.lists(plain | st.tuples(st.integers(0, 99), st.sampled_from(["int4", "text[]", "rows(text,int8)", "numeric"])), max_size=8)
)
def test_texts_are_split_at_their_holes(parts: list[str | tuple[int, str]]) -> None:
    text = "".join(p if isinstance(p, str) else hole(*p) for p in parts)
    found = split_holes(text)
    expected: list[str | Param] = []
    for part in parts:
        if isinstance(part, str) and expected and isinstance(expected[-1], str):
            expected[-1] += part
        else:
            expected.append(part if isinstance(part, str) else Param(*part))
    assert list(found) == expected
    assert Template.of("duckdb", text).parts == found


@given(plain)
def test_quoted_texts_are_themselves(text: str) -> None:
    found = duckdb.connect().execute(f"SELECT {quote(text)} AS {quote_name(text)}")
    assert found.fetchone() == (text,)


def test_a_nul_is_no_text() -> None:
    with pytest.raises(Refusal):
        quote("a\0b")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_grows_beyond_reason_is_refused(dialect: Dialect) -> None:
    long = InList("bool", ref(column(1, "text")), tuple(lit("x" * 50, "text") for _ in range(MAX_TEXT // 50)))
    with pytest.raises(Refusal) as caught:
        engine(dialect).expr(long, {1: "x"})
    assert caught.value.sqlstate == "54001"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_parts_stand_in_their_places(dialect: Dialect) -> None:
    spelled = engine(dialect)
    x = ref(column(1, "bool"))
    case = Case("int4", ((x, lit("1")),), lit("2"))
    text = spelled.expr(case, {1: "t.x"})
    assert text.index("t.x") < text.index("1") < text.index("2")
    assert hole(3, "int4") in spelled.expr(Hole("int4", 3), {})
    with pytest.raises(Refusal):
        spelled.expr(x, {})


def test_functions_of_numbers_are_given_numbers() -> None:
    for type_ in ("int4", "numeric", "float8", "unknown"):
        check_number(lit("1", type_))
    for wrong in (lit("1", "text"), call("upper", lit("x", "text"), type_="text")):
        with pytest.raises(Refusal):
            check_number(wrong)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("items", "negated", "found"),
    [
        (("1", "2"), False, True),
        (("2", "3"), False, False),
        (("1",), True, False),
        (("2", None), True, None),
        (("1", None), False, True),
    ],
)
def test_lists(items: tuple[str | None, ...], negated: bool, found: bool | None, dialect: Dialect) -> None:
    parts: tuple[Expr, ...] = tuple(lit(i) for i in items)
    text = engine(dialect).expr(InList("bool", ref(column(1)), parts, negated), {1: "CAST(1 AS BIGINT)"})
    assert duckdb.connect().execute(f"SELECT {text}").fetchone() == (found,)


@pytest.mark.parametrize("dialect", [*DIALECTS, "spark"])
def test_equal_keys_look_alike(dialect: Dialect) -> None:
    """Of -0 and 0, of 1.0 and 1.00, and of a month and 30 days an engine shows the one it meets first."""
    spelled = engine(dialect)
    for type_ in ("numeric", "float8", "float4"):
        column_ = ref(column(1, type_))
        assert spelled.key(column_, {1: "x"}) == spelled.plain(spelled.output(column_, {1: "x"}), type_) != "x"
    if dialect != "spark":  # which has none of these keys
        assert spelled.key(ref(column(1, "interval")), {1: "x"}) != spelled.output(ref(column(1, "interval")), {1: "x"})
    assert spelled.key(ref(column(1, "text")), {1: "x"}) == spelled.output(ref(column(1, "text")), {1: "x"})

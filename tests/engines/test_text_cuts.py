"""Texts that grow: cut to a length at their leaves, whatever the data, so that no result is longer than is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from small_expressions import call, column, lit, ref

from dpproxy.engines import engine
from dpproxy.engines.postgres_operations import LONG, null_beyond_limit
from dpproxy.sql.template import Dialect
from dpproxy.tree.expr import Call, Cast, Expr, Hole

Ask = Callable[[str], Any]
A, B = ref(column(1, "text")), ref(column(2, "text"))
CUT = 100
LARGE = "repeat('x', 5000)"


def text(op: str, *args: Expr) -> Call:
    return call(op, *args, type_="text")


def word(value: str) -> Expr:
    return lit(value, "text")


GROWN: list[tuple[Expr, int]] = [
    (text("concat", A, B), 2 * CUT),
    (text("concat", text("concat", A, A), text("concat", A, A)), 4 * CUT),
    (text("repeat", A, lit("3")), 3 * CUT),
    (text("replace", A, word("x"), word("yz")), 2 * CUT),
    (text("regexp_replace", A, word("x"), word("yz"), word("g")), 2 * CUT),
    (text("concat", word("a" * 7), A), CUT + 7),
    (text("concat_ws", word("--"), A, B), 2 * CUT + 2),
]


@pytest.mark.parametrize(("expr", "longest"), GROWN, ids=lambda x: x.op if isinstance(x, Call) else "")
@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_leaves_are_cut(expr: Expr, longest: int, dialect: Dialect, ask_duckdb: Ask, ask_postgres: Ask) -> None:
    ask = ask_duckdb if dialect == "duckdb" else ask_postgres
    spelled = engine(dialect, CUT).expr(expr, {1: LARGE, 2: LARGE})
    assert ask(f"length({spelled})") == longest
    short = engine(dialect, CUT).expr(expr, {1: "'abc'", 2: "'de'"})
    assert ask(f"length({short})") < CUT, "short texts stay"


def test_functions_that_widen_are_not_computed_of_long_texts(ask_postgres: Ask) -> None:
    body = null_beyond_limit("upper(t)", (A,), ["t"])
    assert body == f"(CASE WHEN octet_length(t) <= {LONG} THEN upper(t) END)"
    assert (
        ask_postgres(body.replace("upper(t)", "upper(x)").replace("octet_length(t)", str(LONG + 1)).replace("x", "'x'")) is None
    )


@pytest.mark.parametrize(
    "short",
    [
        word("x"),
        Hole("text", 0),
        Cast("text", ref(column(3, "int4"))),
        text("md5", A),
        text("left", text("md5", A), lit("3")),
        text("concat", A, B),
        text("lower", A),
        Cast("text", word("x")),
    ],
)
def test_what_is_known_to_be_short_is_not_asked(short: Expr) -> None:
    assert null_beyond_limit("upper(t)", (short,), ["t"]) == "upper(t)"


@pytest.mark.parametrize("long", [A, Cast("text", A), text("left", A, lit("3")), text("coalesce", A, B)])
def test_of_the_rest_it_is(long: Expr) -> None:
    assert "octet_length" in null_beyond_limit("trim(t)", (long,), ["t"])
    needing = engine("postgres").expr(text("lower", long), {1: "t", 2: "u"})
    assert f"<= {LONG}" in needing
    assert f"<= {LONG}" not in engine("postgres").expr(call("length", long, type_="int4"), {1: "t", 2: "u"}), (
        "which needs no more room"
    )

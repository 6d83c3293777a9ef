"""Texts that grow: no value is longer than its form says, whatever the data."""

from __future__ import annotations

import random

import duckdb
import pytest

from dpproxy.engines import engine, literal
from dpproxy.plan.operations.bounds import PADDED
from dpproxy.plan.properties import text_growth
from dpproxy.tree.expr import Call, Case, Cast, Column, Expr, Hole, Lit, Ref

A, B = (Ref("text", Column(i, name, "text")) for i, name in enumerate("ab"))
LONG = {"a": "x" * 5000, "b": "yx" * 4000}  # longer than any cut of the test
CUT = 100


def text(value: str) -> Expr:
    return Lit("text", value)


def whole(value: int) -> Expr:
    return Lit("int4", str(value))


def grown(r: random.Random, depth: int) -> Expr:
    if depth == 0:
        return r.choice([A, B, text("x"), text("xyx")])
    inner = grown(r, depth - 1)
    other = grown(r, r.randrange(depth))
    match r.randrange(10):
        case 0:
            return Call("text", "concat", (inner, other, inner))
        case 1:
            return Call("text", "concat_ws", (text("--"), inner, other))
        case 2:
            return Call("text", "replace", (inner, text("x"), text("12345")))
        case 3:
            return Call("text", "repeat", (inner, whole(r.randrange(1, 20))))
        case 4:
            return Call("text", "regexp_replace", (inner, text("x"), text("abc"), text("g")))
        case 5:
            return Call("text", "coalesce", (inner, other))
        case 6:
            return Call("text", r.choice(["lower", "upper", "reverse", "md5"]), (inner,))
        case 7:
            return Call("text", "left", (inner, whole(r.randrange(1, 300))))
        case 8:
            return Call("text", r.choice(["lpad", "rpad"]), (inner, whole(1000), text("-")))
    return Case("text", ((Call("bool", "is_not_null", (A,)), inner),), other)


def test_what_is_built_is_what_is_not_there_already() -> None:
    def built(expr: Expr) -> int:
        return text_growth.built(expr, {0: 50, 1: 60}, CUT)

    chosen = Case("text", ((Call("bool", "is_not_null", (A,)), A),), B)
    assert built(A) == built(chosen) == built(Call("text", "coalesce", (A, B))) == 0
    assert built(Call("text", "lower", (A,))) == 4 * 50
    assert built(Call("text", "concat", (A, B))) == 4 * 2 * CUT
    assert built(Call("text", "lower", (Call("text", "concat", (A, B)),))) == 2 * 4 * 2 * CUT
    assert built(Call("text", "concat", (Call("text", "concat", (A, text("-"))), B))) == 4 * (2 * CUT + 1)
    assert built(Cast("text", Ref("int4", Column(2, "n", "int4")))) == text_growth.USUAL
    assert built(Call("bool", "=", (Call("text", "repeat", (A, whole(7))), A))) == 4 * 7 * CUT


def test_a_part_is_as_long_as_it_is_asked_for() -> None:
    def replaced(value: Expr) -> int:
        return text_growth.length(Call("text", "replace", (A, text("x"), value)), {}, CUT)

    assert replaced(Call("text", "left", (B, whole(7)))) == 7 * CUT
    assert replaced(Call("text", "substring", (B, whole(3), whole(5)))) == 5 * CUT
    assert replaced(Call("text", "left", (B, whole(-7)))) == replaced(B) == CUT * CUT
    assert replaced(Call("text", "md5", (B,))) == 32 * CUT


@pytest.mark.parametrize("seed", range(150))
def test_no_value_is_longer(seed: int) -> None:
    """With the lengths that the columns really have; where they are cut it is by the text that is run."""
    expr = grown(random.Random(seed), 3)
    columns = ", ".join(f"'{value}' AS {name}" for name, value in LONG.items())
    spelled = engine("duckdb", CUT).expr(expr, {0: "t.a", 1: "t.b"})
    with duckdb.connect() as data:
        (found,) = data.execute(f"SELECT length({spelled}) FROM (SELECT {columns}) AS t").fetchone() or (0,)
    lengths = {0: len(LONG["a"]), 1: len(LONG["b"])}
    assert (found or 0) <= text_growth.length(expr, lengths, CUT) <= text_growth.made(expr, lengths, CUT) + max(lengths.values())


def test_what_is_made_grows_with_each_use() -> None:
    once = Call("text", "concat", (A, A))
    twice = Call("text", "concat", (once, once))
    assert text_growth.made(twice, {}, CUT) > 2 * text_growth.made(once, {}, CUT)
    assert text_growth.made(A, {}, CUT) == text_growth.made(text("x" * 9999), {}, CUT) == 1  # they are there anyway


def test_what_is_made_of_parts_adds_up() -> None:
    one, other = (Call("text", "repeat", (A, whole(n))) for n in (7, 9))
    both = Case("text", ((Call("bool", "is_null", (A,)), one),), other)
    parts = text_growth.made(one, {}, CUT) + text_growth.made(other, {}, CUT)
    assert parts >= text_growth.BYTES * 16 * CUT
    assert text_growth.made(both, {}, CUT) > parts + text_growth.BYTES * text_growth.length(both, {}, CUT), (
        "and what is chosen is copied"
    )


def test_shared_parts_are_looked_at_once() -> None:
    """Doubled sixty times: as long as a text may be said to be, and said at once."""
    expr: Expr = A
    for _ in range(60):
        expr = Call("text", "concat", (expr, expr))
    assert text_growth.length(expr, {}, CUT) == text_growth.MOST
    assert text_growth.made(expr, {}, CUT) == text_growth.MOST


def test_a_parameter_is_as_long_as_it_may_be() -> None:
    assert text_growth.length(Hole("text", 0), {}, CUT) == text_growth.PARAMETER
    assert literal("duckdb", "text", "x" * text_growth.PARAMETER)
    with pytest.raises(ValueError, match="more than 10,000 characters"):
        literal("duckdb", "text", "x" * (text_growth.PARAMETER + 1))


def test_looking_for_a_long_pattern_costs_more() -> None:
    short, long = (Call("bool", "regex", (A, text("x" * n))) for n in (4, 800))
    assert text_growth.made(long, {}, CUT) > 50 * text_growth.made(short, {}, CUT)


@pytest.mark.parametrize(
    "form", ["%Y-%m-%d %H:%M:%S", "%d.%m.%Y", "%B %A %b %a", "%j %G-%V %u %y %I %p", "%f", "%-d/%-m", "100%%"]
)
def test_a_format_prints_no_more_than_is_said(form: str) -> None:
    printed = Call("text", "strftime", (Ref("timestamp", Column(9, "t", "timestamp")), text(form)))
    said = text_growth.length(printed, {}, CUT)
    moments = ("0001-01-01", "1999-09-29 23:59:59.999999", "2024-12-31 12:34:56.789", "9999-12-31", "290000-09-29")
    with duckdb.connect() as connection:
        longest = max(
            len(connection.execute("SELECT strftime(CAST(? AS TIMESTAMP), ?)", [m, form]).fetchone()[0]) for m in moments
        )
    assert longest <= said <= 3 * longest + 8


def test_padding_to_a_constant_is_that_long() -> None:
    assert text_growth.length(Call("text", "lpad", (A, whole(5), text("0"))), {}, CUT) == 5
    assert text_growth.length(Call("text", "lpad", (A, whole(5000), text("0"))), {}, CUT) == PADDED


def test_one_arm_of_a_case_is_built() -> None:
    arms = [Call("text", "lpad", (A, whole(n), text("0"))) for n in (100, 300)]
    chosen = Case("text", ((Call("bool", "is_null", (B,)), arms[0]),), arms[1])
    assert text_growth.built(chosen, {}, CUT) == max(text_growth.built(arm, {}, CUT) for arm in arms)

"""Divisors that may be 0 are guarded wherever a division stands: generated ones are run by PostgreSQL with and without guards."""

from __future__ import annotations

import itertools
import random
from typing import Any

import psycopg
import pytest
from sqlglot import exp

from dpproxy.plan.outer.safe_division import never_zero, with_safe_division
from dpproxy.sql.dialect import to_sql
from dpproxy.sql.skeleton import parse_expression

DIVISION_BY_ZERO = "22012"
DIVISIONS = (
    "{0} / {1}", "{0} % {1}", "mod({0}, {1})", "DIV({0}, {1})", "pg_catalog.mod({0}, {1})", "{0} OPERATOR(pg_catalog./) {1}",
    "{0} OPERATOR(%) {1}",
)  # fmt: skip
OTHERS = (
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "-{0}", "abs({0})", "coalesce({0}, {1})", "nullif({0}, {1})", "nullif({0}, 0)",
    "greatest({0}, 1)", "CASE WHEN {0} > {1} THEN {1} ELSE {0} END", "(SELECT {0})", "CASE {0} WHEN 0 THEN {1} END",
    "(SELECT sum(x / (y / x)) FILTER (WHERE x / (x % y) > 0) FROM (SELECT {0}, {1}) AS i(x, y))", "(SELECT min(x) OVER (ORDER BY {1}) FROM (SELECT {0}) AS i(x))", "(({0}))",
)  # fmt: skip
LEAVES = ("a", "b", "c", "0", "2", "t.a")
ROWS = list(itertools.product((0, 1, -3), (0, 2), (0, 7, None)))


def written(rng: random.Random, depth: int) -> str:
    """An expression of divisions within divisions, with parentheses around all that needs them."""
    if depth == 0:
        return rng.choice(LEAVES)
    form = rng.choice(DIVISIONS if rng.random() < 0.7 else OTHERS)
    return f"({form.format(written(rng, rng.randrange(depth)), written(rng, depth - 1))})"


def generated(seed: int) -> str:
    rng = random.Random(seed)
    return rng.choice(DIVISIONS).format(written(rng, 1), written(rng, 1 + seed % 4))


GENERATED = sorted({generated(seed) for seed in range(160)})


def guarded(sql: str) -> str:
    return to_sql(with_safe_division(parse_expression(sql)))


def values(postgres: psycopg.Connection[Any], sql: str, type_: str) -> list[str]:
    """What PostgreSQL makes of an expression, row by row: a value, or the state of an error."""
    told = []
    for row in ROWS:
        cells = ", ".join(f"{'NULL' if v is None else v}::{type_}" for v in row)
        try:
            cursor = postgres.execute(f"SELECT ({sql})::text FROM (VALUES ({cells})) AS t(a, b, c)".encode())
            told.append(str(cursor.fetchall()))
        except psycopg.Error as error:
            told.append(str(error.sqlstate))
    return told


@pytest.mark.parametrize("type_", ["numeric", "int8"])
def test_what_divides_by_zero_is_null_and_all_else_is_as_before(postgres: psycopg.Connection[Any], type_: str) -> None:
    failed = 0
    for sql in GENERATED:
        before, after = values(postgres, sql, type_), values(postgres, guarded(sql), type_)
        for old, new in zip(before, after, strict=True):
            assert new == old or old == DIVISION_BY_ZERO, f"{sql}: {old} became {new}"
            assert new.startswith("["), f"{sql} fails with {new}"
            failed += old == DIVISION_BY_ZERO
    assert failed > len(GENERATED) * len(ROWS) / 20, "too few divide by zero to tell"


def divided(tree: exp.Expr) -> list[str]:
    """The divisors of a tree, as text without parentheses around them."""
    found = [node.expression for node in tree.walk() if isinstance(node, exp.Div | exp.Mod | exp.Operator)]
    calls = (node for node in tree.walk() if isinstance(node, exp.Anonymous) and node.name.lower() in ("mod", "div"))
    found += [call.expressions[1] for call in calls]
    return [to_sql(f.unnest() if isinstance(f, exp.Paren) else f) for f in found]


@pytest.mark.parametrize("sql", GENERATED[::5])
def test_every_divisor_is_guarded_or_a_number(sql: str) -> None:
    tree = parse_expression(guarded(sql))
    assert divided(tree)
    for divisor in divided(tree):
        name = divisor.lower().partition("(")[0]
        assert (
            divisor == "2" or (name == "nullif" and divisor.endswith(", 0)")) or (name == "greatest" and divisor.endswith(", 1)"))
        )


@pytest.mark.parametrize("sql", GENERATED[::5])
def test_nothing_but_guards_is_added(sql: str) -> None:
    """A guard is written in capitals; those of the statement are not."""
    tree = with_safe_division(parse_expression(sql))
    for call in reversed(list(tree.find_all(exp.Anonymous))):
        if call.name == "NULLIF":
            call.replace(call.expressions[0])
    assert to_sql(tree) == to_sql(parse_expression(sql))
    assert guarded(guarded(sql)) == guarded(sql), "what is guarded is guarded once"


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("a / (b / c)", "a / NULLIF((b / NULLIF(c, 0)), 0)"),
        ("mod(a, mod(b, c % d))", "mod(a, NULLIF(mod(b, NULLIF(c % NULLIF(d, 0), 0)), 0))"),
        ("a / nullif(b / c, 0)", "a / nullif(b / NULLIF(c, 0), 0)"),
        (
            "sum(a / b) FILTER (WHERE a / (b / c) > 1)",
            "sum(a / NULLIF(b, 0)) FILTER(WHERE a / NULLIF((b / NULLIF(c, 0)), 0) > 1)",
        ),
        ("sum(a) OVER (ORDER BY a / (b % c))", "sum(a) OVER (ORDER BY a / NULLIF((b % NULLIF(c, 0)), 0))"),
        ("gcd(a, b)", "gcd(a, b)"),
        ("mod(a)", "mod(a)"),
    ],
)
def test_written_out(sql: str, wanted: str) -> None:
    assert guarded(sql) == wanted


@pytest.mark.parametrize(
    ("divisor", "never"),
    [
        ("2", True), ("0.5", True), ("((3))", True), ("nullif(x, 0)", True), ("nullif(x, 0.0)", True), ("greatest(x, 1)", True),
        ("(greatest(1, x, y))", True), ("0", False), ("0.0", False), ("x", False), ("'2'", False), ("-2", False),
        ("nullif(x, 1)", False), ("nullif(0, x)", False), ("greatest(x, 0)", False), ("greatest(x, y)", False), ("least(x, 1)", False),
        ("nullif(x, 0)::int", False), ("coalesce(nullif(x, 0), y)", False), ("nullif()", False),
    ],
)  # fmt: skip
def test_what_is_never_zero(divisor: str, never: bool) -> None:
    assert never_zero(parse_expression(divisor)) is never


@pytest.mark.parametrize(
    "sql", ["a / 2.5", "a / (3)", "a / NULLIF(b, 0)", "a / greatest(1e-9, b)", "a * b", "div(a, 7)", "a % 2"]
)
def test_what_divides_by_no_zero_stays(sql: str) -> None:
    assert guarded(sql) == to_sql(parse_expression(sql))

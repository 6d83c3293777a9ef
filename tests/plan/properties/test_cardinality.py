"""How many values a key can take: no fewer than it takes over the values that are enumerated."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import pytest
from small_expressions import call, column, lit, ref

from dpproxy.plan.properties.cardinality import enumerated_column, most_distinct, most_values
from dpproxy.tree.expr import Case, Cast, Column, Domain, Expr, InList, SeriesDomain, ValuesDomain

N = column(1, "int4", 0, 99, grid=Fraction(1))
NUMBERS = SeriesDomain(0, 99, "int", nulls=True)
DAY = column(2, "date")
DAYS = SeriesDomain(19723, 19723 + 365, "day")  # of 2024, a leap year
WORD = column(3, "text")
WORDS = ValuesDomain(("a", "b", "cc", None))


def number(op: str, *args: Expr) -> Expr:
    return call(op, *args, type_="int4")


STAMP = Cast("timestamp", ref(DAY))
KEYS: list[tuple[Expr, list[tuple[Column, Domain]], str]] = [
    (number("%", ref(N), lit("7")), [(N, NUMBERS)], "n % 7"),
    (number("/", ref(N), lit("30")), [(N, NUMBERS)], "n // 30"),
    (call("<", ref(N), lit("5")), [(N, NUMBERS)], "n < 5"),
    (call("trunc_time", lit("month", "text"), STAMP, type_="timestamp"), [(DAY, DAYS)], "date_trunc('month', d)"),
    (call("trunc_time", lit("week", "text"), STAMP, type_="timestamp"), [(DAY, DAYS)], "date_trunc('week', d)"),
    (call("strftime", STAMP, lit("%Y-%m", "text"), type_="text"), [(DAY, DAYS)], "strftime(d, '%Y-%m')"),
    (call("strftime", STAMP, lit("%a", "text"), type_="text"), [(DAY, DAYS)], "strftime(d, '%a')"),
    (
        Case("text", ((call("<", ref(N), lit("5")), lit("few", "text")),), lit("many", "text")),
        [(N, NUMBERS)],
        "CASE WHEN n < 5 THEN 'few' ELSE 'many' END",
    ),
    (Cast("text", number("%", ref(N), lit("3"))), [(N, NUMBERS)], "(n % 3)::text"),
    (
        Case(
            "timestamp",
            ((call(">", ref(N), lit("5")), call("trunc_time", lit("month", "text"), STAMP, type_="timestamp")),),
            None,
        ),
        [(N, NUMBERS), (DAY, DAYS)],
        "CASE WHEN n > 5 THEN date_trunc('month', d) END",
    ),
    (
        Case("int4", ((InList("bool", ref(N), (lit("1"), lit("2"))), ref(N)),), None),
        [(N, NUMBERS)],
        "CASE WHEN n IN (1, 2) THEN n END",
    ),
]


@pytest.mark.parametrize(("key", "domains", "sql"), KEYS, ids=[sql for _, _, sql in KEYS])
def test_no_fewer_than_there_are(key: Expr, domains: list[tuple[Column, Domain]], sql: str) -> None:
    values = "(SELECT i AS n, DATE '2024-01-01' + i::int AS d FROM range(366) t(i) WHERE i < 100 UNION ALL SELECT NULL, DATE '2024-01-01' + i::int FROM range(366) t(i))"
    found = (
        duckdb.connect()
        .execute(f"SELECT count(*) FROM (SELECT DISTINCT {sql} FROM {values} q WHERE n < 100 OR n IS NULL)")
        .fetchone()
    )
    most = most_values(key, domains, ())
    assert found is not None
    assert most is not None
    assert found[0] <= most <= 3 * found[0] + 2, "and not many more"


def test_conditions_leave_fewer() -> None:
    key = number("/", ref(N), lit("10"))
    whole = most_values(key, [(N, NUMBERS)], ())
    some = most_values(key, [(N, NUMBERS)], [call("<", ref(N), lit("20"))])
    assert (whole, some) == (11, 4)  # 0..9, or 0..2 as the bound is not exact, and NULL


def test_what_the_policy_says_of_rows_is_not_used() -> None:
    """Rows may hold whatever they like: the values that are enumerated count."""
    narrow = column(1, "int4", 0, 3, grid=Fraction(1))
    assert enumerated_column(narrow, NUMBERS, ()).bound.ends == (0, 99)
    assert enumerated_column(narrow, ValuesDomain(("2", "50")), ()).bound.ends == (2, 50)
    assert enumerated_column(narrow, ValuesDomain(("2", "x")), ()).bound.closed is False


@pytest.mark.parametrize(
    "key", [call("upper", ref(WORD), type_="text"), call("strftime", STAMP, lit("%j", "text"), type_="text"), ref(WORD)]
)
def test_of_other_forms_nothing_is_known(key: Expr) -> None:
    assert most_values(key, [(WORD, WORDS), (DAY, DAYS)], ()) is None


@pytest.mark.parametrize(
    ("value", "most"),
    [
        (ref(column(3, "text", domain=WORDS)), 3),
        (ref(column(1, "int4", domain=NUMBERS)), 100),
        (number("%", ref(column(1, "int4", domain=NUMBERS)), lit("7")), 8),
        (ref(DAY), None),
        (call("<", ref(DAY), lit("2024-01-01", "date")), 2),
        (call("concat", ref(column(3, "text", domain=WORDS)), ref(column(4, "text")), type_="text"), None),
    ],
)
def test_no_more_distinct_values_than_are_declared(value: Expr, most: int | None) -> None:
    """NULL is no value. Of `n % 7` it is known to lie between 0 and 6, or to be NULL."""
    assert most_distinct(value) == most

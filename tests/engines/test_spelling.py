"""Templates of operations: DuckDB's beside PostgreSQL's, the same results and no argument that raises; how they are filled in."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from small_expressions import call, lit

from dpproxy.engines import doubles, engine, spark_texts, spark_times, spark_types
from dpproxy.engines.spelling import Fixed, Operand, filled
from dpproxy.errors import Refusal
from dpproxy.plan.operations.catalogue import CATALOGUE
from dpproxy.plan.operations.operation import By
from dpproxy.sql.template import Dialect

Ask = Callable[[str], Any]
ONE = lit("one", "text")
DOUBLES = ["0", "0.5", "-1", "1e300", "NaN", "Infinity", "-Infinity"]
WHOLE = ["0", "-1", "7", "12", "9223372036854775807"]
TEXTS = ["", "abc", "été à la Plage", "ÀÉ", "straße", "a-b_c 1x", "ǆ", "日本"]


def double(text: str) -> tuple[str, str]:
    return f"CAST('{text}' AS DOUBLE)", f"'{text}'::float8"


def near(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=1e-12)
    return a == b or (isinstance(a, int | Decimal) and isinstance(b, int | Decimal) and Fraction(a) == Fraction(b))


def both(name: str, duck_args: list[str], postgres_args: list[str], ask_duckdb: Ask, ask_postgres: Ask) -> None:
    ours = ask_duckdb(engine("duckdb").of_texts(name, *duck_args))
    theirs = ask_postgres(engine("postgres").of_texts(name, *postgres_args))
    assert near(ours, theirs), (name, duck_args, ours, theirs)


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark"])
def test_methods_that_rows_name_are_there(dialect: Dialect) -> None:
    named = [spelling for row in CATALOGUE.values() if isinstance(spelling := getattr(row, dialect), By)]
    spelled = {name.removeprefix("spell_") for name in dir(engine(dialect)) if name.startswith("spell_")}
    assert {by.method for by in named} == spelled, "no method is missing, and none is left over"
    for by in named:
        inspect.signature(getattr(engine(dialect), f"spell_{by.method}")).bind("call", "names", *by.parameters)


def test_functions_that_rows_name_are_there() -> None:
    files = {"number": spark_types, "text": spark_texts, "time": spark_times}
    named = [spelling for row in CATALOGUE.values() if isinstance(spelling := row.spark, By) and spelling.method in files]
    assert len(named) > 8
    assert all(callable(getattr(files[by.method], by.parameters[0])) for by in named)


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark"])
def test_operands_of_other_kinds_are_refused(dialect: Dialect) -> None:
    """Whatever built the call: an engine would cast them, and raise for some rows."""
    wrong = [
        call("reverse", lit("1"), type_="text"),
        call("year", lit("a", "text"), type_="int8"),
        call("length", ONE, ONE, type_="int4"),
    ]
    for expr in wrong:
        with pytest.raises(Refusal, match=f"`{expr.op}` of .* is not supported"):
            engine(dialect).expr(expr, {})
    assert engine(dialect).expr(call("length", ONE, type_="int4"), {})


def test_operands_are_written_once_in_each_form() -> None:
    asked: list[str] = []

    def written(form: str) -> str:
        asked.append(form)
        return f"<{form}>"

    operands = [Operand(written), Fixed("b")]
    assert filled("{0} {0:f} {0:f} {1:f} {all:f|, } {whole}", operands, lambda: "int8") == "<> <f> <f> b <f>, b int8"
    assert asked == ["", "f"]


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "asin", "acos", "atan", "cbrt"])
def test_functions_of_doubles(name: str, ask_duckdb: Ask, ask_postgres: Ask) -> None:
    for value in DOUBLES:
        if name in ("sin", "cos", "tan") and value == "1e300":
            continue  # of such an angle each library has its own sine
        both(name, [double(value)[0]], [double(value)[1]], ask_duckdb, ask_postgres)


def test_angles_of_two(ask_duckdb: Ask, ask_postgres: Ask) -> None:
    for a, b in itertools.product(DOUBLES, DOUBLES):
        both("atan2", [double(a)[0], double(b)[0]], [double(a)[1], double(b)[1]], ask_duckdb, ask_postgres)


@pytest.mark.parametrize("name", ["bitand", "bitor", "bitxor"])
def test_bits(name: str, ask_duckdb: Ask, ask_postgres: Ask) -> None:
    for a, b in itertools.product(WHOLE, WHOLE):
        both(
            name, [f"CAST({a} AS BIGINT)", f"CAST({b} AS BIGINT)"], [f"'{a}'::bigint", f"'{b}'::bigint"], ask_duckdb, ask_postgres
        )
    both("bitnot", ["CAST(5 AS BIGINT)"], ["'5'::bigint"], ask_duckdb, ask_postgres)


@pytest.mark.parametrize("name", ["bucket_float", "bucket_numeric"])
@pytest.mark.parametrize("value", ["-1", "0", "0.3", "0.7", "1.999", "2", "5", "NaN", "Infinity"])
def test_buckets(name: str, value: str, ask_duckdb: Ask, ask_postgres: Ask) -> None:
    if (name, value) == ("bucket_float", "-Infinity"):
        return
    kind = "float8" if name == "bucket_float" else "numeric"
    both(
        name,
        [f"CAST('{value}' AS DOUBLE)", "0.1", "2.0", "19"],
        [f"'{value}'::{kind}", f"'0.1'::{kind}", f"'2.0'::{kind}", "19"],
        ask_duckdb,
        ask_postgres,
    )


@pytest.mark.parametrize("name", ["ascii", "octet_length", "initcap"])
def test_functions_of_texts(name: str, ask_duckdb: Ask, ask_postgres: Ask) -> None:
    for text in TEXTS:
        if name == "initcap" and not text.isascii():
            continue  # by the database's locale, which this one has none of
        both(name, [f"'{text}'"], [f"'{text}'::text"], ask_duckdb, ask_postgres)


def test_dates_that_are_none(ask_duckdb: Ask, ask_postgres: Ask) -> None:
    for year, month, day in itertools.product(
        ("0", "1", "2023", "2024", "9999", "10000"), ("0", "2", "4", "13"), ("0", "1", "29", "30", "31", "32")
    ):
        args = [f"CAST({x} AS BIGINT)" for x in (year, month, day)]
        both("make_date", args, [f"'{x}'::bigint" for x in (year, month, day)], ask_duckdb, ask_postgres)


@pytest.mark.parametrize(
    ("op", "a", "b", "grid"),
    [
        ("+", "0.1", "0.2", None),
        ("-", "0.3", "0.1", Fraction(1, 10)),
        ("*", "1.1", "1.1", None),
        ("%", "4.51", "3", None),
        ("%", "-4.51", "3", Fraction(1, 100)),
        ("int/", "0.3", "0.1", None),
        ("int/", "-7", "2", None),
        ("/", "1", "8", None),
        ("/", "5", "0", None),
        ("%", "5", "0", None),
    ],
)
def test_decimals_are_what_decimals_are(
    op: str, a: str, b: str, grid: Fraction | None, ask_duckdb: Ask, ask_postgres: Ask
) -> None:
    ours = ask_duckdb(doubles.decimal_operation(op, f"CAST({a} AS DOUBLE)", f"CAST({b} AS DOUBLE)", grid))
    plain = {"int/": f"div({a}, NULLIF({b}, 0))"}.get(op, f"{a}::numeric {op} NULLIF({b}, 0)")
    theirs = ask_postgres(f"({plain})::text")
    assert ours is theirs is None or ours == float(theirs)


def test_snapped_numbers(ask_duckdb: Ask) -> None:
    assert ask_duckdb(doubles.snapped("CAST(0.1 AS DOUBLE) + 0.2e0")) == 0.3
    assert ask_duckdb(doubles.snapped("CAST(1e-20 AS DOUBLE)")) == 1e-20, "tiny ones stay"
    assert ask_duckdb(doubles.snapped("CAST(1 AS DOUBLE) / 3")) == 1 / 3

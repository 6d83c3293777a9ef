"""Rounding and sums on Sail, beside those of Python, at the ends of doubles and at halves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from small_expressions import call, column, ref

from dpproxy.engines import spark_types as numbers
from dpproxy.engines.spark import Spark
from dpproxy.engines.spark_types import double

VALUES = [
    0.0,
    0.5,
    1.5,
    2.5,
    -0.5,
    -1.5,
    2.4999999999999996,
    1e15 + 0.5,
    2.0**52 - 0.5,
    2.0**53,
    -(2.0**63),
    2.0**63,
    1e300,
    -1e300,
    math.inf,
]
ROWS = ", ".join(f"({double(v)})" for v in VALUES)


def rows(session: Any, texts: list[str], values: str) -> list[tuple[Any, ...]]:
    items = ", ".join(f"{text} AS c{i}" for i, text in enumerate(texts))
    found = session.sql(f"SELECT {items} FROM (VALUES {values}) AS t(x)").toArrow()
    return [tuple(row.values()) for row in found.to_pylist()]


def test_rounding(sail_session: Any) -> None:
    spelled = [numbers.nearest("x"), numbers.floor("x"), numbers.ceiling("x"), numbers.truncated("x"), numbers.sign("x")]
    for value, found in zip(VALUES, rows(sail_session, spelled, ROWS), strict=True):
        whole = None if abs(value) >= 2**63 and value != -(2.0**63) else round(value)
        others = [float(f(value)) if abs(value) < 2**52 else value for f in (math.floor, math.ceil, math.trunc)]
        assert found == (whole, *others, (value > 0) - (value < 0)), value


def test_nothing_is_divided_by_zero(sail_session: Any) -> None:
    engine, names = Spark(), {1: "x"}
    for type_ in ("float8", "numeric"):
        value = ref(column(1, type_))
        for op in ("/", "%", "int/"):
            text = engine.expr(call(op, value, value, type_=type_), names)
            assert rows(sail_session, [text], f"({double(-0.0)}), ({double(0.0)}), (CAST(NULL AS DOUBLE))") == [(None,)] * 3


def test_nan_is_nobodys(sail_session: Any) -> None:
    (found,) = rows(sail_session, [numbers.nearest("x"), numbers.sign("x"), numbers.floor("x")], f"({double(math.nan)})")
    assert found[:2] == (None, None)
    assert math.isnan(found[2])


def test_a_sum_does_not_depend_on_the_order_of_rows(sail_session: Any) -> None:
    value = ref(column(1, "float8"))
    addends = [1e15, 0.1, -1e15, 0.2, 0.3]
    found = set()
    for order in (addends, addends[::-1], sorted(addends)):
        text = numbers.total("sum", value, "x", "", "")
        found |= {row[0] for row in rows(sail_session, [text], ", ".join(f"({double(v)})" for v in order))}
    assert len(found) == 1
    assert math.isclose(found.pop(), 0.6, abs_tol=1e-9)
    assert rows(sail_session, [numbers.total("avg", value, "x", "", "")], f"({double(math.inf)}), (1.0D)") == [(math.inf,)]


def grouped(session: Any, texts: list[str], values: Sequence[float]) -> list[tuple[Any, ...]]:
    """The one group of an aggregation by key, which Sail computes otherwise than one without a key."""
    items, stored = ", ".join(texts), ", ".join(f"(1, {double(v)})" for v in values)
    found = session.sql(f"SELECT k, {items} FROM (VALUES {stored}) AS t(k, x) GROUP BY k").toArrow().to_pylist()
    return [tuple(row.values())[1:] for row in found]


NOT_FINITE = (
    [math.inf, 1.0],
    [-math.inf, 1.0],
    [math.inf, -math.inf, 1.0],
    [math.nan, 1.0, 2.0],
    [math.nan, -math.inf, 3.0],
    [math.nan],
)


@pytest.mark.parametrize("values", [order for values in NOT_FINITE for order in itertools.permutations(values)])
def test_aggregates_of_values_that_are_not_finite(values: tuple[float, ...], sail_session: Any) -> None:
    """NaN is above everything, whatever the order of rows."""
    value, nan = ref(column(1, "float8")), any(map(math.isnan, values))
    sums = [numbers.total(name, value, "x", distinct, "") for name in ("sum", "avg") for distinct in ("", "DISTINCT ")]
    texts = [*sums, numbers.extreme("min", "x", ""), numbers.extreme("max", "x", "")]
    known = [v for v in values if not math.isnan(v)]
    wanted = [sum(values)] * 4 + [min(known, default=math.nan), math.nan if nan else max(known)]
    for (found,) in (
        grouped(sail_session, texts, values),
        rows(sail_session, texts, ", ".join(f"({double(v)})" for v in values)),
    ):
        assert list(map(repr, found)) == list(map(repr, wanted))


def test_aggregates_of_nothing(sail_session: Any) -> None:
    value = ref(column(1, "float8"))
    sums = [numbers.total(name, value, "x", distinct, "") for name in ("sum", "avg") for distinct in ("", "DISTINCT ")]
    texts = [*sums, numbers.extreme("min", "x", ""), numbers.extreme("max", "x", "")]
    assert rows(sail_session, texts, "(CAST(NULL AS DOUBLE))") == [(None,) * 6]
    assert rows(sail_session, texts, "(1.0D), (CAST(NULL AS DOUBLE)), (1.0D), (4.0D)") == [(6.0, 5.0, 2.0, 2.5, 1.0, 4.0)]


def test_values_on_their_grid(sail_session: Any) -> None:
    """Whatever a column holds, what a row adds is within the bounds, and the nearest grid point; halves go to the even one."""
    expr, names = ref(column(1, "float8")), {1: "x"}
    texts = [Spark().fixed(expr, -100, 250, Fraction(1, 100), Fraction(0), names)]
    values = [*(n / 200 for n in range(-230, 520, 7)), *VALUES, -math.inf]
    for value, (found,) in zip(values, rows(sail_session, texts, ", ".join(f"({double(v)})" for v in values)), strict=True):
        assert -100 <= found <= 250
        assert found == (250 if value > 2.5 else -100 if value < -1 else round(value * 100)), value


def test_all_rows_are_added_up_without_overflow(sail_session: Any) -> None:
    engine = Spark()
    most = f"({2**63 - 1}L)"
    texts = [engine.wide_sum("x"), engine.saturated(engine.total("x", 5)), f"CAST({engine.total('x', 5)} AS STRING)"]
    assert rows(sail_session, texts, f"{most}, {most}") == [(2**62, 2**62, str(2 * (2**63 - 1) - 10))]
    assert rows(sail_session, texts[:2], "(CAST(NULL AS BIGINT))") == [(0, 0)]

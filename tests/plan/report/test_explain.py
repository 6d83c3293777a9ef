"""EXPLAIN of a private statement: the formats it has, and numbers that are the plan's own in both."""

from __future__ import annotations

import json

import plan_harness
import pytest

from dpproxy.amounts import MICRO
from dpproxy.errors import Refusal
from dpproxy.plan.report.explain import MOST_LINES, WIDTH, epsilon_text, explain_format
from dpproxy.policy.catalog import Catalog


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), "text"), (("FORMAT", "JSON"), "json"), (("FORMAT", "TEXT", ",", "VERBOSE"), "text"), (("COSTS", "OFF", ",", "FORMAT", "JSON"), "json"),
        (("ANALYZE", "FALSE"), "text"), (("ANALYZE", "OFF"), "text"), (("VERBOSE",), "text"),
    ],
)  # fmt: skip
def test_formats(options: tuple[str, ...], found: str) -> None:
    assert explain_format(options) == found


@pytest.mark.parametrize(
    ("options", "sqlstate"),
    [
        (("ANALYZE",), "0A000"),
        (("ANALYSE",), "0A000"),
        (("ANALYZE", "TRUE"), "0A000"),
        (("FORMAT", "XML"), "0A000"),
        (("NONSENSE",), "42601"),
    ],
)
def test_what_it_has_not(options: tuple[str, ...], sqlstate: str) -> None:
    with pytest.raises(Refusal) as caught:
        explain_format(options)
    assert caught.value.sqlstate == sqlstate


SQL = "SELECT category, count(*), sum(amount) FROM orders GROUP BY category"


def test_both_formats_tell_the_plans_numbers(shop_catalog: Catalog) -> None:
    made = plan_harness.plan(SQL, shop_catalog)
    (text,) = plan_harness.plan(f"EXPLAIN (FORMAT JSON) {SQL}", shop_catalog).explain
    told = json.loads(text)[0]["Privacy Plan"]
    epsilon = made.loss.epsilon / MICRO
    assert told["Charge"]["Epsilon"] == pytest.approx(epsilon)
    assert len(told["Measurements"]) == len(made.measurements) == 1
    lines = "\n".join(made.explain)
    assert f"charge epsilon={epsilon:g}, " in lines
    (measurement,) = made.measurements
    assert f"at most {measurement.l0} groups" in lines
    assert measurement.threshold is not None
    for basis in measurement.bases:
        assert f"{basis.label}: discrete Laplace, scale {float(basis.scale * basis.grid):.6g}" in lines
        assert f"sensitivity {float(basis.linf * basis.grid):g} x {measurement.l0} groups" in lines
    assert "dpproxy_m" not in lines, "released columns have their short names"
    assert "UNNEST" not in lines.upper()


def test_the_format_is_asked_for_by_the_statement(shop_catalog: Catalog) -> None:
    plain = plan_harness.plan(SQL, shop_catalog).explain
    assert plan_harness.plan(f"EXPLAIN {SQL}", shop_catalog).explain == plain
    assert len(plain) > 5
    with pytest.raises(Refusal):
        plan_harness.plan(f"EXPLAIN (FORMAT YAML) {SQL}", shop_catalog)


def test_amounts() -> None:
    assert [epsilon_text(micro) for micro in (1_000_000, 100_000, 1, 1_234_567)] == ["1", "0.1", "0.000001", "1.234567"]


def test_a_long_outer_query_is_told_in_lines(shop_catalog: Catalog) -> None:
    """A reader sees its beginning; the rest is in JSON."""
    plan = plan_harness.plan(
        "SELECT region, sex, corr(income, birth_year) FROM customers GROUP BY CUBE (region, sex)", shop_catalog
    )
    first = next(i for i, line in enumerate(plan.explain) if "Post-processing" in line)
    lines = plan.explain[first:]
    assert 2 < len(lines) <= MOST_LINES + 1
    assert all(len(line) <= WIDTH + 4 for line in lines)
    assert "e+0" not in "".join(plan.explain)
    assert "characters more: EXPLAIN (FORMAT JSON)" in lines[-1]
    assert not any(
        "characters more" in line for line in plan_harness.plan("SELECT avg(income) FROM customers", shop_catalog).explain
    )

"""What a policy says of questions: the plan's price, columns and errors, or the refusal a role would get."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest

from dpproxy.privacy.noise_error import each
from dpproxy.review.verdicts import Answered, Bench, Refused


def answered(bench: Bench, role: str, query: str, **settings: str) -> Answered:
    found = bench.verdict(role, query, {f"dpproxy.{name}": value for name, value in settings.items()})
    assert isinstance(found, Answered), found
    return found


def test_price_columns_and_error(bench: Bench) -> None:
    """Of a discrete Laplace of scale 1/epsilon, all but 1/n lie within ln(n)/epsilon; each cell is told at `each`."""
    odds = 1 / float(1 - each(Fraction(95, 100)))
    found = answered(bench, "analyst", "SELECT region, count(*) AS n FROM people GROUP BY region")
    assert (found.epsilon, found.delta, found.columns) == (Decimal("0.5"), 0, ("region", "n"))
    assert math.log(odds) / 0.5 - 1 < found.errors["count(*)"] < math.log(odds) / 0.5 + 1


def test_settings_and_roles_change_the_price(bench: Bench) -> None:
    query = "SELECT count(*) FROM people"
    assert answered(bench, "analyst", query, epsilon="1").epsilon == 1
    assert answered(bench, "intern", query).epsilon == Decimal("0.1")
    assert answered(bench, "intern", query).errors["count(*)"] > 4 * answered(bench, "analyst", query).errors["count(*)"]


def test_undeclared_groups_cost_delta(bench: Bench) -> None:
    assert answered(bench, "analyst", "SELECT job, count(*) FROM people GROUP BY job").delta > 0


def test_what_reads_nobody_is_free(bench: Bench) -> None:
    found = answered(bench, "analyst", "SELECT place, count(*) FROM shops GROUP BY place")
    assert (found.epsilon, found.columns) == (0, ("place", "count"))
    assert answered(bench, "analyst", "WITH w AS (SELECT 1 AS a) SELECT a FROM w").columns == ("a",)
    assert answered(bench, "analyst", "SELECT relname FROM pg_class").epsilon == 0


@pytest.mark.parametrize(
    ("role", "query", "sqlstate", "message"),
    [
        ("analyst", "SELECT region FROM people", "42501", "rows of single persons"),
        ("analyst", "SELECT count(email) FROM people", "42703", "email"),
        ("intern", "SELECT count(*) FROM visits", "42P01", 'relation "visits" does not exist'),
        ("intern", "SELECT count(*) FROM easterners", "42P01", "easterners"),
        ("analyst", "SELECT * FROM nowhere", "42P01", "nowhere"),
        ("analyst", "SELEC 1", "42601", ""),
        ("analyst", "SELECT 1; SELECT 2", "42601", "one statement"),
        ("nobody", "SELECT 1", "42704", '"nobody"'),
    ],
)
def test_refusals(role: str, query: str, sqlstate: str, message: str, bench: Bench) -> None:
    found = bench.verdict(role, query)
    assert isinstance(found, Refused), found
    assert message in found.message
    assert found.sqlstate == sqlstate, found


def test_a_setting_that_is_none_is_refused(bench: Bench) -> None:
    assert isinstance(bench.verdict("analyst", "SELECT count(*) FROM people", {"dpproxy.epsilon": "much"}), Refused)
    assert isinstance(bench.verdict("analyst", "SELECT count(*) FROM people", {"dpproxy.epsilon": "2"}), Refused)

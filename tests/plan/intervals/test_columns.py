"""Columns of errors: of released cells, of sums of them, of adjusted ones, and wider where rows are chosen by their values."""

from __future__ import annotations

import re
from fractions import Fraction

import plan_harness
import pytest

from dpproxy.plan.intervals.columns import MANY_GROUPS
from dpproxy.policy.catalog import Catalog
from dpproxy.privacy import noise_error
from dpproxy.privacy.measurement import Basis

CONFIDENCE = noise_error.each(Fraction(19, 20))
CALL = "dpproxy.high(count(*))"
WITHIN = "FROM customers WHERE region IN ('north', 'south') AND sex IN ('F', 'M')"


def planned(sql: str, catalog: Catalog) -> tuple[str, list[Basis]]:
    made = plan_harness.plan(sql, catalog, plan_harness.policy("busy" if "orders" in sql else "shop"))
    return made.outer, [m.bases[0] for m in made.measurements]


@pytest.mark.parametrize(
    ("sql", "among"),
    [
        (f"SELECT region, {CALL} FROM customers GROUP BY region", 1),
        (f"SELECT region, {CALL} FROM customers GROUP BY region HAVING count(*) > 5", 4),
        (f"SELECT * FROM (SELECT region, count(*) AS n, {CALL} FROM customers GROUP BY region) AS t WHERE n > 5", 4),
        (f"SELECT income, {CALL} FROM customers GROUP BY income HAVING count(*) > 5", MANY_GROUPS),
        (f"SELECT {CALL} FROM customers HAVING count(*) > 5", 1),
        (f"SELECT category, {CALL} FROM orders GROUP BY category ORDER BY count(*) DESC LIMIT 3", 1),
        (
            f"SELECT * FROM (SELECT category, count(*) AS n, {CALL} FROM orders GROUP BY 1 ORDER BY 2 DESC LIMIT 3) AS t "
            "ORDER BY n LIMIT 1",
            3,
        ),
    ],
)
def test_widths_allow_for_the_choice_among_groups(sql: str, among: int, shop_catalog: Catalog) -> None:
    outer, (basis,) = planned(sql, shop_catalog)
    half = noise_error.told_half(basis, 1 - (1 - CONFIDENCE) / among)
    assert f"{half} AS n0_1" in outer


def test_adjusted_cells_have_errors_of_their_own(shop_catalog: Catalog) -> None:
    sql = f"SELECT region, sex, {CALL}, dpproxy.stderr(count(*)) {WITHIN} GROUP BY GROUPING SETS ((region), (sex), ())"
    outer, bases = planned(sql, shop_catalog)
    ratios = ", ".join(f"{noise_error.told_half(b, CONFIDENCE)} / nullif({noise_error.deviation(b)!r}, 0)" for b in bases)
    written = re.findall(r"ceil\((greatest\(.*?\)) \* sqrt\(w0\) \+ (\S*?)\)", outer.lower())
    assert {widths for widths, _ in written} == {f"greatest({ratios})"}
    moved = [float(rounding) for _, rounding in written]
    assert moved == pytest.approx([0.01] * 6 + [-0.49] * 3), (
        "below, above, of noise alone; a whole unit less than rounding may add"
    )
    assert re.findall(r"sqrt\(w0 \+ (\S*) / .*? AS d0", outer) == ["1.0", "1.0", "0.5"]

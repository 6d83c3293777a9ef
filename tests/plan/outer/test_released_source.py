"""Several measurements as one source: without noise, grouping sets are PostgreSQL's own of the same rows."""

from __future__ import annotations

import pytest
from noiseless_orders import NoiselessOrders

SETS = (
    "ROLLUP (status, paid)",
    "CUBE (status, paid)",
    "GROUPING SETS ((status), (paid), ())",
    "GROUPING SETS ((status, paid), (paid))",
    "ROLLUP (status)",
)


@pytest.mark.parametrize("where", ["", " WHERE paid IS NOT NULL"])
@pytest.mark.parametrize("sets", SETS)
def test_grouping_sets_are_postgresqls(orders: NoiselessOrders, sets: str, where: str) -> None:
    columns = "status, GROUPING(status)" if sets == "ROLLUP (status)" else "status, paid, GROUPING(status, paid), GROUPING(paid)"
    sql = f"SELECT {columns}, count(*) FROM orders{where} GROUP BY {sets} ORDER BY count(*), 1, 2"
    assert sorted(map(repr, orders.released(sql))) == sorted(map(repr, orders.itself(sql)))


def test_what_is_in_no_released_group_is_a_row_of_its_own(orders: NoiselessOrders) -> None:
    made = orders.plan("SELECT category, count(*) FROM orders GROUP BY category", dpproxy__other="on")
    named, rest = made.measurements
    assert ([key.label for key in named.keys], rest.keys) == (["category"], ())
    arrays = [["toys", "books"], [4, 3], *([[4, 3]] * (len(named.bases) - 1)), *([[7]] * len(rest.bases))]
    assert sorted(orders.answered(made.outer, arrays), key=repr) == [("books", 3), ("toys", 4), (None, 7)]
    (given,) = made.inputs
    assert orders.answered(f"SELECT {given.sql}", arrays) == [([["toys"], ["books"]],)]

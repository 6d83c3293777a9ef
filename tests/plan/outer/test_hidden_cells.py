"""Cells for values that are not declared: which keys have them, what they are, and what is gained by them."""

from __future__ import annotations

import math
from dataclasses import replace

import plan_harness
import pytest
from small_expressions import call, column, lit, ref

from dpproxy.plan.model import LeftOut, Plan
from dpproxy.plan.outer.hidden_cells import Hidden, shown_test, with_rest
from dpproxy.policy.catalog import Catalog
from dpproxy.privacy.noise_error import deviation
from dpproxy.tree.expr import Case, Cast, Expr, InList, Lit, SeriesDomain, ValuesDomain

WORD = replace(column(1, "text"), domain=ValuesDomain(("a", "b")), undeclared=True)
OR_NULL = replace(WORD, domain=ValuesDomain(("a", "(not declared)", None)))
NUMBER = replace(column(2, "int4"), domain=SeriesDomain(1, 9, "int"), undeclared=True)
DAY = replace(column(3, "date"), domain=SeriesDomain(0, 30, "day"), undeclared=True)
STAMP = replace(column(4, "timestamp"), domain=SeriesDomain(0, 30, "day"), undeclared=True)


def month(of: Expr) -> Expr:
    return call("trunc_time", lit("month", "text"), Cast("timestamp", of), type_="timestamp")


def test_null_stands_for_what_is_not_declared() -> None:
    words = InList("bool", ref(WORD), (Lit("text", "a"), Lit("text", "b")))
    assert with_rest(ref(WORD)) == Hidden(Case("text", ((words, ref(WORD)),), None), None)
    between = call("and", call(">=", ref(NUMBER), lit("1", "int4")), call("<=", ref(NUMBER), lit("9", "int4")))
    assert with_rest(ref(NUMBER)) == Hidden(Case("int4", ((between, ref(NUMBER)),), None), None)
    found = with_rest(month(ref(DAY)))
    assert found is not None
    assert isinstance(found.key, Case)
    assert "1970-01-31" in repr(found.key.whens[0][0])


def test_beside_a_declared_null_another_text_does() -> None:
    found = with_rest(ref(OR_NULL))
    assert found is not None
    assert found.value == "(not declared) ", "which is none of the declared ones"
    assert shown_test("k0", found.value) == "k0 IS DISTINCT FROM '(not declared) '"
    assert shown_test("k0", None) == "k0 IS NOT NULL"


@pytest.mark.parametrize(
    "key",
    [
        ref(column(1, "text")),  # nothing is declared
        ref(replace(WORD, undeclared=False)),  # nothing else can be in it
        ref(replace(NUMBER, domain=SeriesDomain(1, 9, "int", nulls=True))),  # no number could stand for others
        month(ref(STAMP)),  # days stand for instants: of these nothing is tried
        call("+", ref(NUMBER), lit("1")),
        call("is_null", ref(WORD)),
    ],
)
def test_other_keys_are_left_as_they_are(key: Expr) -> None:
    assert with_rest(key) is None


def planned(sql: str, catalog: Catalog) -> Plan:
    return plan_harness.plan(sql, catalog)


@pytest.mark.parametrize(
    ("sets", "cells"),
    [("ROLLUP (region)", [5]), ("ROLLUP (region, sex)", [20]), ("CUBE (region, sex)", [20]), ("ROLLUP (vip, region)", [15])],
)
def test_totals_are_added_up_from_cells_that_hold_every_row(sets: str, cells: list[int], shop_catalog: Catalog) -> None:
    """One measurement, with the noise of the whole charge, whose sensitivity is that of the groups without such cells."""
    made = planned(f"SELECT count(*) FROM customers GROUP BY {sets}", shop_catalog)
    (measurement,) = made.measurements
    plain = planned(f"SELECT count(*) FROM customers GROUP BY {sets.partition('(')[2].rstrip(')')}", shop_catalog).measurements[0]
    assert (measurement.l0, measurement.bases[0].linf, measurement.bases[0].scale) == (1, 1, plain.bases[0].scale)
    assert LeftOut("region", True, "values") in made.left_out, "in no group that is shown, still"
    assert any(f"all {cells[0]} declared ones" in line for line in made.explain)
    assert any("one cell more" in line and "not shown" in line for line in made.explain)


def test_sets_without_a_finest_one_are_made_to_agree(shop_catalog: Catalog) -> None:
    made = planned("SELECT count(*) FROM customers GROUP BY GROUPING SETS ((region), (sex), ())", shop_catalog)
    assert [len(m.keys) for m in made.measurements] == [1, 1, 0]
    assert all(any("least squares" in note for note in m.notes) for m in made.measurements)
    assert made.unshown == (((0, None),), ((0, "(not declared)"),), ())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT region, min(income) FROM customers GROUP BY ROLLUP (region)",  # not a sum of its groups
        "SELECT status, count(*) FROM orders GROUP BY ROLLUP (status)",  # bounds may cut what they leave in the total
        "SELECT region, avg(income), count(*) FROM customers GROUP BY GROUPING SETS ((region))",
        "SELECT region, name, count(*) FROM customers GROUP BY ROLLUP (region, name)",
    ],
)
def test_elsewhere_nothing_is_hidden(sql: str, shop_catalog: Catalog) -> None:
    assert not any(planned(sql, shop_catalog).unshown)


def test_a_rollup_has_less_noise_than_sets_measured_apart(shop_catalog: Catalog) -> None:
    """Of four regions, at epsilon 1: 1.36 and 3.03 in place of 2.09 and 4.22; every cell gains."""
    made = planned("SELECT region, count(*) FROM customers GROUP BY ROLLUP (region)", shop_catalog)
    cell = deviation(made.measurements[0].bases[0])
    apart = planned("SELECT region, count(*), (SELECT count(*) FROM customers) FROM customers GROUP BY region", shop_catalog)
    of_all, of_cells = (deviation(m.bases[0]) for m in apart.measurements)
    assert (len(apart.measurements[0].keys), len(apart.measurements[1].keys)) == (0, 1)
    assert cell < 0.66 * of_cells
    assert cell * math.sqrt(5) < 0.73 * of_all

"""A left join finds a row for every row where the catalog's constraints say so, and only there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpproxy.plan.bind.mandatory_matches import always_matched
from dpproxy.plan.context import Context, Settings
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable, ForeignKey
from dpproxy.table_terms import TableName
from dpproxy.tree.expr import TRUE, Call, Column, Expr, Lit, Ref
from dpproxy.tree.relation import Filter, Join, Rows, Scan
from tests.worlds.scripted import policy

VISITS, REGIONS = TableName("public", "visits"), TableName("public", "regions")
KEY = ForeignKey(("region",), REGIONS, ("code",))
REGION, OTHER, CODE = Column(1, "r", "text"), Column(2, "other", "text"), Column(3, "code", "text")
LEFT = Scan((REGION, OTHER), 1, ("main", "visits"), ("region", "other"))
RIGHT = Scan((CODE,), 2, ("main", "regions"), ("code",))


def context(key: ForeignKey = KEY, *, nullable: bool = False) -> Context:
    columns = (CatalogColumn("region", "region", "text", nullable), CatalogColumn("other", "other", "text"))
    visits = CatalogTable(VISITS, ("main", "visits"), columns, foreign_keys=(key,))
    regions = CatalogTable(REGIONS, ("main", "regions"), (CatalogColumn("code", "code", "text", False),), ("code",))
    rules = policy()
    return Context(rules, Catalog({VISITS: visits, REGIONS: regions}), rules.roles["analyst"], "duckdb", Settings())


def equal(a: Column, b: Column) -> Expr:
    return Call("bool", "=", (Ref("text", a), Ref("text", b)))


@pytest.mark.parametrize("on", [equal(REGION, CODE), equal(CODE, REGION)])
def test_along_an_enforced_key(on: Expr) -> None:
    assert always_matched(Rows(node=LEFT), Rows(node=RIGHT), [on], context())
    assert always_matched(Rows(node=Filter(LEFT.columns, LEFT, TRUE)), Rows(node=RIGHT), [on], context())


@pytest.mark.parametrize(
    ("left", "right", "on", "known"),
    [
        (LEFT, RIGHT, [equal(REGION, CODE)], context(nullable=True)),
        (LEFT, RIGHT, [equal(REGION, CODE)], context(replace(KEY, enforced=False))),
        (LEFT, RIGHT, [equal(REGION, CODE)], context(replace(KEY, target=VISITS))),
        (LEFT, RIGHT, [equal(OTHER, CODE)], context()),
        (LEFT, RIGHT, [equal(REGION, CODE), equal(OTHER, CODE)], context()),
        (LEFT, RIGHT, [equal(REGION, CODE), Call("bool", ">", (Ref("text", CODE), Lit("text", "m")))], context()),
        (LEFT, RIGHT, [], context()),
        (LEFT, RIGHT, [equal(replace(REGION, optional=True), CODE)], context()),
        (LEFT, Filter(RIGHT.columns, RIGHT, TRUE), [equal(REGION, CODE)], context()),
        (Join(LEFT.columns, "left", Scan((), 9, ("main", "other"), ()), LEFT, None), RIGHT, [equal(REGION, CODE)], context()),
    ],
)
def test_nowhere_else(left: Scan, right: Scan, on: list[Expr], known: Context) -> None:
    assert not always_matched(Rows(node=left), Rows(node=right), on, known)


def test_not_with_a_condition_of_the_right_side() -> None:
    rows = Rows(node=RIGHT, conditions=(TRUE,))
    assert not always_matched(Rows(node=LEFT), rows, [equal(REGION, CODE)], context())

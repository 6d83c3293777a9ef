"""Reports and rows of units are never read by one query: a thousand plans that do are refused, on either side.

Real trees of measurements and readings have a table of the other kind planted at every place where a relation or an expression
stands: joined, in a filter's EXISTS, as a scalar, in a union, among declared groups.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from dpproxy.kernel.leaves import Leaf, Unproven
from dpproxy.kernel.reports import check_absent, judged, scans
from dpproxy.kernel.verdict import derived
from dpproxy.policy.catalog import Catalog
from dpproxy.privacy.readings import Estimate, Reading
from dpproxy.sql.template import Template
from dpproxy.tree.expr import Call, Column, Exists, Expr, Lit, Ref, Relation, Scalar
from dpproxy.tree.measured import CandidateList, ReadingQuery, ReportGroups, ReportTotal
from dpproxy.tree.relation import Aggregate, Filter, Join, Project, Public, Scan, Union
from tests.kernel.recorded import Recorded, recorded

PLANTED = Column(9_000, "planted", "int8")
REPORTS, PEOPLE, PUBLIC = (Scan((PLANTED,), 900, ("main", name), ("x",)) for name in ("reports", "people", "public"))
LEAVES = {REPORTS.source: Leaf(reports=True), PEOPLE.source: Leaf(unit="x"), PUBLIC.source: Leaf()}
STATEMENTS = (
    "SELECT region, count(*), avg(income) FROM customers GROUP BY 1",
    "SELECT c.region, count(*), sum(o.amount) FROM orders o JOIN customers c USING (customer_id) WHERE c.income > 10 GROUP BY 1",
    "SELECT avg(n) FROM (SELECT customer_id, count(*) AS n FROM orders GROUP BY 1) t",
    "SELECT count(*) FROM customers c WHERE EXISTS (SELECT FROM orders o WHERE o.customer_id = c.customer_id AND o.qty > 3)",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY income) FROM customers",
)


def planted(node: Any, scan: Scan) -> Iterator[Any]:
    """The tree with the table planted, once at each place, in each way that fits there."""
    yield from _here(node, scan)
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name != "columns":
            yield from (replace(node, **{field.name: changed}) for changed in _within(value, scan))


def _within(value: Any, scan: Scan) -> Iterator[Any]:
    if isinstance(value, tuple):
        for i, part in enumerate(value):
            yield from ((*value[:i], changed, *value[i + 1 :]) for changed in _within(part, scan))
    elif is_dataclass(value) and type(value).__module__.startswith("dpproxy.tree.") and not isinstance(value, Column):
        yield from planted(value, scan)


def _here(node: Any, scan: Scan) -> Iterator[Any]:
    if isinstance(node, Relation):
        yield Join((*node.columns, *scan.columns), "cross", node, scan, None)
        yield Filter(node.columns, node, Exists("bool", scan))
        yield Union(node.columns, (node, Project(node.columns, scan, tuple(Ref(PLANTED.type, PLANTED) for _ in node.columns))))
    elif isinstance(node, Expr) and node.type == "bool":
        yield Call("bool", "and", (node, Exists("bool", scan)))
    elif isinstance(node, Ref | Lit):
        one = Aggregate((PLANTED,), scan, (), ())
        yield Call(node.type, "coalesce", (Scalar(node.type, one, Ref("int8", PLANTED)), node))


def readings() -> tuple[tuple[ReadingQuery, ...], ...]:
    """Trees of readings: reports alone, with conditions, beside public rows, with candidates of a public table."""
    report, key = Column(1, "r", "int8"), Column(2, "k", "text")
    scan = Scan((report, key), 1, REPORTS.source, ("r", "k"))
    where = Call("bool", "=", (Ref("text", key), Lit("text", "a")))
    joined = Join((*scan.columns, PLANTED), "inner", Filter(scan.columns, scan, where), Public((PLANTED,), 3, PUBLIC), where)
    total = ReportTotal(Ref("int8", report), where)
    listed = CandidateList(PUBLIC, Ref("int8", PLANTED), (Ref("int8", PLANTED),), 5)
    return (
        (ReportGroups(scan, (Ref("text", key),), None, (Ref("int8", report),), (ReportTotal(), total)),),
        (ReportGroups(joined, (), Ref("int8", report), (Ref("int8", report),), (total,)), listed),
    )


def reading(trees: tuple[ReadingQuery, ...]) -> Reading:
    queries = tuple(Template("duckdb", (f"SELECT {i}",)) for i in range(len(trees)))
    return Reading(queries, (), (), (Estimate("count(*)", 0, 0, 0, ()),), 1000)


@pytest.fixture(scope="module")
def measured(shop_catalog: Catalog) -> list[Recorded]:
    return [recorded(sql, shop_catalog) for sql in STATEMENTS]


def test_a_thousand_mixtures_are_refused(measured: list[Recorded]) -> None:
    """Every one of them, whatever else is wrong with it, for the reason that it mixes."""
    chance, refused = random.Random(41), 0
    mixtures = [
        (made, replace(made.trees, main=tree)) for made in measured for tree in planted(made.trees.main, REPORTS)
    ]  # fmt: skip
    for made, trees in chance.sample(mixtures, min(600, len(mixtures))):
        with pytest.raises(Unproven, match="a measurement reads reports"):
            derived(trees, {**made.leaves, **LEAVES}, made.handed, made.stored)
        refused += 1
    for trees_of in readings():
        for place, tree in enumerate(trees_of):
            for changed in planted(tree, PEOPLE):
                for more in (changed, *planted(changed, PUBLIC)) if refused < 1_400 else (changed,):
                    with pytest.raises(Unproven, match="a reading reads rows of units"):
                        judged(reading(trees_of), (*trees_of[:place], more, *trees_of[place + 1 :]), LEAVES)
                    refused += 1
    assert refused >= 1_000


def test_what_is_not_mixed_is_judged() -> None:
    for trees in readings():
        asked = reading(trees)
        found = judged(asked, trees, LEAVES)
        assert found.verdict is not None
        assert found.verdict.queries == asked.queries
        assert replace(found, verdict=None) == asked


def test_measurements_are_derived_as_before(measured: list[Recorded]) -> None:
    for made in measured:
        check_absent(made.trees, {**made.leaves, **LEAVES})


def test_tables_that_the_policy_does_not_list_are_refused() -> None:
    (tree, *_), *_ = readings()
    with pytest.raises(Unproven, match="does not list"):
        judged(reading((tree,)), (tree,), {})
    with pytest.raises(Unproven, match="other queries"):
        judged(reading((tree, tree)), (tree,), LEAVES)


def test_every_scan_is_seen_once() -> None:
    shared = Filter(PUBLIC.columns, PUBLIC, Exists("bool", REPORTS))
    both = Union(PUBLIC.columns, (shared, shared, Project((PLANTED,), PEOPLE, (Lit("int8", "1"),))))
    assert sorted(scan.source[1] for scan in scans(both)) == ["people", "public", "reports"]

"""What one statement measures: equal measurements once, parameters by number, tables of `dpproxy` as arrays."""

from __future__ import annotations

from dataclasses import replace

import plan_harness
import pytest
from small_expressions import column, lit

from dpproxy.errors import PROGRAM_LIMIT_EXCEEDED, STATEMENT_TOO_COMPLEX, UNDEFINED_TABLE, Refusal
from dpproxy.plan.context import Context, Counter
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.measure.output_weights import Output
from dpproxy.plan.measure.request import MeasurementRequest
from dpproxy.plan.measure.specs import BasisSpec
from dpproxy.plan.outer.registry import MAX_MEASUREMENTS, MAX_NUMBERS, Registry
from dpproxy.policy.catalog import Catalog
from dpproxy.sql.dialect import to_sql
from dpproxy.sql.skeleton import parse_expression
from dpproxy.tree.expr import Hole
from dpproxy.tree.relation import Rows, Scan
from dpproxy.tree.spelling import Query

UNIT = column(1, "int4")
ORDERS = Rows(node=Scan((UNIT,), 0, ("main", "orders"), ("customer_id",)), unit=UNIT)


@pytest.fixture
def registry(shop_catalog: Catalog) -> Registry:
    policy = plan_harness.policy()
    return Registry(Context(policy, shop_catalog, policy.roles["analyst"], "duckdb", parameters=("int4", "text")), Counter())


def counted(registry: Registry, where: str = "") -> Compiled:
    asked = MeasurementRequest(ORDERS)
    asked.basis(BasisSpec("count", None, lit("true", "bool") if where else None, "count(*)"))
    found = registry.compile(asked, ORDERS, ())
    return replace(
        found, query=Query(found.query.tree, found.sql + where), outputs=(Output(f"n{where}", "linear", (1.0,), (0,)),)
    )


def test_equal_measurements_are_one(registry: Registry) -> None:
    one, other = counted(registry), counted(registry, " -- another")
    assert [registry.register(c) for c in (one, other, one, other)] == [0, 1, 0, 1]
    assert registry.first_array == [0, len(registry.arrays) // 2]
    again = replace(one, outputs=(Output("twice", "linear", (2.0,), (0,)),))
    assert registry.register(again) == 0
    assert [o.label for o in registry.compiled[0].outputs] == ["n", "twice"]


def test_there_is_an_end_to_them(registry: Registry) -> None:
    first = counted(registry)
    for i in range(MAX_MEASUREMENTS):
        assert registry.register(replace(first, query=Query(first.query.tree, f"{first.sql} -- {i}"))) == i
    assert registry.register(replace(first, query=Query(first.query.tree, f"{first.sql} -- 0"))) == 0
    with pytest.raises(Refusal) as refused:
        registry.register(first)
    assert refused.value.sqlstate == STATEMENT_TOO_COMPLEX


def test_arrays_come_after_the_statements_own_parameters(registry: Registry) -> None:
    registry.register(replace(counted(registry), query=Query(counted(registry).query.tree, "SELECT 0")))
    source = to_sql(registry.set_source("m", counted(registry), ()))
    width = len(registry.arrays) // 2
    assert source.startswith(f"UNNEST(CAST(${3 + width} AS BIGINT[])")
    assert source.endswith("AS m(b0)") or "AS m(b0," in source
    assert [a.measurement for a in registry.arrays] == [0] * width + [1] * width


def test_inputs_know_what_they_read(registry: Registry) -> None:
    registry.register(counted(registry))
    registry.register(replace(counted(registry), query=Query(counted(registry).query.tree, "SELECT 0")))
    last = 2 + len(registry.arrays)
    assert registry.input("(SELECT $1 + 7)", "int4") == Hole("int4", 2)
    assert registry.input(f"(SELECT $2 || ${last} || $3)", "text") == Hole("text", 3)
    assert [(i.arrays, i.measurements) for i in registry.inputs] == [((), ()), ((0, len(registry.arrays) - 1), (0, 1))]
    assert [registry.reads_released(sql) for sql in ("$1 + $2", f"${last}", f"${last + 1}")] == [False, True, False]


def test_equal_constants_are_asked_once(registry: Registry) -> None:
    asked = [registry.constant(*c) for c in (("now()", "timestamptz"), ("now()", "date"), ("now()", "timestamptz"))]
    assert asked == [Hole("timestamptz", 2), Hole("date", 3), Hole("timestamptz", 2)]
    assert len(registry.inputs) == 2


def test_tables_of_dpproxy_are_arrays_once(registry: Registry) -> None:
    tree = parse_expression("SELECT * FROM dpproxy.budget AS b, dpproxy.budget, dpproxy.nowhere")
    tables = [join.this for join in tree.args["joins"]]
    registry.virtual(tree.args["from_"].this, "budget")
    registry.virtual(tables[0], "budget")
    text = to_sql(tree)
    assert {a.virtual for a in registry.arrays} == {"budget"}
    assert [a.column for a in registry.arrays] == list(range(len(registry.arrays)))
    assert text.count("CAST($3 AS") == 2
    assert text.count(" AS b(") == text.count(" AS budget(") == 1
    with pytest.raises(Refusal, match="does not exist") as refused:
        registry.virtual(tables[1], "nowhere")
    assert refused.value.sqlstate == UNDEFINED_TABLE


def test_names_are_new(registry: Registry) -> None:
    assert [registry.next_alias() for _ in range(3)] == ["dpproxy_m1", "dpproxy_m2", "dpproxy_m3"]


@pytest.mark.parametrize("queries", [1, 3], ids=["one measurement", "several"])
def test_an_answer_has_no_more_numbers_than_the_proxy_can_hold(shop_catalog: Catalog, queries: int) -> None:
    """66,430 groups of each of many columns took a gigabyte at the first answer, and at each that was shown again."""

    def asked(columns: int) -> str:
        sums = ", ".join(f"sum(least(income, {number}))" for number in range(1, columns + 1))
        each = [f"SELECT {sums} FROM customers WHERE income > {n} GROUP BY birth_year, signup" for n in range(queries)]
        return " UNION ALL ".join(each)

    most = MAX_NUMBERS // (66_430 * queries) - 2  # two keys
    policy = plan_harness.policy()
    plan_harness.plan(asked(most), shop_catalog, policy)
    with pytest.raises(Refusal, match="values, empty groups included, is too large") as refused:
        plan_harness.plan(asked(most + 1), shop_catalog, policy)
    assert refused.value.sqlstate == PROGRAM_LIMIT_EXCEEDED

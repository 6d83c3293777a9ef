"""Spark's SQL against DuckDB's: the same exact integers for every statement that both take, before noise.

Each accepted fixture is planned for both, with bounds that do not bind, and every query of its measurements is run on both, over
the same rows. In the suite every sixteenth is, on Sail; `-m long` runs all of them on Sail and on Spark itself, and there
also deletes each unit in turn, in parts of which each is spread over all statements, and looks for values that raise. What Spark
refuses it refuses by name.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import plan_harness
import pyarrow as pa
import pytest
import shop_world
import typed_expressions
from agreement import groups, plain_cell
from fixture_cases import ACCEPTED, ACCEPTED_OF_TOOLS, Case
from plan_harness import Sensitivity, Shop
from small_expressions import column, ref
from spark_shop import SparkShop

from dpproxy.engines.spark import PICK, Spark
from dpproxy.errors import Refusal
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy
from dpproxy.tree.expr import Cast
from tests.worlds import spark_servers

ALL = (*ACCEPTED, *ACCEPTED_OF_TOOLS)
SAMPLE = ACCEPTED[::16]
DELETED = ACCEPTED[5::64]
"""Of which units are deleted in the suite: each takes half a second."""
PARTS = 8
"""Of the deletion of units in long mode: who has no hour tries one of them."""


@pytest.fixture(scope="module")
def wide() -> Policy:
    return plan_harness.wide(plan_harness.policy())


class Tame:
    """A shop without trouble, and without neighbours."""

    units = ()

    def __init__(self) -> None:
        self._connection = duckdb.connect(":memory:")
        self._connection.execute("SET TimeZone = 'UTC'")
        shop_world.fill(self._connection, 3, trouble=False)

    def run(self, sql: str, unit: None = None) -> pa.Table:
        return self._connection.execute(sql).to_arrow_table()


@pytest.fixture(scope="module")
def tame() -> Tame:
    return Tame()


@pytest.fixture(scope="module")
def on_sail(sail_session: Any, tame: Tame, tmp_path_factory: pytest.TempPathFactory) -> SparkShop:
    return SparkShop(sail_session, tmp_path_factory.mktemp("sail"), tame, neighbours=False)


@pytest.fixture(scope="module")
def spark_session() -> Iterator[Any]:
    with spark_servers.session(spark_servers.spark()) as session:
        yield session


REFUSED = (
    "not supported on Spark",
    "EXISTS of a query with aggregates",
    "a cast to BIT(64)",
    "identifies a single customer or record and cannot be",
)
"""But for the first, of statements that rules write another way: what they write is refused on Spark by name, and told is what stands
in the way of the statement as it is."""


def planned(case: Case, catalog: Catalog, given: Policy | None, patch: pytest.MonkeyPatch) -> tuple[Plan, Plan | None]:
    """For DuckDB, and for Spark, which may refuse."""
    patch.setattr(plan_harness, "engine", "duckdb")
    duck = case.plan(catalog, given)
    patch.setattr(plan_harness, "engine", "spark")
    try:
        return duck, case.plan(catalog, given)
    except Refusal as refusal:
        if not any(reason in refusal.message for reason in REFUSED):
            raise
        return duck, None


def differences(case: Case, plans: tuple[Plan, Plan], shop: Tame, other: SparkShop) -> Iterator[str]:
    for one, two in zip(plans[0].measurements, plans[1].measurements, strict=True):
        texts = (plan_harness.queries(m, plan_harness.values_of(p, case.values)) for m, p in ((one, plans[0]), (two, plans[1])))
        for i, (first, second) in enumerate(zip(*texts, strict=True)):
            wanted, found = shop.run(first), other.run(second)
            keys = len(one.keys)
            if i == 0:
                same = groups(_rows(wanted), keys) == groups(_rows(found), keys)
            else:
                same = Counter(map(_plain, _rows(wanted))) == Counter(map(_plain, _rows(found)))
            if not same:
                yield f"{case}: query {i}: {_rows(found)[:5]} instead of {_rows(wanted)[:5]}"


def _rows(table: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(plain_cell, row))


def compared(
    cases: tuple[Case, ...], catalog: Catalog, given: Policy, shop: Tame, other: SparkShop, patch: pytest.MonkeyPatch
) -> tuple[list[str], int]:
    """What differs, and how many statements were refused."""
    found, refused = [], 0
    for case in cases:
        duck, spark = planned(case, catalog, given, patch)
        refused += spark is None
        if spark is not None:
            try:
                found += differences(case, (duck, spark), shop, other)
            except ValueError as error:
                found.append(f"{case}: {error}")
    return found, refused


def test_the_same_integers_as_duckdb(
    shop_catalog: Catalog, wide: Policy, tame: Tame, on_sail: SparkShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, refused = compared(SAMPLE, shop_catalog, wide, tame, on_sail, monkeypatch)
    assert found == []
    assert refused < len(SAMPLE) / 5, "most statements must be answered, or nothing is shown"


def test_a_difference_is_seen(
    shop_catalog: Catalog, wide: Policy, tame: Tame, on_sail: SparkShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison itself: another predicate."""
    one, two = (Case("", "shop", f"SELECT region, count(*) FROM customers WHERE score {sign} 0 GROUP BY 1") for sign in "<>")
    (duck, _), (_, spark) = (planned(case, shop_catalog, wide, monkeypatch) for case in (one, two))
    assert spark is not None
    assert list(differences(one, (duck, spark), tame, on_sail))


def deleted(cases: Sequence[Case], shop: SparkShop, catalog: Catalog) -> tuple[dict[str, list[str]], int]:
    """What the deletion of a unit refutes of plans for Spark, and how many statements were tried."""
    judge, wrong, tried = Sensitivity(shop), {}, 0
    for case in cases:
        try:
            made = case.plan(catalog)
        except Refusal:
            continue
        tried += 1
        if problems := judge.problems(made, case.values):
            wrong[str(case)] = problems
    return wrong, tried


@pytest.fixture(scope="module")
def troubled(sail_session: Any, tmp_path_factory: pytest.TempPathFactory) -> SparkShop:
    return SparkShop(sail_session, tmp_path_factory.mktemp("troubled"), Shop(1, 3))


def test_units_deleted_of_a_few(troubled: SparkShop, shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_harness, "engine", "spark")
    wrong, tried = deleted(DELETED, troubled, shop_catalog)
    assert wrong == {}
    assert tried > len(DELETED) / 2


@pytest.mark.parametrize(
    ("there", "instead"),
    [
        (r"rank <= 2\b", "rank <= 1000"),
        (r"CASE WHEN n0 > \d+ THEN \d+ ELSE n0 END", "n0"),
        (r"\(t1\.`customer_id` IS NOT NULL\)", "TRUE"),
    ],
)
def test_a_bound_that_is_missing_is_seen(
    there: str, instead: str, troubled: SparkShop, shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deletion itself: groups of a person, rows of a person, rows of nobody."""
    monkeypatch.setattr(plan_harness, "engine", "spark")
    made = plan_harness.plan("SELECT category, count(*) FROM orders GROUP BY category", shop_catalog)
    assert Sensitivity(troubled).problems(made) == []
    (measured,) = made.measurements
    texts = [tuple(re.sub(there, instead, p) if isinstance(p, str) else p for p in q.parts) for q in measured.queries]
    broken = replace(measured, queries=tuple(replace(q, parts=t) for q, t in zip(measured.queries, texts, strict=True)))
    assert broken != measured, "nothing was planted"
    assert Sensitivity(troubled).problems(replace(made, measurements=(broken,))) != []


BOUNDED = (
    ("customers", "score", ("score > 5", "score BETWEEN 6 AND 50"), ("score::text", "score + 1", "score / 7", "score::float8")),
    ("customers", "birth_year", ("birth_year > 1990",), ("birth_year::text",)),
    ("customers", "income", ("income > 7",), ("floor(income / 1000)", "round(income)::text")),
    ("customers", "signup", ("signup > '2024-01-01'",), ("signup::text", "date_trunc('month', signup)", "signup::timestamp")),
    ("orders", "ts", ("ts < '2024-01-01'",), ("ts::date", "ts::date::text", "to_char(ts, 'YYYY-MM')")),
    ("orders", "amount", ("amount > 5",), ("floor(amount)", "round(amount)::int8::text")),
    ("orders", "qty", ("qty > 5",), ("qty::text", "qty::int2")),
)
"""Tables, columns, conditions that bound them, what is made of them."""


@pytest.mark.parametrize(("table", "column", "conditions", "keys"), BOUNDED, ids=[f"{row[0]}.{row[1]}" for row in BOUNDED])
def test_what_a_condition_bounds_may_be_a_key(
    table: str,
    column: str,
    conditions: tuple[str, ...],
    keys: tuple[str, ...],
    on_sail: SparkShop,
    shop_catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sail works out what the bounds of a column become, to see whether rows are sorted already, and may raise over that."""
    monkeypatch.setattr(plan_harness, "engine", "spark")
    orders = "(SELECT DISTINCT customer_id, status FROM orders) AS o ON c.customer_id = o.customer_id"
    rows = f"customers AS c JOIN {orders} JOIN {table} AS t ON o.customer_id = t.customer_id"
    for condition, key in itertools.product(conditions, keys):
        own, kept = (re.sub(rf"\b{column}\b", f"t.{column}", text) for text in (key, condition))
        made = plan_harness.plan(f"SELECT {own}, count(DISTINCT c.vip) FROM {rows} WHERE {kept} GROUP BY 1", shop_catalog)
        for measurement in made.measurements:
            for text in plan_harness.queries(measurement, plan_harness.values_of(made)):
                assert on_sail.run(text).num_columns > 1


VALUES = ("weight", "-amount", "weight::numeric", "big * big", "qty")
AGGREGATES = (
    "sum({})",
    "avg({})",
    "min({})",
    "max({})",
    "count({})",
    "sum(DISTINCT {})",
    "avg(DISTINCT {})",
    "count(DISTINCT {})",
)


@pytest.mark.parametrize("value", VALUES)
def test_aggregates_of_one_value_stand_beside_each_other(
    value: str, troubled: SparkShop, shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sail fails where two aggregates of a query are one when casts that do nothing are dropped."""
    monkeypatch.setattr(plan_harness, "engine", "spark")
    for pair in itertools.combinations(AGGREGATES, 2):
        one, two = (form.format(value) for form in pair)
        inner = f"SELECT customer_id, {one} AS n, {two} AS m FROM orders GROUP BY 1"
        made = plan_harness.plan(f"SELECT count(*) FROM ({inner}) AS t WHERE n > 1 OR m > 1", shop_catalog)
        assert troubled.run(plan_harness.queries(made.measurements[0], plan_harness.values_of(made))[0]).num_rows == 1


def test_the_key_of_picks_is_in_no_statement(shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    key = 4242424242424242421
    monkeypatch.setattr(plan_harness, "engine", "spark")
    policy = plan_harness.policy()
    planning = plan_harness.planning(policy, shop_catalog, "spark", key)
    statement = plan_harness.statement("SELECT category, count(*), count(DISTINCT order_id) FROM orders GROUP BY 1", policy)
    made = planning(statement, policy.roles["analyst"], {"search_path": "public"}, ())
    texts = [text for m in made.measurements for text in plan_harness.queries(m, [])]
    assert any(PICK[0] in text for text in texts)
    assert not any(str(key) in text for text in texts)


def test_another_key_is_another_order(sail_session: Any) -> None:
    """The view is read: with another key in it, units' groups stand in another order."""
    from dpproxy.backends.spark_session import keyed

    order = Spark().pick_hash(["id"], 0)
    orders = []
    for key in (1, 2, 1):
        keyed(sail_session, key)
        found = sail_session.sql(f"SELECT id, {order} AS h FROM range(0, 20) AS t ORDER BY h").toArrow()
        orders.append(found.column("id").to_pylist())
    assert orders[0] == orders[2] != orders[1]


# --- long mode


@pytest.fixture(scope="module", params=["sail", "spark"])
def session(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"{request.param}_session")


@pytest.mark.long
def test_what_only_spark_takes_for_values(spark_session: Any) -> None:
    """Its server's environment by `${env:NAME}`, 2**63 as BIGINT, bytes that are no text; of wide decimals no digit is lost."""
    engine, number, wide = Spark(), column(1, "float8"), replace(column(3, "numeric"), exact="decimal(38,20)")
    written, digits = "${env:HOME} \\${env:HOME} ${spark.app.name}", "123456789012345678.12345678901234567890"
    spelled = {
        "a": engine.literal("text", written),
        "b": engine.expr(Cast("int8", ref(number)), {1: "x"}),
        "c": engine.column(column(2, "text"), "s"),
        "d": f"CAST({engine.key(ref(wide), {3: 'd'})} AS STRING)",
    }
    rows = f"(CAST('9223372036854775808' AS DOUBLE), CAST(X'61FF62' AS STRING), CAST('{digits}' AS DECIMAL(38, 20)))"
    items = ", ".join(f"{text} AS {name}" for name, text in spelled.items())
    (found,) = spark_session.sql(f"SELECT {items} FROM (VALUES {rows}) AS t(x, s, d)").toArrow().to_pylist()
    assert found == {"a": written, "b": None, "c": None, "d": digits}


@pytest.mark.long
def test_all_fixtures(
    session: Any, shop_catalog: Catalog, wide: Policy, tame: Tame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = SparkShop(session, tmp_path, tame, neighbours=False)
    assert compared(ALL, shop_catalog, wide, tame, other, monkeypatch)[0] == []


@pytest.fixture(scope="module", params=["sail", "spark"])
def neighbours(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkShop]:
    """The troubled shop in a session whose statements are planned quickly where that is Spark's own."""
    folder = tmp_path_factory.mktemp("neighbours")
    if request.param == "sail":
        yield SparkShop(request.getfixturevalue("sail_session"), folder, Shop(1, 3))
        return
    with spark_servers.session(spark_servers.spark()) as session:
        spark_servers.interpret(session)
        yield SparkShop(session, folder, Shop(1, 3))


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_sensitivity_by_deletion(
    part: int, neighbours: SparkShop, shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_harness, "engine", "spark")
    cases = ALL[part::PARTS]
    wrong, tried = deleted(cases, neighbours, shop_catalog)
    assert wrong == {}
    assert tried > len(cases) / 2


@pytest.mark.long
def test_no_value_raises(session: Any, shop_catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_harness, "engine", "spark")
    shop, taken, raising = SparkShop(session, tmp_path, Shop(1, 0), neighbours=False), [], {}
    for expression in typed_expressions.EXPRESSIONS:
        try:
            plan_harness.plan(f"SELECT count({expression}) {typed_expressions.FROM}", shop_catalog)
            taken.append(expression)
        except Refusal:
            continue
    for at in range(0, len(taken), 10):
        items = ", ".join(f"count({e})" for e in taken[at : at + 10])
        made = plan_harness.plan(f"SELECT {items} {typed_expressions.FROM}", shop_catalog)
        try:
            shop.run(plan_harness.queries(made.measurements[0], plan_harness.values_of(made))[0])
        except ValueError as error:
            raising[items] = str(error)
    assert raising == {}
    assert len(taken) > len(typed_expressions.EXPRESSIONS) / 2

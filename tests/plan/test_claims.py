"""What a plan claims of a relation is true of the rows its SQL makes: groups a unit reaches, one row a unit, constant columns.

Each statement is a way in which a claim could outlive what justified it: undeclared values beside declared ones, an outer
join that takes a column's values away. They are judged by deletion (`plan_harness.Sensitivity`) on data that has all of
it, each on one of the engines in turn: claims are made before an engine is chosen, and its SQL is judged in
`test_sensitivity`. Statements with `groups: all` leave everything to the claims: the policy bounds no groups.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import duckdb
import plan_harness
import pyarrow as pa
import pytest
from each_engine import ENGINES, Engine
from fixture_cases import ACCEPTED, Case
from plan_harness import AnyShop, Sensitivity

from dpproxy.backends.duckdb import DuckDB
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.load import load_file
from dpproxy.policy.model import Bounds, DuckDBBackend, Policy
from dpproxy.tree import relation

SHOP = Path(__file__).resolve().parents[2] / "policies" / "shop.yaml"


@pytest.fixture
def shop(engine: Engine) -> AnyShop:
    return engine.shop(1, 4)


def bounded(rows: int, groups: int | None, whole: bool = False) -> Policy:
    """The policy of most fixtures, with other bounds of each table with several rows of a customer."""
    given = plan_harness.policy()
    tables = {n: t if t.one or t.kind.shown else replace(t, bounds=Bounds(rows, groups, whole)) for n, t in given.tables.items()}
    return replace(given, tables=tables)


BOUNDS = {"all groups": bounded(3, None), "rows": bounded(3, None, True), "rows and groups": bounded(3, 4, True)}

ORDERS = "FROM orders o JOIN customers c USING (customer_id)"
VISITS = "FROM visits v JOIN customers c USING (customer_id)"
UNDECLARED_BESIDE_DECLARED = [
    f"SELECT c.name, o.status, count(*) {ORDERS} GROUP BY 1, 2",
    f"SELECT c.name, o.status, sum(o.qty), avg(o.weight) {ORDERS} GROUP BY 1, 2",
    f"SELECT c.name, o.status, percentile_cont(0.5) WITHIN GROUP (ORDER BY o.amount) {ORDERS} GROUP BY 1, 2",
    f"SELECT c.name, o.status, min(o.qty), max(o.amount) {ORDERS} GROUP BY 1, 2",
    f"SELECT c.name, o.status, mode() WITHIN GROUP (ORDER BY o.paid) {ORDERS} GROUP BY 1, 2",
    f"SELECT c.name, o.status, count(DISTINCT o.order_id), count(DISTINCT o.category) {ORDERS} GROUP BY 1, 2",
    f"SELECT c.name, o.status, count(DISTINCT customer_id) {ORDERS} GROUP BY 1, 2",
    f"SELECT DISTINCT c.name, o.status {ORDERS}",
    f"SELECT c.name, o.status, count(*) {ORDERS} GROUP BY ROLLUP (1, 2)",
    f"SELECT c.name, o.status, o.paid, count(*) {ORDERS} GROUP BY CUBE (1, 2, 3)",
    f"SELECT c.name, o.status, count(*) {ORDERS} GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 2",
    f"SELECT c.phone, o.paid, count(*) {ORDERS} GROUP BY 1, 2",
    f"SELECT c.wealth, v.page, count(*) {VISITS} GROUP BY 1, 2",
    f"SELECT c.name, floor(v.secs / 100), count(*) {VISITS} GROUP BY 1, 2",
    f"SELECT c.name, v.secs > 100, count(*) {VISITS} GROUP BY 1, 2",
    f"SELECT c.name, CASE WHEN v.page = 'home' THEN 1 WHEN v.page = 'cart' THEN 2 END, count(*) {VISITS} GROUP BY 1, 2",
    f"SELECT c.name, extract(month FROM v.day), count(*) {VISITS} GROUP BY 1, 2",
    f"SELECT c.name, coalesce(o.status, 'open'), count(*) {ORDERS} GROUP BY 1, 2",
    f"SELECT c.name, c.region, o.status, count(*) {ORDERS} GROUP BY 1, 2, 3",
    "SELECT name, status, count(*) FROM (SELECT c.name, o.status FROM customers c LEFT JOIN orders o USING (customer_id)) t GROUP BY 1, 2",
    "SELECT c.name, t.s, count(*) FROM customers c JOIN (SELECT customer_id, status AS s FROM orders UNION ALL"
    " SELECT customer_id, page FROM visits) t USING (customer_id) GROUP BY 1, 2",
    "WITH spent AS (SELECT customer_id, status, sum(qty) AS q FROM orders GROUP BY 1, 2)"
    " SELECT c.name, spent.status, sum(q) FROM spent JOIN customers c USING (customer_id) GROUP BY 1, 2",
    "SELECT c.name, r.region, count(*) FROM customers c JOIN orders o USING (customer_id) LEFT JOIN regions r ON r.region = o.note"
    " GROUP BY 1, 2",
    f"SELECT c.name, o.qty, count(*) {ORDERS} WHERE o.qty < (SELECT count(*) FROM visits) GROUP BY 1, 2",
]  # fmt: skip


def in_turn(cases: Iterable[Any], bounds: Sequence[str]) -> list[tuple[Any, str, str]]:
    """Each case under each of the bounds, on one engine and then on the other; bounds change places with the engines."""
    return [(case, b, ENGINES[(i + j) % len(ENGINES)]) for i, case in enumerate(cases) for j, b in enumerate(bounds)]


@pytest.mark.parametrize(("sql", "bounds", "engine"), in_turn(UNDECLARED_BESIDE_DECLARED, [*BOUNDS]), indirect=["engine"])
def test_undeclared_values_beside_declared_ones_are_groups_too(
    sql: str, bounds: str, shop: AnyShop, shop_catalog: Catalog
) -> None:
    made = plan_harness.plan(sql, shop_catalog, BOUNDS[bounds], dpproxy__other="on" if bounds == "rows" else "off")
    assert Sensitivity(shop).problems(made) == []


def test_as_many_groups_are_picked_as_are_declared(shop_catalog: Catalog) -> None:
    """The noise is that of the declared groups, and nothing is cut of who has declared values alone."""
    sql = f"SELECT c.name, o.status, count(*) {ORDERS} GROUP BY 1, 2"
    (made,) = plan_harness.plan(sql, shop_catalog, BOUNDS["all groups"]).measurements
    assert made.l0 == 3
    assert "at most 3 groups per customer, as many as are declared; others and NULL are groups as well" in made.notes
    (declared,) = plan_harness.plan(sql.replace("c.name", "c.region"), shop_catalog, BOUNDS["all groups"]).measurements
    assert declared.l0 == 3
    assert "a customer may reach 3 groups: none is cut" in declared.notes


MERGED = [c for c in ACCEPTED if c.file in ("from_clause", "accept_optional_keys", "null_padding")]


@pytest.mark.parametrize(("case", "bounds", "engine"), in_turn(MERGED, ["all groups", "rows"]), ids=str, indirect=["engine"])
def test_columns_of_an_outer_join_vary(case: Case, bounds: str, shop: AnyShop, shop_catalog: Catalog) -> None:
    """Under names of their own, made one by USING, by NATURAL, of a row beside one that has none."""
    assert Sensitivity(shop).problems(case.plan(shop_catalog, BOUNDS[bounds])) == []


NUMBERED = "(SELECT customer_id, row_number() OVER (PARTITION BY customer_id ORDER BY order_id) AS n FROM orders)"
REPEATED = [
    f"SELECT count(*) FROM (SELECT DISTINCT ON (customer_id, p.product_id) n, p.product_id FROM {NUMBERED} o CROSS JOIN products p"
    " ORDER BY customer_id, p.product_id) t WHERE n <= 1",
    f"SELECT count(*) FROM (SELECT DISTINCT customer_id, p.product_id, n FROM {NUMBERED} o CROSS JOIN products p) t WHERE n = 1",
    f"SELECT p.kind, count(*) FROM (SELECT DISTINCT customer_id, product_id, n FROM {NUMBERED} o CROSS JOIN products) t JOIN products p"
    " USING (product_id) WHERE n < 2 GROUP BY 1",
    f"SELECT count(*) FROM {NUMBERED} o CROSS JOIN products p WHERE n = 1",
    f"SELECT count(*) FROM {NUMBERED} o CROSS JOIN generate_series(1, 7) g WHERE n = 1",
    f"SELECT count(*) FROM (SELECT DISTINCT customer_id, g, n FROM {NUMBERED} o CROSS JOIN generate_series(1, 7) g) t WHERE n = 1",
    f"SELECT count(*) FROM {NUMBERED} o LEFT JOIN products p ON p.product_id > 2 WHERE n = 1",
    f"SELECT count(*) FROM {NUMBERED} o JOIN visits v USING (customer_id) WHERE n = 1",
    f"SELECT count(*) FROM {NUMBERED} a JOIN {NUMBERED} b USING (customer_id) WHERE a.n = 1 AND b.n <= 1",
    f"SELECT count(*) FROM {NUMBERED} a LEFT JOIN visits v ON v.customer_id = a.customer_id AND v.secs > 1 WHERE a.n = 1",
    "SELECT status, count(*) FROM (SELECT DISTINCT customer_id, p.product_id, status FROM (SELECT DISTINCT customer_id, status FROM"
    " orders) o CROSS JOIN products p) t GROUP BY status",
    "SELECT count(*) FROM (SELECT customer_id, p.product_id FROM (SELECT DISTINCT customer_id FROM orders) o CROSS JOIN products p"
    " UNION SELECT customer_id, product_id FROM order_items JOIN orders USING (order_id)) t",
]  # fmt: skip


@pytest.mark.parametrize("sql", REPEATED)
def test_rows_that_public_ones_repeat_are_as_many_as_claimed(sql: str, shop: AnyShop, shop_catalog: Catalog) -> None:
    """What bounded the rows of a unit before they were joined with a public table does not bound them afterwards."""
    for given in (plan_harness.policy(), plan_harness.wide(plan_harness.policy())):
        assert Sensitivity(shop).problems(plan_harness.plan(sql, shop_catalog, given)) == []


def test_claims_are_carried_over_in_one_place() -> None:
    """Another node under old claims is how a claim outlives what justified it: `Rows.fewer` and `Rows.wider` say when it may."""
    found = []
    for path in sorted(Path(relation.__file__).parent.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "replace" and call.args:
                changed = {k.arg for k in call.keywords} & {f.name for f in fields(relation.Rows)}
                if changed & {"one", "unit", "pending", "conditions"} or (
                    changed == {"node"} and ast.unparse(call.args[0]) != "item"
                ):
                    found.append(f"{path.name}: {ast.unparse(call)}")
    assert [f for f in found if not f.startswith("relation.py")] == []
    assert len(found) == 4, "the search finds those of relation.py"


def test_nothing_is_claimed_by_default() -> None:
    rows = relation.Rows(node=relation.Relation(()))
    assert (rows.unit, rows.one, rows.conditions, rows.determinants) == (None, False, (), frozenset())
    with pytest.raises(TypeError):
        relation.Rows(relation.Relation(()), None)  # type: ignore[misc]


# --- the sample policy, over data with values that it does not declare


class SampleShop:
    """Data of policies/shop.yaml with 60 categories where it declares 6; customer 1 has orders of all."""

    units = (1, 2)

    def __init__(self) -> None:
        self.connection = duckdb.connect(":memory:")
        fill_sample(self.connection)
        for name, condition in (("1", "<> 1"), ("2", "<> 2"), (plan_harness.NOBODY, "> 0"), (plan_harness.SHUFFLED, "> 0")):
            self.connection.execute(f"CREATE SCHEMA beside_{name}")
            kept = f"FROM main.orders WHERE customer_id {condition}"
            last = "order_id" if name != plan_harness.SHUFFLED else "-order_id"
            self.connection.execute(f"CREATE TABLE beside_{name}.orders AS {kept} ORDER BY {last}")
            self.connection.execute(f"CREATE TABLE beside_{name}.customers AS FROM main.customers WHERE customer_id {condition}")
            items = f"FROM main.order_items WHERE order_id IN (SELECT order_id {kept})"
            self.connection.execute(f"CREATE TABLE beside_{name}.order_items AS {items}")
            self.connection.execute(f"CREATE TABLE beside_{name}.products AS FROM main.products")

    def run(self, sql: str, unit: int | str | None = None) -> pa.Table:
        text = sql if unit is None else sql.replace('"main".', f'"beside_{unit}".')
        return self.connection.sql(text).to_arrow_table()

    def takes(self, sql: str) -> bool:
        return True


def fill_sample(connection: duckdb.DuckDBPyConnection) -> None:
    declared = "['books', 'clothing', 'electronics', 'garden', 'groceries', 'toys']"
    connection.execute(f"""
        CREATE TABLE customers AS SELECT i::INTEGER AS customer_id, ['north', 'mars', NULL][1 + i % 3] AS region, 'F' AS sex,
          1950::INTEGER AS birth_year, (1000 * i)::DOUBLE AS income, DATE '2024-01-01' AS signup, 'x' AS email FROM range(1, 6) r(i);
        CREATE TABLE orders AS SELECT row_number() OVER ()::BIGINT AS order_id, c::INTEGER AS customer_id,
          TIMESTAMP '2024-06-01' AS ts, (i * 7 % 100)::DECIMAL(12, 2) AS amount,
          CASE WHEN i < 6 THEN {declared}[1 + i] WHEN i < 59 THEN 'other' || i END AS category
          FROM range(1, 6) r(c), range(60) q(i) WHERE c = 1 OR i % c = 0;
        CREATE TABLE order_items AS SELECT order_id, (1 + order_id % 30)::INTEGER AS product_id, 2::INTEGER AS quantity FROM orders;
        CREATE TABLE products AS SELECT i::INTEGER AS product_id, 'p' || i AS title, 'k' || (i % 3) AS kind FROM range(1, 30) r(i);
    """)


@pytest.fixture(scope="module")
def sample_catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    path = tmp_path_factory.mktemp("sample") / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        fill_sample(connection)

    async def introspected() -> Catalog:
        backend = DuckDB(DuckDBBackend(str(path)))
        found = await backend.with_public_ranges(await backend.introspect(), frozenset({"products"}))
        await backend.close()
        return found

    return asyncio.run(introspected())


@pytest.fixture(scope="module")
def sample() -> Iterator[SampleShop]:
    shop = SampleShop()
    yield shop
    shop.connection.close()


SAMPLE = [
    "SELECT c.income, o.category, percentile_cont(0.5) WITHIN GROUP (ORDER BY o.amount) FROM orders o JOIN customers c"
    " USING (customer_id) GROUP BY 1, 2",
    "SELECT c.income, o.category, count(DISTINCT o.order_id) FROM orders o JOIN customers c USING (customer_id) GROUP BY 1, 2",
    "SELECT c.income, o.category, count(*) FROM orders o JOIN customers c USING (customer_id) GROUP BY 1, 2",
    "SELECT c.income, o.category, avg(o.amount) FROM orders o JOIN customers c USING (customer_id) GROUP BY 1, 2",
    "SELECT c.income, o.category, i.quantity, max(i.quantity) FROM order_items i JOIN orders o USING (order_id)"
    " JOIN customers c USING (customer_id) GROUP BY 1, 2, 3",
    "SELECT DISTINCT c.income, o.category FROM orders o JOIN customers c USING (customer_id)",
]


@pytest.mark.parametrize("sql", SAMPLE)
def test_the_sample_policy_over_undeclared_values(sql: str, sample: SampleShop, sample_catalog: Catalog) -> None:
    made = plan_harness.plan(sql, sample_catalog, load_file(SHOP).policy)
    assert Sensitivity(sample).problems(made) == []

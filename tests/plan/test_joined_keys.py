"""Units and paths of several columns: nobody moves an answer by more than the plan says, on rows that are easily confused.

The rows are such that a careless joining of key parts would take two people for one: tenants `1` and `11` with users `11` and `1`,
texts with colons and digits as lengths have, letters with accents as signs of their own, NULL in either part. Half of the people have
more rows than bounds allow. Each person is deleted in turn, and the rows of nobody; the kernel proves each plan by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import plan_harness
import psycopg
import pyarrow as pa
import pytest
from plan_harness import NOBODY, SHUFFLED, Sensitivity
from postgres_shop import NUMBERS, OIDS

from dpproxy.backends.duckdb import DuckDB
from dpproxy.engines import relations
from dpproxy.errors import Refusal
from dpproxy.kernel.leaves import leaves
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.check import check
from dpproxy.policy.joined_keys import spelled, with_joined
from dpproxy.policy.load import read_text
from dpproxy.policy.model import DuckDBBackend, KeyPart, Policy
from dpproxy.policy.people import make_verifier
from dpproxy.table_terms import TableName

POLICY = f"""
version: 1
dataset: saas
backend: {{ duckdb: d.duckdb }}
privacy_unit: {{ name: user, key: [members.tenant, members.user_no] }}
budget: {{ epsilon: 100, delta: 1e-6, every: month }}
tables:
  members:
    unit: [tenant, user_no]
    columns: {{ tenant: {{}}, user_no: {{}}, plan: {{ values: [a, b] }}, age: {{ range: [0, 100] }} }}
  logins:
    unit: {{ via: [members.tenant, members.user_no], column: [tenant, user_no] }}
    bounds: {{ rows_per_group: 2, groups: 2 }}
    columns: {{ tenant: {{}}, user_no: {{}}, ms: {{ range: [0, 100] }}, seen: {{ range: [2024-01-01, 2024-12-31] }} }}
  orders:
    unit: [tenant, user_no]
    bounds: {{ rows: 3 }}
    columns: {{ tenant: {{}}, user_no: {{}}, status: {{ values: [open, paid] }} }}
  items:
    unit: {{ via: [orders.tenant, orders.order_id], column: [tenant, order_no] }}
    bounds: {{ rows_per_group: 2, groups: all }}
    columns: {{ price: {{ range: [0, 10] }}, status: {{ values: [sent, lost] }} }}
roles:
  analyst: {{ budget: {{ epsilon: 10, delta: 1e-6, every: month }}, query: {{ epsilon: 1, max_epsilon: 2 }}, min_units: 2 }}
users:
  ada: {{ role: analyst, password: "{make_verifier("x")}" }}
"""
DAYS = f"""
version: 1
dataset: saas
backend: {{ duckdb: d.duckdb }}
privacy_unit: {{ name: day of a user, key: [logins.tenant, logins.user_no, {{ day: logins.seen }}] }}
budget: {{ epsilon: 100, delta: 1e-6, every: month }}
tables:
  logins:
    unit: [tenant, user_no, {{ day: seen }}]
    unique: false
    bounds: {{ rows: 2 }}
    columns: {{ tenant: {{}}, ms: {{ range: [0, 100] }}, seen: {{ range: [2024-01-01, 2024-12-31] }} }}
{POLICY[POLICY.index("roles:") :]}"""

TENANTS = ("1", "11", "1:1", "t", "te", "te\u0301", "", "TE")
USERS = (1, 11, 111, 2)
TABLES = ("members", "logins", "orders", "items")
CREATE = (
    "members(tenant text, user_no int, plan text, age int, PRIMARY KEY (tenant, user_no))",
    "logins(tenant text, user_no int, ms int, seen timestamp)",
    "orders(tenant text, order_id int, user_no int, status text, PRIMARY KEY (tenant, order_id))",
    "items(tenant text, order_no int, price int, status text)",
)


def rows_of(table: str) -> Iterator[tuple[object, ...]]:
    people = [(t, u) for t in TENANTS for u in USERS]
    if table == "members":
        yield from ((t, u, "ab"[i % 2], 20 + i) for i, (t, u) in enumerate(people))
    elif table == "logins":
        for i, (t, u) in enumerate([*people, (None, 1), ("t", None)]):
            yield from ((t, u, 7 * i + n, f"2024-0{n % 4 + 1}-01 0{n % 9}:30:00") for n in range(1 + i % 2 * 12))
    elif table == "orders":
        yield from ((t, i, u, ("open", "paid")[i % 2]) for i, (t, u) in enumerate([*people, *people[::3], *people[::3]]))
        yield from (("t", 1000 + i, None, "open") for i in range(3))
    else:
        orders = [*people, *people[::3], *people[::3]]
        for i, (t, _) in enumerate(orders):
            yield from ((t, i, n, ("sent", "lost")[n % 2]) for n in range(1 + i % 5))
        yield from ((t, 5000, 10, "sent") for t in TENANTS)
        yield from ((None, 3, 10, "sent"), ("t", 1001, 9, "lost"))


Connection = duckdb.DuckDBPyConnection | psycopg.Connection[Any]
ORDERED = "EXISTS (SELECT 1 FROM main.orders o WHERE o.tenant = items.tenant AND o.order_id = items.order_no AND {})"


class PairShop:
    """The rows of some tables, and beside them those without each unit, as schemas of one database. `units`: a condition of each,
    by its name."""

    def __init__(self, connection: Connection, units: Mapping[str, str], tables: Sequence[str] = TABLES) -> None:
        self._connection, self._tables = connection, tables
        self._do("CREATE SCHEMA IF NOT EXISTS main")
        mark = "?" if isinstance(connection, duckdb.DuckDBPyConnection) else "%s"
        for created, table in zip(CREATE, TABLES, strict=True):
            self._do(f"CREATE TABLE main.{created}")
            rows = list(rows_of(table))
            marks = ", ".join([mark] * len(rows[0]))
            connection.cursor().executemany(f"INSERT INTO main.{table} VALUES ({marks})", rows)
        for name, gone in units.items():
            self._beside(name, f"NOT coalesce({gone}, false)", f"NOT {ORDERED.format(gone)}")
        self._beside(NOBODY, "tenant IS NOT NULL AND user_no IS NOT NULL", ORDERED.format("user_no IS NOT NULL"))
        self._beside(SHUFFLED, "true", "true", " ORDER BY 3 DESC, 2 DESC")
        self.units: tuple[int | str, ...] = tuple(units)

    def _beside(self, name: str, kept: str, items: str, order: str = "") -> None:
        self._do(f"CREATE SCHEMA beside_{name}")
        for table in self._tables:
            where = items if table == "items" else kept
            self._do(f"CREATE TABLE beside_{name}.{table} AS SELECT * FROM main.{table} WHERE {where}{order}")

    def _do(self, sql: str) -> None:
        self._connection.execute(sql)

    def execute(self, sql: str) -> None:
        self._do(sql)

    def takes(self, sql: str) -> bool:
        return True

    def run(self, sql: str, unit: int | str | None = None) -> pa.Table:
        text = sql if unit is None else sql.replace('"main".', f'"beside_{unit}".')
        if isinstance(self._connection, duckdb.DuckDBPyConnection):
            return self._connection.execute(text).to_arrow_table()
        cursor = self._connection.execute(text.encode())
        columns, rows = cursor.description or (), cursor.fetchall()
        types = [NUMBERS.get(OIDS.get(c.type_code, ""), pa.string()) for c in columns]
        cells = [[r[i] if r[i] is None or t != pa.string() else str(r[i]) for r in rows] for i, t in enumerate(types)]
        arrays = [pa.array(values, type_) for values, type_ in zip(cells, types, strict=True)]
        return pa.table(arrays, names=[c.name for c in columns])


PEOPLE = {f"p{i}": f"tenant = '{t}' AND user_no = {u}" for i, (t, u) in enumerate((t, u) for t in TENANTS for u in USERS)}
A_DAY = {
    f"{name}d{n}": f"{gone} AND CAST(seen AS date) = DATE '2024-0{n}-01'" for name, gone in PEOPLE.items() for n in (1, 2, 4)
}


@pytest.fixture(params=["duckdb", "postgres"])
def connection(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """A database of its own, of the engine that plans are made for."""
    monkeypatch.setattr(plan_harness, "engine", request.param)
    if request.param == "duckdb":
        with duckdb.connect(":memory:") as database:
            yield database
        return
    server, name = request.getfixturevalue("scratch"), f"pairs_{abs(hash(request.node.name))}"
    with psycopg.connect(server.conninfo(), autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"'.encode())
    with psycopg.connect(server.conninfo(name), autocommit=True) as database:
        yield database


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """The tables as their database reports them: without any joined column."""
    path = tmp_path_factory.mktemp("pairs") / "d.duckdb"
    with duckdb.connect(str(path)) as database:
        for created in CREATE:
            database.execute(f"CREATE TABLE {created}")

    async def introspected() -> Catalog:
        backend = DuckDB(DuckDBBackend(str(path)))
        catalog = await backend.introspect()
        await backend.close()
        return catalog

    return asyncio.run(introspected())


def policy(text: str = POLICY) -> Policy:
    return read_text(text, "p.yaml", Path("/data"), {}).policy


STATEMENTS = (
    "SELECT count(*), count(DISTINCT tenant_user_no_key), avg(age) FROM members",
    "SELECT plan, count(*) FROM members GROUP BY 1",
    "SELECT tenant, count(*), sum(ms) FROM logins GROUP BY 1",
    "SELECT user_no, count(*) FROM logins GROUP BY 1",
    "SELECT status, count(*), count(DISTINCT tenant_user_no_key) FROM orders GROUP BY 1",
    "SELECT status, count(*), sum(price) FROM items GROUP BY 1",
    "SELECT m.plan, count(*), sum(l.ms) FROM members m JOIN logins l USING (tenant_user_no_key) GROUP BY 1",
    "SELECT o.status, sum(i.price) FROM orders o JOIN items i ON i.tenant_order_no_key = o.tenant_order_id_key GROUP BY 1",
    "SELECT plan, avg(n) FROM (SELECT m.plan, tenant_user_no_key, count(*) AS n FROM members m JOIN logins l USING"
    " (tenant_user_no_key) GROUP BY 1, 2) t GROUP BY 1",
    "SELECT count(*) FROM members m WHERE EXISTS (SELECT FROM orders o WHERE o.tenant_user_no_key = m.tenant_user_no_key)",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) FROM logins",
)


def test_no_person_moves_an_answer_by_more_than_the_plan_says(connection: Connection, found: Catalog) -> None:
    given = policy()
    shop, catalog = PairShop(connection, PEOPLE), with_joined(given, found)
    assert not check(given, found)
    for sql in STATEMENTS:
        assert Sensitivity(shop).problems(plan_harness.plan(sql, catalog, given)) == [], sql


def test_no_day_of_a_person_does_either(connection: Connection, found: Catalog) -> None:
    given = policy(DAYS)
    shop, catalog = PairShop(connection, A_DAY, ["logins"]), with_joined(given, found)
    assert not check(given, found)
    for sql in (
        "SELECT tenant, count(*), sum(ms) FROM logins GROUP BY 1",
        "SELECT count(DISTINCT tenant_user_no_seen_day_key) FROM logins",
        "SELECT date_trunc('month', seen), count(*) FROM logins GROUP BY 1",
    ):
        made = plan_harness.plan(sql, catalog, given)
        assert Sensitivity(shop).problems(made) == [], sql
        assert "each day is protected by itself" in "\n".join(made.explain)


def test_who_is_one_in_two_tables_is_one_in_the_answer(connection: Connection, found: Catalog) -> None:
    """A join by the joined key finds what a join by all its columns finds, and nothing else."""
    PairShop(connection, {})
    mine, theirs = (spelled("\x1ftenant\x1fuser_no", '"', alias) for alias in ("m", "l"))
    counted = "SELECT count(*), count(DISTINCT {}) FROM main.members m JOIN main.logins l ON {}"
    one = connection.execute(counted.format(mine, f"{mine} = {theirs}").encode().decode()).fetchone()
    both = connection.execute(counted.format("(m.tenant, m.user_no)", "m.tenant = l.tenant AND m.user_no = l.user_no")).fetchone()
    assert one == both
    assert one is not None
    assert one[1] == len(PEOPLE)


def test_the_kernel_takes_no_other_column_for_the_key(found: Catalog) -> None:
    """Not one that is called like it, and not one that is joined of other columns."""
    given = policy()
    catalog = with_joined(given, found)
    name = TableName("public", "orders")
    assert leaves(given, catalog)["main", "orders"].unit == "\x1ftenant\x1fuser_no"
    for wrong in ({"parts": ()}, {"parts": (KeyPart("tenant"), KeyPart("order_id"))}):
        known = catalog.tables[name]
        columns = tuple(replace(c, **wrong) if c.name == "tenant_user_no_key" else c for c in known.columns)
        other = replace(catalog, tables={**catalog.tables, name: replace(known, columns=columns)})
        assert ("main", "orders") not in leaves(given, other)


def test_a_planted_key_of_half_its_columns_is_seen(
    connection: Connection, found: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With people of all tenants taken for one, deleting one person changes rows that bounds had cut: the tests above look."""
    given = policy()
    shop, catalog = PairShop(connection, PEOPLE), with_joined(given, found)
    monkeypatch.setattr(relations, "spelled", lambda source, quote, alias="": spelled(source.split("\x1f")[-1], quote, alias))
    made = [plan_harness.plan(sql, catalog, given) for sql in STATEMENTS[:6]]
    assert any(Sensitivity(shop).problems(each) for each in made)


def test_rows_of_other_units_are_not_joined(found: Catalog) -> None:
    given = policy()
    with pytest.raises(Refusal):
        plan_harness.plan("SELECT count(*) FROM members m JOIN orders o ON m.tenant = o.tenant", with_joined(given, found), given)

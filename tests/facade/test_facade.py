"""The facade through a real connection: what exists, what may be done, what survives."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import pwd
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncpg
import pyarrow as pa
import pytest
import pytest_asyncio

from dpproxy.amounts import ATTO, MICRO
from dpproxy.facade.account import Account, FacadeError, find_binaries, wheel_files
from dpproxy.facade.cluster import Cluster
from dpproxy.facade.facade import Facade, Rooms
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable, ForeignKey
from dpproxy.policy.model import (
    Bounds,
    Budget,
    ColumnPolicy,
    ColumnRole,
    DuckDBBackend,
    Policy,
    QueryLimits,
    Role,
    TablePolicy,
    UnitPath,
    User,
)
from dpproxy.table_terms import TableName

PEOPLE, VISITS, SHOPS, BIG = (TableName("public", n) for n in ("people", "visits", "shops", "big"))
ODD = TableName("Odd Schema", 'a"b')
pytestmark = pytest.mark.asyncio(loop_scope="module")


def catalog() -> Catalog:
    def columns(**types: str) -> tuple[CatalogColumn, ...]:
        return tuple(CatalogColumn(name, name, type) for name, type in types.items())

    people = CatalogTable(
        PEOPLE,
        ("main", "people"),
        (
            CatalogColumn("id", "id", "int4", nullable=False),
            *columns(email="text", born="date", income="numeric", shape="geometry", seen="timestamptz"),
        ),
        primary_key=("id",),
        unique=(("email",),),
        comment="it's people",
    )
    visits = CatalogTable(
        VISITS,
        ("main", "visits"),
        columns(visit="int8", person="int4", shop="int4", paid="float8"),
        foreign_keys=(ForeignKey(("person",), PEOPLE, ("id",)), ForeignKey(("shop",), SHOPS, ("id",))),
    )
    shops = CatalogTable(
        SHOPS, ("main", "shops"), columns(id="int4", name="text", open="bool", since="timestamp"), primary_key=("id",)
    )
    big = CatalogTable(BIG, ("main", "big"), columns(id="int4"))
    odd = CatalogTable(ODD, ("odd", "x"), columns(**{"Sel ect": "int2"}))
    return Catalog({t.name: t for t in (people, visits, shops, big, odd)})


def policy(dataset: str = "shop", **roles: Role) -> Policy:
    budget, query = Budget(10 * MICRO, ATTO // 10**6), QueryLimits(MICRO // 10, MICRO, 0)
    one, many = Bounds(1, 1), Bounds(5, 5)

    def listed(**kinds: ColumnRole) -> dict[str, ColumnPolicy]:
        return {name: ColumnPolicy(name, kind) for name, kind in kinds.items()}

    plain, unit, key = ColumnRole.PLAIN, ColumnRole.UNIT, ColumnRole.KEY
    people = listed(id=unit, email=ColumnRole.HIDDEN, born=plain, income=plain, shape=plain, seen=plain)
    tables = [
        TablePolicy(PEOPLE, UnitPath("id"), True, one, people),
        TablePolicy(VISITS, UnitPath("person"), False, many, listed(visit=key, person=unit, shop=key)),
        TablePolicy(SHOPS, None, False, many, {}),
        TablePolicy(BIG, None, False, many, {}),
        TablePolicy(ODD, None, False, many, {}),
    ]
    some = roles or {
        "analyst": Role("analyst", budget, query, None),
        "narrow": Role("narrow", budget, query, frozenset({VISITS}), temp_tables=True),
    }
    return Policy(
        dataset, DuckDBBackend("/nowhere"), "person", PEOPLE, "id", budget, {t.name: t for t in tables}, some,
        {"ada": User("ada", "analyst", "")},
    )  # fmt: skip


SHOP_ROWS = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int32()),
        "name": pa.array(["tab\there\\N", "line\nbreak\r", None]),
        "open": [True, False, None],
        "since": pa.array([dt.datetime(2020, 1, 1, 12, 30), None, None], pa.timestamp("us")),
    }
)


async def public_rows(table: CatalogTable, columns: Sequence[str], cap: int) -> pa.Table:
    if table.name == SHOPS:
        return SHOP_ROWS.slice(0, 2).select(list(columns))
    if table.name == BIG:
        return pa.table({"id": pa.array(range(cap + 1), pa.int32())})
    return pa.table({"Sel ect": pa.array([7], pa.int16())})


@dataclass
class World:
    """A facade with two datasets. Tests ask for one role's server."""

    facade: Facade
    rooms: dict[str, Rooms]

    def cluster(self, role: str = "analyst", dataset: str = "shop") -> Cluster:
        found = self.rooms[dataset].server(role)
        assert isinstance(found, Cluster)
        return found

    async def connect(self, role: str = "analyst", dataset: str = "shop") -> Any:
        host = str(Path(self.cluster(role, dataset).socket).parent)
        return await asyncpg.connect(host=host, user=f"{role}@{dataset}", database=dataset)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def facade(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    running = Facade(public_cap=1000)
    await running.start(tmp_path_factory.mktemp("state"))
    rooms = {name: await running.open(policy(name), catalog(), public_rows) for name in ("shop", "other")}
    yield World(running, rooms)
    await running.stop()


async def connect(facade: World, role: str = "analyst@shop") -> Any:
    return await facade.connect(*role.split("@"))


async def test_runs_unprivileged_behind_a_private_folder(facade: World) -> None:
    socket = Path(facade.cluster().socket)
    assert len(os.fsencode(socket)) < 100
    assert socket.parent.stat().st_mode & 0o077 == 0
    assert os.stat(f"/proc/{facade.cluster().pid}").st_uid != 0


@pytest.mark.skipif(sys.platform != "linux", reason="scheduling policies are Linux's")
async def test_sessions_wait_their_turn(facade: World) -> None:
    connection = await connect(facade)
    assert os.sched_getscheduler(await connection.fetchval("SELECT pg_backend_pid()")) == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == os.SCHED_OTHER, "but not the proxy, which engines would keep waiting"
    await connection.close()


async def test_tables_as_the_policy_shows_them(facade: World) -> None:
    connection = await connect(facade)
    rows = await connection.fetch(
        "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull FROM pg_attribute a "
        "JOIN pg_class c ON c.oid = a.attrelid WHERE a.attnum > 0 AND c.relname IN ('people', 'visits') "
        "AND c.relkind = 'r' ORDER BY 1, a.attnum"
    )
    assert [tuple(r) for r in rows] == [
        ("people", "id", "integer", True),
        ("people", "born", "date", False),
        ("people", "income", "numeric", False),
        ("people", "shape", "text", False),
        ("people", "seen", "timestamp with time zone", False),
        ("visits", "visit", "bigint", False),
        ("visits", "person", "integer", False),
        ("visits", "shop", "integer", False),
    ]
    comment = await connection.fetchval("SELECT obj_description('people'::regclass)")
    assert comment.startswith("it's people. Private: rows of persons")
    keys = await connection.fetch(
        "SELECT conrelid::regclass::text, contype FROM pg_constraint WHERE contype IN ('p','f','u') AND conrelid > 16383"
    )
    assert sorted((r[0], r[1]) for r in keys) == [("people", b"p"), ("shops", b"p"), ("visits", b"f"), ("visits", b"f")]
    with pytest.raises(asyncpg.UndefinedColumnError):
        await connection.fetch("SELECT email FROM people")
    with pytest.raises(asyncpg.UndefinedColumnError):
        await connection.fetch("SELECT paid FROM visits")
    assert await connection.fetch("SELECT * FROM people, visits") == []
    await connection.close()


async def test_public_rows_arrive_unchanged(facade: World) -> None:
    connection = await connect(facade)
    rows = await connection.fetch("SELECT * FROM shops ORDER BY id")
    assert [tuple(r) for r in rows] == [
        (1, "tab\there\\N", True, dt.datetime(2020, 1, 1, 12, 30)),
        (2, "line\nbreak\r", False, None),
    ]
    assert await connection.fetchval('SELECT "Sel ect" FROM "Odd Schema"."a""b"') == 7
    await connection.close()


async def test_a_public_table_over_the_cap_is_withheld_not_empty(facade: World) -> None:
    assert facade.rooms["shop"].withheld == {BIG}
    connection = await connect(facade)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.fetch("SELECT * FROM big")
    await connection.close()


async def test_custom_settings_and_virtual_schema(facade: World) -> None:
    connection = await connect(facade)
    assert await connection.fetchval("SHOW dpproxy.epsilon") == "0.1"
    await connection.execute("SET dpproxy.epsilon = 0.2")
    assert await connection.fetchval("SELECT current_setting('dpproxy.epsilon')") == "0.2"
    for table in ("budget", "answers", "policy", "tables"):
        assert await connection.fetch(f"SELECT * FROM dpproxy.{table}") == []
    assert await connection.fetchval("SHOW search_path") == '"$user", public, "Odd Schema"'
    await connection.close()


DENIED = [
    "CREATE TABLE t (x int)",
    "CREATE TABLE public.t (x int)",
    "CREATE TEMP TABLE t (x int)",
    "CREATE SCHEMA s",
    "CREATE DATABASE d",
    "CREATE ROLE r",
    "CREATE EXTENSION dblink",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "DO $$ BEGIN NULL; END $$",
    "SELECT lo_create(0)",
    "SELECT lo_import('/etc/passwd')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "COPY shops TO '/tmp/x'",
    "COPY shops TO PROGRAM 'cat'",
    "INSERT INTO shops VALUES (3)",
    "DELETE FROM people",
    "UPDATE shops SET name = 'x'",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_terminate_backend(pg_backend_pid())",
    "SELECT * FROM pg_authid",
    "SET ROLE postgres",
    "SET SESSION AUTHORIZATION postgres",
    "SET log_statement = 'all'",
    "SHOW data_directory",
    "ALTER SYSTEM SET jit = on",
    "GRANT SELECT ON people TO PUBLIC",
]  # fmt: skip


@pytest.mark.parametrize("sql", DENIED)
async def test_nothing_but_select(facade: World, sql: str) -> None:
    connection = await connect(facade)
    with pytest.raises(asyncpg.PostgresError) as caught:
        await connection.execute(sql)
    assert caught.value.sqlstate in ("42501", "0A000"), "0A000: an extension that is not there"
    await connection.close()


async def test_what_is_granted_cannot_be_granted_on(facade: World) -> None:
    """PostgreSQL only warns."""
    connection = await connect(facade)
    await connection.execute("GRANT UPDATE ON shops TO PUBLIC")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.fetch("SELECT * FROM big")
    other = await connect(facade, "narrow@shop")
    with pytest.raises(asyncpg.UndefinedTableError):
        await other.fetch("SELECT * FROM shops")
    await connection.close()
    await other.close()


async def test_a_role_reads_its_tables_only(facade: World) -> None:
    connection = await connect(facade, "narrow@shop")
    assert await connection.fetch("SELECT person FROM visits") == []
    for table in ("people", "shops"):
        with pytest.raises(asyncpg.UndefinedTableError):
            await connection.fetch(f"SELECT * FROM {table}")
    await connection.execute("CREATE TEMP TABLE t AS SELECT 1 AS x")
    await connection.close()


@pytest.mark.parametrize("database", ["other", "postgres", "template0", "template1"])
async def test_no_other_database(facade: World, database: str) -> None:
    host = str(Path(facade.cluster().socket).parent)
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(host=host, user="analyst@shop", database=database)


async def test_statements_are_in_no_log_and_no_view(facade: World) -> None:
    one, two = await connect(facade), await connect(facade)
    with pytest.raises(asyncpg.InvalidTextRepresentationError):
        await one.execute("SELECT 'secretword'::int")
    assert "secretword" not in await two.fetchval("SELECT string_agg(query, ';') FROM pg_stat_activity")
    assert "secretword" not in (Path(facade.cluster().socket).parent / "postgres.log").read_text()
    await one.close()
    await two.close()


async def test_a_new_policy_opens_beside_the_old(facade: World) -> None:
    before = await facade.connect("analyst", "other")
    former = facade.rooms["other"]
    changed = replace(policy("other"), tables={k: v for k, v in policy().tables.items() if k != ODD})
    changed = replace(changed, roles={"analyst": policy().roles["analyst"]})
    facade.rooms["other"] = await facade.facade.open(changed, catalog(), public_rows)
    assert await before.fetchval('SELECT count(*) FROM "Odd Schema"."a""b"') == 1
    after = await facade.connect("analyst", "other")
    assert await after.fetchval("SHOW search_path") == '"$user", public'
    assert await after.fetchval("SELECT count(*) FROM pg_roles WHERE rolname LIKE '%@%'") == 1
    await former.withdraw(changed, catalog())
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await before.fetchval('SELECT count(*) FROM "Odd Schema"."a""b"')
    assert await before.fetchval("SELECT count(*) FROM shops") == 2, "what it still shows"
    await former.close()
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await before.fetchval("SELECT 1")
    assert await after.fetchval("SELECT 1") == 1
    await after.close()


async def test_columns_and_views_are_withdrawn(facade: World) -> None:
    view = TableName("public", "open_shops")
    before = replace(policy(), views={view: "SELECT id, name FROM shops WHERE open"})
    shops = replace(before.tables[SHOPS], columns={"name": ColumnPolicy("name", ColumnRole.HIDDEN)})
    after = replace(before, tables={**before.tables, SHOPS: shops}, views={view: "SELECT id FROM shops WHERE open"})
    rooms = await facade.facade.open(before, catalog(), public_rows)
    server = rooms.server("analyst")
    assert isinstance(server, Cluster)
    connection = await asyncpg.connect(host=str(Path(server.socket).parent), user="analyst@shop", database="shop")
    assert await connection.fetchval("SELECT count(name) FROM open_shops") == 1
    await rooms.withdraw(after, catalog())
    assert await connection.fetchval("SELECT count(id) FROM shops") == 2
    for sql in ("SELECT name FROM shops", "SELECT name FROM open_shops", "SELECT id FROM open_shops"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch(sql)
    assert await connection.fetch("SELECT born FROM people") == []
    await rooms.withdraw(replace(after, roles={}), catalog())
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.fetch("SELECT born FROM people")
    await connection.close()
    await rooms.close()


async def test_a_failing_open_leaves_nothing_behind(facade: World) -> None:
    missing = {**policy().tables, TableName("public", "ghost"): policy().tables[SHOPS]}
    folders = set(Path(facade.cluster().socket).parents[1].glob("*/data"))
    with pytest.raises(FacadeError, match="ghost"):
        await facade.facade.open(replace(policy(), tables=missing), catalog(), public_rows)
    assert set(Path(facade.cluster().socket).parents[1].glob("*/data")) == folders
    connection = await connect(facade)
    assert await connection.fetchval("SELECT count(*) FROM shops") == 2
    await connection.close()


async def test_views_over_tables_a_role_does_not_see(facade: World) -> None:
    """The view is there, and nothing tells what it is made of."""
    open_shops, visited, twice = (TableName("public", n) for n in ("open_shops", "visited", "twice"))
    views = {
        open_shops: "SELECT id, name FROM shops WHERE open",
        visited: "SELECT v.visit, s.name FROM visits v JOIN shops s ON s.id = v.shop",
        twice: "SELECT name FROM open_shops UNION ALL SELECT name FROM open_shops",
    }
    role = replace(policy().roles["narrow"], tables=frozenset({VISITS, open_shops, twice}))
    rooms = await facade.facade.open(replace(policy(narrow=role), views=views), catalog(), public_rows)
    server = rooms.server("narrow")
    assert isinstance(server, Cluster)
    connection = await asyncpg.connect(host=str(Path(server.socket).parent), user="narrow@shop", database="shop")
    assert [tuple(r) for r in await connection.fetch("SELECT * FROM open_shops")] == [(1, "tab\there\\N")]
    assert await connection.fetchval("SELECT count(*) FROM twice") == 2
    seen = await connection.fetch("SELECT relname FROM pg_class WHERE oid > 16383 AND relkind IN ('r', 'v')")
    assert {name for (name,) in seen} >= {"visits", "open_shops", "twice"}
    assert not {name for (name,) in seen} & {"people", "shops", "visited", "big", 'a"b', "dpproxy_parked"}
    assert await connection.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = 'Odd Schema'") == 0
    await connection.close()
    await rooms.close()


CATALOGS = """
SELECT string_agg(found, ' ') FROM (
  SELECT relname::text FROM pg_class UNION ALL SELECT attname FROM pg_attribute UNION ALL SELECT nspname FROM pg_namespace
  UNION ALL SELECT typname FROM pg_type UNION ALL SELECT conname FROM pg_constraint UNION ALL SELECT datname FROM pg_database
  UNION ALL SELECT rolname FROM pg_roles UNION ALL SELECT usename FROM pg_stat_activity
  UNION ALL SELECT array_to_string(setconfig, ' ') FROM pg_db_role_setting
  UNION ALL SELECT description FROM pg_description WHERE objoid > 16383 UNION ALL SELECT description FROM pg_shdescription
  UNION ALL SELECT table_name FROM information_schema.tables UNION ALL SELECT column_name FROM information_schema.columns
) AS all_names(found)
"""


async def test_no_catalog_tells_of_another_role_or_dataset(facade: World) -> None:
    """Neither tables it may not read, nor other roles, nor what else is served; and what there is, is its own."""
    other = await facade.connect("analyst", "shop")
    connection = await connect(facade, "narrow@shop")
    found = (await connection.fetchval(CATALOGS)).split()
    for name in ("people", "shops", "born", "income", "since", "Sel", "analyst@shop", "analyst@other", "other", "template0"):
        assert name not in found, name
    assert {"visits", "person", "narrow@shop", "shop"} <= set(found)
    assert await connection.fetchval("SELECT array_agg(datname::text) FROM pg_database") == ["shop"]
    assert await connection.fetchval("SELECT current_database() || current_catalog") == "shopshop"
    assert await connection.fetchval("SELECT count(*) FROM pg_stat_activity WHERE datname IS NOT NULL") == 1
    with pytest.raises(asyncpg.UndefinedObjectError):
        await connection.fetchval("SELECT 'analyst@shop'::regrole")
    await other.close()
    await connection.close()


COUNTERS = """
SELECT pg_current_snapshot()::text, pg_snapshot_xmax(pg_current_snapshot())::text, pg_current_wal_insert_lsn()::text,
  (SELECT xact_commit FROM pg_stat_database WHERE datname = 'shop') < 1000,
  (SELECT count(*) FROM pg_stat_activity WHERE datname = 'shop'), (SELECT max(pid) FROM pg_locks) = pg_backend_pid(),
  (SELECT sum(writes) FROM pg_stat_io WHERE context = 'bulkwrite'), (SELECT max(oid) FROM pg_class)
"""


async def test_no_counter_tells_what_another_role_does(facade: World) -> None:
    """Transactions, objects, the log, locks, sessions: narrow's are the same whatever analyst does."""
    watching = await connect(facade, "narrow@shop")
    before = tuple(await watching.fetchrow(COUNTERS))
    busy = [await connect(facade) for _ in range(3)]
    server = facade.cluster()
    for connection in busy:
        await connection.execute("BEGIN; SELECT pg_current_xact_id(); DECLARE c CURSOR FOR SELECT * FROM shops")
    await server.execute("CREATE TABLE spent (x int); INSERT INTO spent SELECT generate_series(1, 1000); DROP TABLE spent")
    assert tuple(await watching.fetchrow(COUNTERS)) == before
    for connection in (*busy, watching):
        await connection.close()


async def test_a_role_cannot_give_up_what_it_may(facade: World) -> None:
    """Others have the same role."""
    one, two = await connect(facade), await connect(facade)
    for sql in ("DROP OWNED BY CURRENT_USER", "REVOKE SELECT ON shops FROM PUBLIC"):
        await one.execute(sql)
    assert await two.fetchval("SELECT count(*) FROM shops") == 2
    assert await two.fetch("SELECT born FROM people") == []
    await (await connect(facade)).close()
    await one.close()
    await two.close()


async def test_comes_back_after_kill_9(facade: World) -> None:
    busy = await connect(facade)
    sleeping = asyncio.ensure_future(busy.execute("SELECT pg_sleep(600)"))
    await asyncio.sleep(0.1)
    old = facade.cluster().pid
    assert old is not None
    os.kill(old, signal.SIGKILL)
    for _ in range(200):
        await asyncio.sleep(0.05)
        try:
            connection = await connect(facade)
            break
        except (OSError, asyncpg.PostgresError):
            continue
    else:
        pytest.fail("the facade did not come back")
    assert facade.cluster().pid != old
    assert await connection.fetchval("SELECT count(*) FROM shops") == 2
    await connection.close()
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await sleeping
    busy.terminate()


async def test_two_proxies_do_not_share_a_state(tmp_path: Path) -> None:
    one, two = Facade(), Facade()
    await one.start(tmp_path)
    try:
        with pytest.raises(FacadeError, match="another proxy"):
            await two.start(tmp_path)
        await two.stop()
    finally:
        await one.stop()
    assert not (tmp_path / "facade" / "data").exists()


SCRIPT = textwrap.dedent(
    """
    import asyncio, os, sys
    from pathlib import Path
    from dpproxy.facade.facade import Facade
    async def main(state):
        facade = Facade()
        await facade.start(Path(state))
        cluster = facade._cluster("template1", lambda _: asyncio.sleep(0))
        await cluster.start()
        print(cluster.pid, cluster.socket, flush=True)
        if sys.argv[2:3] == ["stay"]:
            await asyncio.sleep(600)
        await cluster.stop()
        await facade.stop()
    if sys.argv[2:3] == ["as"]:
        asyncio.run(main(sys.argv[1] + "-first"))  # loads every module: the interpreter may be closed to others
        os.setgroups([]); os.setgid(int(sys.argv[4])); os.setuid(int(sys.argv[3]))
    asyncio.run(main(sys.argv[1]))
    """
)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
async def test_starts_as_an_ordinary_user() -> None:
    nobody = pwd.getpwnam("nobody")
    theirs = Account(nobody.pw_uid, nobody.pw_gid, switch=True)
    if not theirs.may_read(wheel_files(find_binaries()).values()):
        pytest.skip("the environment of this run is closed to ordinary users: `scripts/fresh` makes one for them")
    home = Path("/tmp") / f"facade-test-{os.getpid()}"
    home.mkdir()
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    arguments = [str(home / "state"), "as", str(nobody.pw_uid), str(nobody.pw_gid)]
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, timeout=300
    )
    subprocess.run(["rm", "-rf", str(home)], check=True)
    assert done.returncode == 0, done.stderr
    assert str(home / "state") in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
async def test_ends_with_a_killed_proxy(tmp_path: Path) -> None:
    proxy = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path), "stay"], stdout=subprocess.PIPE, text=True)
    assert proxy.stdout is not None
    pid, socket = (await asyncio.to_thread(proxy.stdout.readline)).split()
    proxy.kill()
    proxy.wait()
    for _ in range(100):
        await asyncio.sleep(0.05)
        if not Path(f"/proc/{pid}/cwd").exists():
            break
    assert not Path(f"/proc/{pid}/cwd").exists()
    again = Facade()
    await again.start(tmp_path)
    await again.stop()
    assert not Path(socket).exists()

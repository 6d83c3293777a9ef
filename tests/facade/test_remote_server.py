"""Facades on servers of others, without a server: which are usable, whose they are, how a database takes its place."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import asyncpg
import pytest

from dpproxy.facade import remote_server
from dpproxy.facade.account import OLDEST, FacadeError
from dpproxy.facade.cluster import Endpoint
from dpproxy.facade.ddl import Shown
from dpproxy.facade.remote_server import RemoteFacade, RemoteServer
from dpproxy.table_terms import TableName
from tests.worlds.scripted import ScriptedEngine, catalog, policy

Version = namedtuple("Version", "major")
Settings = namedtuple("Settings", "is_superuser")


@dataclass
class Connection:
    """A server that is what the test says; notes what is executed where."""

    done: list[str]
    where: str = ""
    _addr: Any = ("db.example.org", 5433)
    major: int = 17
    superuser: str = "on"
    databases: dict[str, int] = field(default_factory=dict)
    roles: tuple[str, ...] = ()

    def get_server_version(self) -> Version:
        return Version(self.major)

    def get_settings(self) -> Settings:
        return Settings(self.superuser)

    async def execute(self, script: str, *arguments: Any) -> None:
        self.done.append(f"{self.where}: {script} {arguments or ''}".strip())

    async def fetchval(self, query: str, argument: Any) -> Any:
        if "WHERE oid" in query:
            return next((name for name, oid in self.databases.items() if oid == argument), None)
        return self.databases.get(argument, 99)

    async def fetch(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        if "pg_roles" in query:
            return [(name,) for name in self.roles]
        return [(oid,) for name, oid in self.databases.items() if name == arguments[0]]

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        self.done.append("begin")
        yield
        self.done.append("commit")

    async def close(self) -> None:
        pass


@dataclass
class World:
    connection: Connection
    asked: list[str] = field(default_factory=list)
    failure: Exception | None = None

    async def connect(self, dsn: str, database: str = "admin", **options: Any) -> Connection:
        self.asked.append(dsn)
        if self.failure is not None:
            raise self.failure
        return replace(self.connection, where=database)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(Connection([]))
    monkeypatch.setattr(asyncpg, "connect", made.connect)

    async def fill(connection: Connection, shown: Shown, database: str, *_: Any) -> frozenset[TableName]:
        connection.done.append(f"{connection.where}: filled as {database}")
        return frozenset()

    monkeypatch.setattr(remote_server, "fill", fill)
    return made


DSN = "postgresql://root@db.example.org/postgres"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"_addr": "/run/.s.PGSQL.5432"}, "must name a host, not a socket"),
        ({"major": OLDEST - 1}, f"older than PostgreSQL {OLDEST}"),
        ({"superuser": "off"}, "must be of a superuser"),
    ],
)
async def test_servers_that_will_not_do(world: World, change: dict[str, Any], told: str) -> None:
    world.connection = replace(world.connection, **change)
    with pytest.raises(FacadeError, match=told):
        await RemoteFacade(DSN).start(none)


none: Any = None


async def test_one_that_is_away_is_said_at_the_start_where_its_address_is_known(world: World) -> None:
    world.failure = OSError("no route to host")
    with pytest.raises(FacadeError, match="cannot be used: no route to host"):
        await RemoteFacade(DSN).start(none)
    await RemoteFacade("postgresql://root@{role}.example.org/postgres").start(none)
    with pytest.raises(FacadeError, match="no route"):
        await opened(RemoteFacade(DSN))


async def opened(facade: RemoteFacade, **change: Any) -> Any:
    return await facade.open(replace(policy(), **change), catalog(), ScriptedEngine().public_rows)


async def test_each_role_has_an_address_and_a_password(world: World) -> None:
    roles = {name: replace(policy().roles["analyst"], name=name) for name in ("a b",)}
    facade = RemoteFacade("postgresql://root@h/{dataset}-{role}")
    rooms = await opened(facade, roles=roles)
    assert set(world.asked) == {"postgresql://root@h/shop-a%20b"}
    endpoint = rooms.endpoint("a b")
    assert (endpoint.host, endpoint.port, endpoint.password) == ("db.example.org", 5433, facade._password)
    assert facade._password not in "".join(world.connection.done), "the server has a verifier of it"


async def test_two_roles_do_not_share_a_server(world: World) -> None:
    roles = {name: replace(policy().roles["analyst"], name=name) for name in ("one", "two")}
    facade = RemoteFacade(DSN)
    with pytest.raises(FacadeError, match=r"role `two` of dataset shop would share the facade's server with role `shop\.one`"):
        await opened(facade, roles=roles)
    await opened(facade, roles={"one": roles["one"]})


def server(role: str = "analyst") -> RemoteServer:
    rules = policy()
    return RemoteServer(DSN, Endpoint(), Shown(rules, catalog(), rules.roles[role]))


async def test_a_database_is_made_beside_the_one_in_use(world: World) -> None:
    world.connection.roles = ("analyst@shop", "former@shop", "analyst@other", "someone@else@shop")
    world.connection.databases = {"shop": 1, "shop~new": 2}
    made = server()
    await made.build("SCRAM-SHA-256$x", none, 10)
    steps = [step.split(" TEMPLATE")[0] for step in world.connection.done[1:]]
    assert steps == [
        'admin: DROP DATABASE IF EXISTS "shop~new" WITH (FORCE)',
        'admin: CREATE DATABASE "shop~new"',
        "shop~new: filled as shop~new",
        'admin: DROP ROLE IF EXISTS "former@shop"',
        'admin: DROP ROLE IF EXISTS "someone@else@shop"',
    ]
    world.connection.done.clear()
    await made.take_place()
    assert world.connection.done == [
        "begin",
        "admin: UPDATE pg_database SET datname = $1 WHERE oid = $2 ('shop~1', 1)",
        "admin: UPDATE pg_database SET datname = $1 WHERE oid = $2 ('shop', 2)",
        "commit",
    ]


async def test_it_is_found_by_its_number_whatever_its_name_is(world: World) -> None:
    world.connection.databases = {"shop~new": 2}
    made = server()
    await made.build("", none, 10)
    world.connection.databases.clear()
    world.connection.databases["shop~2"] = 2
    world.connection.done.clear()
    await made.execute("SELECT 1")
    await made.stop()
    assert world.connection.done == ["shop~2: SELECT 1", 'admin: DROP DATABASE IF EXISTS "shop~2" WITH (FORCE)']


async def test_stopping_where_nothing_is_left_is_no_error(world: World) -> None:
    made = server()
    await made.stop()
    world.failure = OSError("away")
    await made.stop()
    assert world.connection.done == []

"""A facade that somebody else runs, given by DSN: roles log in with SCRAM."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from dpproxy.facade.account import FacadeError
from dpproxy.facade.cluster import plain
from dpproxy.facade.facade import Rooms
from dpproxy.facade.remote_server import RemoteFacade
from dpproxy.server.server import Server
from dpproxy.session.facade_login import FacadeLogin
from dpproxy.wire.protocol import ProtocolError
from tests.worlds.scripted import PEOPLE, ScriptedEngine, Stage, catalog, policy
from tests.worlds.wire_client import Wire, report, rows

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def dsn(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """A PostgreSQL on a TCP port that asks for passwords."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    owner = plain(tmp_path_factory.mktemp("elsewhere"))
    await owner.start()
    await owner.execute("ALTER ROLE postgres PASSWORD 'root'")
    data: Path = owner._server.place.data
    await owner._server.stop()
    with (data / "postgresql.conf").open("a") as conf:
        conf.write(f"listen_addresses = '127.0.0.1'\nport = {port}\ntrack_activities = on\nlog_min_error_statement = error\n")
    (data / "pg_hba.conf").write_text("host all all 127.0.0.1/32 scram-sha-256\n")
    await owner._server.start()
    yield f"postgresql://postgres:root@127.0.0.1:{port}/postgres"
    await owner.stop()


async def test_sessions_on_a_remote_facade(stage: Stage, dsn: str, tmp_path: Path) -> None:
    facade = RemoteFacade(dsn)
    await facade.start(tmp_path)
    rooms = await facade.open(policy(), catalog(), ScriptedEngine().public_rows)
    await rooms.take_place()
    server = Server({"shop": stage.dataset}, lambda _, role: rooms.endpoint(role))
    wire = await Wire.open(await server.listen("127.0.0.1", 0))
    await wire.login()
    assert rows(await wire.query("SELECT region, count(*) AS n FROM people GROUP BY 1"))[0] == ("e", "1")
    assert rows(await wire.query("SELECT current_user, count(*) FROM shops")) == [("analyst@shop", "2")]
    assert report(await wire.query("CREATE TABLE t (x int)"))["C"] == "42501"
    await nobody_else_reads(server, wire)
    await exchanged(facade, rooms, server, wire)
    await wire.close()
    await server.stop(drain=0)
    await facade.stop()


async def exchanged(facade: RemoteFacade, rooms: Rooms, server: Server, old: Wire) -> None:
    """The new database takes the name, while sessions are in the old one."""
    newer = await facade.open(
        replace(policy(), tables={PEOPLE: policy().tables[PEOPLE]}), catalog(), ScriptedEngine().public_rows
    )
    await newer.take_place()
    assert rows(await old.query("SELECT count(*) FROM shops")) == [("2",)]
    new = await Wire.open(server._listeners[0].sockets[0].getsockname()[1])
    await new.login()
    assert rows(await new.query("SELECT current_database()")) == [("shop",)]
    assert report(await new.query("SELECT count(*) FROM shops"))["C"] == "42P01"
    await rooms.close()
    assert report(await old.until(b"E"))["C"] == "57P01"
    assert rows(await new.query("SELECT count(*) FROM pg_database WHERE datname LIKE 'shop%'")) == [("1",)]
    await new.close()


async def test_a_server_is_one_roles(dsn: str, tmp_path: Path) -> None:
    facade, roles = RemoteFacade(dsn), {name: replace(policy().roles["analyst"], name=name) for name in ("analyst", "intern")}
    await facade.start(tmp_path)
    with pytest.raises(FacadeError, match="would share the facade's server"):
        await facade.open(replace(policy(), roles=roles), catalog(), ScriptedEngine().public_rows)
    await RemoteFacade(dsn.replace("127.0.0.1", "{role}.invalid")).start(tmp_path)


async def nobody_else_reads(server: Server, asker: Wire) -> None:
    """Users of one role share the facade's role, but not what they ask; tools can read the view all the same."""
    other = await Wire.open(server._listeners[0].sockets[0].getsockname()[1])
    await other.login()
    await asker.query("SELECT 'secretword'")
    found = rows(await other.query("SELECT usename, state, query FROM pg_stat_activity WHERE datname = current_database()"))
    assert [(user, state, query) for user, state, query in found] == [("analyst@shop", "disabled", "")] * 2
    assert report(await other.query("SET track_activities = on"))["C"] == "42501"
    await other.close()


async def test_a_dsn_that_does_not_work(dsn: str, tmp_path: Path) -> None:
    with pytest.raises(FacadeError, match="cannot be used"):
        await RemoteFacade(dsn.replace("root@", "wrong@")).start(tmp_path)


async def test_only_scram_is_answered() -> None:
    with pytest.raises(ProtocolError, match="not supported"):
        FacadeLogin("x", "secret").answer(b"\0\0\0\3")
    with pytest.raises(ProtocolError, match="not supported"):
        FacadeLogin("x", None).answer(b"\0\0\0\nSCRAM-SHA-256\0\0")
    assert FacadeLogin("x", None).answer(b"\0\0\0\0") == b""

"""TLS at the door: upgrades, direct handshakes, channel binding, certificates on both sides, and attempts to get around."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import asyncpg
import psycopg
import pytest

from dpproxy.server.tls import Handshakes, TlsFiles, load_tls
from dpproxy.wire import frontend_build as front
from tests.worlds.certificates import ED25519, P384, certificate, dsn, signed
from tests.worlds.running import sleeping
from tests.worlds.scripted import Stage
from tests.worlds.waiting import until
from tests.worlds.wire_client import PASSWORD, Wire, report, rows, tags

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return certificate(tmp_path_factory.mktemp("tls"), "server")


@pytest.fixture
def secured(stage: Stage, files: TlsFiles) -> Iterator[Stage]:
    stage.server.tls = load_tls(files)
    yield stage
    stage.server.tls, stage.server.require_tls = None, False


async def ask(port: int, **more: object) -> tuple[object, ...] | None:
    async with await psycopg.AsyncConnection.connect(dsn(port, **more), autocommit=True) as connection:
        return await (await connection.execute("SELECT 1")).fetchone()


@pytest.mark.parametrize("negotiation", ["postgres", "direct"])
async def test_libpq_verifies_and_binds(secured: Stage, files: TlsFiles, negotiation: str) -> None:
    verified = {"sslmode": "verify-full", "sslrootcert": files.certificate, "sslnegotiation": negotiation}
    assert await ask(secured.port, **verified, channel_binding="require") == (1,)
    assert await ask(secured.port, **verified, channel_binding="disable") == (1,)


@pytest.mark.parametrize("direct", [False, True])
async def test_asyncpg_and_large_results(secured: Stage, direct: bool) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if direct:
        context.set_alpn_protocols(["postgresql"])
    connection = await asyncpg.connect(
        host="127.0.0.1", port=secured.port, user="ada", password=PASSWORD, database="shop", ssl=context, direct_tls=direct
    )
    found = await connection.fetch("SELECT repeat('x', 1000) AS x FROM generate_series(1, 20000)")
    assert len(found) == 20000
    sent = "y" * 1_000_000
    assert await connection.fetchval("SELECT length($1)", sent) == len(sent)
    await connection.close()


@pytest.mark.parametrize("kind", [P384, ED25519], ids=["p384", "ed25519"])
async def test_other_keys(stage: Stage, tmp_path: Path, kind: tuple[str, ...]) -> None:
    files = certificate(tmp_path, "server", kind)
    stage.server.tls = load_tls(files)
    binding = "disable" if kind is ED25519 else "require"
    assert await ask(stage.port, sslmode="require", channel_binding=binding) == (1,)
    stage.server.tls = None


async def test_downgrade_is_noticed(secured: Stage) -> None:
    """A client that could bind, and was told that the server cannot, has somebody in the middle."""
    wire = await encrypted(secured.port)
    wire.send(front.startup("ada", "shop", {}))
    assert (await wire.read())[1][4:] == b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"
    wire.send(front.sasl_initial("SCRAM-SHA-256", b"y,,n=,r=rOprNGfwEbeRWgbNEkqO"))
    error = report([await wire.read()])
    assert (error["C"], error["M"]) == ("28000", "SCRAM channel binding negotiation error")


async def encrypted(port: int, alpn: str | None = None, direct: bool = False) -> Wire:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols([alpn])
    if direct:
        return Wire(*await asyncio.open_connection("127.0.0.1", port, ssl=context))
    wire = await Wire.open(port)
    wire.send(front.ssl_request())
    assert await wire.reader.readexactly(1) == b"S"
    await wire.writer.start_tls(context)
    return wire


async def test_direct_tls_wants_the_protocol_named(secured: Stage) -> None:
    named = await encrypted(secured.port, "postgresql", direct=True)
    await named.login()
    assert rows(await named.query("SELECT 1")) == [("1",)]
    await named.close()
    for alpn in (None, "http/1.1"):
        wire = await encrypted(secured.port, alpn, direct=True)
        with pytest.raises((EOFError, ConnectionError)):
            await wire.login()


async def test_bytes_before_the_handshake(secured: Stage) -> None:
    """CVE-2021-23214: what came in the clear must not be read as if it had come under TLS."""
    wire = await Wire.open(secured.port)
    wire.send(front.ssl_request(), front.startup("ada", "shop", {}))
    error = report([await wire.read()])
    assert (error["S"], error["C"]) == ("FATAL", "08P01")
    with pytest.raises(EOFError):
        await wire.read()


@pytest.mark.parametrize("packets", [[front.ssl_request()] * 3, [front.ssl_request()] * 50], ids=["3", "50"])
async def test_endless_requests(stage: Stage, packets: list[bytes]) -> None:
    wire = await Wire.open(stage.port)
    wire.send(*packets)
    assert await wire.reader.readexactly(2) == b"NN"
    assert report([await wire.read()])["C"] == "08P01"


async def test_tls_within_tls(secured: Stage) -> None:
    wire = await encrypted(secured.port)
    wire.send(front.ssl_request())
    assert report([await wire.read()])["C"] == "08P01"


async def test_who_must_encrypt(secured: Stage) -> None:
    secured.server.require_tls = True
    wire = await Wire.open(secured.port)
    await wire.login()
    assert (tags(wire.startup), report(wire.startup)["C"]) == (b"E", "28000")
    assert await ask(secured.port, sslmode="require") == (1,)


async def test_garbage_instead_of_a_handshake(secured: Stage) -> None:
    for first in (b"\x16\x03\x01\x00\x05hello", b"\x16" * 5000):
        wire = await Wire.open(secured.port)
        wire.send(first)
        while await asyncio.wait_for(wire.reader.read(1000), 300):
            pass
    wire = await Wire.open(secured.port)
    wire.send(front.ssl_request())
    assert await wire.reader.readexactly(1) == b"S"
    wire.send(front.startup("ada", "shop", {}))
    answer = b""
    while piece := await asyncio.wait_for(wire.reader.read(1000), 300):
        answer += piece
    assert b"SCRAM" not in answer


async def test_cancel_over_tls(secured: Stage) -> None:
    wire = await encrypted(secured.port)
    await wire.login()
    session = next(iter(secured.server._sessions.values()))
    wire.send(front.query(sleeping(3600)))
    await wire.until(b"D")  # it runs
    other = await encrypted(secured.port)
    other.send(front.cancel_request(*session.key))
    assert report(await wire.until(b"Z"))["C"] == "57014"
    await wire.close()


async def test_client_certificates(stage: Stage, tmp_path: Path, files: TlsFiles) -> None:
    ca = certificate(tmp_path, "ca")
    good, bad = signed(tmp_path, "ada", ca), certificate(tmp_path, "stranger")
    stage.server.tls = load_tls(TlsFiles(files.certificate, files.key, ca.certificate, "1.3"))
    try:
        assert await ask(stage.port, sslmode="require", sslcert=good.certificate, sslkey=good.key) == (1,)
        for shown in ({}, {"sslcert": bad.certificate, "sslkey": bad.key}):
            with pytest.raises(psycopg.OperationalError):
                await ask(stage.port, sslmode="require", sslcertmode="allow", **shown)
    finally:
        stage.server.tls = None


async def test_oldest_version(stage: Stage, files: TlsFiles) -> None:
    stage.server.tls = load_tls(TlsFiles(files.certificate, files.key, minimum="1.3"))
    with pytest.raises(psycopg.OperationalError, match=r"SSL|protocol"):
        await ask(stage.port, sslmode="require", ssl_max_protocol_version="TLSv1.2")
    assert await ask(stage.port, sslmode="require") == (1,)
    stage.server.tls = None


@dataclass(eq=False)
class Greeting:
    """One that takes two milliseconds of a clock."""

    address: str
    now: list[float]
    order: list[str]

    def work_off(self) -> None:
        self.now[0] += 0.002
        self.order.append(self.address)


async def test_greetings_of_one_moment_leave_the_loop_to_others() -> None:
    """Two of them are a turn; behind it others have the loop, and who is alone does not wait for a crowd."""
    now, order = [0.0], list[str]()
    handshakes, loop = Handshakes(lambda: now[0]), asyncio.get_running_loop()

    def other() -> None:
        order.append("others")
        if order.count("crowd") < 50:
            loop.call_soon(other)

    loop.call_soon(other)
    for address in (*["crowd"] * 50, "alone"):
        handshakes.put(cast("Any", Greeting(address, now, order)))
    assert order == ["crowd"]
    await until(lambda: order.count("crowd") == 50)
    turns = [list(group) for others, group in groupby(order, lambda name: name == "others") if not others]
    assert max(map(len, turns)) == 2
    assert "alone" in turns[1]

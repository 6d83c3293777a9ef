"""The door: who comes in, who does not, and that refusals look alike."""

from __future__ import annotations

import asyncio
import struct
import sys
from dataclasses import replace
from types import FrameType

import psycopg
import pytest
import scramp

from dpproxy.policy.model import Policy
from dpproxy.session.login import Greeting, Login, likeness_of
from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import read_backend_key_data, read_negotiate_protocol_version, read_report
from dpproxy.wire.protocol import Frame, ProtocolError
from dpproxy.wire.scram import make_verifier, mock_verifier

from .conftest import PASSWORD, Stage, Wire, policy, report, rows, tags

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_login_and_first_query(stage: Stage) -> None:
    wire = await stage.connect(application_name="it's me")
    assert tags(wire.startup).startswith(b"RRR")
    assert tags(wire.startup).endswith(b"KZ")
    assert rows(await wire.query("SELECT current_setting('application_name'), 1")) == [("it's me", "1")]
    await wire.close()


async def test_refusals_are_alike(stage: Stage) -> None:
    """Unknown user, wrong password and unknown database cannot be told apart, but for the name asked for."""
    seen = []
    for user, database, password in (
        ("ada", "shop", "wrong"),
        ("eve", "shop", PASSWORD),
        ("ada", "nowhere", PASSWORD),
        ("ada", "postgres", PASSWORD),
    ):
        wire = await Wire.open(stage.port)
        await wire.login(user, database, password)
        error = dict(report(wire.startup))
        assert error.pop("M") == f'password authentication failed for user "{user}"'
        seen.append((tags(wire.startup), tuple(error.items())))
        with pytest.raises(EOFError):
            await wire.read()
    assert len(set(seen)) == 1
    assert seen[0][0] == b"RRE"
    assert dict(seen[0][1])["C"] == "28P01"


@pytest.mark.parametrize("packet", [front.ssl_request(), struct.pack("!II", 8, 80877104)], ids=["ssl", "gssenc"])
async def test_encryption_requests_are_answered_no(stage: Stage, packet: bytes) -> None:
    wire = await Wire.open(stage.port)
    wire.send(packet)
    assert await wire.reader.readexactly(1) == b"N"
    await wire.login()
    assert wire.startup[-1][0] == b"Z"
    await wire.close()


@pytest.mark.parametrize(("minor", "size"), [(0, 4), (2, 32)])
async def test_cancel_keys_by_protocol_version(stage: Stage, minor: int, size: int) -> None:
    wire = await Wire.open(stage.port)
    await wire.login(minor=minor)
    key = next(payload for tag, payload in wire.startup if tag == b"K")
    assert len(read_backend_key_data(key)[1]) == size
    assert wire.startup[0][0] == b"R", "nothing to negotiate"
    await wire.close()


async def test_newer_minor_version_is_negotiated(stage: Stage) -> None:
    wire = await Wire.open(stage.port)
    await wire.login(minor=9, **{"_pq_.magic": "1"})
    assert read_negotiate_protocol_version(wire.startup[0][1]) == (2, ("_pq_.magic",))
    assert wire.startup[-1][0] == b"Z"
    await wire.close()


@pytest.mark.parametrize(
    ("packet", "sqlstate"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "08P01"),  # a TLS ClientHello
        (struct.pack("!I", 4), "08P01"),
        (struct.pack("!II", 8, 2 << 16), "0A000"),
        (front.startup("", "shop", {}), "28000"),
        (front.startup("ada", "shop", {"replication": "database"}), "0A000"),
        (b"GET / HTTP/1.1\r\n\r\n", "08P01"),
    ],
)
async def test_wrong_first_packets(stage: Stage, packet: bytes, sqlstate: str) -> None:
    wire = await Wire.open(stage.port)
    wire.send(packet)
    messages = await wire.until(b"E")
    assert read_report(messages[-1][1])["C"] == sqlstate
    with pytest.raises(EOFError):
        await wire.read()


async def test_statements_before_login_are_refused(stage: Stage) -> None:
    wire = await Wire.open(stage.port)
    wire.send(front.startup("ada", "shop", {}))
    assert (await wire.read())[0] == b"R"
    wire.send(front.query("SELECT 1"))
    assert (await wire.read())[0] == b"E"


async def test_startup_options_reach_the_facade(stage: Stage) -> None:
    wire = await stage.connect(options="-c geqo=off -c dpproxy.epsilon=0.7", TimeZone="Asia/Tokyo")
    sql = "SELECT current_setting('geqo'), current_setting('dpproxy.epsilon'), current_setting('TimeZone')"
    assert rows(await wire.query(sql)) == [("off", "0.7", "Asia/Tokyo")]
    await wire.close()
    wire = await stage.connect(nonsense="1")
    assert report(wire.startup)["C"] == "42704"


async def test_a_quoted_encoding_is_understood(stage: Stage) -> None:
    wire = await stage.connect(client_encoding="'utf-8'")
    assert wire.startup[-1][0] == b"Z"
    await wire.close()


async def test_other_encodings_are_relayed(stage: Stage) -> None:
    """As after a SET: psql on some systems begins so, and must be able to change it."""
    wire = await stage.connect(client_encoding="SJIS")
    assert wire.startup[-1][0] == b"Z"
    assert rows(await wire.query("SELECT 1")) == [("1",)]
    error = report(await wire.query("SELECT region, count(*) AS n FROM people GROUP BY 1"))
    assert (error["C"], error["H"]) == ("0A000", "SET client_encoding = 'UTF8';")
    await wire.query("SET client_encoding = 'UTF8'")
    assert len(rows(await wire.query("SELECT region, count(*) AS n FROM people GROUP BY 1"))) == 3
    await wire.close()
    wire = await stage.connect(client_encoding="nonsense")
    assert report(wire.startup)["C"] == "22023"


async def test_other_encodings_need_names_in_ascii(stage: Stage) -> None:
    """Else a statement over `café` would not be noticed, and read the facade's empty table."""
    stage.server._datasets["shop"] = replace(stage.dataset, words=("café".encode(), *stage.dataset.words))
    wire = await stage.connect(client_encoding="LATIN1")
    stage.server._datasets["shop"] = stage.dataset
    assert report(wire.startup)["C"] == "22023"


async def test_too_many_connections(stage: Stage) -> None:
    wires = [await stage.connect() for _ in range(50)]
    over = await stage.connect()
    assert report(over.startup)["C"] == "53300"
    assert "too many connections" in report(over.startup)["M"]
    await wires.pop().close()
    await asyncio.sleep(0.1)
    again = await stage.connect()
    assert again.startup[-1][0] == b"Z"
    for wire in (*wires, again):
        await wire.close()
    await asyncio.sleep(0.1)


async def test_psycopg_says_the_usual_words(stage: Stage) -> None:
    with pytest.raises(psycopg.OperationalError, match='password authentication failed for user "ada"'):
        await psycopg.AsyncConnection.connect(f"host=127.0.0.1 port={stage.port} user=ada password=no dbname=shop sslmode=prefer")


class Calls:
    """Everything that is called between `start` and `stop`, by name: the same calls take the same time."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __enter__(self) -> Calls:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            self.names.append(frame.f_code.co_qualname)
        elif event == "c_call":
            self.names.append(getattr(argument, "__qualname__", "?"))


def attempt(rules: Policy | None, user: str) -> tuple[list[str], bytes, str]:
    """What is called for a login with a wrong password, the server's first message, the refusal."""
    client = scramp.ScramClient(["SCRAM-SHA-256"], user, "wrong")
    greeting = Greeting(user, "shop", {}, 0, False, ())
    with Calls() as one:
        login = Login(greeting, rules, b"secret" * 6, None, likeness_of([policy()]))
    initial = front.sasl_initial("SCRAM-SHA-256", client.get_client_first().encode())
    with Calls() as two:
        challenge = login.answer(Frame(b"p", initial[5:], initial))
    client.set_server_first(challenge[9:].decode())
    final = front.sasl_response(client.get_client_final().encode())
    with Calls() as three:
        try:
            login.answer(Frame(b"p", final[5:], final))
            raise AssertionError("let in")
        except ProtocolError as error:
            told = error.message
    return one.names + two.names + three.names, challenge, told.replace(user, "")


async def test_the_same_is_computed_for_everybody() -> None:
    """A wrong password, an unknown user, an unknown database: call by call, so that no clock tells them apart."""
    seen = [attempt(policy(), "ada"), attempt(policy(), "eve"), attempt(None, "ada")]
    assert seen[0][0] == seen[1][0] == seen[2][0]
    assert len(seen[0][0]) > 100
    assert len({told for _, _, told in seen}) == 1


async def test_the_unknown_are_asked_for_as_many_iterations() -> None:
    rules = policy()
    ada = rules.users["ada"]
    many = replace(ada, name="bob", password=make_verifier("x", 5000))
    rules = replace(rules, users={"ada": replace(ada, password=many.password), "bob": many})
    for known in (rules, None):
        login = Login(Greeting("eve", "shop", {}, 0, False, ()), known, b"secret", None, likeness_of([rules]))
        initial = front.sasl_initial("SCRAM-SHA-256", b"n,,n=,r=abc")
        assert login.answer(Frame(b"p", initial[5:], initial)).endswith(b",i=5000")
    mixed = replace(rules, users={"ada": ada, "bob": many})
    assert likeness_of([mixed]) == (4096, 5000)
    counts = {mock_verifier(str(i), b"secret", likeness_of([mixed])).iterations for i in range(50)}
    assert counts == {4096, 5000}
    assert likeness_of([]) == (4096,)

"""The door: who comes in, who does not, and that refusals look alike."""

from __future__ import annotations

import asyncio
import hashlib
import struct
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import FrameType

import psycopg
import pytest
import scramp

from dpproxy.limits.throttle import Throttle
from dpproxy.policy.model import Policy, User
from dpproxy.server.login import Login, Nobody
from dpproxy.server.server import Server
from dpproxy.session.facade_login import Greeting
from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import read_backend_key_data, read_negotiate_protocol_version, read_report
from dpproxy.wire.protocol import Frame, ProtocolError
from dpproxy.wire.scram import make_verifier, parse_verifier
from tests.worlds.scripted import Stage, policy
from tests.worlds.wire_client import PASSWORD, Wire, report, rows, tags

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
        (struct.pack("!II", 8, 2 << 16), "0A000"),
        (front.startup("", "shop", {}), "28000"),
        (front.startup("ada", "shop", {"replication": "database"}), "0A000"),
    ],
)
async def test_wrong_first_packets(stage: Stage, packet: bytes, sqlstate: str) -> None:
    wire = await Wire.open(stage.port)
    wire.send(packet)
    messages = await wire.until(b"E")
    assert read_report(messages[-1][1])["C"] == sqlstate
    with pytest.raises(EOFError):
        await wire.read()


@pytest.mark.parametrize(
    "packet",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS ClientHello
        struct.pack("!I", 4),
        b"GET / HTTP/1.1\r\n\r\n",
        b"X" + struct.pack("!I", 4),  # of a client of node-postgres that is ended before it has connected
    ],
)
async def test_first_packets_of_no_possible_length_are_told_nothing(stage: Stage, packet: bytes) -> None:
    wire = await Wire.open(stage.port)
    wire.send(packet)
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
    assert (error["C"], error["M"].endswith("SET client_encoding = 'UTF8';")) == ("0A000", True)
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
    while stage.server.occupancy() > 49:
        await asyncio.sleep(0.01)
    again = await stage.connect()
    assert again.startup[-1][0] == b"Z"
    for wire in (*wires, again):
        await wire.close()
    while stage.server.occupancy():
        await asyncio.sleep(0.01)


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
    greeting = Greeting(user, "shop" if rules else "nowhere", {}, 0, False, ())
    nobody = Nobody(b"secret" * 6, [policy()])
    with Calls() as one:
        login = Login(greeting, rules, nobody, None)
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


async def test_the_unknown_look_as_the_known() -> None:
    """Iterations and the salt's length are those of the dataset's users; of a dataset that does not exist, of one that does."""
    rules = policy()
    ada = rules.users["ada"]
    bob = replace(ada, name="bob", password=make_verifier("x", 5000, b"s" * 32))
    one = replace(rules, users={"bob": bob})
    other = replace(rules, dataset="other", users={"ada": ada})
    nobody = Nobody(b"secret", [one, other])

    def shape(database: str, user: str = "eve") -> tuple[int, int]:
        verifier = nobody.verifier(database, user)
        return verifier.iterations, len(verifier.salt)

    assert {shape("shop", str(i)) for i in range(50)} == {(5000, 32)}
    assert {shape("other", str(i)) for i in range(50)} == {(4096, 16)}
    assert {shape(str(i)) for i in range(50)} == {(5000, 32), (4096, 16)}
    assert {len({shape(str(i), str(j)) for j in range(20)}) for i in range(20)} == {1}, "of one dataset each"
    for policies in ((), (replace(rules, users={}),)):
        verifier = Nobody(b"secret", policies).verifier("shop", "eve")
        assert (verifier.iterations, len(verifier.salt)) == (4096, 32)


async def test_a_mock_salt_is_of_the_dataset_and_the_name_and_lasts() -> None:
    secret, rules = b"secret", policy()
    salts = [
        Nobody(secret, [rules]).verifier(d, u).salt for d, u in (("shop", "x"), ("nowhere", "x"), ("shop", "y"), ("sho", "p\0x"))
    ]
    assert len(set(salts)) == 4
    ada = rules.users["ada"]
    reloaded = replace(rules, users={"ada": ada, "zoe": replace(ada, name="zoe")})
    assert Nobody(secret, [reloaded]).verifier("shop", "x").salt == salts[0]
    assert Nobody(b"other", [rules]).verifier("shop", "x").salt != salts[0]


async def test_what_a_stranger_is_told_is_the_same_after_a_restart(stage: Stage) -> None:
    """Two servers with one secret are two processes, or one before and after."""
    seen = []
    for secret in (b"one" * 11, b"one" * 11, b"two" * 11):
        server = Server({"shop": stage.dataset}, lambda *_: stage.facade.endpoint, secret=secret)
        port = await server.listen("127.0.0.1", 0)
        told = []
        for user, database in (("eve", "shop"), ("eve", "nowhere"), ("ada", "shop")):
            wire = await Wire.open(port)
            wire.send(front.startup(user, database, {}), front.sasl_initial("SCRAM-SHA-256", b"n,,n=,r=abc"))
            found = await wire.until(b"E", b"R")
            found += await wire.until(b"E", b"R")
            told.append(found[-1][1].partition(b",s=")[2])
            await wire.close()
        seen.append(told)
        await server.stop(drain=0)
    assert seen[0] == seen[1]
    assert [one == two for one, two in zip(seen[0], seen[2], strict=True)] == [False, False, True]


async def test_many_wrong_logins_do_not_stop_a_right_one(stage: Stage) -> None:
    """Whoever shares an address with somebody who guesses, even at the same name, is heard at once."""
    for i in range(60):
        for user in (f"nobody{i}", "ada"):
            wire = await Wire.open(stage.port)
            await wire.login(user, password="wrong")
            assert report(wire.startup)["C"] == "28P01"
            await wire.close()
    assert stage.server.throttle.begin("127.0.0.1", "ada", asyncio.get_running_loop().time()) == 0.0
    wire = await stage.connect()
    assert wire.startup[-1][0] == b"Z"
    await wire.close()


async def test_a_password_that_has_to_wait_is_heard_in_its_turn(stage: Stage) -> None:
    throttle, now = stage.server.throttle, asyncio.get_running_loop().time()
    while throttle.begin("127.0.0.1", "ada", now) == 0.0:
        pass
    first, second = await Wire.open(stage.port), await Wire.open(stage.port)
    await asyncio.gather(first.login(), second.login())
    told = {wire.startup[-1][0]: wire.startup for wire in (first, second)}
    assert {b"Z", b"E"} >= told.keys()
    if b"E" in told:
        assert report(told[b"E"])["M"] == "too many failed logins, try again later"
    stage.server.throttle = Throttle()
    await first.close()
    await second.close()


def sharing_policies() -> list[Policy]:
    """Three datasets of 60 users each. Of every 6 users one is of the first alone, two share one verifier in the first and second,
    of 5,000 iterations, one in all three, and two have one of their own in each."""
    users: dict[str, dict[str, User]] = {"one": {}, "two": {}, "three": {}}

    def known(name: str, iterations: int, *where: str) -> None:
        verifier = make_verifier("x", iterations, hashlib.sha256(f"{name} {where[0]}".encode()).digest()[:16])
        users.update({place: users[place] | {name: User(name, "analyst", verifier)} for place in where})

    for i in range(60):
        name = f"user{i}"
        match i % 6:
            case 0:
                known(name, 4096, "one")
            case 1 | 2:
                known(name, 5000, "one", "two")
            case 3:
                known(name, 4096, "one", "two", "three")
            case _:
                for place in users:
                    known(name, 4096, place)
    return [replace(policy(), dataset=name, users=held) for name, held in users.items()]


def shown(policies: list[Policy], nobody: Nobody, user: str, databases: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """What a stranger sees of a name: in which databases it shows one salt, and with how many iterations."""
    seen = []
    for database in databases:
        found = next((each.users[user] for each in policies if each.dataset == database and user in each.users), None)
        verifier = parse_verifier(found.password) if found else nobody.verifier(database, user)
        seen.append((verifier.salt, verifier.iterations))
    return tuple((seen.index(pair), pair[1]) for pair in seen)


async def test_names_that_nobody_has_share_salts_as_known_ones_do() -> None:
    """What is seen of a name in all databases, also in two that do not exist, is as often seen of known names as of others."""
    policies = sharing_policies()
    names = sorted({name for each in policies for name in each.users})
    nobody = Nobody(b"secret", policies)
    for databases in (("one", "two", "three"), ("one", "two"), ("one", "nowhere", "two", "three", "elsewhere")):
        known = Counter(shown(policies, nobody, name, databases) for name in names)
        unknown = Counter(shown(policies, nobody, f"invented{i}", databases) for i in range(6_000))
        assert set(known) == set(unknown)
        for seen, number in known.items():
            assert abs(unknown[seen] / 6_000 - number / len(names)) < 0.04, seen


async def test_where_all_share_or_none_does_each_name_does_the_same() -> None:
    for shared in (True, False):
        one = policy()
        own = one.users["ada"] if shared else replace(one.users["ada"], password=make_verifier("y"))
        policies = [one, replace(one, dataset="other", users={"ada": own})]
        nobody = Nobody(b"secret", policies)
        for i in range(50):
            both = {nobody.verifier(place, f"invented{i}").salt for place in ("shop", "other", "nowhere")}
            assert len(both) == (1 if shared else 3)
    real = parse_verifier(policy().users["ada"].password)
    both = [policy(), replace(policy(), dataset="other")]
    absent = Nobody(b"secret", both).verifier("nowhere", "ada")
    assert (absent.salt, absent.iterations) == (real.salt, real.iterations), "or a database that is not there would tell who is"
    assert absent.stored_key != real.stored_key


async def test_a_dataset_that_is_served_as_well_leaves_salts_as_they_are() -> None:
    one = policy()
    alone = Nobody(b"secret", [one])
    both = Nobody(b"secret", [one, replace(one, dataset="other")])
    for i in range(50):
        assert alone.verifier("shop", f"invented{i}") == both.verifier("shop", f"invented{i}")

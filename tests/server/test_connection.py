"""A connection until its user is known, fed packet by packet: what is answered, in which order, and when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
import scramp
from structlog.testing import capture_logs

from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.ledger.ledger import Ledger
from dpproxy.limits.session_limits import SessionLimits
from dpproxy.limits.throttle import Throttle
from dpproxy.policy.model import User
from dpproxy.server import connection
from dpproxy.server.connection import Arrival
from dpproxy.server.login import Nobody
from dpproxy.session.facade_login import Greeting, Origin
from dpproxy.telemetry.tallies import Tallies
from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import read_authentication, read_report
from tests.worlds.scripted import ScriptedEngine, policy, scripted_dataset
from tests.worlds.waiting import until
from tests.worlds.wire_client import PASSWORD


@dataclass
class Transport:
    """Collects what is written."""

    written: bytes = b""
    closed: bool = False
    paused: bool = False
    protocol: object = None

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def set_protocol(self, protocol: object) -> None:
        self.protocol = protocol

    def get_extra_info(self, name: str) -> Any:
        return ("10.0.0.1", 4711) if name == "peername" else None

    def take(self) -> list[tuple[bytes, bytes]]:
        """The messages since the last time."""
        data, self.written, found = self.written, b"", []
        while data:
            size = int.from_bytes(data[1:5], "big") + 1
            found.append((data[:1], data[5:size]))
            data = data[size:]
        return found

    def refusal(self) -> tuple[str, str]:
        """Of a connection that is closed."""
        ((tag, payload),) = self.take()
        assert (tag, self.closed) == (b"E", True)
        report = read_report(payload)
        assert report["S"] == "FATAL"
        return report["C"], report["M"]


@dataclass
class Host:
    served: Dataset
    limits: SessionLimits = field(default_factory=SessionLimits)
    throttle: Throttle = field(default_factory=Throttle)
    tls: None = None
    require_tls: bool = False
    has_room: bool = True
    admits: bool = True
    cancelled: list[tuple[int, bytes]] = field(default_factory=list)
    heard: asyncio.Future[None] | None = None
    tallies: Tallies = field(default_factory=Tallies)
    arrivals: set[Arrival] = field(default_factory=set)
    steps: list[Arrival] = field(default_factory=list)

    @property
    def nobody(self) -> Nobody:
        return Nobody(b"secret", [self.served.policy])

    def dataset(self, name: str) -> Dataset | None:
        return self.served if name == "shop" else None

    def room(self) -> bool:
        return self.has_room

    def admit(self, user: str) -> bool:
        return self.admits

    def entered(self, arrival: Arrival) -> None:
        self.arrivals.add(arrival)

    def stepped(self, arrival: Arrival) -> None:
        self.steps.append(arrival)

    def left(self, arrival: Arrival) -> None:
        self.arrivals.discard(arrival)

    def cancel(self, pid: int, secret: bytes) -> asyncio.Future[None] | None:
        self.cancelled.append((pid, secret))
        return self.heard


@dataclass
class Session:
    """What an arrival hands over."""

    host: Any
    transport: Any
    framer: Any
    asker: Asker
    dataset: Dataset
    greeting: Greeting
    origin: Origin
    begun: bool = False
    key: tuple[int, bytes] = (7, b"")

    def begin(self) -> None:
        self.begun = True


@dataclass
class World:
    host: Host
    transport: Transport = field(default_factory=Transport)

    def open(self, *, local: bool = False) -> Arrival:
        arrival = Arrival(cast(Any, self.host), local=local)
        arrival.connection_made(cast(Any, self.transport))
        return arrival

    def login(self, arrival: Arrival, password: str = PASSWORD, database: str = "shop", user: str = "ada", **params: str) -> None:
        """As far as it goes along."""
        client = scramp.ScramClient(["SCRAM-SHA-256"], user, password)
        arrival.data_received(front.startup(user, database, params))
        if self.transport.closed:
            return
        self.transport.take()
        arrival.data_received(front.sasl_initial("SCRAM-SHA-256", client.get_client_first().encode()))
        client.set_server_first(self.transport.take()[0][1][4:].decode())
        arrival.data_received(front.sasl_response(client.get_client_final().encode()))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(connection, "ClientSession", Session)
    return World(Host(scripted_dataset(ScriptedEngine(), cast(Ledger, None), policy())))


async def test_a_session_gets_the_transport_and_what_came_early(world: World) -> None:
    arrival = world.open()
    assert world.host.arrivals == {arrival}
    world.login(arrival, TimeZone="UTC")
    session = world.transport.protocol
    assert isinstance(session, Session)
    assert (session.begun, session.asker.role.name, session.greeting.settings) == (True, "analyst", {"TimeZone": "UTC"})
    codes = [read_authentication(payload).code for _, payload in world.transport.take()]
    assert codes == [12, 0]
    assert world.host.arrivals == set()
    arrival.abort()
    assert not world.transport.closed, "it is the session's now"


async def test_however_the_bytes_are_cut(world: World) -> None:
    arrival = world.open()
    for byte in front.startup("ada", "shop", {}):
        assert world.host.steps == [], "bytes are no step"
        arrival.data_received(bytes([byte]))
    ((tag, payload),) = world.transport.take()
    assert (tag, read_authentication(payload).code) == (b"R", 10)
    assert world.host.steps == [arrival]


@pytest.mark.parametrize(
    ("password", "database", "user"), [("wrong", "shop", "ada"), (PASSWORD, "nowhere", "ada"), (PASSWORD, "shop", "eve")]
)
async def test_who_is_wrong_hears_the_same(world: World, password: str, database: str, user: str) -> None:
    """And the log is told no name that may be a password typed into the wrong field."""
    with capture_logs() as logged:
        world.login(world.open(), password, database, user)
    ((entry),) = logged
    known = (database, user) == ("shop", "ada")
    assert (entry["event"], entry["address"], entry["reason"]) == ("login failed", "10.0.0.1", "password")
    assert (entry["user_class"], entry.get("user")) == (("known", "ada") if known else ("unknown", None))
    assert world.host.tallies.counted().logins == ((("shop" if database == "shop" else "", "password"), 1),)
    assert world.transport.refusal() == ("28P01", f'password authentication failed for user "{user}"')


async def test_a_guess_is_taken_and_given_back_when_it_was_right(world: World) -> None:
    counted: list[str] = []

    class Counting(Throttle):
        def begin(self, address: str, user: str, now: float) -> float | None:
            counted.append(f"{user} from {address}")
            return 0.0

        def succeeded(self, address: str, user: str) -> None:
            counted.append("right")

    world.host.throttle = Counting()
    world.login(world.open(), "wrong")
    world.transport = Transport()
    world.login(world.open())
    assert counted == ["ada from 10.0.0.1"] * 2 + ["right"]


async def test_who_must_wait_is_not_read_from_and_heard_in_turn(world: World) -> None:
    class Slow(Throttle):
        def begin(self, address: str, user: str, now: float) -> float | None:
            return 1e-9

    world.host.throttle = Slow()
    world.login(world.open())
    assert (world.transport.paused, world.transport.protocol) == (True, None)
    await until(lambda: world.transport.protocol is not None)
    assert not world.transport.paused


async def test_who_would_wait_too_long_is_turned_away_unheard(world: World) -> None:
    class Full(Throttle):
        def begin(self, address: str, user: str, now: float) -> float | None:
            return None

    world.host.throttle = Full()
    world.login(world.open())
    assert world.transport.refusal() == ("28000", "too many failed logins, try again later")


def full(world: World) -> None:
    world.host.has_room = False


def too_many(world: World) -> None:
    world.host.admits = False


def names_beyond_ascii(world: World) -> None:
    world.host.served = replace(world.host.served, words=("łódź".encode(),))


@pytest.mark.parametrize(
    ("change", "params", "expected"),
    [
        (full, {}, ("53300", "sorry, too many clients already")),
        (too_many, {}, ("53300", 'too many connections for user "ada"')),
        (names_beyond_ascii, {"client_encoding": "LATIN1"}, ("22023", "client_encoding LATIN1 is not supported: use UTF8")),
        (lambda world: None, {"dpproxy.epsilom": "1"}, ("42704", 'unrecognized configuration parameter "dpproxy.epsilom"')),
    ],
)
async def test_who_may_not_come_in(
    world: World, change: Callable[[World], None], params: dict[str, str], expected: tuple[str, str]
) -> None:
    change(world)
    world.login(world.open(), **params)
    answers = [payload for tag, payload in world.transport.take() if tag == b"E"]
    report = read_report(answers[-1])
    assert (report["C"], report["M"]) == expected
    assert (world.transport.closed, world.transport.protocol) == (True, None)


async def test_a_user_whom_the_policy_has_changed_meanwhile_tries_again(world: World) -> None:
    arrival = world.open()
    real = world.host.throttle.succeeded

    def changed(address: str, user: str) -> None:
        real(address, user)
        rules = world.host.served.policy
        other = User("ada", "analyst", rules.users["ada"].password, rules.budget)
        world.host.served = replace(world.host.served, policy=replace(rules, users={"ada": other}))

    world.host.throttle.succeeded = changed  # type: ignore[method-assign]
    world.login(arrival)
    assert world.transport.refusal()[0] == "57P03"


async def test_without_tls_requests_for_it_are_answered_no_and_only_so_often(world: World) -> None:
    arrival = world.open()
    for _ in range(2):
        arrival.data_received(front.ssl_request())
    assert world.transport.written == b"NN"
    world.transport.written = b""
    arrival.data_received(front.ssl_request())
    assert world.transport.refusal() == ("08P01", "unexpected request for encryption")


async def test_where_tls_is_required_only_this_machine_comes_in_without(world: World) -> None:
    world.host.require_tls = True
    world.open().data_received(front.startup("ada", "shop", {}))
    assert world.transport.refusal()[0] == "28000"
    world.transport = Transport()
    world.open(local=True).data_received(front.startup("ada", "shop", {}))
    assert world.transport.take()[0][0] == b"R"


async def test_a_cancel_request_is_closed_when_it_was_heard(world: World) -> None:
    world.open().data_received(front.cancel_request(7, b"abcd"))
    assert (world.host.cancelled, world.transport.closed) == ([(7, b"abcd")], True), "nobody to wait for"
    world.transport, world.host.heard = Transport(), asyncio.get_running_loop().create_future()
    arrival = world.open()
    arrival.data_received(front.cancel_request(7, b"abcd") + front.startup("ada", "shop", {}))
    assert (world.transport.closed, world.transport.written) == (False, b""), "what follows is not read"
    world.host.heard.set_result(None)
    await asyncio.sleep(0)
    assert world.transport.closed


async def test_who_does_not_log_in_is_let_go(world: World) -> None:
    world.host.limits = SessionLimits(login=1e-9)
    arrival = world.open()
    await until(lambda: world.transport.closed)
    arrival.connection_lost(None)
    assert world.host.arrivals == set()

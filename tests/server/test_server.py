"""The listening side without sockets: cancel keys, places, what is remembered of datasets, who is sent away when."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.facade.cluster import Endpoint
from dpproxy.ledger.ledger import Ledger
from dpproxy.limits.session_limits import SessionLimits, State
from dpproxy.server.server import NUMBER_BITS, Server
from dpproxy.session.facade_login import NOWHERE, Origin
from dpproxy.sql.statements import Signal
from tests.worlds.scripted import ScriptedEngine, policy, scripted_dataset
from tests.worlds.waiting import until

BITS = 31 - NUMBER_BITS


@dataclass(eq=False)
class Session:
    dataset: Dataset
    key: tuple[int, bytes] = (7, b"secret")
    progress: tuple[State, int, int] = (State.STATEMENT, 0, 0)
    keys: list[int] = field(default_factory=list)
    cancelled: asyncio.Future[None] | None = None
    done: list[str] = field(default_factory=list)
    server: Server | None = None
    role: str = "analyst"
    server_process: int = 0
    origin: Origin = NOWHERE

    @property
    def asker(self) -> Asker:
        rules = self.dataset.policy
        return Asker(rules.users["ada"], replace(rules.roles["analyst"], name=self.role))

    def end(self) -> None:
        self.done.append("ended")

    def renew_key(self) -> None:
        self.key = (self.keys.pop(0), self.key[1])

    def cancel(self) -> asyncio.Future[None] | None:
        self.done.append("cancelled")
        return self.cancelled

    def leave(self, why: str) -> None:
        self.done.append("leave")
        if self.server is not None and self.done.count("leave") == 2:  # the statement that ran has ended
            self.server.closed(cast(Any, self))

    def fatal(self, sqlstate: str, text: str) -> None:
        self.done.append(sqlstate)
        if self.server is not None:
            self.server.closed(cast(Any, self))

    def move(self, newer: Dataset) -> None:
        self.dataset = newer


@dataclass(eq=False)
class Door:
    """A connection that is not logged in."""

    address: str = "10.0.0.1"
    ended: bool = False

    def abort(self) -> None:
        self.ended = True


@pytest.fixture
def dataset() -> Dataset:
    return scripted_dataset(ScriptedEngine(), cast(Ledger, None), policy())


def serving(dataset: Dataset, **options: Any) -> Server:
    return Server({"shop": dataset}, lambda d, role: Endpoint(path=f"/{d.policy.dataset}/{role}"), **options)


def logged_in(server: Server, session: Session) -> Session:
    assert server.admit("ada")
    server.opened(cast(Any, session))
    return session


async def test_only_the_whole_key_cancels(dataset: Dataset) -> None:
    server = serving(dataset)
    session = logged_in(server, Session(dataset))
    assert server.cancel(7, b"wrong!") is None
    assert server.cancel(8, b"secret") is None
    assert session.done == []
    session.cancelled = asyncio.get_running_loop().create_future()
    assert server.cancel(7, b"secret") is session.cancelled
    assert session.done == ["cancelled"]


class Others:
    """Notes what is passed on to other processes."""

    def __init__(self, passed: list[tuple[object, ...]]) -> None:
        self.passed = passed

    def cancel(self, number: int, pid: int, secret: bytes) -> asyncio.Future[None]:
        self.passed.append((number, pid, secret))
        return asyncio.get_running_loop().create_future()

    def reach(self, number: int, pid: int, signal: Signal, of: tuple[str, str]) -> asyncio.Future[None]:
        self.passed.append((number, pid, signal, of))
        heard = asyncio.get_running_loop().create_future()
        heard.set_result(None)
        return heard


async def test_sessions_of_the_same_role_are_reached_by_either_number(dataset: Dataset) -> None:
    passed: list[tuple[object, ...]] = []
    server = serving(dataset, number=2, elsewhere=Others(passed))
    asking = logged_in(server, Session(dataset, key=(2 << BITS | 5, b"s")))
    other = logged_in(server, Session(dataset, key=(2 << BITS | 6, b"s"), server_process=77))
    stranger = logged_in(server, Session(dataset, key=(2 << BITS | 7, b"s"), role="clerk", server_process=78))
    assert await server.reach(cast(Any, asking), "cancel", 2 << BITS | 6)
    assert await server.reach(cast(Any, asking), "terminate", 77)
    assert other.done == ["cancelled", "ended"]
    for number in (2 << BITS | 7, 78, 0, 12345, -1):
        assert not await server.reach(cast(Any, asking), "terminate", number)
    assert (stranger.done, passed) == ([], [])
    assert await server.reach(cast(Any, asking), "cancel", 3 << BITS | 5)
    assert passed == [(3, 3 << BITS | 5, "cancel", ("shop", "analyst"))]


async def test_keys_of_other_processes_go_to_them(dataset: Dataset) -> None:
    passed: list[tuple[object, ...]] = []
    server = serving(dataset, number=2, elsewhere=Others(passed))
    own, other, none = 2 << BITS | 5, 3 << BITS | 5, 5
    session = logged_in(server, Session(dataset, key=(own, b"s")))
    server.cancel(own, b"s")
    assert (session.done, passed) == (["cancelled"], [])
    assert server.cancel(other, b"s") is not None
    assert server.cancel(none, b"s") is None, "no process has the number 0"
    assert passed == [(3, other, b"s")]


def test_a_key_says_whose_it_is(dataset: Dataset) -> None:
    assert {serving(dataset, number=5).new_pid() >> BITS for _ in range(50)} == {5}
    alone = serving(dataset)
    assert all(0 <= alone.new_pid() < 2**31 for _ in range(50))


def test_no_two_sessions_have_one_key(dataset: Dataset) -> None:
    server = serving(dataset)
    logged_in(server, Session(dataset))
    second = logged_in(server, Session(dataset, keys=[7, 9]))
    assert second.key[0] == 9
    assert server.occupancy() == 2


def test_places_are_given_back_once(dataset: Dataset) -> None:
    server = serving(dataset, limits=SessionLimits(connections=2, connections_per_user=1))
    session = logged_in(server, Session(dataset))
    assert not server.admit("ada"), "one of hers"
    assert server.admit("eve")
    assert not server.room()
    server.closed(cast(Any, session))
    server.closed(cast(Any, session))
    assert server.room()
    assert [server.admit("ada"), server.admit("bob")] == [True, False]


def test_those_who_are_not_logged_in_take_no_place_of_a_session(dataset: Dataset) -> None:
    server = serving(dataset, limits=SessionLimits(connections=2, connections_per_user=2))
    doors = [cast(Any, Door()) for _ in range(5)]
    for door in doors:
        server.entered(door)
        server.stepped(door)
    assert server.room()
    assert [door.ended for door in doors] == [True, True, True, False, False]
    server.left(doors[-1])
    assert server.arrivals() == (doors[-2],)


def test_a_memo_is_of_the_dataset_as_it_was_opened(dataset: Dataset) -> None:
    server = serving(dataset)
    memo = server.memo(dataset)
    assert server.memo(dataset) is memo
    anew = replace(dataset)
    assert server.memo(anew) is not memo
    assert server.memo(anew) is server.memo(anew)


def test_unknown_users_are_made_up_once_for_each_state_of_the_policies(dataset: Dataset) -> None:
    served = {"shop": dataset}
    server = Server(served, lambda d, r: Endpoint())
    nobody = server.nobody
    assert server.nobody is nobody
    served["shop"] = replace(dataset, policy=replace(dataset.policy, users={}))
    other = server.nobody
    assert other is not nobody
    served["more"] = dataset
    assert server.nobody is not other


async def test_in_an_exchange_a_statement_that_runs_may_end(dataset: Dataset) -> None:
    server, other = serving(dataset), replace(dataset)
    leaving = logged_in(server, Session(dataset, server=server))
    staying = logged_in(server, Session(other, key=(8, b"")))
    await server.exchange(dataset, 6000)
    assert (leaving.done, staying.done) == (["leave", "leave"], [])


@pytest.mark.parametrize("hurried", [True, False], ids=["hurried", "out of time"])
async def test_in_an_exchange_patience_ends(dataset: Dataset, hurried: bool) -> None:
    server = serving(dataset)
    session = logged_in(server, Session(dataset, server=server))
    if hurried:
        server.hurry()
    await server.exchange(dataset, 6000 if hurried else 0)
    assert session.done == ["leave", "57P01"]


async def test_a_server_that_stops_lets_statements_end(dataset: Dataset) -> None:
    server = serving(dataset)
    idle = logged_in(server, Session(dataset, progress=(State.IDLE, 0, 0), server=server))
    busy = logged_in(server, Session(dataset, key=(8, b""), server=server))
    stopping = asyncio.ensure_future(server.stop(6000))
    await until(lambda: bool(idle.done))
    assert (idle.done, busy.done) == (["57P01"], [])
    server.hurry()
    await stopping
    assert busy.done == ["57P01"]


def test_only_those_who_may_stay_move(dataset: Dataset) -> None:
    server, newer = serving(dataset), replace(dataset)
    one, two = (logged_in(server, Session(dataset, key=(i, b""))) for i in (1, 2))
    server.move(dataset, newer, lambda session: session.key[0] == 1)
    assert one.dataset is newer
    assert two.dataset is dataset

"""Ledger and stored answers against a model that is a list: any order of charges, reuse, restarts, clocks, grants."""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
import uuid
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dpproxy.ledger.journal import MAX_JUMP, Journal
from dpproxy.ledger.ledger import BudgetExhausted, ChargeRequest, Grant, LedgerError, Limits, charge
from dpproxy.mechanisms.noise import Released
from dpproxy.privacy.accountant import Limit
from dpproxy.privacy.loss import ZERO, Loss
from dpproxy.records import record
from dpproxy.records.place import SqliteReader
from dpproxy.records.postgres import PostgresLedger, PostgresReader
from dpproxy.records.sqlite import SqliteLedger
from dpproxy.reuse.matching import Asked, StoredRelease, exposure
from dpproxy.reuse.store import AHEAD, AnswerStore

START = dt.datetime(2024, 2, 27, 22, tzinfo=dt.UTC)
LIMITS = Limits(Limit(10, 0, "day"), Limit(100, 0, "month"), Limit(8, 0, "week"), 6)
ROLES = st.sampled_from(["r1", "r2", "r3"])
USERS = st.sampled_from(["u1", "u2"])
DAY = dt.timedelta(days=1)
MAX_AGE = 20 * DAY
CRASHES = ("", "", "", "before it is kept", "before it is seen")


def window_of(limit: Limit, at: dt.datetime) -> tuple[int, ...]:
    """Its own reading of the calendar."""
    if limit.window == "day":
        return (at.year, at.month, at.day)
    if limit.window == "week":
        return at.isocalendar()[:2]
    return (at.year, at.month)


@dataclass
class Kept:
    """A release in the model: its epsilon, what it says, when it was made, who has seen it."""

    epsilon: int
    value: int
    at: dt.datetime
    roles: dict[str, dt.datetime]


def chart(key: str, epsilon: int) -> Asked:
    """A chart asked for at a price: noise is 1/epsilon."""
    return Asked(f"chart {key}", (), ("n",), (Fraction(1, epsilon),))


class LedgerMachine(RuleBasedStateMachine):
    """The model: every exposure (scope, name, micro-epsilon, time) and grant, summed up from scratch."""

    def open(self) -> Journal:
        return SqliteLedger(self.folder / "ledger.sqlite")

    def reader(self) -> record.Reader:
        return SqliteReader(self.folder / "ledger.sqlite")

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.name = f"d{uuid.uuid4().hex}"  # of the dataset: a record of its own
        self.ledger = self.open()
        self.answers = AnswerStore(self.folder / "answers.sqlite")
        self.now = START
        self.clock = START - 365 * DAY  # the record has no time yet
        self.spent: list[tuple[str, str, int, dt.datetime]] = []
        self.granted: list[tuple[str, str, int, dt.datetime]] = []
        self.stored: dict[str, list[Kept]] = {}
        self.serial = 0
        self.last: ChargeRequest | None = None

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            self.ledger.close()
            self.answers.close()
            shutil.rmtree(self.folder)

    def left(self, scope: str, name: str, limit: Limit, at: dt.datetime) -> int:
        def total(rows: list[tuple[str, str, int, dt.datetime]]) -> int:
            window = window_of(limit, at)
            return sum(e for s, n, e, t in rows if (s, n) == (scope, name) and window_of(limit, t) == window)

        return limit.epsilon + total(self.granted) - total(self.spent)

    def verdict(self, role: str, user: str, epsilon: int, dataset: int, at: dt.datetime) -> str | None:
        if epsilon > 6:
            return "query"
        checks = [
            ("role", role, LIMITS.role, epsilon),
            ("user", user, LIMITS.user, epsilon),
            ("dataset", self.name, LIMITS.dataset, dataset),
        ]
        for scope, name, limit, asked in checks:
            assert limit is not None
            if asked and asked > self.left(scope, name, limit, at):
                return scope
        return None

    def charge(self, role: str, user: str, epsilon: int, dataset: int) -> bool:
        """Charge the ledger and the model; they must agree on the verdict, and on which limit binds."""
        at = max(self.now, self.clock)
        losses = (Loss(epsilon), Loss(dataset) if dataset else ZERO)
        request = ChargeRequest(str(uuid.uuid4()), self.name, role, user, *losses, LIMITS, "h", self.now)
        expected = self.verdict(role, user, epsilon, dataset, at)
        verdict: str | None
        try:
            done = charge(self.ledger, request)
        except BudgetExhausted as refused:
            verdict = refused.which
        else:
            verdict = None
        assert verdict == expected
        if verdict is not None:
            return False
        assert done.at == at
        self.clock = at
        self.spent += [("role", role, epsilon, at), ("user", user, epsilon, at), ("dataset", self.name, dataset, at)]
        self.last = request
        return True

    @rule(role=ROLES, user=USERS, epsilon=st.integers(1, 7))
    def query(self, role: str, user: str, epsilon: int) -> None:
        self.charge(role, user, epsilon, epsilon)

    def fitting(self, key: str, role: str, epsilon: int) -> Kept | None:
        """The latest the role has seen that is accurate enough, else the first there was at this price."""
        enough = [k for k in self.stored.get(key, []) if k.epsilon >= epsilon]
        mine = [k for k in enough if role in k.roles and self.is_fresh(k.roles[role])]
        if mine:  # of two made at one time, the one stored later
            return max(enumerate(mine), key=lambda pair: (pair[1].at, pair[0]))[1]
        first = next((k for k in enough if k.epsilon <= epsilon), None)
        return first if first is not None and self.is_fresh(first.at) else None

    def is_fresh(self, at: dt.datetime) -> bool:
        return -AHEAD <= self.now - at <= MAX_AGE

    @rule(role=ROLES, user=USERS, key=st.sampled_from("ab"), epsilon=st.integers(1, 3), crash=st.sampled_from(CRASHES))
    def ask_a_chart(self, role: str, user: str, key: str, epsilon: int, crash: str) -> None:
        """The rule of use: free when seen, the role alone when another's, else everybody pays. A crash after the charge
        leaves what was charged, and nothing else."""
        asked = chart(key, epsilon)
        found = self.answers.find(asked, role=role, price=Loss(epsilon), now=self.now, max_age=MAX_AGE)
        expected = self.fitting(key, role, epsilon)
        assert (found is None) == (expected is None)
        if found is None or expected is None:
            if self.charge(role, user, epsilon, epsilon) and crash != "before it is kept":
                self.keep(key, role, epsilon, asked)
            return
        assert found.stored is not None
        assert found.released.values[0].tolist() == [expected.value]  # the same noise, always
        assert found.seen(role) == (role in expected.roles)
        if found.seen(role):
            return
        cost = exposure(found.stored, Loss(epsilon))
        assert cost.epsilon == epsilon
        if self.charge(role, user, epsilon, 0) and crash != "before it is seen":
            self.answers.mark_seen(found.stored, role, self.now)
            expected.roles.setdefault(role, self.now)

    def keep(self, key: str, role: str, epsilon: int, asked: Asked) -> None:
        self.serial += 1
        answer = Released((), (np.array([self.serial]),), 1)
        self.answers.put(StoredRelease(self.name, asked, answer, Loss(epsilon), self.now, frozenset({role})))
        self.stored.setdefault(key, []).append(Kept(epsilon, self.serial, self.now, {role: self.now}))

    @rule(role=ROLES, user=USERS, key=st.sampled_from("ab"), epsilon=st.integers(1, 3))
    def ask_a_chart_anew(self, role: str, user: str, key: str, epsilon: int) -> None:
        """`dpproxy.reuse = off`: paid for, and kept beside what there is."""
        if self.charge(role, user, epsilon, epsilon):
            self.keep(key, role, epsilon, chart(key, epsilon))

    @rule()
    def lose_the_answers(self) -> None:
        """Costs budget, never an undercharge: everything is asked and paid for again."""
        self.answers.close()
        for path in self.folder.glob("answers.sqlite*"):
            path.unlink()
        self.answers = AnswerStore(self.folder / "answers.sqlite")
        self.stored = {}

    @rule()
    def charge_again(self) -> None:
        if self.last is not None:
            assert charge(self.ledger, self.last).id == self.last.id

    @rule(hours=st.integers(-400, 400))
    def move_the_clock(self, hours: int) -> None:
        later = self.now + dt.timedelta(hours=hours)
        if self.spent or self.granted:
            later = min(later, self.clock + MAX_JUMP)  # several moves without an entry are one jump, which `jump` is about
        self.now = max(START - 30 * DAY, later)

    @rule()
    def jump(self) -> None:
        at = max(self.clock, self.now) + 401 * DAY
        if self.spent or self.granted:
            request = ChargeRequest(str(uuid.uuid4()), self.name, "r1", "u1", Loss(1), Loss(1), LIMITS, "h", at)
            try:
                charge(self.ledger, request)
            except LedgerError:
                return
            raise AssertionError("a jump was taken for granted")

    @rule(scope=st.sampled_from(["role", "user", "dataset"]), epsilon=st.integers(0, 5))
    def grant(self, scope: str, epsilon: int) -> None:
        name = {"role": "r1", "user": "u1", "dataset": self.name}[scope]
        at = max(self.now, self.clock)
        self.ledger.grant(Grant(self.name, scope, name, epsilon, 0, "why", self.now))  # type: ignore[arg-type]
        self.granted.append((scope, name, epsilon, at))
        self.clock = at

    @rule()
    def restart(self) -> None:
        self.ledger.close()
        self.answers.close()
        self.ledger = self.open()
        self.answers = AnswerStore(self.folder / "answers.sqlite")

    @rule()
    def verify(self) -> None:
        record.verify(self.reader())

    @invariant()
    def standings_agree(self) -> None:
        if not hasattr(self, "ledger"):
            return
        at = max(self.now, self.clock)
        for scope, name, limit in (
            ("role", "r1", LIMITS.role),
            ("user", "u1", LIMITS.user),
            ("dataset", self.name, LIMITS.dataset),
        ):
            assert limit is not None
            standing = self.ledger.standing(self.name, scope, name, limit, self.now)  # type: ignore[arg-type]
            assert standing.left_epsilon == max(0, self.left(scope, name, limit, at))
            lifetime = sum(e for s, n, e, _ in self.spent if (s, n) == (scope, name))
            assert standing.lifetime_epsilon == lifetime


class PostgresMachine(LedgerMachine):
    """The same against a ledger in PostgreSQL; now and then another proxy of the same record charges instead."""

    dsn = ""

    def open(self) -> Journal:
        return PostgresLedger(self.dsn)

    def reader(self) -> record.Reader:
        return PostgresReader(self.dsn, self.name)

    @rule()
    def another_proxy(self) -> None:
        self.idle = getattr(self, "idle", None) or self.open()
        self.ledger, self.idle = self.idle, self.ledger

    def teardown(self) -> None:
        if getattr(self, "idle", None) is not None:
            self.idle.close()
        super().teardown()


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


@pytest.fixture
def machine_server(postgres: Any) -> None:
    PostgresMachine.dsn = postgres.dsn


@pytest.mark.usefixtures("machine_server")
class TestPostgresMachine(PostgresMachine.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=8, stateful_step_count=25, deadline=None)

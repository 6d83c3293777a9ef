"""Ledger and stored answers against a model that is a list: any order of charges, reuse, restarts, clocks, grants."""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
import uuid
from fractions import Fraction
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dpproxy.budget import record
from dpproxy.budget.accountant import Limit
from dpproxy.budget.answers import AnswerStore, StoredRelease
from dpproxy.budget.files import SqliteReader
from dpproxy.budget.ledger import BudgetExhausted, ChargeRequest, Grant, LedgerError, Limits, charge
from dpproxy.budget.sqlite import SqliteLedger
from dpproxy.mechanisms.exact import Released
from dpproxy.plan.loss import ZERO, Loss

START = dt.datetime(2024, 2, 27, 22, tzinfo=dt.UTC)
LIMITS = Limits(Limit(10, 0, "day"), Limit(100, 0, "month"), Limit(8, 0, "week"), 6)
ROLES = st.sampled_from(["r1", "r2", "r3"])
USERS = st.sampled_from(["u1", "u2"])
DAY = dt.timedelta(days=1)


def window_of(limit: Limit, at: dt.datetime) -> tuple[int, ...]:
    """Its own reading of the calendar."""
    if limit.window == "day":
        return (at.year, at.month, at.day)
    if limit.window == "week":
        return at.isocalendar()[:2]
    return (at.year, at.month)


class LedgerMachine(RuleBasedStateMachine):
    """The model: every exposure (scope, name, micro-epsilon, time) and grant, summed up from scratch."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.ledger = SqliteLedger(self.folder / "ledger.sqlite")
        self.answers = AnswerStore(self.folder / "answers.sqlite")
        self.now = START
        self.clock = START - 365 * DAY  # the record has no time yet
        self.spent: list[tuple[str, str, int, dt.datetime]] = []
        self.granted: list[tuple[str, str, int, dt.datetime]] = []
        self.saw: set[tuple[str, str]] = set()
        self.stored: dict[str, int] = {}
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
            ("dataset", "d", LIMITS.dataset, dataset),
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
        request = ChargeRequest(str(uuid.uuid4()), "d", role, user, *losses, LIMITS, "h", self.now)
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
        self.spent += [("role", role, epsilon, at), ("user", user, epsilon, at), ("dataset", "d", dataset, at)]
        self.last = request
        return True

    @rule(role=ROLES, user=USERS, epsilon=st.integers(1, 7))
    def query(self, role: str, user: str, epsilon: int) -> None:
        self.charge(role, user, epsilon, epsilon)

    @rule(role=ROLES, user=USERS, key=st.sampled_from("ab"), epsilon=st.integers(1, 3))
    def ask_a_chart(self, role: str, user: str, key: str, epsilon: int) -> None:
        """The rule of use of stored answers: free when seen, the role alone when stored, everybody else pays."""
        stored = self.answers.get(key, role=role, now=self.now, scales=(Fraction(1),))
        assert (stored is not None) == (key in self.stored)
        if stored is None:
            if self.charge(role, user, epsilon, epsilon):
                answer = Released((), (np.array([len(self.spent)]),), 1)
                new = StoredRelease(key, "d", answer, Loss(epsilon), (Fraction(1),), self.now, frozenset({role}))
                self.answers.put(new)
                self.stored[key] = len(self.spent)
                self.saw.add((key, role))
            return
        assert stored.released.values[0].tolist() == [self.stored[key]]  # the same noise, always
        assert (role in stored.roles) == ((key, role) in self.saw)
        if role not in stored.roles and self.charge(role, user, stored.loss.epsilon, 0):
            self.answers.mark_seen(stored, role)
            self.saw.add((key, role))

    @rule()
    def charge_again(self) -> None:
        if self.last is not None:
            assert charge(self.ledger, self.last).id == self.last.id

    @rule(hours=st.integers(-400, 400))
    def move_the_clock(self, hours: int) -> None:
        self.now = max(START - 30 * DAY, self.now + dt.timedelta(hours=hours))

    @rule()
    def jump(self) -> None:
        at = max(self.clock, self.now) + 401 * DAY
        if self.spent or self.granted:
            request = ChargeRequest(str(uuid.uuid4()), "d", "r1", "u1", Loss(1), Loss(1), LIMITS, "h", at)
            try:
                charge(self.ledger, request)
            except LedgerError:
                return
            raise AssertionError("a jump was taken for granted")

    @rule(scope=st.sampled_from(["role", "user", "dataset"]), epsilon=st.integers(0, 5))
    def grant(self, scope: str, epsilon: int) -> None:
        name = {"role": "r1", "user": "u1", "dataset": "d"}[scope]
        at = max(self.now, self.clock)
        self.ledger.grant(Grant("d", scope, name, epsilon, 0, "why", self.now))  # type: ignore[arg-type]
        self.granted.append((scope, name, epsilon, at))
        self.clock = at

    @rule()
    def restart(self) -> None:
        self.ledger.close()
        self.answers.close()
        self.ledger = SqliteLedger(self.folder / "ledger.sqlite")
        self.answers = AnswerStore(self.folder / "answers.sqlite")

    @rule()
    def verify(self) -> None:
        record.verify(SqliteReader(self.folder / "ledger.sqlite"))

    @invariant()
    def standings_agree(self) -> None:
        if not hasattr(self, "ledger"):
            return
        at = max(self.now, self.clock)
        for scope, name, limit in (
            ("role", "r1", LIMITS.role),
            ("user", "u1", LIMITS.user),
            ("dataset", "d", LIMITS.dataset),
        ):
            assert limit is not None
            standing = self.ledger.standing("d", scope, name, limit, self.now)  # type: ignore[arg-type]
            assert standing.left_epsilon == max(0, self.left(scope, name, limit, at))
            lifetime = sum(e for s, n, e, _ in self.spent if (s, n) == (scope, name))
            assert standing.lifetime_epsilon == lifetime


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)

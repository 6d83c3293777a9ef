"""Accounts and their windows: what a window has seen, by adding up charges by hand, and all of it as JSON and back."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpproxy import budget_windows as windows
from dpproxy.ledger.ledger import LedgerCorrupt
from dpproxy.ledger.states import Account, State, begun, decoded, encoded
from dpproxy.privacy.loss import ZERO, Loss

START = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
days = st.lists(st.tuples(st.integers(0, 800), st.integers(1, 1000)), max_size=12).map(sorted)


def charged(account: Account, at: dt.datetime, loss: Loss) -> Account:
    account = account.on(at)
    return replace(account, total=account.total + loss, charges=account.charges + 1, openings=begun(account.openings, loss))


def account_of(charges: list[tuple[int, int]]) -> Account:
    account = Account()
    for day, epsilon in charges:
        account = charged(account, START + dt.timedelta(days=day), Loss(epsilon))
    return account


@given(days)
@settings(max_examples=60, deadline=None)
def test_a_window_holds_the_charges_of_its_days(charges: list[tuple[int, int]]) -> None:
    """Of each kind: the sum of the charges since it began, and what the first of them cost."""
    account, last = account_of(charges), START + dt.timedelta(days=max((d for d, _ in charges), default=0))
    account = account.on(last)
    for opening, kind in zip(account.openings, windows.KINDS, strict=True):
        begins = windows.start(kind, last)
        inside = [e for day, e in charges if START + dt.timedelta(days=day) >= begins]
        assert opening.start == begins
        assert account.total.since(opening.total).epsilon == sum(inside)
        assert (opening.first.epsilon if opening.first else None) == (inside[0] if inside else None)


@given(days, st.integers(0, 800))
@settings(max_examples=60, deadline=None)
def test_a_clock_set_back_forgives_nothing(charges: list[tuple[int, int]], to: int) -> None:
    """What counts in a window after it is at least what was charged on its days."""
    account, now = account_of(charges), START + dt.timedelta(days=to)
    moved = account.back(now)
    assert moved.total == account.total
    for opening, kind in zip(moved.openings, windows.KINDS, strict=True):
        begins = windows.start(kind, now)
        spent = sum(e for day, e in charges if begins <= START + dt.timedelta(days=day) <= now)
        assert moved.total.since(opening.total).epsilon >= spent


def state_of(charges: list[tuple[int, int]]) -> State:
    accounts = {("shop", "role", "a"): account_of(charges), ("shop", "dataset", "shop"): Account()}
    return State("ledger", 3, START, None, accounts, 2, {("shop", "digest"): "shop"})


@given(days)
@settings(max_examples=40, deadline=None)
def test_a_state_comes_back_from_its_json(charges: list[tuple[int, int]]) -> None:
    state = state_of(charges)
    text = json.dumps(encoded(state))
    assert decoded(json.loads(text)) == state
    assert json.dumps(encoded(replace(state, accounts=dict(reversed(state.accounts.items()))))) == text


@given(days, st.sampled_from(windows.KINDS), st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_a_checkpoint_without_a_kind_of_window_forgives_nothing(charges: list[tuple[int, int]], new: str, later: int) -> None:
    """As when a version that knows one kind more reads it: in that window counts at least what was charged on its days."""
    data = encoded(state_of(charges))
    place = windows.KINDS.index(new)
    data["windows"] = [kind for kind in windows.KINDS if kind != new]
    for account in data["accounts"]:
        for openings in account[6:]:
            del openings[place : place + 1]
    kept, read = (state.accounts["shop", "role", "a"] for state in (state_of(charges), decoded(json.loads(json.dumps(data)))))
    now = START + dt.timedelta(days=max((d for d, _ in charges), default=0) + later)
    for kind, ours, theirs in zip(windows.KINDS, kept.on(now).openings, read.on(now).openings, strict=True):
        assert theirs.start == ours.start
        assert read.total.since(theirs.total).epsilon >= kept.total.since(ours.total).epsilon
        assert kind == new or theirs == ours


def test_nothing_costs_nothing() -> None:
    account = Account().on(START)
    assert begun(account.openings, ZERO) == account.openings


@pytest.mark.parametrize("spoil", ["losses", "accounts", "ledger", "clock"])
def test_what_encoded_does_not_make_is_refused(spoil: str) -> None:
    data = encoded(state_of([(1, 5), (400, 6)]))
    del data[spoil]
    with pytest.raises(LedgerCorrupt, match="checkpoint"):
        decoded(data)
    broken = encoded(state_of([(1, 5)]))
    broken["accounts"][-1][6].pop()
    with pytest.raises(LedgerCorrupt, match="checkpoint"):
        decoded(broken)
    later = encoded(state_of([(1, 5)]))
    later["windows"] = ["day", "week", "month", "quarter", "decade", "never"]
    with pytest.raises(LedgerCorrupt, match="checkpoint"):
        decoded(later)

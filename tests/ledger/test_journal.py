"""What callers submit is committed in groups by one thread; nobody overspends, waits for ever, or is told another's verdict."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from dpproxy.amounts import MICRO
from dpproxy.ledger.journal import Journal
from dpproxy.ledger.ledger import BudgetExhausted, Charge, LedgerError, Limits, charge
from dpproxy.privacy.accountant import Limit

from .conftest import NOON, MakeRequest

OpenLedger = Callable[..., Journal]


def test_many_threads_cannot_overspend(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    """50 threads, 6 tries each, for a budget of 100; roles overlap under one cap."""
    ledger, limits = open_ledger(), Limits(Limit(60 * MICRO), Limit(100 * MICRO))
    done: list[Charge] = []
    refused: list[BudgetExhausted] = []
    gate = threading.Barrier(50)

    def work(i: int) -> None:
        gate.wait()
        for _ in range(6):
            try:
                done.append(charge(ledger, request_of(limits=limits, role=f"r{i % 3}")))
            except BudgetExhausted as error:
                refused.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 100
    assert len(refused) == 200
    assert len({c.sequence for c in done}) == 100
    for role in ("r0", "r1", "r2"):
        assert sum(c.role == role for c in done) <= 60
    ledger.close()
    spent = open_ledger().standing("shop", "dataset", "shop", limits.dataset, NOON)
    assert (spent.spent_epsilon, spent.charges) == (100 * MICRO, 100)


def test_waiting_charges_share_a_transaction(
    open_ledger: OpenLedger, request_of: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = open_ledger()
    charge(ledger, request_of())
    commits = 0
    entered, release = threading.Event(), threading.Event()
    commit = ledger._chains._store.commit

    def slow() -> None:
        nonlocal commits
        commits += 1
        entered.set()
        release.wait(300)
        commit()

    monkeypatch.setattr(ledger._chains._store, "commit", slow)
    first = ledger.submit(request_of())
    entered.wait(300)
    rest = [ledger.submit(request_of()) for _ in range(20)]
    release.set()
    assert {f.result().sequence for f in [first, *rest]} == set(range(3, 24))
    assert commits == 2


def test_a_refusal_in_a_batch_leaves_the_others(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    ledger, limits = open_ledger(), Limits(Limit(MICRO), Limit(10 * MICRO))
    futures = [ledger.submit(request_of(limits=limits, role=r)) for r in ("a", "a", "b", "b", "c")]
    verdicts = [f.exception() is None for f in futures]
    assert verdicts == [True, False, True, False, True]


def test_closed_means_closed(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    ledger = open_ledger()
    waiting = [ledger.submit(request_of()) for _ in range(10)]
    ledger.close()
    assert all(f.result() for f in waiting)
    with pytest.raises(LedgerError, match="closed"):
        charge(ledger, request_of())

"""Requests, and a way to open each kind of ledger twice on the same record."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dpproxy.budget.accountant import Limit
from dpproxy.budget.journal import Journal
from dpproxy.budget.ledger import ChargeRequest, Limits
from dpproxy.budget.sqlite import SqliteLedger
from dpproxy.plan.loss import MICRO, Loss

NOON = dt.datetime(2024, 5, 15, 12, tzinfo=dt.UTC)
WIDE = Limits(Limit(10**15), Limit(10**15))


def make_request(
    epsilon: int = MICRO,
    *,
    limits: Limits = WIDE,
    role: str = "analyst",
    user: str = "ada",
    dataset: str = "shop",
    dataset_loss: Loss | None = None,
    at: dt.datetime = NOON,
    id: str | None = None,
    delta: int = 0,
) -> ChargeRequest:
    loss = Loss(epsilon, delta)
    whole = loss if dataset_loss is None else dataset_loss
    return ChargeRequest(id or str(uuid.uuid4()), dataset, role, user, loss, whole, limits, "hash", at)


@pytest.fixture
def request_of() -> Callable[..., ChargeRequest]:
    return make_request


OpenLedger = Callable[..., Journal]


@pytest.fixture(params=["sqlite"])
def open_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenLedger]:
    """Opens the same record each time; what is still open at the end is closed."""
    opened: list[Journal] = []

    def factory(**options: Any) -> Journal:
        ledger: Journal = SqliteLedger(tmp_path / "ledger.sqlite", **options)
        opened.append(ledger)
        return ledger

    yield factory
    for ledger in opened:
        ledger.close()

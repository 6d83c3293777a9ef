"""Tests here may take the scripted proxy, or a dataset of it without a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpproxy.budget.sqlite import SqliteLedger
from tests.worlds.scripted import open_gate, policy, scripted_dataset, stage

from .shop_of_answers import ShopOfAnswers, Watched

__all__ = ["open_gate", "stage", "world"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ShopOfAnswers]:
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    engine = Watched(ledger=ledger)
    engine.gate.set()
    yield ShopOfAnswers(engine, ledger, scripted_dataset(engine, ledger, policy()))
    ledger.close()

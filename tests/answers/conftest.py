"""Tests here may take the scripted proxy, or a dataset of it without a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from scratch_postgres import Scratch, scratch_server

from dpproxy.records.sqlite import SqliteLedger
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


@pytest.fixture(scope="session")
def ledger_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("ledger")) as server:
        yield server


@pytest.fixture
def answers_server(ledger_server: Scratch) -> Iterator[str]:
    """The address of a server without a ledger or stored answers; what is still connected at the end is cut off."""
    with psycopg.connect(ledger_server.conninfo(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS dpproxy_ledger CASCADE")
    yield ledger_server.dsn()
    with psycopg.connect(ledger_server.conninfo(), autocommit=True) as connection:  # it may have been restarted
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'dpproxy %'")

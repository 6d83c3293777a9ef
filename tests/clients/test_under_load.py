"""The ledger seen from outside: no race overspends a budget, no crash forgets an answer."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import threading
import time
from decimal import Decimal
from pathlib import Path

import duckdb
import psycopg
import pytest

from dpproxy.amounts import MICRO
from dpproxy.answers.standings import limit
from dpproxy.policy.load import load_policy
from dpproxy.policy.people import make_verifier
from dpproxy.records.sqlite import SqliteLedger
from dpproxy.serve.launch import launched

POLICY = """
version: 1
dataset: town
backend: { duckdb: town.duckdb }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 1000000, delta: 1e-6, every: never }
tables:
  people: { unit: id, columns: { id: unit, region: { values: [east, west] } } }
roles:
  thrifty: { budget: { epsilon: 2, delta: 0, every: never }, query: { epsilon: 0.1, max_epsilon: 1 } }
  rich: { budget: { epsilon: 1000000, delta: 0, every: never }, query: { epsilon: 1, max_epsilon: 1 } }
users:
  thrifty: { role: thrifty, password: "VERIFIER" }
  rich: { role: rich, password: "VERIFIER" }
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "town.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT i AS id, 'east' AS region FROM range(100) AS t(i)")
    (tmp_path / "town.yaml").write_text(POLICY.replace("VERIFIER", make_verifier("x")))
    return tmp_path / "town.yaml"


NUMBERS = itertools.count()
"""One for each statement: what was asked before would be answered again, for nothing. Idents of threads come back."""


def ask_until_refused(dsn: str, answers: list[int], refusals: list[str]) -> None:
    """Count answers, each a statement of its own, until the first that is refused or the proxy is gone."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for _ in range(1000):
            try:
                connection.execute(f"SELECT count(*) FROM people WHERE region <> 'x{next(NUMBERS)}'")
                answers.append(1)
            except psycopg.errors.ConfigurationLimitExceeded as error:
                refusals.append(str(error.sqlstate))
                return


def test_fifty_sessions_cannot_overspend(policy: Path) -> None:
    answers: list[int] = []
    refusals: list[str] = []
    with launched([policy], policy.parent / "state") as proxy:
        dsn = f"host={proxy.host} port={proxy.port} user=thrifty password=x dbname=town"
        threads = [threading.Thread(target=ask_until_refused, args=(dsn, answers, refusals)) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with psycopg.connect(dsn, autocommit=True) as connection:
            row = connection.execute("SELECT epsilon_spent, epsilon_left FROM dpproxy.budget").fetchone()
    assert len(answers) == 20, "2 / 0.1: not one more, and none is lost"
    assert refusals == ["53400"] * 50
    assert row == (Decimal(2), Decimal(0))


def test_kill_9_under_load_forgets_no_answer(policy: Path) -> None:
    answers: list[int] = []

    def ask(dsn: str) -> None:
        with contextlib.suppress(psycopg.OperationalError):  # the proxy is gone
            ask_until_refused(dsn, answers, [])

    with launched([policy], policy.parent / "state") as proxy:
        dsn = f"host={proxy.host} port={proxy.port} user=rich password=x dbname=town"
        threads = [threading.Thread(target=ask, args=(dsn,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        while len(answers) < 50:
            time.sleep(0.01)
        proxy.process.kill()
        for thread in threads:
            thread.join()
    ledger = SqliteLedger(policy.parent / "state" / "ledger.sqlite")
    rules = load_policy(policy)

    standing = ledger.standing("town", "role", "rich", limit(rules.roles["rich"].budget), dt.datetime.now(dt.UTC))
    ledger.close()
    assert standing.charges >= len(answers) >= 50
    assert standing.lifetime_epsilon == standing.charges * MICRO
    with launched([policy], policy.parent / "state") as again:
        dsn = f"host={again.host} port={again.port} user=rich password=x dbname=town"
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SELECT count(*) FROM people")

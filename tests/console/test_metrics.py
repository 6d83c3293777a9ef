"""A proxy scraped by what Prometheus would send."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import duckdb
import psycopg
import pytest

from dpproxy.console.metrics import Metrics
from dpproxy.policy.password import make_verifier

POLICY = """
version: 1
dataset: town
backend: { duckdb: town.duckdb }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 10, delta: 0, every: never }
tables:
  people: { unit: id, columns: { id: unit, region: { values: [east, west] } } }
roles:
  analyst: { budget: { epsilon: 2, delta: 0, every: never, warn: [40, 80] }, query: { epsilon: 1, max_epsilon: 1 } }
  other: { budget: { epsilon: 3, delta: 0, every: never }, query: { epsilon: 1, max_epsilon: 1 } }
users:
  ada: { role: analyst, password: "VERIFIER" }
"""


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """(port, metrics' port) of a served policy."""
    with duckdb.connect(str(tmp_path / "town.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT i::INTEGER AS id, 'east' AS region FROM range(50) AS t(i)")
    policy = tmp_path / "town.yaml"
    policy.write_text(POLICY.replace("VERIFIER", make_verifier("ada")))
    command = [sys.executable, "-m", "dpproxy", "serve", str(policy), "--state", str(tmp_path / "state")]
    command += ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    ports: dict[str, int] = {}
    for line in process.stderr:
        if found := re.match(r"(listening|metrics) on 127\.0\.0\.1:(\d+)$", line):
            ports[found[1]] = int(found[2])
        if len(ports) == 2:
            break
    try:
        yield ports["listening"], ports["metrics"]
    finally:
        process.terminate()
        _, rest = process.communicate(timeout=300)
        assert process.returncode == 0
        assert "leaked" not in rest


def scrape(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=300) as response:
        lines = response.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))}


def test_budgets_answers_and_sessions(proxy: tuple[int, int]) -> None:
    port, metrics = proxy
    account = '{dataset="town",name="analyst",scope="role"}'
    before = scrape(metrics)
    assert before[f"dpproxy_budget_epsilon_spent{account}"] == 0
    assert before["dpproxy_sessions"] == 0
    with psycopg.connect(host="127.0.0.1", port=port, user="ada", password="ada", dbname="town", autocommit=True) as connection:
        for _ in range(3):
            connection.execute("SELECT region, count(*) FROM people GROUP BY 1").fetchall()
        after = scrape(metrics)
    assert after["dpproxy_sessions"] == 1
    assert after[f"dpproxy_budget_epsilon_spent{account}"] == pytest.approx(1, abs=1e-5)
    assert after[f"dpproxy_budget_epsilon_limit{account}"] == 2
    assert after[f"dpproxy_budget_warning_percent{account}"] == 40
    assert after['dpproxy_budget_epsilon_spent{dataset="town",name="other",scope="role"}'] == 0
    assert after['dpproxy_budget_epsilon_spent{dataset="town",name="town",scope="dataset"}'] == pytest.approx(1, abs=1e-5)
    assert after['dpproxy_answers_total{cost="charged",dataset="town"}'] == 1
    assert after['dpproxy_answers_total{cost="reused",dataset="town"}'] == 2


def test_delayed_turns_by_role() -> None:
    metrics = Metrics(dict, lambda: 0, lambda: {("town", "analyst"): (2, 0.5)})
    found = {sample.name: sample for family in metrics.collect() for sample in family.samples}
    assert found["dpproxy_delayed_turns_total"].value == 2
    assert found["dpproxy_delayed_seconds_total"].value == 0.5
    assert found["dpproxy_delayed_turns_total"].labels == {"dataset": "town", "role": "analyst"}

"""The scripts as a user runs them, with the environment of the tests instead of one of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.worlds.spark_servers import MISSING

ROOT = Path(__file__).resolve().parents[2]


def script(name: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts" / name, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**os.environ, "DPPROXY_VENV": sys.prefix, **env},
    )


def serving(port: str) -> list[int]:
    """Processes that serve on `port`."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(part.endswith("dpproxy") for part in process.info["cmdline"] or ())
        and f"127.0.0.1:{port}" in process.info["cmdline"]
    ]


@pytest.mark.slow
def test_the_demo_ends_well_after_its_tour() -> None:
    done = script("demo", "--once", "--listen", "127.0.0.1:47111")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line[0] for line in done.stdout.splitlines() if re.match(r"\d\. ", line)] == list("123456")
    customers = int(re.search(r"customers \n-+\n +(\d+)", done.stdout)[1])  # type: ignore[index]
    assert 49_500 < customers < 50_500
    assert "2025-12" in done.stdout
    assert "ERROR:  answers are aggregates over many customers" in done.stdout
    assert "charge epsilon=0.1" in done.stdout
    assert "epsilon_left" in done.stdout
    assert serving("47111") == []


STATEMENTS = [
    ("one", "answer", "A", "SELECT count(*) FROM adult"),
    ("two", "answer", "A", "SELECT sex, avg(age) FROM adult GROUP BY sex"),
    ("three", "refuse", "", "SELECT * FROM adult"),
    ("four", "refuse", "", "SELECT count(*) FROM adult"),
]


@pytest.fixture
def file(shared: Path, tmp_path: Path) -> Path:
    """A file of statements with the runner beside it; the last one is labelled wrongly on purpose."""
    (tmp_path / "run_acceptance.py").write_text((shared / "corpus" / "run_acceptance.py").read_text())
    entries = [
        {"id": i, "dataset": "adult", "expect": expect, "tier": tier, "sql": sql, "runs_on": ["duckdb"]}
        for i, expect, tier, sql in STATEMENTS
    ]
    entries.append({**entries[0], "dataset": "nowhere"})
    target = tmp_path / "some.jsonl"
    target.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return target


@pytest.mark.slow
def test_accept_prints_the_table_alone(file: Path, shared: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.jsonl"
    done = script("accept", "--verbose", "--json", str(report), str(file), DPPROXY_CORPUS=str(shared / "corpus" / "db"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "adult\tanswer\tA\tpass answered\t2",
        "adult\trefuse\t-\tFAIL answered\t1",
        "adult\trefuse\t-\tpass refused\t1",
    ]
    assert "nowhere: left out, no policy" in done.stderr
    assert "four refuse -> answered" in done.stderr
    assert [json.loads(line)["outcome"] for line in report.read_text().splitlines()] == [
        "answered",
        "answered",
        "refused",
        "answered",
    ]
    where = re.search(r"running some.jsonl on 127.0.0.1:(\d+)", done.stderr)
    assert where is not None
    assert not any(c.laddr.port == int(where[1]) for c in psutil.net_connections("tcp") if c.status == "LISTEN")


@pytest.mark.slow
def test_exact_answers_are_compared(file: Path, shared: Path) -> None:
    done = script("accept", "--exact", "--data-sets", "adult", str(file), DPPROXY_CORPUS=str(shared / "corpus" / "db"))
    assert done.stdout == "exact: 2 compared, 0 differ\n", done.stderr
    assert done.returncode == 0


@pytest.mark.long
def test_exact_answers_of_sail_are_compared(file: Path, shared: Path) -> None:
    pytest.importorskip("pysail", reason=MISSING)
    on_sail = ("--exact", "--engine", "sail", "--data-sets", "adult", str(file))
    done = script("accept", *on_sail, DPPROXY_CORPUS=str(shared / "corpus" / "db"))
    assert done.stdout == "exact: 2 compared, 0 differ\n", done.stderr
    assert done.returncode == 0


def test_labels_are_not_held_against_sail(file: Path) -> None:
    done = script("accept", "--engine", "sail", str(file))
    assert done.returncode == 2
    assert "--exact" in done.stderr


def test_nothing_to_run_is_said(file: Path) -> None:
    done = script("accept", "--data-sets", "nowhere", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert "nothing to run" in done.stderr


@pytest.mark.parametrize("name", ["demo", "test", "fresh", "accept", "bench", "venv.sh", "../.ci/run"])
def test_scripts_are_valid_bash(name: str) -> None:
    assert subprocess.run(["bash", "-n", ROOT / "scripts" / name], check=False).returncode == 0

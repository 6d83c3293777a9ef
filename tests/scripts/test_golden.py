"""`scripts/golden`: what differs between two checkouts is shown as SQL, and no digest is written without the corpus."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import golden
import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_what_differs_is_shown_clause_by_clause() -> None:
    old = {"a duckdb": {"sql": "SELECT x FROM t WHERE x > 1 GROUP BY x", "names": "n"}, "gone duckdb": {"sql": "SELECT 1"}}
    new = {"a duckdb": {"sql": "SELECT x FROM t WHERE x > 2 GROUP BY x", "names": "n"}, "b duckdb": {"sql": "SELECT 1"}}
    shown = [*golden.shown(old, new)]
    assert [line for line in shown if line[:2] != "@@" and line[0] != " "] == [
        "== a duckdb: sql",
        "-WHERE x > 1",
        "+WHERE x > 2",
        "== gone duckdb: only there",
        "== b duckdb: only here",
    ]
    assert [*golden.shown(old, old)] == []


def test_a_statement_that_is_refused_now_shows_both() -> None:
    shown = [*golden.shown({"a duckdb": {"sql": "SELECT 1"}}, {"a duckdb": {"refused:42501": "(no)"}})]
    assert [line for line in shown if line[:2] != "@@"] == [
        "== a duckdb: sql", "-SELECT 1", "== a duckdb: refused:42501", "+(no)",
    ]  # fmt: skip


def test_digests_are_not_written_without_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPPROXY_SHARED", str(tmp_path))
    before = {path: path.read_text() for path in golden.statements.HERE.glob("*.txt")}
    with pytest.raises(SystemExit, match="DPPROXY_SHARED"):
        golden.write()
    assert {path: path.read_text() for path in before} == before


def test_a_checkout_plans_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one statement, without a corpus: the form that this process makes, from another one's file."""
    monkeypatch.setenv("DPPROXY_SHARED", str(tmp_path))
    key = next(p for p in golden.statements.of_the_repository() if p.key.startswith("fixtures/accept_top/")).key
    made = golden.of_checkout(ROOT, [key, "postgres"], tmp_path)
    assert made == golden.forms([key], "postgres")
    assert [*made[f"{key} postgres"]] == ["sql", "outer", "numbers", "names"]


def test_it_says_how_it_is_used() -> None:
    found = subprocess.run([sys.executable, ROOT / "scripts" / "golden.py", "--help"], capture_output=True, text=True, check=True)
    assert "--against" in found.stdout

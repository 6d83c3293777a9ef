"""The demo, with psql played by a script: each step as it should end, and nothing else taken for a success."""

from __future__ import annotations

import socket
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from dpproxy import demo
from dpproxy.demo import TOUR, DemoError, Step, connection, free_or_any, run_tour, serve
from dpproxy.facade.account import Binaries
from dpproxy.policy.load import load_file
from dpproxy.serve.launch import LaunchError, Proxy


@dataclass
class Process:
    code: int = 0

    def wait(self) -> int:
        return self.code


@dataclass
class Fake:
    host: str = "127.0.0.1"
    port: int = 4711
    process: Process = field(default_factory=Process)
    said: deque[str] = field(default_factory=lambda: deque(["first", "last words"]))


@pytest.fixture
def psql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A psql that writes down what it was given, and fails where a statement says so."""
    program = tmp_path / "psql"
    script = 'cat > "$0.in.$$"; env | grep ^PG | sort > "$0.env"; echo told; ! grep -q FAIL "$0.in.$$"'
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(demo, "find_binaries", lambda: Binaries(tmp_path, 17))
    return program


def tour(monkeypatch: pytest.MonkeyPatch, *steps: Step) -> None:
    monkeypatch.setattr(demo, "TOUR", steps)
    run_tour(cast(Proxy, Fake()))


def test_a_tour(psql: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    tour(monkeypatch, Step("one", "SELECT 1;", "good", before="SET x = 1;"), Step("two", "FAIL;", "refused", refused=True))
    (given,) = (text for p in psql.parent.glob("psql.in.*") if "FAIL" not in (text := p.read_text()))
    assert given == "SET x = 1;\nSELECT 1;\n"
    assert "PGDATABASE=shop\nPGHOST=127.0.0.1\nPGPASSWORD=ada\nPGPORT=4711\nPGUSER=ada" in psql.with_name("psql.env").read_text()
    assert capfd.readouterr().out.count("told") == 2


@pytest.mark.parametrize(
    ("step", "told"),
    [(Step("t", "FAIL;", ""), "step 1 failed"), (Step("t", "SELECT 1;", "", refused=True), "step 1 was answered")],
)
def test_what_ends_otherwise_fails_the_demo(psql: Path, monkeypatch: pytest.MonkeyPatch, step: Step, told: str) -> None:
    with pytest.raises(DemoError, match=told):
        tour(monkeypatch, step)


def test_the_demos_user_may_do_what_the_tour_does() -> None:
    policy = load_file(demo.POLICY).policy
    user = policy.users[demo.USER]
    assert connection(cast(Proxy, Fake()))["PGDATABASE"] == policy.dataset
    (most,) = (step for step in TOUR if "dpproxy.epsilon" in step.before)
    assert most.before == "SET dpproxy.epsilon = 1;"
    assert policy.roles[user.role].query.max_epsilon >= 1_000_000


def test_a_proxy_that_ends_by_itself_is_an_error_with_its_last_words(psql: Path) -> None:
    serve(cast(Proxy, Fake()))
    with pytest.raises(DemoError, match="the proxy ended:\nfirst\nlast words"):
        serve(cast(Proxy, Fake(process=Process(1))))


def test_a_port_that_is_taken_is_another() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert free_or_any(f"127.0.0.1:{port}") == "127.0.0.1:0"
    assert free_or_any(f"127.0.0.1:{port}") == f"127.0.0.1:{port}"


def test_what_keeps_it_from_starting_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> Any:
        raise LaunchError("no room on the disk")

    monkeypatch.setattr(demo, "make_data", fail)
    monkeypatch.setattr(demo, "end_on_sigterm", lambda: None)
    assert demo.main(["--once"]) == 1
    assert "no room on the disk" in capsys.readouterr().out

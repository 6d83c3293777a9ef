"""A child is awaited until it says where it listens, and is gone afterwards, whatever it does meanwhile."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dpproxy.serve import launch

SERVES = """
import sys, time
print("noise" * 30_000, file=sys.stderr)
print(sys.argv[1:], file=sys.stderr)
print("listening on 127.0.0.1:4711", file=sys.stderr, flush=True)
print("noise" * 30_000, file=sys.stderr, flush=True)
time.sleep(60)
"""

Write = Callable[[str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes an interpreter that runs this source, whatever module it is asked for."""
    real = sys.executable
    monkeypatch.setattr(launch.sys, "executable", str(tmp_path / "python"))

    def to(source: str) -> None:
        program = tmp_path / "python"
        program.write_text(f"#!{real}\n{source}")
        program.chmod(0o755)

    return to


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_is_awaited_and_stopped(write: Write, tmp_path: Path) -> None:
    write(SERVES)
    with launch.launched([Path("a.yaml")], tmp_path) as proxy:
        assert (proxy.host, proxy.port) == ("127.0.0.1", 4711)
        assert alive(proxy.pid)
    assert not alive(proxy.pid)
    assert f"['-m', 'dpproxy', 'serve', 'a.yaml', '--listen', '127.0.0.1:0', '--state', '{tmp_path}']" in proxy.said


def test_it_is_stopped_when_the_body_fails(write: Write, tmp_path: Path) -> None:
    write(SERVES)
    with pytest.raises(KeyError), launch.launched([], tmp_path) as proxy:
        raise KeyError
    assert not alive(proxy.pid)


def test_one_that_will_not_end_is_killed(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "STOP_TIMEOUT", 0.2)
    write("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVES)
    with launch.launched([], tmp_path) as proxy:
        pass
    assert proxy.process.returncode == -signal.SIGKILL


def test_one_that_dies_says_why(write: Write, tmp_path: Path) -> None:
    write("import sys; sys.exit('no such policy')")
    with pytest.raises(launch.LaunchError, match="no such policy"), launch.launched([], tmp_path):
        pass


def test_one_that_never_listens_is_given_up(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "START_TIMEOUT", 0.3)
    write("import time; time.sleep(60)")
    with pytest.raises(launch.LaunchError), launch.launched([], tmp_path):
        pass

"""What every run of the tests does: the longest files begin, a failure that pytest cannot show is shown all the same, a test that waits
for ever fails by name, and long runs go on where they ended."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture
def conftest(request: pytest.FixtureRequest) -> Any:
    return request.config.pluginmanager.get_plugin(str(HERE / "conftest.py"))


def test_the_longest_files_are_there(conftest: Any) -> None:
    assert [name for name in conftest.LONGEST if not (HERE / name).is_file()] == []


def test_they_begin(conftest: Any, request: pytest.FixtureRequest) -> None:
    class Item:
        def __init__(self, name: str) -> None:
            self.path = HERE / name

    items = [Item("wire/test_framing.py"), Item(conftest.LONGEST[1]), Item("sql/test_trees.py"), Item(conftest.LONGEST[0])]
    conftest.pytest_collection_modifyitems(items)
    first, second = conftest.LONGEST[:2]
    assert [i.path for i in items] == [HERE / n for n in (first, second, "wire/test_framing.py", "sql/test_trees.py")]


def test_a_failure_that_cannot_be_shown_ends_no_run(conftest: Any, request: pytest.FixtureRequest) -> None:
    def fails() -> None:
        raise ValueError("what went wrong")

    call = pytest.CallInfo.from_call(fails, "call")
    hook = conftest.pytest_runtest_makereport(request.node, call)
    next(hook)
    with pytest.raises(StopIteration) as done:
        hook.throw(SystemError("AST constructor recursion depth mismatch (before=147, after=161)"))
    report = done.value.value
    assert report.failed
    assert "what went wrong" in str(report.longrepr)
    assert request.config.option.tbstyle != "native"


@pytest.fixture
def stacks(conftest: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where stacks go that would be shown."""
    path = tmp_path / "stacks"
    with path.open("w") as file:
        monkeypatch.setattr(conftest, "_stderr", file.fileno())
        yield path


def test_what_waits_for_ever_fails_by_name(conftest: Any, stacks: Path) -> None:
    before = signal.getsignal(signal.SIGALRM)
    failed = pytest.raises(pytest.fail.Exception, match=r"tests/a.py::test takes more than 0.05 s")
    with failed, conftest.limited("tests/a.py::test", 0.05):
        threading.Event().wait()
    with pytest.raises(pytest.fail.Exception, match="takes more than"), conftest.limited("one of a loop", 0.05):
        asyncio.run(asyncio.Event().wait())
    assert "in test_what_waits_for_ever_fails_by_name" in stacks.read_text()
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_every_phase_of_a_test_has_a_limit(conftest: Any, stacks: Path, request: pytest.FixtureRequest) -> None:
    for hook in (conftest.pytest_runtest_setup, conftest.pytest_runtest_call, conftest.pytest_runtest_teardown):
        with pytest.MonkeyPatch.context() as patch:  # this test's own end has the usual one
            patch.setattr(conftest, "LIMIT", 0.05)
            phase = hook(request.node)
            next(phase)
            with pytest.raises(pytest.fail.Exception, match="test_every_phase_of_a_test_has_a_limit takes more than"):
                threading.Event().wait()
            phase.close()


def test_what_passed_is_not_run_again(
    conftest: Any, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long test that passes is noted, and is passed before then; another one is not, nor one that failed."""
    file, item = tmp_path / "passed", SimpleNamespace(nodeid="a.py::test[1]", get_closest_marker={"long": "long"}.get)
    monkeypatch.setenv("DPPROXY_PASSED", str(file))
    for passed, lines in ((False, None), (True, ["a.py::test[1]"])):
        assert not conftest.passed_before(item)
        hook = conftest.pytest_runtest_makereport(item, None)
        next(hook)
        with pytest.raises(StopIteration):
            hook.send(SimpleNamespace(passed=passed, when="call"))
        assert (file.read_text().splitlines() if file.exists() else None) == lines
    assert conftest.passed_before(item)
    item.nodeid = "a.py::test[2]"
    assert not conftest.passed_before(item)
    item.nodeid, item.get_closest_marker = "a.py::test[1]", {}.get
    assert not conftest.passed_before(item)


def test_a_long_test_says_how_far_it_is(progress: Any, request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str]) -> None:
    """Ten times, past all captures."""
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.print", lambda text, **_: said.append(text.strip()))
        for done in range(1, 1001):
            progress(done, 1000)
    assert said == [f"{request.node.name}: {n}00 of 1000" for n in range(1, 11)]
    assert capfd.readouterr().err == ""


def test_the_end_of_a_deaf_process_is_put_off_in_time(conftest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each phase may last half as long again as its limit; a clock that allows that already is not wound anew."""
    wound, now = [], 1000.0
    monkeypatch.setattr(conftest.faulthandler, "dump_traceback_later", lambda seconds, **_: wound.append(seconds))
    monkeypatch.setattr(conftest.time, "monotonic", lambda: now)
    monkeypatch.setattr(conftest, "_armed", (0.0, 0.0))
    for now, limit, expected in (
        (1000.0, 10, [45]),
        (1029.0, 10, []),
        (1031.0, 10, [45]),
        (1032.0, 20, [60]),
        (1033.0, 10, [45]),
    ):
        wound.clear()
        conftest.live(limit)
        assert wound == expected, (now, limit)


def test_files_lie_in_memory_where_there_is_room(conftest: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run leaves that was killed goes; another's that runs stays, and so does what is no run's."""
    monkeypatch.setattr(conftest, "MEMORY", tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", "/tmp")
    assert conftest.in_memory() is None, "a process of a run has the run's own folder, or what somebody wants"
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(conftest, "ENOUGH", 1 << 80)
    assert conftest.in_memory() is None
    for name in ("dp999999999-killed", f"dp{os.getpid()}-runs", "dpproxy-another"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(conftest, "ENOUGH", 0)
    folder = conftest.in_memory()
    assert folder is not None
    assert (Path(tempfile.gettempdir()), folder.stat().st_mode & 0o777) == (folder, 0o755)
    assert {f.name for f in tmp_path.iterdir()} == {f"dp{os.getpid()}-runs", "dpproxy-another", folder.name}

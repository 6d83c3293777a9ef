"""What every room's tests share: where the material outside the repository is, and helpers on the path.

`tests/worlds` holds what tests of several rooms run in, a file each: a scripted proxy, a town over a real engine, certificates.
The starter of scratch servers is the scripts' (`scratch_postgres`).

What a run leaves out for want of something on this machine (its skip's reason has ABSENT before a colon) is listed at its
end, also by scripts/test, which shows no other skips.

Long tests run in parts that say how far they are (`progress`). With `DPPROXY_PASSED=FILE` each part that passes is noted there, and
one that is noted is not run again: a run that ended early goes on where it was. After a change, begin with another file.

Files of tests lie in memory, where it has room (`in_memory`).

Every test has a limit of time: who waits for what never comes fails by name, and the others are run. What is deaf to that ends its
process, which says where each thread was.

`shared()` names the folder of the corpus, attacks and captured clients: `$DPPROXY_SHARED`, or `shared` beside the
repository. A clone elsewhere has none of it, and the tests that need it say so when they skip.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None, max_examples=50)  # a busy machine is no failure; the suite has its time
settings.load_profile("untimed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a run in the background: what tests start would not hear it either
    signal.signal(signal.SIGINT, signal.default_int_handler)

main = sys.modules["__main__"]
if main.__spec__ is None and not hasattr(main, "__file__"):
    # xdist's workers are `python -c`, and Spark's client ends a process of that kind: it takes it for a run of its own doctests
    main.__spec__ = ModuleSpec("xdist.__main__", None)  # of this name multiprocessing imports nothing into children

ROOT = Path(__file__).resolve().parent.parent
LONGEST = (
    "plan/test_exactness.py", "plan/test_sensitivity.py", "engines/test_postgres.py", "serve/test_processes.py", "golden/test_golden.py",
    "kernel/test_kinds.py", "serve/test_listed_keys.py", "serve/test_live_claims.py", "plan/test_values_within_persons.py",
    "test_cli.py", "session/test_long_messages.py", "plan/intervals/test_quantile_ends.py", "serve/test_data_epochs.py",
    "facade/test_account.py", "corpus/test_corpus_plans.py", "test_bookkeeping.py", "plan/test_ids.py", "serve/test_reload.py",
    "reuse/test_lookup.py", "kernel/test_mutants.py", "plan/test_engines_agree.py", "plan/test_domains.py", "scripts/test_scripts.py",
    "plan/properties/test_facts.py", "plan/test_types.py", "plan/properties/test_key_domains.py", "mechanisms/test_exponential.py",
    "plan/test_joined_keys.py", "facade/test_facade.py", "serve/test_claim_checks.py", "serve/test_extracts.py", "plan/test_work.py",
    "plan/test_effort.py", "session/test_transcripts.py", "session/test_timeouts.py", "facade/test_server.py",
    "plan/test_total_functions.py", "plan/test_reach.py", "answers/test_time_grid.py", "clients/test_under_load.py",
    "answers/test_reuse_processes.py", "answers/test_paid_kills.py", "ledger/test_ledger_machine.py", "scripts/test_tutorials.py",
)  # fmt: skip
"""Files of ten seconds and more. They are tried first, so that at the end no processor waits for another's last file."""
sys.path.insert(0, str(ROOT / "scripts"))
pytest.register_assert_rewrite("tests.worlds")


def shared() -> Path:
    """The shared material; skips the test, saying why, when it is absent."""
    named = os.environ.get("DPPROXY_SHARED")
    folder = Path(named) if named else ROOT.parent / "shared"
    if not (folder / "corpus").is_dir():
        pytest.skip(f"SHARED MATERIAL ABSENT: no corpus in {folder} (set DPPROXY_SHARED)")
    return folder


@pytest.fixture(name="shared", scope="session")
def shared_fixture() -> Path:
    return shared()


@pytest.fixture
def progress(request: pytest.FixtureRequest) -> Callable[[int, int], None]:
    """Says how many of how many are done, ten times in all, whatever is captured and in whichever process."""
    capture = request.config.pluginmanager.get_plugin("capturemanager")

    def say(done: int, of: int) -> None:
        if done * 10 // of > (done - 1) * 10 // of:
            with capture.global_and_fixture_disabled():
                print(f"\n{request.node.name}: {done} of {of}", file=sys.stderr, flush=True)

    return say


MEMORY, ENOUGH = Path("/dev/shm"), 6 << 30
"""Where files lie in memory, and how many bytes shall be free there."""


def in_memory() -> Path | None:
    """Have temporary files made in memory, by all processes of this run, and return where; None: where they always are.

    A run makes and deletes the files of a thousand servers. A disk's file system takes longer for that than the servers run.
    What a run leaves that was killed goes here.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return None
    facts = os.statvfs(MEMORY)
    if facts.f_bavail * facts.f_frsize < ENOUGH or facts.f_flag & os.ST_NOEXEC:
        return None
    for old in MEMORY.glob("dp[0-9]*-*"):
        if not Path("/proc", old.name[2:].partition("-")[0]).exists():
            shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"dp{os.getpid()}-", dir=MEMORY))  # short: sockets have little room for a path
    folder.chmod(0o755)  # servers run as another account
    os.environ["TMPDIR"], tempfile.tempdir = str(folder), None
    return folder


TEMPORARY = in_memory()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # or libraries that count their objects at the end report leaks
    if TEMPORARY is not None:
        shutil.rmtree(TEMPORARY, ignore_errors=True)


LIMIT = 600
"""Seconds of a test, its fixtures or their end, each by itself: ten times what the longest takes on a machine that is busy."""
LONG_LIMIT = 6 * 3600
"""Of one in long mode, or that installs dpproxy anew."""
_stderr = 2
"""Where a process that ends says so, whatever is captured."""


def pytest_configure(config: pytest.Config) -> None:
    global _stderr
    with config.pluginmanager.get_plugin("capturemanager").global_and_fixture_disabled():
        _stderr = os.dup(2)


def limit_of(item: pytest.Item) -> int:
    return LONG_LIMIT if item.get_closest_marker("long") or item.get_closest_marker("fresh") else LIMIT


_armed = (0.0, 0.0)
"""Until when the process may live, and for how long a phase may last by which that was chosen."""


def live(seconds: float) -> None:
    """Give the process half as long again as a phase may last, and no less. To arm the clock is a thread's start and end,
    so one that was armed in the last half minute is left as it is."""
    global _armed
    now, (until, limit) = time.monotonic(), _armed
    if limit != seconds or until < now + seconds * 1.5:
        _armed = (now + seconds * 1.5 + 30, seconds)
        faulthandler.dump_traceback_later(seconds * 1.5 + 30, exit=True, file=_stderr)


def pytest_sessionfinish() -> None:
    faulthandler.cancel_dump_traceback_later()


@contextlib.contextmanager
def limited(name: str, seconds: float) -> Iterator[None]:
    """Fails what takes longer, in this thread; ends the process where that is of no use."""

    def end(signum: int, frame: object) -> None:
        faulthandler.dump_traceback(_stderr)
        pytest.fail(f"{name} takes more than {seconds} s")

    if threading.current_thread() is not threading.main_thread():
        yield  # nobody is sent signals here
        return
    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    live(seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with limited(item.nodeid, limit_of(item)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    with limited(f"the end of {item.nodeid}", limit_of(item)):
        return (yield)


def passed_before(item: pytest.Item) -> bool:
    """Whether a long test is noted in the file of those that passed."""
    file = Path(os.environ.get("DPPROXY_PASSED", os.devnull))
    return item.get_closest_marker("long") is not None and file.exists() and item.nodeid in file.read_text().splitlines()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    if passed_before(item):
        pytest.skip("it passed before (DPPROXY_PASSED)")
    with limited(f"the start of {item.nodeid}", limit_of(item)):
        return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {ROOT / "tests" / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_collection_finish() -> None:
    """Look for garbage in what tests make, not among all of them each time."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show a failure as Python does where pytest cannot. It parses the files that it shows, which Python 3.11 refuses at times
    beside other threads ("AST constructor recursion depth mismatch"); raised here, that would end the whole run."""
    try:
        report = yield
    except SystemError:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(item.config.option, "tbstyle", "native")
            return pytest.TestReport.from_item_and_call(item, call)
    if report.passed and report.when == "call" and item.get_closest_marker("long") and "DPPROXY_PASSED" in os.environ:
        with Path(os.environ["DPPROXY_PASSED"]).open("a") as lines:
            lines.write(f"{item.nodeid}\n")
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    absent: dict[str, list[str]] = defaultdict(list)
    for report in terminalreporter.stats.get("skipped", ()):
        reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else ""
        what, colon, why = reason.removeprefix("Skipped: ").partition(": ")
        if colon and what.endswith("ABSENT"):
            _, _, case = report.nodeid.partition("[")
            absent[f"{what}: {why}"].append(case.rstrip("]") or report.nodeid)
    for reason, cases in sorted(absent.items()):
        shown = ", ".join(cases[:8]) + (f" and {len(cases) - 8} more" if len(cases) > 8 else "")
        terminalreporter.write_line(f"NOT TRIED, {reason} ({shown})", yellow=True)

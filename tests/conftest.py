"""What every room's tests share: where the material outside the repository is, and helpers on the path.

`tests/worlds` holds what tests of several rooms run in, a file each: a scripted proxy, a town over a real engine, certificates.
The starter of scratch servers is the scripts' (`scratch_postgres`).

What a run leaves out for want of something on this machine (its skip's reason has ABSENT before a colon) is listed at its
end, also by scripts/test, which shows no other skips.

`shared()` names the folder of the corpus, attacks and captured clients: `$DPPROXY_SHARED`, or `shared` beside the
repository. A clone elsewhere has none of it, and the tests that need it say so when they skip.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None, max_examples=50)  # a busy machine is no failure; the suite has its time
settings.load_profile("untimed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a run in the background: what tests start would not hear it either
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent
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

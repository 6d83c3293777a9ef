"""A device's ledger bounds what is told, whatever happens to the device: kills, two processes, a clock, a disk, a lost file."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dpproxy.collect.ledger import (
    LOST,
    MICRO,
    Charge,
    Ledger,
    Limits,
    Refusal,
    StateBusy,
    StateDamaged,
    StateFull,
    StateLost,
    begin_again,
    micro,
)

LIMITS = Limits(total=10 * MICRO, daily=4 * MICRO)
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dp.sqlite"


def charge(ledger: Ledger, day: int = 20_000, epsilon: int = MICRO, question: str = "emoji", per_day: int = 2) -> Refusal | None:
    with ledger.transaction():
        return ledger.see(day) or ledger.charge(Charge(question, day, epsilon), per_day, LIMITS)


def spent(path: Path) -> int:
    return sum(c.epsilon for c in Ledger(path).charges())


@pytest.mark.parametrize(
    ("before", "new", "answer"),
    [
        ([], {}, None),
        ([{}], {}, None),
        ([{}, {}], {}, Refusal.QUESTION),
        ([{}, {}], {"question": "words"}, None),
        ([{}, {}], {"day": 20_001}, None),
        ([{"epsilon": 3 * MICRO}], {"question": "words", "epsilon": MICRO + 1}, Refusal.DAY),
        ([{"epsilon": 3 * MICRO}], {"question": "words"}, None),
        ([{"day": d, "epsilon": 4 * MICRO} for d in (1, 2)], {"day": 3, "epsilon": 2 * MICRO}, None),
        ([{"day": d, "epsilon": 4 * MICRO} for d in (1, 2)], {"day": 3, "epsilon": 2 * MICRO + 1}, Refusal.TOTAL),
        ([{"day": 20_001}], {"day": 20_000}, Refusal.CLOCK),
        ([{"day": 20_001}], {"day": 20_001}, None),
    ],
)
def test_limits(path: Path, before: list[dict[str, int]], new: dict[str, int], answer: Refusal | None) -> None:
    ledger = Ledger(path)
    assert [charge(ledger, **one) for one in before] == [None] * len(before)
    sum_before = spent(path)
    assert charge(ledger, **new) == answer
    assert spent(path) == sum_before + (0 if answer else new.get("epsilon", MICRO))


@pytest.mark.parametrize(
    ("amount", "down", "up"),
    [(4, 4_000_000, 4_000_000), (0.3, 300_000, 300_000), ("1/3", 333_333, 333_334), ("0.0000001", 0, 1)],
)
def test_limits_round_down_and_charges_up(amount: float | str, down: int, up: int) -> None:
    assert (micro(amount), micro(amount, up=True)) == (down, up)


@pytest.mark.parametrize("amount", [None, "none", float("inf"), float("nan"), ""])
def test_there_is_no_way_to_say_none(amount: object) -> None:
    with pytest.raises(ValueError, match="no finite amount"):
        micro(amount)  # type: ignore[arg-type]


def test_nobody_else_reads_it(path: Path) -> None:
    charge(Ledger(path))
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


def test_threads_and_processes_charge_one_after_the_other(path: Path) -> None:
    """Twelve charges that each would fit alone: ten do."""
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda n: charge(Ledger(path), question=f"q{n}", epsilon=400_000), range(12)))
    assert sorted(map(str, answers)) == ["None"] * 10 + [str(Refusal.DAY)] * 2
    assert spent(path) == 4 * MICRO


def test_a_process_that_holds_the_state_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpproxy.collect.ledger.BUSY_SECONDS", 0)
    one, other = Ledger(path), Ledger(path)
    with one.transaction(), pytest.raises(StateBusy), other.transaction():
        pass
    assert charge(other) is None


def lose(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def overwrite(path: Path) -> None:
    path.write_bytes(b"x" * 5000)


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:4096])


def undo(path: Path) -> None:
    shutil.copy(path.with_name("copy"), path)


def scribble(path: Path) -> None:
    path.with_name(f"{path.name}.witness").write_text("{")


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lose, StateLost),
        (empty, StateLost),
        (overwrite, StateDamaged),
        (tear, StateDamaged),
        (undo, StateLost),
        (scribble, StateDamaged),
    ],
)
def test_a_state_that_was_lost_is_named_and_what_was_charged_stays(
    path: Path, damage: Callable[[Path], None], error: type[Exception]
) -> None:
    ledger = Ledger(path)
    charge(ledger, day=20_000, epsilon=2 * MICRO)
    shutil.copy(path, path.with_name("copy"))
    charge(ledger, day=20_000, epsilon=2 * MICRO)
    ledger.close()
    damage(path)
    with pytest.raises(error, match="begin_again"):
        Ledger(path)
    begin_again(path, 19_000, LIMITS)
    ledger = Ledger(path)
    assert ledger.charges() == [Charge(LOST, 20_000, 4 * MICRO)]
    assert charge(ledger, day=20_000) is Refusal.CLOCK
    assert charge(ledger, day=20_001, epsilon=4 * MICRO) is None
    assert charge(ledger, day=20_002, epsilon=2 * MICRO + 1) is Refusal.TOTAL


def test_a_running_process_notices_that_its_state_was_put_back(path: Path) -> None:
    ledger = Ledger(path)
    charge(ledger)
    content = path.read_bytes()
    charge(ledger)
    path.write_bytes(content)
    with pytest.raises(StateLost):
        charge(ledger, day=20_001)


def test_where_nothing_can_be_read_all_is_spent(path: Path) -> None:
    charge(Ledger(path))
    overwrite(path)
    scribble(path)
    begin_again(path, 20_000, LIMITS)
    assert charge(Ledger(path), day=20_001, epsilon=1) is Refusal.TOTAL


def test_a_witness_that_is_gone_is_written_anew(path: Path) -> None:
    charge(Ledger(path))
    path.with_name(f"{path.name}.witness").unlink()
    Ledger(path).close()
    path.unlink()
    with pytest.raises(StateLost):
        Ledger(path)


def test_a_folder_that_cannot_be_written_is_named(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StateFull):
        Ledger(path)


def test_a_full_disk_charges_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(path)
    charge(ledger)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(StateFull, match="No space left"):
            charge(ledger)
    assert spent(path) == MICRO
    assert charge(ledger) is None


def test_a_later_version_is_left_alone(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StateDamaged, match="another version"):
        Ledger(path)


# Kills. What a disk has seen is decided by flushes: a process is killed before and after each of them.

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static int count;
static int flush(const char *name, int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, name), at = atoi(getenv("KILL_AT"));
    if (++count == at) raise(SIGKILL);
    int result = real(fd);
    if (-count == at) raise(SIGKILL);
    return result;
}
int fsync(int fd) { return flush("fsync", fd); }
int fdatasync(int fd) { return flush("fdatasync", fd); }
"""


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that kills its process at a flush that the environment names."""
    if shutil.which("gcc") is None:
        pytest.skip("COMPILER ABSENT: no gcc")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "shim.so", folder / "shim.c", "-ldl"], check=True)
    return folder / "shim.so"


def lived(path: Path, shim: Path, at: int, days: int = 1) -> tuple[int, list[str]]:
    """Run days of a device until its flush `at` (negative: after that flush): the exit code, and the batches posted."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.collect.device", path, str(days)],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(shim), "KILL_AT": str(at)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.split()


def killed_everywhere(path: Path, shim: Path, places: list[int]) -> None:
    """One state, a kill at each place: never more than the limits, never a report that is not charged."""
    posted: list[str] = []
    for at in places:
        code, batches = lived(path, shim, at)
        assert code in (0, -9)
        posted += batches
        ledger = Ledger(path)
        charges = ledger.charges()
        by_day = {day: [c for c in charges if c.day == day] for day in {c.day for c in charges}}
        assert sum(c.epsilon for c in charges) <= 12 * MICRO
        assert all(sum(c.epsilon for c in day) <= 3 * MICRO for day in by_day.values())
        assert all(sum(c.question == "emoji" for c in day) <= 2 for day in by_day.values())
        with ledger.transaction() as db:
            waiting = db.execute("SELECT count(*) FROM reports WHERE question = 'emoji'").fetchone()[0]
            posted_words = db.execute("SELECT count(*) FROM charges WHERE question = 'words'").fetchone()[0]
        assert waiting <= sum(c.question == "emoji" for c in charges)
        assert posted_words <= 2  # remembered values
        ledger.close()
    assert len(set(posted)) >= 1


def test_kills_at_a_few_flushes(path: Path, shim: Path) -> None:
    assert lived(path, shim, 0)[0] == 0
    killed_everywhere(path, shim, [1, -1, 5, -12, 20, -31, 0])


@pytest.mark.long
def test_kills_at_every_flush(path: Path, shim: Path) -> None:
    """From an empty state, and from one that each kill has left behind."""
    at = 1
    while lived(path.with_name(f"new{at}"), shim, at)[0] == -9:
        killed_everywhere(path.with_name(f"new{at}"), shim, [-at, at, 0])
        at += 1
    assert at > 40
    killed_everywhere(path, shim, [sign * n for n in range(1, at) for sign in (1, -1)])

"""What was acknowledged is on the disk, once: kills, torn ends, damage, full disks, segments that end."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dpproxy.collector import journal
from dpproxy.collector.journal import Batch, JournalBusy, JournalDamaged, JournalFull, State, Writer

NOON = 1_790_000_000.0
ROOT = Path(__file__).resolve().parents[2]


def batch(number: int, rows: int = 1) -> Batch:
    return Batch(f"{number:032x}", "emoji", 1, [["north", "😂", number]] * rows)


async def write(folder: Path, numbers: range, now: float = NOON, **options: float) -> None:
    writer = Writer(State(folder), lambda: now, **options)  # type: ignore[arg-type]
    await asyncio.gather(*(writer.append(batch(number)) for number in numbers))
    await writer.close()


def kept(folder: Path) -> list[int]:
    return [int(b.name, 16) for segment in State(folder).sealed() for b in segment.batches()]


async def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    await write(tmp_path, range(1000))
    assert kept(tmp_path) == list(range(1000))
    (segment,) = State(tmp_path).sealed()
    assert (segment.number, segment.day) == (1, "2026-09-21")
    assert next(segment.batches()) == batch(0)
    assert segment.path.stat().st_mode & 0o777 == 0o600


async def test_batches_of_a_moment_share_a_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushes = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: flushes.append(real(descriptor)))
    await write(tmp_path, range(500))
    assert len(flushes) < 5


@pytest.mark.parametrize(
    ("options", "moments", "segments"),
    [
        ({"segment_bytes": 300}, [0] * 9, 3),  # the head and three batches are more
        ({"segment_seconds": 60}, [0, 59, 60, 119, 121], 3),
        ({}, [0, 3599, 3600], 2),
        ({}, [0, 12 * 3600, 24 * 3600], 3),
        ({"segment_seconds": 10**6}, [0, 11 * 3600, 12 * 3600], 2),  # another day
        ({"segment_seconds": 10**6}, [0, -60, -60], 2),  # a clock set back
    ],
)
async def test_segments_end(tmp_path: Path, options: dict[str, float], moments: list[float], segments: int) -> None:
    now = NOON
    writer = Writer(State(tmp_path), lambda: now, **options)  # type: ignore[arg-type]
    for number, moment in enumerate(moments):
        now = NOON + moment
        await writer.append(batch(number))
    await writer.close()
    assert len(State(tmp_path).sealed()) == segments
    assert kept(tmp_path) == list(range(len(moments)))


async def test_a_segment_ends_though_no_batch_comes(tmp_path: Path) -> None:
    now = NOON
    writer = Writer(State(tmp_path), lambda: now)
    await writer.append(batch(1))
    await writer.seal_old()
    assert kept(tmp_path) == []
    now += 3600
    await writer.seal_old()
    assert kept(tmp_path) == [1]
    await writer.close()


async def test_numbers_are_not_given_twice(tmp_path: Path) -> None:
    await write(tmp_path, range(1))
    state = State(tmp_path)
    (segment,) = state.sealed()
    state.note_last(segment.number)
    segment.path.unlink()
    await write(tmp_path, range(1))
    assert [s.number for s in State(tmp_path).sealed()] == [2]
    assert State(tmp_path).name == state.name


async def test_every_torn_end_is_cut_off_and_nothing_else(tmp_path: Path) -> None:
    """A crash may leave any beginning of the last group, or rubbish in its place."""
    now = NOON
    writer = Writer(State(tmp_path / "one"), lambda: now)
    await writer.append(batch(1))
    (path,) = (tmp_path / "one").glob("*.open")
    first = path.read_bytes()
    await asyncio.gather(*(writer.append(batch(n)) for n in (2, 3)))
    content = path.read_bytes()
    ends = [content[:length] for length in range(len(first), len(content), 7)]
    for number, end in enumerate([*ends, first + b"\0" * 300, first + b"#99 1\nx", first + b"#5 1\nabcde", first + b"#"]):
        folder = tmp_path / f"torn{number}"
        State(folder)
        (folder / path.name).write_bytes(end)
        State(folder).seal_all()
        assert kept(folder) == [1]
    await writer.close()


async def test_an_open_segment_without_a_group_is_no_segment(tmp_path: Path) -> None:
    for content in (b"", b'{"day"', b'{"day": "2026-01-01"}\n', b'{"day": "2026-01-01"}\n#9'):
        State(tmp_path)
        (tmp_path / "000000000007.open").write_bytes(content)
        State(tmp_path).seal_all()
        assert kept(tmp_path) == []
    assert not list(tmp_path.glob("*.open"))


@pytest.mark.parametrize("place", [10, 40, 70, 110])
async def test_damage_with_a_whole_group_behind_it_is_named(tmp_path: Path, place: int) -> None:
    writer = Writer(State(tmp_path), lambda: NOON)
    for number in range(3):
        await writer.append(batch(number))
    await writer.close()
    (segment,) = State(tmp_path).sealed()
    content = bytearray(segment.path.read_bytes())
    content[place] ^= 0x20
    segment.path.write_bytes(content)
    with pytest.raises(JournalDamaged, match=segment.path.name):
        kept(tmp_path)


def fail_write(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def half(descriptor: int, content: bytes) -> int:
        if len(content) < 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, content[: len(content) // 2])

    monkeypatch.setattr(os, "write", half)


def fail_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.EIO, "No space left on device")

    monkeypatch.setattr(os, "fdatasync", full)


@pytest.mark.parametrize("failure", [fail_write, fail_flush])
async def test_a_full_disk_acknowledges_nothing_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Callable[[pytest.MonkeyPatch], None]
) -> None:
    writer = Writer(State(tmp_path), lambda: NOON)
    await writer.append(batch(1))
    with monkeypatch.context() as patched:
        failure(patched)
        for number in (2, 3):
            with pytest.raises(JournalFull, match="No space left"):
                await writer.append(batch(number))
    await asyncio.gather(*(writer.append(batch(number)) for number in (4, 5)))
    await writer.close()
    assert {1, 4, 5} <= set(kept(tmp_path)) <= {1, 2, 4, 5}


async def test_what_waits_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "WAITING_BYTES", 1000)
    writer = Writer(State(tmp_path), lambda: NOON)
    results = await asyncio.gather(*(writer.append(batch(n)) for n in range(100)), return_exceptions=True)
    refused = [r for r in results if isinstance(r, JournalFull)]
    assert 0 < len(refused) < 100
    await writer.close()
    assert len(kept(tmp_path)) == 100 - len(refused)


def test_two_collectors_of_one_state_are_refused(tmp_path: Path) -> None:
    with State(tmp_path).lock("collecting"):
        with pytest.raises(JournalBusy, match="another collector is collecting"), State(tmp_path).lock("collecting"):
            pass
        with State(tmp_path).lock("loading"):
            pass


# Kills: a process writes and says what is acknowledged, until it is killed.

WRITING = """
import asyncio, sys, time
from pathlib import Path
from tests.collector.test_journal import batch
from dpproxy.collector.journal import State, Writer

async def one(writer, number):
    await writer.append(batch(number))
    print(number, flush=True)

async def main():
    writer = Writer(State(Path(sys.argv[1])), time.time, segment_bytes=20_000)
    number = int(sys.argv[2])
    while True:
        await asyncio.gather(*(one(writer, number + n) for n in range(7)))
        number += 7

asyncio.run(main())
"""


def killed(folder: Path, start: int, acknowledged: int) -> list[int]:
    """Kill a process that writes once it has acknowledged so many; return what it acknowledged."""
    process = subprocess.Popen([sys.executable, "-c", WRITING, folder, str(start)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = [int(process.stdout.readline()) for _ in range(acknowledged)]
    process.kill()
    said += [int(line) for line in process.stdout.read().split("\n")[:-1]]
    process.wait()
    return said


def kill_again_and_again(folder: Path, times: int) -> None:
    acknowledged: list[int] = []
    for number in range(times):
        acknowledged += killed(folder, number * 1_000_000, 1 + number * 37 % 200)
    State(folder).seal_all()
    found = kept(folder)
    assert len(acknowledged) > times
    assert set(acknowledged) <= set(found)
    assert len(found) == len(set(found))


def test_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, 3)


@pytest.mark.long
def test_a_hundred_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, 100)

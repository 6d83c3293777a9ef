"""A full disk stops charging, not the ledger: on a real file system that is full, where one can be made, and on a made-up one."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpproxy.ledger.ledger import DiskShort
from dpproxy.records.place import SqliteReader
from dpproxy.records.record import verify
from dpproxy.records.reserve import SIZE, Reserve
from dpproxy.records.sqlite import SqliteLedger
from tests.ledger.test_sqlite import MakeRequest


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """40 MB, of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", folder], check=False, capture_output=True)
    if done.returncode:
        pytest.skip("DISK OF ITS OWN ABSENT: only root can mount one")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def charges(path: Path) -> int:
    return sum('"kind":"charge"' in body for body, _ in SqliteReader(path).recent(20_000))


def fill(folder: Path) -> Path:
    """Somebody else takes every byte that is left."""
    hog = folder / "hog"
    with contextlib.suppress(OSError), open(hog, "wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    return hog


def test_the_charge_under_way_is_written_and_the_next_refused(small_disk: Path, request_of: MakeRequest) -> None:
    path = small_disk / "ledger.sqlite"
    ledger = SqliteLedger(path, reserve=True)
    ledger.submit(request_of()).result()
    hog = fill(small_disk)
    written = 0
    refused = None
    while refused is None and written < 10_000:  # the file has room for some in pages it has already
        try:
            ledger.submit(request_of()).result()
            written += 1
        except DiskShort as short:
            refused = short.refusal()
    assert refused is not None
    assert refused.sqlstate == "53100"
    with pytest.raises(DiskShort):
        ledger.lag("shop", dt.datetime.now(dt.UTC))
    assert written >= 1
    assert charges(path) == written + 1, "all that was said to be charged, and nothing else"
    found = verify(SqliteReader(path), key=None)
    assert found is not None
    hog.unlink()
    ledger.submit(request_of()).result()
    assert (small_disk / "ledger.sqlite.reserve").stat().st_size == SIZE
    ledger.close()
    SqliteLedger(path, reserve=True).close()


def test_it_starts_on_a_full_disk_and_only_charges_nothing(small_disk: Path, request_of: MakeRequest) -> None:
    path = small_disk / "ledger.sqlite"
    SqliteLedger(path).close()
    hog = fill(small_disk)
    with open(hog, "r+b") as file:  # what a start writes itself
        file.truncate(hog.stat().st_size - (1 << 20))
    ledger = SqliteLedger(path, reserve=True)
    with pytest.raises(DiskShort):
        ledger.submit(request_of()).result()
    ledger.close()


def test_the_room_is_taken_at_once(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "r", 1 << 20)
    assert reserve.hold()
    assert (tmp_path / "r").stat().st_blocks * 512 >= 1 << 20


def test_what_somebody_removed_is_made_again(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "r", 1 << 20)
    assert reserve.hold()
    (tmp_path / "r").unlink()
    assert reserve.hold()
    assert (tmp_path / "r").exists()


def test_without_room_there_is_no_reserve_and_no_empty_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    reserve = Reserve(tmp_path / "r", 1 << 20)
    assert not reserve.hold()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    assert reserve.hold()


def test_other_failures_than_a_full_disk_do_not_cost_the_room(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "r", 1 << 20)
    assert reserve.hold()
    reserve.give_up()
    assert (tmp_path / "r").exists()


def test_nothing_is_charged_without(tmp_path: Path, request_of: MakeRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.sqlite", reserve=True)
    monkeypatch.setattr(Reserve, "hold", lambda self: False)
    with pytest.raises(DiskShort):
        ledger.submit(request_of()).result()
    ledger.close()
    assert charges(tmp_path / "ledger.sqlite") == 0

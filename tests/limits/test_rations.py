"""What the operator allows the facade, in bytes of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpproxy.facade import usage
from dpproxy.limits.quota import Quota
from dpproxy.limits.session_limits import LEAST, MEGABYTE, MOST_DISK, Rations

GIGABYTE = 1024 * MEGABYTE


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """16 GB of memory and 50 GB of free disk."""
    monkeypatch.setattr(usage, "machine_memory", lambda: 16 * GIGABYTE)
    monkeypatch.setattr(usage, "free", lambda folder: 50 * GIGABYTE)
    return monkeypatch


def test_what_is_not_said_is_a_share_of_the_machine(machine: pytest.MonkeyPatch) -> None:
    assert Rations().quota(Path()) == Quota(4 * GIGABYTE, 5 * GIGABYTE, 0.5, 512 * MEGABYTE)


def test_what_is_said_holds(machine: pytest.MonkeyPatch) -> None:
    said = Rations(memory_mb=100, disk_mb=20, share=0.25, reserve_mb=7)
    assert said.quota(Path()) == Quota(100 * MEGABYTE, 20 * MEGABYTE, 0.25, 7 * MEGABYTE)


def test_processes_divide_it_but_for_the_reserve(machine: pytest.MonkeyPatch) -> None:
    assert Rations().split(4).quota(Path()) == Quota(GIGABYTE, 5 * GIGABYTE // 4, 0.5, 512 * MEGABYTE)


def test_there_is_a_least_and_a_most(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(usage, "machine_memory", lambda: 512 * MEGABYTE)
    machine.setattr(usage, "free", lambda folder: 0)
    assert (Rations().quota(Path()).memory, Rations().quota(Path()).disk) == (LEAST, LEAST)
    machine.setattr(usage, "free", lambda folder: 10_000 * GIGABYTE)
    assert Rations().quota(Path()).disk == MOST_DISK

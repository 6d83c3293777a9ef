"""Caps on connections, of one process and of several that share them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

from dpproxy.server.connection_slots import ConnectionSlots, OwnSlots, SharedSlots


@pytest.fixture
def file() -> Iterator[int]:
    with tempfile.TemporaryFile() as shared:
        yield shared.fileno()


@pytest.fixture(params=["own", "shared"])
def places(request: pytest.FixtureRequest, file: int) -> ConnectionSlots:
    return OwnSlots(4, 2) if request.param == "own" else SharedSlots(file, 4, 2, 1)


def test_all_users_together_and_each(places: ConnectionSlots) -> None:
    assert [places.take("ada") for _ in range(3)] == [True, True, False]
    assert [places.take(user) for user in ("eve", "bob", "sue")] == [True, True, False]
    assert not places.room()
    places.give("ada")
    assert places.room()
    assert [places.take(user) for user in ("ada", "ada")] == [True, False]


def test_what_nobody_took_cannot_be_given(file: int) -> None:
    places = SharedSlots(file, 2, 2, 1)
    places.take("ada")
    places.give("eve")
    SharedSlots(file, 2, 2, 2).give("ada")
    assert [places.take("ada"), places.take("ada")] == [True, False]


def test_processes_count_together_and_the_dead_give_back(file: int) -> None:
    one, two, watcher = SharedSlots(file, 5, 3, 1), SharedSlots(file, 5, 3, 2), SharedSlots(file, 5, 3)
    assert [p.take("ada") for p in (one, two, two, one)] == [True, True, True, False]
    assert [one.take("eve"), two.take("eve"), one.take("bob")] == [True, True, False]
    watcher.clear(2)
    assert [one.take("ada"), one.take("ada"), one.take("ada")] == [True, True, False]


TAKER = """
import sys
from dpproxy.server.connection_slots import SharedSlots
places = SharedSlots(int(sys.argv[1]), 300, 250, int(sys.argv[2]))
print(sum(places.take("ada") for _ in range(100)))
"""


def test_no_two_processes_take_the_last_place(file: int) -> None:
    os.ftruncate(file, 300 * 16)
    started = [
        subprocess.Popen([sys.executable, "-c", TAKER, str(file), str(i + 1)], pass_fds=(file,), stdout=subprocess.PIPE)
        for i in range(3)
    ]
    assert sum(int(p.communicate(timeout=300)[0]) for p in started) == 250

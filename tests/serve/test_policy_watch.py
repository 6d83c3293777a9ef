"""Watched files: told once a change, never of half a file, never of one that is gone. Time is counted in looks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from dpproxy.serve.served_policies import GONE, watched


class Ended(Exception):
    pass


def told(files: list[Path], steps: list[Callable[[], object] | None]) -> list[int]:
    """Do a step before each look; return after which looks a change was told."""
    looks, found = iter(steps), []
    count = 0

    async def pause() -> None:
        nonlocal count
        try:
            step = next(looks)
        except StopIteration:
            raise Ended from None
        count += 1
        if step is not None:
            step()

    with pytest.raises(Ended):
        asyncio.run(watched(lambda: files, lambda: found.append(count), pause))
    return found


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    made = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for path in made:
        path.write_text("one")
    return made


def test_nothing_happens(files: list[Path]) -> None:
    assert told(files, [None] * 5) == []


def test_a_change_is_told_once_when_it_stays(files: list[Path]) -> None:
    assert told(files, [None, lambda: files[1].write_text("other"), None, None, None]) == [3]


def test_what_is_being_written_is_waited_for(files: list[Path]) -> None:
    longer = [lambda n=n: files[0].write_text("x" * n) for n in (10, 20, 30)]
    assert told(files, [*longer, None, None]) == [4]


def test_a_file_that_is_replaced(files: list[Path], tmp_path: Path) -> None:
    def replaced() -> None:
        (tmp_path / "new").write_text("one")
        (tmp_path / "new").rename(files[0])

    assert told(files, [files[0].unlink, None, None, replaced, None, None]) == [5]


def test_a_file_that_is_deleted_and_comes_back(files: list[Path]) -> None:
    """Its absence is told once, when no editor can be the reason."""
    steps = [files[1].unlink, *[None] * GONE, None, None, lambda: files[1].write_text("one"), None, None]
    assert told(files, steps) == [1 + GONE, GONE + 5]


def test_two_changes_are_two(files: list[Path]) -> None:
    first, second = (lambda t=t: files[0].write_text(t) for t in ("other text", "yet another"))
    assert told(files, [first, None, second, None, None]) == [2, 4]


def test_another_file_belongs_to_the_policy(files: list[Path]) -> None:
    """What a policy includes is known when it was read: a file more is a change."""
    more = files[0].with_name("c.yaml")
    more.write_text("one")
    assert told(files, [None, lambda: files.append(more), None, lambda: more.write_text("other"), None]) == [3, 5]

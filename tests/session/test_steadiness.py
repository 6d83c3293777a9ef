"""Which statements give the same rows again: found once a text, and a long text beside the loop."""

from __future__ import annotations

import threading
from collections.abc import Awaitable
from typing import TypeVar

import pytest

from dpproxy.session import memo
from dpproxy.session.memo import LONG, Steadiness

T = TypeVar("T")
QUERY, OUTER = "SELECT count(*) FROM people", "SELECT n FROM unnest($1::int8[]) AS m(n)"


def at_once(work: Awaitable[T]) -> Awaitable[T]:
    return work


def knowing(*immutable: str) -> Steadiness:
    made = Steadiness()
    made.immutable = frozenset({"count", "unnest", *immutable})
    return made


async def test_both_texts_must_be_steady() -> None:
    known = knowing("abs")
    assert await known.of(QUERY, OUTER, at_once)
    assert not await known.of(QUERY, OUTER.replace("SELECT n", "SELECT n, random()"), at_once)
    assert not await known.of(QUERY.replace("count(*)", "count(*), clock_timestamp()"), OUTER, at_once)
    assert await known.of("SELECT abs(1)", OUTER, at_once)
    assert not await knowing().of("SELECT abs(1)", OUTER, at_once), "nobody said that it is immutable"


async def test_nothing_is_steady_before_the_facade_was_asked() -> None:
    known = Steadiness()
    assert not await known.of(QUERY, OUTER, at_once)
    known.immutable = frozenset({"count", "unnest"})
    assert await known.of(QUERY, OUTER, at_once), "and that was not remembered"


async def test_a_text_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def steady(text: str, immutable: frozenset[str]) -> bool:
        read.append(text)
        return text != "other"

    monkeypatch.setattr(memo, "steady", steady)
    monkeypatch.setattr(memo, "KNOWN", 2)
    known = knowing()
    for _ in range(3):
        assert await known.of(QUERY, OUTER, at_once)
        assert not await known.of("other", OUTER, at_once)
    assert read == [QUERY, OUTER, "other"]
    await known.of("a third", OUTER, at_once)  # one more than is remembered
    assert await known.of(QUERY, OUTER, at_once)
    assert read.count(QUERY) == 2


async def test_long_texts_are_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def steady(text: str, immutable: frozenset[str]) -> bool:
        threads.append(threading.current_thread())
        return True

    monkeypatch.setattr(memo, "steady", steady)
    raced: list[object] = []

    def race(work: Awaitable[T]) -> Awaitable[T]:
        raced.append(work)
        return work

    known = knowing()
    await known.of("x" * LONG, "", race)
    assert (raced, set(threads)) == ([], {threading.main_thread()})
    await known.of("x" * LONG, "y", race)
    assert len(raced) == 1
    assert threads[-1] is not threading.main_thread()

"""Statements take the epoch that was told last: none waits for the engine, which may be busy with another's measurement."""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest

from dpproxy.backends.base import BackendError
from dpproxy.reuse import data_epoch
from dpproxy.reuse.data_epoch import Refreshed

NOW = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)


class Told:
    """`gate` lets a question through; `asked` counts them."""

    def __init__(self) -> None:
        self.version: str | Exception = "1"
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = 0
        self.heard = asyncio.Event()

    async def current(self, now: dt.datetime) -> str:
        self.asked += 1
        self.heard.set()
        await self.gate.wait()
        if isinstance(self.version, Exception):
            raise self.version
        return self.version


async def test_the_first_question_is_waited_for_and_the_others_are_not() -> None:
    told = Told()
    epoch = Refreshed(told, every=0.01)
    assert await epoch.current(NOW) == "1"
    told.gate.clear()
    told.heard.clear()
    await told.heard.wait()  # one is under way, and stuck
    assert await epoch.current(NOW) == "1", "at once"
    told.version = "2"
    told.gate.set()
    while await epoch.current(NOW) != "2":
        await asyncio.sleep(0.01)
    await epoch.close()


async def test_what_fails_is_told_until_it_does_not() -> None:
    told = Told()
    epoch = Refreshed(told, every=0.01)
    told.version = BackendError("away")
    with pytest.raises(BackendError, match="away"):
        await epoch.current(NOW)
    told.version = "3"
    while True:
        try:
            assert await epoch.current(NOW) == "3"
            break
        except BackendError:
            await asyncio.sleep(0.01)
    await epoch.close()


async def test_what_is_stale_is_not_told() -> None:
    told = Told()
    epoch = Refreshed(told, every=0.01)
    assert await epoch.current(NOW) == "1"
    told.gate.clear()
    told.heard.clear()
    await told.heard.wait()
    assert await epoch.current(NOW) == "1"
    epoch._at -= 2 * data_epoch.STALE
    asking = asyncio.ensure_future(epoch.current(NOW))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not asking.done()
    told.version = "2"
    told.gate.set()
    assert await asking == "2"
    await epoch.close()


async def test_nobody_asks_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_epoch, "IDLE", 0.05)
    told = Told()
    epoch = Refreshed(told, every=0.01)
    await epoch.current(NOW)
    assert epoch._asking is not None
    await asyncio.wait_for(epoch._asking, 300)
    told.version = "2"
    assert await epoch.current(NOW) == "2", "what was told before the rest is not told again"
    await epoch.close()

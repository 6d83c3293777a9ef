"""Threads that answer HTTP ask the loop, and are ended with it."""

from __future__ import annotations

import asyncio
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Sequence

import pytest

from dpproxy.operations.status import Status
from dpproxy.serve.console_server import open_health
from dpproxy.serve.runtime import ServingError
from tests.worlds.told_status import STATUS


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=300) as response:
        data: bytes = response.read()
        return data


async def test_the_loop_is_asked_and_the_end_is_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    loop = asyncio.get_running_loop()

    async def statuses() -> Sequence[Status]:
        assert asyncio.get_running_loop() is loop
        return [STATUS]

    end = open_health(("127.0.0.1", 0), None, statuses)
    found = re.fullmatch(r"metrics on (127\.0\.0\.1:\d+)\n", capsys.readouterr().err)
    assert found is not None
    assert await asyncio.to_thread(get, f"http://{found[1]}/healthz") == b"ok\n"
    assert b"dpproxy_build_info" in await asyncio.to_thread(get, f"http://{found[1]}/metrics")
    end_probes = open_health(("127.0.0.1", 0), None, statuses, probes_only=True)
    probed = re.fullmatch(r"health on (127\.0\.0\.1:\d+)\n", capsys.readouterr().err)
    assert probed is not None
    assert await asyncio.to_thread(get, f"http://{probed[1]}/healthz") == b"ok\n"
    with pytest.raises(urllib.error.HTTPError, match="404"):
        await asyncio.to_thread(get, f"http://{probed[1]}/metrics")
    await asyncio.to_thread(end_probes)
    await asyncio.to_thread(end)
    with pytest.raises(urllib.error.URLError):
        await asyncio.to_thread(get, f"http://{found[1]}/healthz")


async def test_an_address_in_use_is_said() -> None:
    async def statuses() -> Sequence[Status]:
        return []

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ServingError, match="cannot listen on"):
        open_health(("127.0.0.1", taken.getsockname()[1]), None, statuses)

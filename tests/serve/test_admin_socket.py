"""The admin socket: whose it is, who asks, what it says to what is no request."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dpproxy.operations.audit import account
from dpproxy.operations.requests import Drain, OperationError, Recent, Reload, Report, Request, address, answers, ask
from dpproxy.serve.operator import AdminSocket

heard: list[tuple[Request, str, bool]] = []


async def carry_out(request: Request, by: str, passed: bool) -> Any:
    heard.append((request, by, passed))
    match request:
        case Drain():
            raise OperationError("not now")
        case Reload():
            raise ValueError("4711")
    return ["done"]


@pytest_asyncio.fixture
async def door(tmp_path: Path) -> AsyncIterator[Path]:
    heard.clear()
    made = AdminSocket(tmp_path, 3, carry_out)
    await made.open()
    yield tmp_path / "admin-3.sock"
    await made.close()
    assert not (tmp_path / "admin-3.sock").exists()


async def test_a_request_is_carried_out_for_the_account_that_asks(door: Path) -> None:
    assert stat.S_IMODE(door.stat().st_mode) == 0o600
    assert await asyncio.to_thread(ask, door, Recent(3), passed=True) == ["done"]
    assert heard == [(Recent(3), account(os.getuid()), True)]


async def test_what_cannot_be_done_is_said_and_an_exceptions_text_is_not(door: Path) -> None:
    with pytest.raises(OperationError, match=r"^not now$"):
        await asyncio.to_thread(ask, door, Drain())
    with pytest.raises(OperationError, match=r"^internal error, incident [0-9a-f]{12}$"):
        await asyncio.to_thread(ask, door, Reload())


async def test_any_number_of_lines_and_rubbish_among_them(door: Path) -> None:
    with address(door) as short:
        reader, writer = await asyncio.open_unix_connection(short)
    writer.write(b'rubbish\n{"request": "Report"}\n')
    first, second = [json.loads(await reader.readline()) for _ in range(2)]
    assert "the request is none of" in first["error"]
    assert second == {"ok": ["done"]}
    writer.write(b"x" * (1 << 17))
    assert await reader.read() == b""
    writer.close()


async def test_one_that_was_killed_is_cleared_and_one_that_serves_is_not(door: Path) -> None:
    with pytest.raises(OSError, match="another proxy uses this folder"):
        await AdminSocket(door.parent, 3, carry_out).open()
    assert answers(door)
    killed = AdminSocket(door.parent, 4, carry_out)
    await killed.open()
    assert killed._server is not None
    killed._server.close()
    again = AdminSocket(door.parent, 4, carry_out)
    await again.open()
    assert await asyncio.to_thread(ask, door.with_name("admin-4.sock"), Report()) == ["done"]
    await again.close()

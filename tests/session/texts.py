"""Statements that conversations are about, what they are answered, and what a client may do beside them."""

from __future__ import annotations

import pytest

from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import read_backend_key_data
from tests.worlds.scripted import Stage
from tests.worlds.wire_client import Wire

PRIVATE = "SELECT region, count(*) AS n FROM people GROUP BY 1"
PUBLIC = "SELECT i FROM generate_series(1, 3) AS i"
GROUPS = [("e", "1"), ('n"\\', "20"), (None, "300")]
PRICE = 100_000  # micro-epsilon of one answer


def prepared(sql: str, name: str = "", oids: tuple[int, ...] = ()) -> bytes:
    return front.parse(name, sql, oids) + front.describe("S", name)


async def cancel(stage: Stage, wire: Wire, wrong: bool = False) -> None:
    pid, secret = read_backend_key_data(next(p for t, p in wire.startup if t == b"K"))
    other = await Wire.open(stage.port)
    other.send(front.cancel_request(pid, bytes(len(secret)) if wrong else secret))
    with pytest.raises(EOFError):
        await other.read()

"""What is told in its place: notices, settings, and COPY as the facade sends it."""

from __future__ import annotations

import pytest

from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import read_parameter_status
from tests.worlds.scripted import Stage
from tests.worlds.wire_client import tags

from .texts import PRICE, PRIVATE

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_notices_and_settings_are_told_in_their_place(stage: Stage) -> None:
    """Those of statements around a private one, which the proxy runs while it holds the facade's replies."""
    wire = await stage.connect()
    around = "SET application_name = 'one'", "DROP TABLE IF EXISTS pg_temp.nothing", "SET TimeZone = 'Asia/Tokyo'"
    messages = await wire.query("; ".join((around[0], PRIVATE, around[1], around[2])))
    assert tags(messages).replace(b"S", b"") == b"C" + b"TDDDNC" + b"NC" + b"C" + b"Z"
    told = dict(read_parameter_status(payload) for tag, payload in messages if tag == b"S")
    assert told == {"application_name": "one", "TimeZone": "Asia/Tokyo"}
    await wire.close()


@pytest.mark.parametrize(
    ("options", "start"), [("", b"e\t1\n"), (" (FORMAT csv)", b"e,1\n"), (" WITH BINARY", b"PGCOPY\n\xff\r\n\0")]
)
async def test_copy_to_stdout(stage: Stage, options: str, start: bytes) -> None:
    wire, before = await stage.connect(), stage.spent()
    sql = f"COPY ({PRIVATE}) TO STDOUT{options}"
    messages = await wire.query(sql)
    assert tags(messages).replace(b"d", b"") == b"HcNCZ"
    assert messages[1][1].startswith(start)
    messages = await wire.ask(front.parse("", sql), front.bind("", "", ()), front.describe("P", ""), front.execute(""))
    assert tags(messages).replace(b"d", b"") == b"1N2nHcCZ"
    assert stage.spent() - before == 2 * PRICE
    await wire.close()

"""Each wrong request has a named answer, and of it nothing is kept; what is right is on the disk when 204 is said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Scope

from dpproxy.collect.questions import question_of
from dpproxy.collector.journal import Batch, JournalFull, State, Writer
from dpproxy.collector.limits import Limits, Rates
from dpproxy.collector.web import BODY_BYTES, Site
from tests.collector.reports import ROWS, body, document, tables

MANY = Rates(per_address=10**6, total=10**6)


class Kept:
    """A disk in memory."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.full = False

    async def append(self, batch: Batch) -> None:
        if self.full:
            raise JournalFull("No space left on device")
        self.batches.append(batch)


class Client:
    """Sends requests to the pages of a collector; a body may come in pieces."""

    def __init__(self, disk: Any, rates: Rates = MANY, seconds: float = 10) -> None:
        self.site = Site(tables(), disk, Limits(rates, lambda: 0.0), dict, seconds)
        self.app = self.site.application()

    async def send(
        self, method: str, path: str, *pieces: bytes, headers: Mapping[str, str] = {}, stalled: bool = False
    ) -> tuple[int, dict[str, Any], dict[str, str]]:
        """Status, JSON and headers of the reply. `stalled`: what is behind the pieces never comes."""
        scope: Scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http", "path": path,
            "raw_path": path.encode(), "query_string": b"", "root_path": "", "client": ("203.0.113.7", 50000), "server": ("127.0.0.1", 80),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip
        waiting = list(pieces)
        said: list[Message] = []

        async def receive() -> Message:
            if not waiting and stalled:
                await asyncio.Event().wait()
            piece = waiting.pop(0) if waiting else b""
            return {"type": "http.request", "body": piece, "more_body": bool(waiting) or stalled}

        async def send(message: Message) -> None:
            said.append(message)

        await self.app(scope, receive, send)
        text = b"".join(message.get("body", b"") for message in said)
        sent = {name.decode(): value.decode() for name, value in said[0]["headers"]}
        return said[0]["status"], json.loads(text) if text else {}, sent


@pytest.fixture
def disk() -> Kept:
    return Kept()


@pytest.fixture
def client(disk: Kept) -> Client:
    return Client(disk)


@pytest.mark.parametrize("name", list(ROWS))
async def test_a_batch_is_kept(name: str, client: Client, disk: Kept) -> None:
    rows = [ROWS[name]] * 100
    status, _, headers = await client.send("POST", f"/v1/{name}", body(name=name, batch=5, rows=rows))
    assert (status, headers) == (204, {})
    assert disk.batches == [Batch(f"{5:032x}", name, max(tables()[name].questions), rows)]
    _, health, _ = await client.send("GET", "/health")
    assert health == {"works": True, "reports": {name: 100}}


async def test_reports_by_an_older_claim_have_its_number(client: Client, disk: Kept) -> None:
    await client.send("POST", "/v1/emoji", body(claim=1))
    await client.send("POST", "/v1/emoji", body(claim=2))
    assert [batch.claim for batch in disk.batches] == [1, 2]


@pytest.mark.parametrize("name", list(ROWS))
async def test_the_mechanisms_file_is_what_devices_read(name: str, client: Client) -> None:
    status, file, _ = await client.send("GET", f"/v1/{name}")
    assert status == 200
    assert question_of(file) == tables()[name].newest
    assert file["claim"] == document(name)["claim"]


def changed(name: str = "emoji", **entries: Any) -> bytes:
    return json.dumps({**document(name), **entries}).encode()


SPACE = ("outside-space", 400)
SHAPE = ("wrong-shape", 400)
WRONG: list[tuple[str, bytes, tuple[str, int]]] = [
    ("emojis", body(), ("unknown-table", 404)),
    ("coin", body(name="emoji"), ("unknown-claim", 409)),
    ("emoji", changed(claim="0" * 64), ("unknown-claim", 409)),
    ("emoji", changed(claim=None), ("unknown-claim", 409)),
    ("emoji", changed(claim=["x"]), ("unknown-claim", 409)),
    ("emoji", b"", ("no-json", 400)),
    ("emoji", b"{", ("no-json", 400)),
    ("emoji", b"[" * 30_000, ("no-json", 400)),
    ("emoji", body().replace(b"7]", b"NaN]"), ("no-json", 400)),
    ("emoji", body().replace(b"7]", b"9" * 5000 + b"]"), ("no-json", 400)),
    ("emoji", b'"\xff"', ("no-json", 400)),
    ("emoji", b"[]", SHAPE),
    ("emoji", changed(user="me"), SHAPE),
    ("emoji", changed(batch="x" * 32), SHAPE),
    ("emoji", changed(batch="0" * 31 + "\n"), SHAPE),
    ("emoji", changed(batch=7), SHAPE),
    ("emoji", changed(reports=[]), SHAPE),
    ("emoji", changed(reports={}), SHAPE),
    ("emoji", changed(reports=[ROWS["emoji"]] * 101), SHAPE),
    *(
        (name, changed(name, reports=[ROWS[name], row]), SPACE)
        for name, row in [
            ("emoji", ["north"]), ("emoji", ["north", 7, 7]), ("emoji", {}), ("emoji", ["east", 7]), ("emoji", [None, 7]), ("emoji", [True, 7]),
            ("emoji", ["north", -1]), ("emoji", ["north", 53**2 + 53 + 1]), ("emoji", ["north", 7.0]), ("emoji", ["north", True]), ("emoji", ["north", "7"]),
            ("coin", [121, True]), ("coin", [-1, True]), ("coin", ["44", True]), ("coin", [44.5, True]), ("coin", [True, True]), ("coin", [44, 1]), ("coin", [44, None]),
            ("cells", ["north", "🦆"]), ("cells", ["north", 0]), ("cells", ["\ud800", "😂"]),
            ("bits", ["2:1"]), ("bits", ["1:18001"]), ("bits", ["1:ffff"]), ("bits", ["01:1"]), ("bits", ["1:08001"]), ("bits", [1]),
        ]
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "sent", "answer"), WRONG)
async def test_what_is_wrong_has_a_name_and_nothing_is_kept(
    name: str, sent: bytes, answer: tuple[str, int], client: Client, disk: Kept
) -> None:
    status, reply, headers = await client.send("POST", f"/v1/{name}", sent)
    assert (reply["error"], status) == answer
    assert headers.keys() == {"content-length", "content-type"}
    assert disk.batches == []


@pytest.mark.parametrize(
    ("pieces", "headers"),
    [
        ([b" " * (BODY_BYTES + 1)], {}),
        ([b" " * 1000] * 70, {}),
        ([], {"content-length": str(BODY_BYTES + 1)}),
        ([], {"content-length": "1e9"}),
    ],
)
async def test_a_body_too_large_is_not_read(client: Client, disk: Kept, pieces: list[bytes], headers: dict[str, str]) -> None:
    status, reply, said = await client.send("POST", "/v1/emoji", *pieces, headers=headers, stalled=True)
    assert (status, reply["error"], said["connection"]) == (413, "too-large", "close")
    assert disk.batches == []


async def test_a_body_too_slow_is_given_up(disk: Kept) -> None:
    client = Client(disk, seconds=0.001)
    status, reply, said = await client.send("POST", "/v1/emoji", body()[:10], stalled=True)
    assert (status, reply["error"], said["connection"]) == (408, "too-slow", "close")


async def test_a_full_disk_keeps_nothing_and_says_so(client: Client, disk: Kept) -> None:
    disk.full = True
    status, reply, _ = await client.send("POST", "/v1/emoji", body())
    assert (status, reply["error"]) == (503, "disk-full")
    _, health, _ = await client.send("GET", "/health")
    assert health["reports"] == {}


async def test_too_many_requests_are_told_when_to_come_again(disk: Kept) -> None:
    client = Client(disk, Rates(per_address=2))
    replies = [await client.send("POST", "/v1/emoji", body(batch=n)) for n in range(4)]
    assert [status for status, _, _ in replies] == [204, 204, 429, 429]
    assert replies[3][1]["error"] == "too-many"
    assert replies[3][2]["retry-after"] == "31"
    assert len(disk.batches) == 2


@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("PUT", "/v1/emoji"), ("POST", "/health"), ("POST", "/v1/a/b")])
async def test_there_are_no_other_pages(client: Client, method: str, path: str) -> None:
    status, reply, _ = await client.send(method, path)
    assert (status in (404, 405), reply["error"]) == (True, "no-such-page")


MARK = "MARKED"


async def test_nothing_of_a_client_is_kept(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Every byte on the disk and of what is printed, after requests whose address, headers, path and refused bodies have a mark."""
    writer = Writer(State(tmp_path), lambda: 1_790_000_000.0)
    client = Client(writer)
    address = "198.51.100.99"
    headers = {
        "user-agent": f"{MARK} agent", "cookie": f"id={MARK}", "x-forwarded-for": address, "referer": f"https://{MARK}.example",
        "authorization": f"Bearer {MARK}", "accept-language": MARK, "forwarded": f"for={address}", "host": f"{MARK}.example",
    }  # fmt: skip
    for number in range(200):
        await client.send("POST", "/v1/emoji", body(batch=number), headers=headers)
        await client.send("POST", f"/v1/{MARK}", body(), headers=headers)
        await client.send("POST", "/v1/emoji", changed(user=MARK), headers=headers)
        await client.send("GET", f"/v1/emoji?{MARK}", headers=headers)
    await writer.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    names = " ".join(str(path) for path in tmp_path.rglob("*"))
    said = "".join(capfd.readouterr())
    assert kept.count(b'"emoji"') == 200
    for mark in (MARK, address, "203.0.113.7", "50000"):
        assert mark.encode() not in kept
        assert mark not in names + said

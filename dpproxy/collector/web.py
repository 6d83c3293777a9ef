"""What devices send and read by HTTP: `POST /v1/TABLE` takes a batch, `GET /v1/TABLE` gives the mechanism's file.

Knows: Starlette, JSON, what each refusal is as a reply. Must not know: files, databases. Of a request its body alone is looked
at, and its address for as long as its bucket is looked up. No header is read but the body's length, none is logged, no cookie
is set. A reply 204 means that the batch is on the disk; the same batch again is 204 again, and counted once when it is loaded.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NoReturn, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dpproxy.collector.journal import Batch, JournalFull
from dpproxy.collector.limits import Limits
from dpproxy.collector.tables import Refused, ReportTable

POSTS: Final = "/v1/"
_POST: Final = re.compile(f"{POSTS}[^/]+")
KEPT: Final = Response(status_code=204)
BODY_BYTES: Final = 1 << 16
BODY_SECONDS: Final = 10.0


class Disk(Protocol):
    """Where batches are kept."""

    async def append(self, batch: Batch) -> None:
        """Return when a batch is durable. Raises JournalFull."""
        ...


class Site:
    """The tables of one policy, and how many reports of each were taken since the start."""

    def __init__(
        self,
        tables: Mapping[str, ReportTable],
        disk: Disk,
        limits: Limits,
        health: Callable[[], Mapping[str, Any]] = dict,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self._tables, self._disk, self._limits, self._health = tables, disk, limits, health
        self._body_seconds = body_seconds
        self.taken: Counter[str] = Counter()

    def application(self) -> ASGIApp:
        """Return the pages. Posts, of which there are millions, do not go through the pages' routes."""
        routes = [Route("/v1/{table}", self.file, methods=["GET"]), Route("/health", self.health, methods=["GET"])]
        pages = Starlette(routes=routes, exception_handlers={HTTPException: _wrong, Exception: _broken})

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and scope["method"] == "POST" and _POST.fullmatch(scope["path"]):
                reply = await self._answered(scope, self.take(scope, receive))
                await reply(scope, receive, send)
            else:
                await pages(scope, receive, send)

        return application

    async def take(self, scope: Scope, receive: Receive) -> Response:
        """Keep a batch. Raises Refused."""
        table = self._table(scope["path"][len(POSTS) :])
        name, claim, reports = table.batch(await self._document(scope, receive))
        try:
            await self._disk.append(Batch(name, str(table.name), claim, reports))
        except JournalFull as full:
            raise Refused("disk-full", 503, "the batch was not kept, send it again later") from full
        self.taken[str(table.name)] += len(reports)
        return KEPT

    async def file(self, request: Request) -> Response:
        """Give the newest mechanism's file of a table."""

        async def document() -> Response:
            return _json(self._table(request.path_params["table"]).newest.document())

        return await self._answered(request.scope, document())

    async def health(self, _request: Request) -> Response:
        """Say what works. Counts are of reports, not of persons."""
        facts = {"works": True, "reports": dict(self.taken), **self._health()}
        return _json(facts, 200 if facts["works"] else 503)

    async def _answered(self, scope: Scope, work: Coroutine[Any, Any, Response]) -> Response:
        """Do what is asked, where the address may ask, and say why not as a reply."""
        try:
            client = scope.get("client")
            wait = self._limits.wait(client[0] if client else "")
            if not wait:
                return await work
            work.close()
            refused = _refusal(Refused("too-many", 429, "too many requests: send it again later"))
            refused.headers["Retry-After"] = str(int(wait) + 1)
            return refused
        except Refused as why:
            return _refusal(why)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:
            return await _broken(None, error)

    def _table(self, name: str) -> ReportTable:
        table = self._tables.get(name)
        if table is None:
            raise Refused("unknown-table", 404, "no table of this name takes reports")
        return table

    async def _document(self, scope: Scope, receive: Receive) -> object:
        """Read the body. Raises Refused, ClientDisconnect."""
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not length.isdigit() or int(length) > BODY_BYTES:
            _too_large()
        body, more = bytearray(), True
        try:
            async with asyncio.timeout(self._body_seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > BODY_BYTES:
                        _too_large()
        except TimeoutError:
            raise Refused("too-slow", 408, "the body did not come in time") from None
        try:
            return json.loads(body, parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise Refused("no-json", 400, "the body is no JSON") from None


def _too_large() -> NoReturn:
    raise Refused("too-large", 413, f"a body has at most {BODY_BYTES} bytes")


def _no_number(_text: str) -> NoReturn:
    raise ValueError("NaN and infinities are no numbers of JSON")


def _json(document: Mapping[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(document, ensure_ascii=False), status, media_type="application/json")


def _refusal(refused: Refused) -> Response:
    reply = _json({"error": refused.code, "message": refused.message}, refused.status)
    if refused.status in (408, 413):
        reply.headers["Connection"] = "close"  # what is left of the body is not read
    return reply


async def _wrong(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _json({"error": "no-such-page", "message": "POST or GET /v1/TABLE, GET /health"}, status)


async def _broken(_request: Request | None, _error: Exception) -> Response:
    """What was not foreseen: the device sends the batch again."""
    return _json({"error": "internal", "message": "the batch may not have been kept, send it again later"}, 500)

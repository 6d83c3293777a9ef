"""A browser without a network: it sends requests to an ASGI application, keeps cookies, reads forms."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from urllib.parse import urlencode

from starlette.types import ASGIApp, Message, Scope


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    text: str
    cookies: tuple[str, ...]


@dataclass
class Visitor:
    """Asks one application. `address`: where it seems to come from."""

    app: ASGIApp
    address: str = "127.0.0.1"
    cookies: dict[str, str] = field(default_factory=dict)

    async def get(self, path: str) -> Reply:
        return await self._send("GET", path, b"", {})

    async def post(self, path: str, fields: dict[str, str], kind: str = "application/x-www-form-urlencoded") -> Reply:
        return await self._send("POST", path, urlencode(fields).encode(), {"content-type": kind})

    async def submit(self, page: str, path: str, **fields: str) -> Reply:
        """Load a page and send its form, with the secret that stands in it."""
        return await self.post(path, {"form": secret_in((await self.get(page)).text), **fields})

    async def _send(self, method: str, target: str, body: bytes, headers: dict[str, str]) -> Reply:
        path, _, query = target.partition("?")
        sent = headers | ({"cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items())} if self.cookies else {})
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
            "client": (self.address, 50000),
            "server": ("127.0.0.1", 80),
        }
        said: list[Message] = []

        heard: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            return heard.pop() if heard else {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            said.append(message)

        await self.app(scope, receive, send)
        pairs = [(name.decode(), value.decode()) for name, value in said[0]["headers"]]
        set_cookies = tuple(value for name, value in pairs if name == "set-cookie")
        for text in set_cookies:
            for morsel in SimpleCookie(text).values():
                self.cookies[morsel.key] = morsel.value
        data = b"".join(message.get("body", b"") for message in said[1:])
        return Reply(said[0]["status"], dict(pairs), data.decode(), set_cookies)


def secret_in(page: str) -> str:
    """Return what every form of a page holds."""
    found = re.search(r'name="form" value="([^"]+)"', page)
    assert found is not None, page[:2000]
    return found[1]

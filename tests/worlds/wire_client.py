"""A client that speaks the protocol message by message, and what its messages say."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import scramp

from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import read_authentication, read_data_row, read_report
from dpproxy.wire.framing import BackendFramer

PASSWORD = "correct horse"
Message = tuple[bytes, bytes]


class Wire:
    """A client without opinions: sends bytes, collects messages."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.startup: list[Message] = []
        self._framer = BackendFramer(frozenset())
        self._inbox: list[Message] = []

    @classmethod
    async def open(cls, port: int) -> Wire:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def login(
        self, user: str = "ada", database: str = "shop", password: str = PASSWORD, minor: int = 0, **params: str
    ) -> None:
        self.writer.write(front.startup(user, database, params, minor))
        client = scramp.ScramClient(["SCRAM-SHA-256"], user, password)
        while True:
            tag, payload = await self.read()
            self.startup.append((tag, payload))
            if tag in (b"Z", b"E"):
                return
            code = read_authentication(payload).code if tag == b"R" else -1
            if code == 10:
                self.writer.write(front.sasl_initial("SCRAM-SHA-256", client.get_client_first().encode()))
            elif code == 11:
                client.set_server_first(payload[4:].decode())
                self.writer.write(front.sasl_response(client.get_client_final().encode()))

    def send(self, *messages: bytes) -> None:
        self.writer.write(b"".join(messages))

    async def read(self) -> Message:
        """Raises EOFError when the proxy has closed."""
        while not self._inbox:
            data = await asyncio.wait_for(self.reader.read(65536), 300)
            if not data:
                raise EOFError
            buffer, spans, error = self._framer.batch(data)
            assert error is None
            self._inbox += [(tag, buffer[start + 5 : end]) for tag, start, end in spans]
        return self._inbox.pop(0)

    async def until(self, *tags: bytes) -> list[Message]:
        """Messages up to and including one of `tags`."""
        found = [await self.read()]
        while found[-1][0] not in tags:
            found.append(await self.read())
        return found

    def unread(self, messages: Sequence[Message]) -> None:
        """Let them be read once more."""
        self._inbox[:0] = messages

    async def query(self, sql: str) -> list[Message]:
        self.send(front.query(sql))
        return await self.until(b"Z")

    async def ask(self, *messages: bytes) -> list[Message]:
        """Extended messages and a Sync."""
        self.send(*messages, front.SYNC)
        return await self.until(b"Z")

    async def close(self) -> None:
        self.writer.close()


def tags(messages: Sequence[Message]) -> bytes:
    return b"".join(tag for tag, _ in messages)


def rows(messages: Sequence[Message]) -> list[tuple[str | None, ...]]:
    found = [read_data_row(payload) for tag, payload in messages if tag == b"D"]
    return [tuple(None if v is None else v.decode() for v in row) for row in found]


def report(messages: Sequence[Message], tag: bytes = b"E") -> dict[str, str]:
    return dict(read_report(next(payload for t, payload in messages if t == tag)))

"""What real clients sent to a PostgreSQL, and what it said: read from the recorded text, and sent again.

Knows: the recordings' format. Must not know: what is expected of a proxy. Of what a server says the shape is kept: message
types, columns with names, type OIDs and formats, parameter OIDs, command tags, SQLSTATEs, transaction status. Rows and the
numbers of the recording's own objects are not: the numbers are replaced by those of the database it is sent to.
"""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front
from tests.worlds.wire_client import Message, Wire

OBJECTS = {
    16387: "to_regclass('sales.customer')", 16389: "to_regtype('sales.customer')", 16388: "to_regtype('sales.customer[]')",
    16397: "to_regclass('sales.orders')", 16412: "to_regclass('sales.v_orders')",
}  # fmt: skip
"""Numbers in the recordings, and what they were of."""
FIRST_OF_USERS = 16384

_LINE = re.compile(r"  c(\d+) (->|<-) (\S+) ?(.*)")
_COLUMN = re.compile(r"(.*?):(\d+)(?:/-?\d+)?(:bin)?(?:, |$)", re.DOTALL)
_NOISE = {"DataRow", "...", "CopyData", "ParameterStatus", "BackendKeyData", "[closed]", "'N'"}
_SHORT = {
    "ParseComplete": "1", "BindComplete": "2", "CloseComplete": "3", "NoData": "n", "PortalSuspended": "s",
    "EmptyQueryResponse": "I", "CopyOutResponse": "H", "CopyDone": "c",
}  # fmt: skip
_COMPLETIONS = frozenset("12TnCsI3")


@dataclass(frozen=True)
class Event:
    """`client`: who sent it. `text`: the SQL of a Query or Parse."""

    connection: str
    client: bool
    name: str
    arguments: str
    text: str = ""


@dataclass
class Exchange:
    """One piece of a conversation: what was sent, what PostgreSQL had said, what was said now."""

    sent: list[Event]
    recorded: list[str]
    got: list[str] = field(default_factory=list)

    @property
    def sql(self) -> str:
        return "; ".join(e.text for e in self.sent if e.text)


def events(path: Path) -> list[Event]:
    found: list[Event] = []
    for line in path.read_text().splitlines():
        match = _LINE.fullmatch(line)
        if match:
            found.append(Event(f"c{match[1]}", match[2] == "->", match[3], match[4]))
        elif line.startswith("      ") and found and found[-1].name in ("Query", "Parse"):
            last = found.pop()
            found.append(Event(last.connection, True, last.name, last.arguments, f"{last.text}{line[6:]}\n"))
    return found


def recorded(event: Event) -> str | None:
    """A server's message in short; None for what is not compared."""
    name, rest = event.name, event.arguments
    if name in _NOISE or name.startswith("Authentication"):
        return None
    if name == "RowDescription":
        return _columns((n, int(oid), bool(binary)) for n, oid, binary in _COLUMN.findall(rest.partition("...(+")[0]))
    if name == "ParameterDescription":
        return f"t {ast.literal_eval(rest)}"
    if name == "ReadyForQuery":
        return f"Z {rest}"
    if name == "CommandComplete":
        return f"C {rest}"
    if name in ("ErrorResponse", "NoticeResponse"):
        found = re.search(r" C(\w{5}) ", rest)
        assert found is not None
        return f"{name[0]} {found[1]}"
    return _SHORT[name]


def said(message: Message) -> str | None:
    """The same of a message on the wire."""
    tag, payload = message
    match tag:
        case b"D" | b"d" | b"S" | b"K" | b"R" | b"A":
            return None
        case b"T":
            return _columns((f.name, f.type, f.format == 1) for f in back.read_row_description(payload))
        case b"t":
            return f"t {list(back.read_parameter_description(payload))}"
        case b"Z":
            return f"Z {payload.decode()}"
        case b"C":
            return f"C {back.read_command_complete(payload)}"
        case b"E" | b"N":
            return f"{tag.decode()} {back.read_report(payload)['C']}"
    return tag.decode()


def _columns(columns: Iterator[tuple[str, int, bool]]) -> str:
    texts = [f"{n}:{oid if oid < FIRST_OF_USERS else 'own'}{':bin' if binary else ''}" for n, oid, binary in columns]
    return f"T {', '.join(texts)}"


Connect = Callable[[str, Mapping[str, str]], Awaitable[Wire]]
"""A database and run-time settings -> a logged-in connection, or one that was refused."""


class Player:
    """Sends one recording. `numbers`: the database's own, by those recorded."""

    def __init__(self, connect: Connect, cancel: Callable[[Wire], Awaitable[None]], numbers: Mapping[int, int]) -> None:
        self._connect = connect
        self._cancel = cancel
        self._numbers = numbers
        self._wires: dict[str, Wire] = {}
        self._open: dict[str, Exchange] = {}  # sent, not yet answered
        self._done: dict[str, list[Exchange]] = {}

    async def play(self, found: Sequence[Event]) -> dict[str, list[Exchange]]:
        """By connection."""
        for event in found:
            if event.client:
                await self._send(event)
            elif event.connection in self._wires:
                await self._hear(event)
        for name in self._wires:
            await self._finish(name)
        for wire in self._wires.values():
            await wire.close()
        return self._done

    async def _send(self, event: Event) -> None:
        name = event.connection
        if event.name == "StartupMessage":
            shown = re.findall(r"(\w+)=(\"'.*?'\"|'.*?')(?= |$)", event.arguments)
            settings = {name: str(ast.literal_eval(value)) for name, value in shown}
            settings.pop("user")
            self._wires[name] = await self._connect(settings.pop("database"), settings)
            self._done[name] = [Exchange([event], [], list(filter(None, map(said, self._wires[name].startup))))]
        elif event.name == "CancelRequest":
            (running,) = [n for n, e in self._open.items() if "pg_sleep" in e.sql or e.sent]
            await self._cancel(self._wires[running])
        elif name in self._wires and event.name not in ("PasswordMessage/SASL", "[closed]"):
            if name in self._open and self._open[name].recorded:
                await self._finish(name)
            self._open.setdefault(name, Exchange([], [])).sent.append(event)
            self._wires[name].send(encoded(event, self._numbers))

    async def _hear(self, event: Event) -> None:
        short = recorded(event)
        if short is not None:
            exchange = self._open.get(event.connection) or self._done[event.connection][-1]
            exchange.recorded.append(short)

    async def _finish(self, name: str) -> None:
        """Read what the facade has to say to everything sent."""
        exchange = self._open.pop(name, None)
        if exchange is None:
            return
        self._done[name].append(exchange)
        readies = sum(e.name in ("Query", "Sync") for e in exchange.sent)
        last = max((i for i, e in enumerate(exchange.sent) if e.name in ("Query", "Sync")), default=-1)
        behind = [e for e in exchange.sent[last + 1 :] if e.name in ("Parse", "Bind", "Describe", "Execute", "Close")]
        if not any(e.name == "Flush" for e in exchange.sent[last + 1 :]):
            behind = []
        completions, failed = 0, False
        try:
            while readies or (completions < len(behind) and not failed):
                short = said(await asyncio.wait_for(self._wires[name].read(), 300))
                if short is None:
                    continue
                exchange.got.append(short)
                if short[0] == "Z":
                    readies, completions, failed = readies - 1, 0, False
                completions += short[0] in _COMPLETIONS
                failed = failed or short[0] == "E"
            await self._recover(self._wires[name], exchange, failed)
        except (EOFError, ConnectionError):
            exchange.got.append("closed")
        except TimeoutError:
            exchange.got.append("silent")

    async def _recover(self, wire: Wire, exchange: Exchange, failed: bool) -> None:
        """What a client does after an error that the one of the recording did not get."""
        if failed:
            wire.send(front.SYNC)
            await wire.until(b"Z")
        recorded, got = ([shape for shape in shapes if shape[0] == "Z"][-1:] for shapes in (exchange.recorded, exchange.got))
        if recorded != ["Z E"] and (got == ["Z E"] or failed):
            await wire.query("ROLLBACK")
            if recorded == ["Z T"]:
                await wire.query("BEGIN")


def encoded(event: Event, numbers: Mapping[int, int]) -> bytes:
    text = re.sub(r"\b16\d{3}\b", lambda m: str(numbers.get(int(m[0]), int(m[0]))), event.text.removesuffix("\n"))
    arguments = event.arguments
    match event.name:
        case "Query":
            return front.query(text)
        case "Parse":
            return front.parse(_value("name", arguments), text, _list("param_oids", arguments))
        case "Bind":
            values = [_parameter(p, numbers) for p in _list("params", arguments)]
            names = _value("portal", arguments), _value("stmt", arguments)
            return front.bind(*names, values, _list("param_fmt", arguments), _list("result_fmt", arguments))
        case "Describe" | "Close":
            kind, _, name = arguments.partition(" ")
            make = front.describe if event.name == "Describe" else front.close
            return make("S" if kind == "S" else "P", ast.literal_eval(name))
        case "Execute":
            return front.execute(_value("portal", arguments), int(arguments.rpartition("=")[2]))
        case "Sync":
            return front.SYNC
        case "Flush":
            return front.FLUSH
        case "Terminate":
            return front.TERMINATE
    raise AssertionError(event)


def _value(name: str, arguments: str) -> str:
    found = re.search(rf"\b{name}=('.*?')(?: |$)", arguments)
    assert found is not None
    return str(ast.literal_eval(found[1]))


def _list(name: str, arguments: str) -> list[object]:
    found = re.search(rf"\b{name}=(\[.*?\])(?: \w+=|$)", arguments)
    assert found is not None
    return list(ast.literal_eval(found[1]))


_CUT = b"\0\0\0\1\0\0\0\0\0\0\0\x1a\0\0\0\1\0\0\0\1\0\0\0\4"
"""What the recordings leave out of: an array of one OID, in binary."""


def _parameter(shown: object, numbers: Mapping[int, int]) -> bytes | None:
    if shown is None:
        return None
    assert isinstance(shown, str)
    if "...(+" in shown:
        return _CUT + numbers[16389].to_bytes(4, "big")
    value = ast.literal_eval(shown)
    assert isinstance(value, bytes)
    return value

"""What the facade is asked of a statement before it is planned, in how many flights, and what is refused by its answer."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest

from dpproxy.errors import Refusal
from dpproxy.session.description import Description, client_values, describe, describe_ahead
from dpproxy.session.link import Exchange, Message
from dpproxy.session.outer_text import Outer
from dpproxy.session.private_talk import PrivateTalk
from dpproxy.sql.settings import NAMES
from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import Field

COLUMN = Field("n", 20)


def settings(temporary: bytes = b"0") -> list[bytes | None]:
    """A row of them, with what is temporary in the session."""
    return [b"UTF8" if name == "client_encoding" else None for name in NAMES] + [b"2024-01-02 03:04:05.000006", temporary]


def row(values: list[bytes | None]) -> Message:
    return b"D", back.data_row(values)


def described(*oids: int, fields: tuple[Field, ...] = (COLUMN,)) -> list[Message]:
    return [(b"t", back.parameter_description(oids)), (b"T", back.row_description(list(fields)))]


@dataclass
class Link:
    """Answers one exchange after the other; notes what was sent."""

    answers: deque[list[Message]]
    sent: list[bytes] = field(default_factory=list)

    async def exchange(self, data: bytes, completions: int | None) -> Exchange:
        self.sent.append(data)
        return Exchange(self.answers.popleft())


def talk(*answers: list[Message]) -> tuple[PrivateTalk, Link]:
    link: Any = Link(deque(answers))
    return PrivateTalk(link, True), link


async def test_a_statement_and_its_settings_are_one_flight() -> None:
    asking, link = talk([*described(23, 25), row(settings())])
    found = await describe(asking, front.parse("s", "SELECT 1"), 1, "s")
    assert (found.oids, found.types, found.fields) == ((23, 25), ("int4", "text"), (COLUMN,))
    assert found.settings["client_encoding"] == "UTF8"
    assert len(link.sent) == 1
    assert link.sent[0].startswith(front.parse("s", "SELECT 1") + front.describe("S", "s"))


async def test_a_type_that_does_not_exist_is_refused_in_postgres_words() -> None:
    asking, link = talk([*described(23, 4711, 4712), row(settings())], [row([b"4711", None, None])])
    with pytest.raises(Refusal, match="type with OID 4711 does not exist"):
        await describe(asking, b"", 0, "s")
    assert b"{4711, 4712}" in link.sent[1]
    asking, _ = talk([*described(4711), row(settings())], [row([None, None, None])])
    assert (await describe(asking, b"", 0, "s")).types == ("unknown",), "PostgreSQL has it, only the proxy does not know it"


async def test_enumerated_types_are_texts_to_a_plan_and_arrays_of_them_arrays_of_texts() -> None:
    asking, _ = talk([*described(4711, 23, 4712, 4713), row(settings())], [row([None, b"4711 4713", b"4712"])])
    assert (await describe(asking, b"", 0, "s")).types == ("text", "int4", "text[]", "text")


async def test_what_is_temporary_is_looked_at_once_there_is_any() -> None:
    asking, link = talk([*described(), row(settings(b"16400"))], [row([None])])
    await describe(asking, b"", 0, "s")
    assert len(link.sent) == 2
    asking, _ = talk([*described(), row(settings(b"16400"))], [row([b"int4"])])
    with pytest.raises(Refusal, match='"int4"'):
        await describe(asking, b"", 0, "s")


async def test_a_guess_goes_along_in_the_same_flight() -> None:
    guess = Outer("planned", "SELECT $1::int8[]", (1016,), (COLUMN,))
    outer = Field("other", 20)
    asking, link = talk([*described(), row(settings()), (b"T", back.row_description([outer]))])
    found, columns = await describe_ahead(asking, front.parse("", "SELECT 1"), guess)
    assert (found.fields, columns) == ((COLUMN,), (outer,))
    assert len(link.sent) == 1
    assert link.sent[0].endswith(front.parse("", guess.text, guess.oids) + front.describe("S", ""))
    asking, _ = talk([*described(), row(settings())])
    assert (await describe_ahead(asking, b"", guess))[1] is None


async def test_values_come_back_as_text_before_the_settings() -> None:
    asking, link = talk([row([b"5", None, *settings()])])
    texts, now = await client_values(asking, Description((23, 25), None, {}), "s", (b"\0\0\0\5", None), (1, 0))
    assert (texts, now["client_encoding"]) == (["5", None], "UTF8")
    assert link.sent[0].startswith(front.describe("S", "s")), "it may be gone"


async def test_a_wrong_number_of_values_asks_nothing() -> None:
    asking, link = talk()
    with pytest.raises(Refusal, match='bind message supplies 1 parameters, but prepared statement "s" requires 2'):
        await client_values(asking, Description((23, 25), None, {}), "s", (b"5",), ())
    assert link.sent == []

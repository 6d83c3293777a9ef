"""What the facade says of a statement before it is planned: types of its parameters, its columns, the settings of this moment.

Knows: the extended protocol, names of settings. Must not know: plans, which messages the client sent. The client's own text is
parsed and described by PostgreSQL, so names, privileges, types and errors are its own; it is never executed. The settings are
asked for in the same flight, since only the facade knows what SET, ROLLBACK and RESET have done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpproxy.answers.dataset import Settings
from dpproxy.errors import PROTOCOL_VIOLATION, UNDEFINED_OBJECT, Refusal
from dpproxy.session.encodings import decoded
from dpproxy.session.link import Exchange
from dpproxy.session.outer_text import Outer, type_name
from dpproxy.session.private_talk import PrivateTalk
from dpproxy.session.session_settings import HIDING, SELECT_LIST, WIDTH, check_hiding, has_temporary, read_settings
from dpproxy.sql.settings import CLIENT_ENCODING
from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import Field


@dataclass(frozen=True)
class Description:
    """What the facade says of the original. `fields` is None for a statement without columns."""

    oids: tuple[int, ...]
    fields: tuple[Field, ...] | None
    settings: Settings

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(map(type_name, self.oids))


async def describe(talk: PrivateTalk, parses: bytes, count: int, described: str) -> Description:
    """Send the Parse messages (`count` of them), describe one, read the settings. Raises StatementFailed, Refusal."""
    before = parses + front.describe("S", described)
    row, replies = await talk.ask_row(_SETTINGS, before=before, completions=count + 1)
    return await _described(talk, row, replies)


_SETTINGS = f"SELECT {SELECT_LIST}"


async def _current(talk: PrivateTalk, row: Sequence[bytes | None]) -> Settings:
    """The settings of `SELECT_LIST`. Raises Refusal where the session cannot be asked about private tables."""
    if has_temporary(row):
        (hiding,), _ = await talk.ask_row(HIDING)
        check_hiding(hiding)
    return read_settings(row)


async def _described(talk: PrivateTalk, row: Sequence[bytes | None], replies: Exchange) -> Description:
    oids = back.read_parameter_description(replies.payloads(b"t")[0])
    fields = replies.payloads(b"T")
    await _check_types(talk, oids)
    return Description(oids, back.read_row_description(fields[0]) if fields else None, await _current(talk, row))


async def describe_ahead(talk: PrivateTalk, parse: bytes, guess: Outer) -> tuple[Description, tuple[Field, ...] | None]:
    """Describe an unnamed statement, and in the same flight the outer query it had the last time; return its columns too.

    Not in a transaction, which a wrong guess would abort. Raises StatementFailed: for the guess, or for the statement.
    """
    behind = parsed_and_described("", guess.text, guess.oids)
    row, replies = await talk.ask_row(_SETTINGS, before=parse + front.describe("S", ""), completions=2, behind=behind)
    fields = replies.payloads(b"T")
    return await _described(talk, row, replies), back.read_row_description(fields[-1]) if len(fields) == 2 else None


async def _check_types(talk: PrivateTalk, oids: Sequence[int]) -> None:
    """Raises Refusal for a parameter of a type that does not exist: PostgreSQL believes a Parse until it needs the type."""
    strange = ", ".join(str(oid) for oid in sorted(set(oids)) if type_name(oid) == "unknown")
    if strange:
        sql = f"SELECT pg_catalog.min(given) FROM pg_catalog.unnest('{{{strange}}}'::oid[]) AS _(given)"
        (missing,), _ = await talk.ask_row(f"{sql} WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_type WHERE oid = given)")
        if missing is not None:
            raise Refusal(UNDEFINED_OBJECT, f"type with OID {missing.decode()} does not exist")


def parsed_and_described(name: str, outer: str, oids: Sequence[int]) -> bytes:
    """Return messages that parse a text anew under a name and describe it: three completions."""
    return front.close("S", name) + front.parse(name, outer, oids) + front.describe("S", name)


async def client_values(
    talk: PrivateTalk, description: Description, name: str, values: Sequence[bytes | None], formats: Sequence[int]
) -> tuple[list[str | None], Settings]:
    """Return PostgreSQL's text forms of the client's parameters, and the settings of this moment.

    The client's own statement is described on the way: it may be gone (DISCARD ALL). Raises StatementFailed, Refusal.
    """
    if len(values) != len(description.oids):  # in PostgreSQL's words, with the client's name of it
        told = f'bind message supplies {len(values)} parameters, but prepared statement "{name}" requires {len(description.oids)}'
        raise Refusal(PROTOCOL_VIOLATION, told)
    calls = [f"dpproxy.text_form(${i + 1})" for i in range(len(description.oids))]
    row, _ = await talk.ask_row(
        f"SELECT {', '.join([*calls, SELECT_LIST])}",
        description.oids,
        values,
        formats,
        before=front.describe("S", name),
        completions=1,
    )
    settings = await _current(talk, row[-WIDTH:])
    return decoded(row[: len(calls)], CLIENT_ENCODING.read(settings)), settings

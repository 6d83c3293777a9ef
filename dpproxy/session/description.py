"""What the facade says of a statement before it is planned: types of its parameters, its columns, the settings of this moment.

Knows: the extended protocol, names of settings. Must not know: plans, which messages the client sent. The client's own text is
parsed and described by PostgreSQL, so names, privileges, types and errors are its own; it is never executed. The settings are
asked for in the same flight, since only the facade knows what SET, ROLLBACK and RESET have done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from dpproxy.answers.dataset import Settings
from dpproxy.errors import FEATURE_NOT_SUPPORTED, INVALID_PARAMETER_VALUE, PROTOCOL_VIOLATION, UNDEFINED_OBJECT, Refusal
from dpproxy.session.encodings import decoded
from dpproxy.session.link import Exchange
from dpproxy.session.outer_text import Outer, type_name
from dpproxy.session.private_talk import PrivateTalk
from dpproxy.sql.repeatability import CLOCK
from dpproxy.sql.settings import CLIENT_ENCODING, NAMES, OWN
from dpproxy.sql.statements import Statement
from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import Field

# The session's settings as the facade holds them, read just before they matter.
#
# Knows: names of settings (`sql.settings`). Must not know: what is made of them. They are read from the facade at each private
# statement since only it knows what SET, SET LOCAL, ROLLBACK and RESET have done.


HIDING = """SELECT pg_catalog.min(own.name::pg_catalog.text) FROM (
SELECT typname FROM pg_catalog.pg_type WHERE typnamespace = pg_catalog.pg_my_temp_schema() AND typtype <> 'b' UNION ALL
SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = pg_catalog.pg_my_temp_schema() AND relkind = 'S') AS own(name)
WHERE EXISTS (SELECT FROM pg_catalog.pg_type AS t JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
WHERE t.typname = own.name AND n.nspname !~ '^pg_(toast_)?temp_')"""
"""A type or relation of the session's own that hides one of PostgreSQL's or of the policy: temporary ones come first. Each
relation but a sequence has a type of its name; base types are the arrays of these."""

LONGEST: Final = 10_000
"""Characters of a setting that are looked at: the facade keeps as many as it has memory for, and each statement asks anew."""

_CLOCK_SQL = "pg_catalog.to_char(LOCALTIMESTAMP, 'YYYY-MM-DD HH24:MI:SS.US')"
SELECT_LIST = ", ".join(
    (
        *(f"pg_catalog.left(pg_catalog.current_setting('{name}', true), {LONGEST + 1})" for name in NAMES),
        _CLOCK_SQL,
        "pg_catalog.pg_my_temp_schema()",
    )
)
WIDTH = len(NAMES) + 2
"""Columns of it."""


def read_settings(values: Sequence[bytes | None]) -> Settings:
    """Return them by name, with when the transaction began (`sql.repeatability.CLOCK`).

    An empty text, which is what a placeholder is left with after ROLLBACK, is None too.

    Raises Refusal when the client's encoding would garble what the proxy adds, and for a value that was cut (`LONGEST`).
    """
    encoding = (values[NAMES.index(CLIENT_ENCODING.name)] or b"").decode()
    texts = decoded(values[:-1], encoding)
    for name, text in zip(NAMES, texts, strict=False):
        if text is not None and len(text) > LONGEST:
            told = f'private tables can only be queried while "{name}" has at most {LONGEST:,} characters'
            raise Refusal(INVALID_PARAMETER_VALUE, told, hint=f"RESET {name}, or set it to less.")
    return MappingProxyType(dict(zip((*NAMES, CLOCK), (text or None for text in texts), strict=True)))


_SET = re.compile(r"""(?i)set\s+(?:(?:session|local)\s+)?("?dpproxy"?\s*\.\s*"?(?P<name>\w+)"?)""")


def check_name(statement: Statement) -> None:
    """Raises Refusal for SET of what is no setting of the proxy's: PostgreSQL lets every name with a prefix be set."""
    found = _SET.match(statement.text) if statement.kind == "other" else None
    name = f"dpproxy.{found['name'].lower()}" if found else NAMES[0]
    if found and name not in NAMES:
        known = ", ".join(setting.name for setting in OWN)
        at = statement.offset + found.start(1) + 1
        raise Refusal(UNDEFINED_OBJECT, f'unrecognized configuration parameter "{name}"', at, hint=f"There are {known}.")


_OPTION = re.compile(r"(?:-c\s*|--)((?:[^\s=\\]|\\.)+)=")


def misnamed(given: Mapping[str, str]) -> str | None:
    """Return the first name in a start-up packet that SET would refuse, as a parameter or in `options`."""
    names = [*given, *(name.replace("-", "_") for name in _OPTION.findall(given.get("options", "")))]
    plain = (name.replace("\\", "").lower() for name in names)
    return next((name for name in plain if name.startswith("dpproxy.") and name not in NAMES), None)


def has_temporary(values: Sequence[bytes | None]) -> bool:
    """Whether the session has, or had, anything temporary: then `HIDING` is to be asked."""
    return values[-1] != b"0"


def check_hiding(name: bytes | None) -> None:
    """Raises Refusal where names do not mean to PostgreSQL what they mean to the planner, by the answer to `HIDING`: it is
    PostgreSQL that checks that a function is given what it is for."""
    if name is not None:
        shown = name.decode(errors="replace")
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            f'private tables can only be queried while nothing temporary hides a type or table of its name, as "{shown}" does',
            hint="Drop it, or give it another name.",
        )


@dataclass(frozen=True)
class Description:
    """What the facade says of the original. `fields` is None for a statement without columns."""

    oids: tuple[int, ...]
    fields: tuple[Field, ...] | None
    settings: Settings
    enumerated: tuple[tuple[int, str], ...] = ()  # enumerated types of parameters, and arrays of them: texts to a plan

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(dict(self.enumerated).get(oid) or type_name(oid) for oid in self.oids)


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
    enumerated = await _enumerated(talk, oids)
    described = back.read_row_description(fields[0]) if fields else None
    return Description(oids, described, await _current(talk, row), enumerated)


async def describe_ahead(talk: PrivateTalk, parse: bytes, guess: Outer) -> tuple[Description, tuple[Field, ...] | None]:
    """Describe an unnamed statement, and in the same flight the outer query it had the last time; return its columns too.

    Not in a transaction, which a wrong guess would abort. Raises StatementFailed: for the guess, or for the statement.
    """
    behind = parsed_and_described("", guess.text, guess.oids)
    row, replies = await talk.ask_row(_SETTINGS, before=parse + front.describe("S", ""), completions=2, behind=behind)
    fields = replies.payloads(b"T")
    return await _described(talk, row, replies), back.read_row_description(fields[-1]) if len(fields) == 2 else None


async def _enumerated(talk: PrivateTalk, oids: Sequence[int]) -> tuple[tuple[int, str], ...]:
    """Which types of parameters are enumerated, or arrays of these. Raises Refusal for a type that does not exist: PostgreSQL
    believes a Parse until it needs the type."""
    strange = ", ".join(str(oid) for oid in sorted(set(oids)) if type_name(oid) == "unknown")
    if not strange:
        return ()
    row, _ = await talk.ask_row(_KINDS.format(strange))
    missing, single, arrays = row
    if missing is not None:
        raise Refusal(UNDEFINED_OBJECT, f"type with OID {missing.decode()} does not exist")
    known = (("text", single), ("text[]", arrays))
    return tuple((int(oid), type_) for type_, told in known for oid in (told or b"").split())


_KINDS = """
SELECT pg_catalog.min(given) FILTER (WHERE t.oid IS NULL),
  pg_catalog.string_agg(given::pg_catalog.text, ' ') FILTER (WHERE t.typtype = 'e'),
  pg_catalog.string_agg(given::pg_catalog.text, ' ') FILTER (WHERE e.typtype = 'e' AND t.typcategory = 'A')
FROM pg_catalog.unnest('{{{}}}'::pg_catalog.oid[]) AS _(given) LEFT JOIN pg_catalog.pg_type t ON t.oid = given
LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem
"""


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

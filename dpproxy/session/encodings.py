"""Clients that do not speak UTF-8: psql in a Windows console, old ODBC drivers. The facade converts what passes through it.

Knows: PostgreSQL's names of encodings and Python's. Must not know: connections, plans. The proxy's own words to the facade are
ASCII, and so must be what it reads of a statement over private tables; values of parameters and released texts are converted
here. Encodings of several bytes a character are left out: their tables differ between PostgreSQL and Python, and in some of
them a part of a character looks like punctuation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dpproxy.errors import FEATURE_NOT_SUPPORTED, UNTRANSLATABLE_CHARACTER, Refusal
from dpproxy.sql.statements import Statement
from dpproxy.wire import frontend_build as front
from dpproxy.wire.frontend import Parse

UTF8: Final = "utf-8"
_LATIN: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 9, 6: 10, 7: 13, 8: 14, 9: 15, 10: 16}  # LATIN5 is ISO 8859-9, and so on
CODECS: Final = {
    "UTF8": UTF8,
    "UNICODE": UTF8,  # PostgreSQL shows this old name of it as it was set; of all others it shows its own
    "SQL_ASCII": UTF8,
    **{f"LATIN{n}": f"iso8859-{part}" for n, part in _LATIN.items()},
    **{f"ISO_8859_{n}": f"iso8859-{n}" for n in (5, 6, 7, 8)},
    **{f"WIN{n}": f"cp{n}" for n in (866, 874, *range(1250, 1259))},
    "KOI8R": "koi8-r",
    "KOI8U": "koi8-u",
}


def codec(encoding: str | None) -> str:
    """Return Python's name of the client's encoding. Raises Refusal for one that is not known."""
    found = CODECS.get(encoding or "")
    if found is None:
        raise _use_utf8("private tables cannot be queried with this client_encoding")
    return found


def check_texts(encoding: str | None, texts: Sequence[str]) -> None:
    """Raises Refusal where these would mean something else to the facade."""
    if codec(encoding) != UTF8 and not all(text.isascii() for text in texts):
        raise _use_utf8("private tables can only be queried in ASCII with this client_encoding")


def converted(literals: Sequence[bytes | None], encoding: str | None) -> list[bytes | None]:
    """Return texts in the client's encoding instead of UTF-8. Raises Refusal for a character that the client's encoding does not
    have, as PostgreSQL does."""
    name = codec(encoding)
    if name == UTF8:
        return list(literals)
    try:
        return [None if v is None else v if v.isascii() else v.decode().encode(name) for v in literals]
    except UnicodeEncodeError as error:
        code = error.object[error.start].encode()
        told = f'character with byte sequence {" ".join(f"0x{byte:02x}" for byte in code)} in encoding "UTF8"'
        raise Refusal(UNTRANSLATABLE_CHARACTER, f'{told} has no equivalent in encoding "{encoding}"') from None


def decoded(values: Sequence[bytes | None], encoding: str | None) -> list[str | None]:
    """Return texts that the facade has sent in the client's encoding."""
    name = codec(encoding)
    return [None if value is None else value.decode(name) for value in values]


def _use_utf8(told: str) -> Refusal:
    return Refusal(FEATURE_NOT_SUPPORTED, told, hint="SET client_encoding = 'UTF8';")


# What reads public tables alone, in PostgreSQL's words where it came in another engine's.
#
# Knows: statements and the bytes they came in. Must not know: what they mean. Such a statement is passed on as it came, unless
# `sql.translation` wrote it otherwise when it was split.


def query(raw: bytes, sql: str, statements: Sequence[Statement]) -> bytes:
    """Return the simple query to pass on."""
    texts = [s.text for s in statements]
    return raw if all(text in sql for text in texts) else front.query("; ".join(texts))


def parse(raw: bytes, message: Parse, statements: Sequence[Statement]) -> bytes:
    """Return the Parse to pass on; of a statement that is planned, as it came."""
    if len(statements) != 1 or statements[0].private or statements[0].text in message.sql:
        return raw
    return front.parse(message.name, statements[0].text, message.oids)

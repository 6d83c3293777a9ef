"""Whether a client's message has to be read by the proxy, from a look at its names and words.

Knows: where a message holds a name or a text, words that name prepared statements in SQL. Must not know: SQL beyond those words.
What it is in doubt of has to be read.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Protocol

from dpproxy.session.sql_prepare import WORDS
from dpproxy.wire.frontend import peek_bind, peek_name
from dpproxy.wire.protocol import ProtocolError


class Reader(Protocol):
    """Is a session. `private`: the names of its prepared statements over private tables."""

    @property
    def private(self) -> Container[str]: ...

    def mentions(self, text: bytes) -> bool:
        """Return whether a text holds a word for which it must be read."""
        ...


def text_concerns(reader: Reader, text: bytes) -> bool:
    """Return whether a text holds a word of the dataset's, or may name a prepared statement by SQL."""
    return reader.mentions(text) or (bool(reader.private) and any(word in text.lower() for word in WORDS))


def concerns(reader: Reader, tag: bytes, buffer: bytes, start: int, end: int) -> bool:
    """Return whether a message needs more than to be passed on."""
    private = reader.private
    if tag == b"Q":
        return text_concerns(reader, buffer[start + 5 : end])
    try:
        if tag == b"P":
            named = bool(private) and peek_name(buffer, start) in private
            return named or reader.mentions(buffer[start + 5 : end])
        if tag == b"B":
            return bool(private) and peek_bind(buffer, start)[1] in private
        if tag == b"C":
            return bool(private) and peek_name(buffer, start + 1) in private
    except ProtocolError:
        return False  # the facade says what is wrong with it
    return True

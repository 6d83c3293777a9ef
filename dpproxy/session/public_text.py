"""What reads public tables alone, in PostgreSQL's words where it came in another engine's.

Knows: statements and the bytes they came in. Must not know: what they mean. Such a statement is passed on as it came, unless
`sql.translation` wrote it otherwise when it was split.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.sql.statements import Statement
from dpproxy.wire import frontend_build as front
from dpproxy.wire.frontend import Parse


def query(raw: bytes, sql: str, statements: Sequence[Statement]) -> bytes:
    """Return the simple query to pass on."""
    texts = [s.text for s in statements]
    return raw if all(text in sql for text in texts) else front.query("; ".join(texts))


def parse(raw: bytes, message: Parse, statements: Sequence[Statement]) -> bytes:
    """Return the Parse to pass on; of a statement that is planned, as it came."""
    if len(statements) != 1 or statements[0].private or statements[0].text in message.sql:
        return raw
    return front.parse(message.name, statements[0].text, message.oids)

"""PREPARE, EXECUTE and DEALLOCATE over private tables, as statements of the simple protocol.

Knows: how such statements are spelled, the protocol's own prepared statements, of which these are another spelling. Must
not know: plans, answers. PREPARE is run by the facade as it is, so that its name, types and errors are PostgreSQL's;
EXECUTE binds the outer query in its place. Arguments are evaluated by the facade, in the session of who wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dpproxy.errors import FEATURE_NOT_SUPPORTED, SYNTAX_ERROR, Refusal
from dpproxy.session.description import Description, describe
from dpproxy.session.parameter_values import PreparedStatement
from dpproxy.session.private_statement import cut
from dpproxy.session.private_talk import PrivateTalk
from dpproxy.sql.statements import Named, Statement, named
from dpproxy.wire import frontend_build as front

_INSIDE = re.compile(r'(?i)\bexecute\s+("(?P<quoted>[^"]+)"|(?P<plain>\w+))')
WORDS = (b"execute", b"deallocate", b"discard")
"""With prepared statements over private tables in a session, a text with one of these is worth a second look."""


def concerned(statement: Statement, private: Mapping[str, PreparedStatement]) -> Named | None:
    """Return what a statement does with a private one by name. Raises Refusal for EXECUTE inside another statement."""
    if not private or statement.kind == "select":
        return None
    found = named(statement.text)
    if found is not None and found.word == "DEALLOCATE":
        return found if found.name in private or not found.name else None
    if found is not None and found.word == "EXECUTE":
        return found if found.name in private else None
    inside = _INSIDE.search(statement.text)
    if inside is not None and (inside["quoted"] or inside["plain"].lower()) in private:
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            "a prepared statement over private tables can only be executed by itself",
            statement.offset + 1,
            hint="Use EXECUTE alone, or put its query in place of it.",
        )
    return None


async def prepare(talk: PrivateTalk, statement: Statement, name: str) -> Description:
    """Run PREPARE on the facade; return what the facade says of it. Raises StatementFailed, Refusal."""
    text = " " * statement.offset + statement.text
    await talk.ask(front.parse("", text) + front.bind("", "", ()) + front.execute(""), 3)
    return await describe(talk, b"", 0, name)


async def arguments(talk: PrivateTalk, given: Sequence[str], private: PreparedStatement, most: int) -> list[bytes | None]:
    """Return the values of EXECUTE's arguments as text, of `most` characters and one each. Raises StatementFailed, Refusal."""
    types = private.description.types
    if len(given) != len(types):
        raise Refusal(
            SYNTAX_ERROR,
            "wrong number of parameters for prepared statement",
            detail=f"Expected {len(types)} parameters but got {len(given)}.",
        )
    if not given:
        return []
    calls = ", ".join(cut(f"dpproxy.text_form(({text})::{type_})", most) for text, type_ in zip(given, types, strict=True))
    row, _ = await talk.ask_row(f"SELECT {calls}")
    return list(row)

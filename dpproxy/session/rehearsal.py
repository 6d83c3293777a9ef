"""Whatever can be foreseen to fail on the facade fails before the charge: the statement is tried there without its numbers.

Knows: the extended protocol, names of tables and cursors in a statement's head. Must not know: plans, charges. A query is bound
as it will be, with NULL for its arrays, under the client's own name of the portal: so PostgreSQL checks names, formats and
rights. A COPY, a cursor or a temporary table is made of no rows, and taken away again. Errors are PostgreSQL's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpproxy.answers.question import Needless
from dpproxy.errors import FEATURE_NOT_SUPPORTED, NO_ACTIVE_SQL_TRANSACTION, Refusal
from dpproxy.session.private_statement import PrivateStatement, all_formats, outer_oids
from dpproxy.session.private_talk import SCRATCH, PrivateTalk
from dpproxy.sql.statements import made
from dpproxy.wire import frontend_build as front
from dpproxy.wire.frontend import Bind

NO_TRANSACTION = Refusal(NO_ACTIVE_SQL_TRANSACTION, "DECLARE CURSOR can only be used in transaction blocks")


async def rehearse(talk: PrivateTalk, private: PrivateStatement, bind: Bind, alone: bool) -> None:
    """Try a statement without its numbers. `bind` is the client's, or what it would be. `alone`: no transaction is open, and
    nothing went before in this one.

    Raises StatementFailed, Refusal, LinkLost, and Needless.
    """
    if private.inlined:
        await _tried(talk, private, bind, alone)
        return
    arrays = len(private.elements)
    values, formats = [*bind.values, *[None] * arrays], all_formats(bind.formats, len(bind.values), arrays)
    data = front.bind(bind.portal, private.internal, values, formats, bind.result_formats) + front.close("P", bind.portal)
    if not private.internal:  # the unnamed statement may be another by now
        data = front.parse("", private.outer, outer_oids(private)) + data
    await talk.ask(data, 2 if private.internal else 3)


async def _tried(talk: PrivateTalk, private: PrivateStatement, bind: Bind, alone: bool) -> None:
    kind, target, undo = private.statement.kind, made(private.statement), ""
    if kind != "copy" and target is None:
        raise Refusal(FEATURE_NOT_SUPPORTED, "this name cannot be read", hint="Write it plainly, or in double quotes.")
    if kind == "cursor" and target is not None:
        if alone and not target.held:
            raise replace(NO_TRANSACTION)
        undo = f"CLOSE {target.name}"
    elif target is not None:
        if target.unless and await _exists(talk, target.name):
            raise Needless
        undo = f"DROP TABLE pg_temp.{target.name}"
    text = private.text([b"{}"] * len(private.elements), rows=False)
    tried = _execution(text, private.description.oids, bind.values, bind.formats)
    await talk.ask(tried + (_execution(undo) if undo else b""), 10 if undo else 5)


def _execution(text: str, oids: Sequence[int] = (), values: Sequence[bytes | None] = (), formats: Sequence[int] = ()) -> bytes:
    """Five messages."""
    parse = front.close("S", SCRATCH) + front.parse(SCRATCH, text, oids)
    return parse + front.bind(SCRATCH, SCRATCH, values, formats) + front.execute(SCRATCH) + front.close("P", SCRATCH)


async def _exists(talk: PrivateTalk, name: str) -> bool:
    text = f"pg_temp.{name}".replace("'", "''")
    (found,), _ = await talk.ask_row(f"SELECT pg_catalog.to_regclass('{text}') IS NOT NULL")
    return found == b"t"

"""A statement with its constants evaluated by the facade, for plans that have to know them.

Knows: which expressions are constants (`sql.constants`), the extended protocol. Must not know: plans, charges. All constants of a
statement are asked for in one question. A text is looked through where it is planned, beside the loop, and within as many steps.
The facade has public tables and no private row, so whatever it says of a text may be known to everybody who may use it. Tables
that are too large for the facade have no rows there: what reads one is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.answers.statement_end import Ending, StatementFailed
from dpproxy.errors import QUERY_CANCELED, Refusal
from dpproxy.session.description import Description
from dpproxy.session.encodings import decoded
from dpproxy.session.outer_text import type_name
from dpproxy.session.private_talk import PrivateTalk
from dpproxy.sql.constants import Constants, constants, evaluable, replaced
from dpproxy.sql.guard import MAX_LENGTH
from dpproxy.sql.settings import CLIENT_ENCODING
from dpproxy.sql.statements import Statement
from dpproxy.wire import backend as back

LONGEST: Final = 10_000
"""Characters of a constant that is written into a statement."""

T = TypeVar("T")


async def foldable(dataset: Dataset, asker: Asker, statement: Statement, ending: Ending) -> Constants | None:
    """Return the constants of a statement that are more than literals; None where there is none. Raises Refusal when the
    statement is to end."""
    found = await _looked_through(dataset, statement, ending, lambda: constants(statement.query, _tables(dataset, asker)))
    return found if found is not None and (found.texts or found.columns) else None


async def _looked_through(dataset: Dataset, statement: Statement, ending: Ending, work: Callable[[], T]) -> T | None:
    """What `work` on a statement gives, None where that is too much. Raises Refusal when the statement is to end."""
    try:
        return await dataset.plans.counted_aside(ending.race, len(statement.query), work)
    except Refusal as refusal:
        if refusal.sqlstate == QUERY_CANCELED:
            raise
        return None
    except RecursionError:
        return None


def _tables(dataset: Dataset, asker: Asker) -> frozenset[str]:
    """Bare names of the public tables that the asker may read, and that the facade has the rows of."""
    role, policy = asker.role, dataset.policy
    hidden = dataset.plans.names | {name.name for name in dataset.withheld}
    shown = (t.name for t in policy.tables.values() if t.kind.shown and (role.tables is None or t.name in role.tables))
    return frozenset(name.name for name in shown) - hidden


async def with_values(
    talk: PrivateTalk, dataset: Dataset, asker: Asker, statement: Statement, description: Description, ending: Ending
) -> Statement | None:
    """Return the statement with literals in the places of its constants, None where that changes nothing. Raises LinkLost, and
    StatementFailed or Refusal when it is to end."""
    found = await foldable(dataset, asker, statement, ending)
    if found is None:
        return None
    values = await _evaluated(talk, found, description) if found.texts else {}
    if values is None:
        return None
    tables = _tables(dataset, asker)
    query = await _looked_through(dataset, statement, ending, lambda: replaced(statement.query, tables, values))
    if query is None or query == statement.query or len(query) > MAX_LENGTH:
        return None
    return replace(statement, query=query, text=f"{statement.prefix}{statement.into}{query}{statement.suffix}")


async def _evaluated(talk: PrivateTalk, found: Constants, description: Description) -> dict[str, tuple[str, str | None]] | None:
    """Types and values of the texts, None where PostgreSQL says that one is wrong. Raises LinkLost, StatementFailed."""
    forms = ", ".join(
        f"pg_catalog.left(dpproxy.text_form({text}), {LONGEST + 1}), pg_catalog.pg_typeof({text})::pg_catalog.oid"
        for text in found.texts
    )
    try:
        row, _ = await talk.ask_row(f"{found.names}SELECT {forms}")
    except StatementFailed as failure:
        if back.read_report(failure.raw[5:]).get("C") == QUERY_CANCELED:
            raise
        return None
    values = {}
    texts = decoded(row, CLIENT_ENCODING.read(description.settings))
    for text, value, oid in zip(found.texts, texts[::2], texts[1::2], strict=True):
        type_ = type_name(int(oid or 0))
        if evaluable(type_) and len(value or "") <= LONGEST:
            values[text] = type_, value
    return values

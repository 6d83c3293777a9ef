"""A draft's questions, asked through a proxy of the draft itself, whose only role may spend what the owner allots and no more.

Knows: processes, a PostgreSQL client, how an allotment is divided. Must not know: what is asked, what becomes of answers. Each
question is planned, charged and recorded in the ledger of `state` as any analyst's. Epsilon is divided by the questions' weights;
a part is kept for those that depend on first answers, and what a question did not cost goes to them as well.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any

import asyncpg

from dpproxy import postgres_connections
from dpproxy.authoring.draft import Decisions, Frame, draft
from dpproxy.authoring.paid_questions import Account, Answer, Asked, account, ends, forecast, measured, questions, searching
from dpproxy.authoring.progress import Progress, bar
from dpproxy.authoring.schema_facts import Facts, Place
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.names import plural
from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import launched
from dpproxy.table_terms import TableName

FINEST = Decimal("0.000001")  # the finest epsilon that a ledger counts
DELTA = Decimal("0.00000001")  # of all questions together: that a value of one person is shown after all
THRESHOLDS = 20  # of a role's delta thresholds may take a part only: a twentieth is within each `privacy.accountant.Shares`
_WORD = "of a draft"


@dataclass(frozen=True)
class Draft:
    """What a draft is made of."""

    catalog: Catalog
    facts: Mapping[Place, Facts]
    decisions: Decisions
    frame: Frame


def measurements(made: Draft, epsilon: Decimal, folder: Path, state: Path, agreed: Callable[[str], bool]) -> Decisions:
    """Ask what the draft leaves open, and return its decisions with the answers. `folder`: where the policy's paths begin;
    `state`: whose ledger is charged. `agreed` is told what so much epsilon
    can tell, and says whether to spend it. If not, the decisions stay as they are and nothing is charged. Raises LaunchError,
    OSError, asyncpg's errors where no session can be had."""
    first = questions(made.catalog, made.decisions, made.facts)
    delta = (DELTA / (THRESHOLDS * len(first))).quantize(Decimal("1e-15"), ROUND_FLOOR)
    limits = (
        f"budget: {{ epsilon: {epsilon:f}, delta: {DELTA:f}, every: never }}",
        f"query: {{ epsilon: {epsilon:f}, max_epsilon: {epsilon:f}, delta: {delta:f} }}",
        "min_units: 1",
    )
    frame = replace(made.frame, user="init", role="init", verifier=make_verifier(_WORD), limits=limits)
    text = draft(made.catalog, searching(made.catalog, made.decisions, made.facts), made.facts, frame)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=folder, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        with launched([Path(file.name)], state) as proxy:
            answers = asyncio.run(_asked(made, first, epsilon, (proxy.host, proxy.port), agreed))
    return measured(made.catalog, made.decisions, answers)


async def _asked(
    made: Draft, first: Sequence[Asked], epsilon: Decimal, address: tuple[str, int], agreed: Callable[[str], bool]
) -> list[Answer]:
    connection = await postgres_connections.connect(
        host=address[0], port=address[1], user="init", password=_WORD, database=made.frame.dataset
    )
    try:
        later = ends(made.catalog, made.decisions, made.facts)
        kept = sum(asked.weight for asked in later)
        with bar("planning") as progress:
            parts = _parts([*first, *later], epsilon, Decimal(0))
            told = [(a, await _foreseen(connection, a, part)) for a, part in _counted(parts, "planning", progress)]
        known = [(asked, account) for asked, account in told if account is not None]
        if not known or not agreed(forecast(epsilon, known, plural(made.decisions.unit_name))):
            return []
        with bar("measuring") as progress:
            answers = await _shared(connection, first, epsilon, kept, progress)
            found = measured(made.catalog, made.decisions, answers)
            left = epsilon - sum(answer.epsilon for answer in answers)
            return answers + await _shared(connection, ends(made.catalog, found, made.facts), left, Decimal(0), progress)
    finally:
        await connection.close()


def _parts(asked: Sequence[Asked], epsilon: Decimal, kept: Decimal | int) -> list[tuple[Asked, Decimal]]:
    """Divide one epsilon by the questions' weights. `kept`: the weight of what is asked later. A part has three digits, to be
    read."""
    whole = sum((question.weight for question in asked), Decimal(kept))
    parts = [(question, epsilon * question.weight / whole) for question in asked]
    return [(q, e.quantize(max(FINEST, Decimal(1).scaleb(e.adjusted() - 2)), ROUND_FLOOR)) for q, e in parts]


def _counted(parts: Sequence[tuple[Asked, Decimal]], what: str, progress: Progress) -> Iterator[tuple[Asked, Decimal]]:
    """Each part in turn, with the bar moved on before it."""
    for done, (question, epsilon) in enumerate(parts):
        progress(f"{what} {question.about if isinstance(question.about, TableName) else question.about[0]}", done, len(parts))
        yield question, epsilon


async def _shared(
    connection: Any, asked: Sequence[Asked], epsilon: Decimal, kept: Decimal | int, progress: Progress
) -> list[Answer]:
    """Ask questions of one epsilon, divided by their weights."""
    parts = _counted(_parts(asked, epsilon, kept), "measuring", progress)
    found = [await _answer(connection, question, part) for question, part in parts]
    return [answer for answer in found if answer is not None]


async def _foreseen(connection: Any, asked: Asked, epsilon: Decimal) -> Account | None:
    """What EXPLAIN says of a question, which costs nothing; None where it is refused."""
    try:
        await connection.execute("SELECT set_config('dpproxy.epsilon', $1, false)", f"{epsilon:f}")
        told = await connection.fetch(f"EXPLAIN (FORMAT JSON) {asked.sql}")
    except asyncpg.PostgresError:
        return None  # what it says is said when it is asked
    return account("\n".join(row[0] for row in told))


async def _answer(connection: Any, asked: Asked, epsilon: Decimal) -> Answer | None:
    """Ask one question; None where it is refused, which costs nothing."""
    try:
        await connection.execute("SELECT set_config('dpproxy.epsilon', $1, false)", f"{epsilon:f}")
        told = await connection.fetch(f"EXPLAIN (FORMAT JSON) {asked.sql}")
        rows = await connection.fetch(asked.sql)
    except asyncpg.PostgresError as error:
        print(f"not measured: {asked.sql}: {error}", file=sys.stderr)
        return None
    return Answer(asked, epsilon, [tuple(row) for row in rows], account("\n".join(row[0] for row in told)))

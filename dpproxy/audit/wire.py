"""Two proxies as analysts have them, one over the invented rows, one over a neighbour: the same questions to both.

Knows: processes, a PostgreSQL client. Must not know: what answers tell. The policy is changed as for a trial
(`authoring.trials`): budgets that nothing reaches, every answer measured anew, a user for each role. Two proxies and not
two datasets of one, so that no cache is shared. What is no number in an answer is its code: the error, the columns, where
NULLs are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Hashable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import asyncpg

from dpproxy import postgres_connections
from dpproxy.audit.bench import AuditBench, Statement
from dpproxy.audit.events import Outcome
from dpproxy.authoring.trials import Variant, asker, varied
from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import Proxy, launched

SESSIONS = 3
"""On each proxy: more would wait for the same processor."""
MOST = 20_000
"""Answers of each database to one statement."""
_WORD = "of an audit"


@dataclass(frozen=True)
class Pair:
    """Two running proxies: over the whole database, and over the neighbour."""

    whole: Proxy
    without: Proxy
    dataset: str


@dataclass(frozen=True)
class Answers:
    """What both said to one statement, in the order asked."""

    one: tuple[Outcome, ...]
    other: tuple[Outcome, ...]


@contextmanager
def pair(bench: AuditBench) -> Iterator[Pair]:
    """Start two proxies. Raises LaunchError, OSError."""
    verifier, dataset = make_verifier(_WORD), "audited"
    texts = [path.read_text(encoding="utf-8-sig") for path in (Path(bench.loaded.file), *bench.loaded.included)]
    with ExitStack() as stack:
        started = []
        for name, database in (("whole", bench.whole), ("without", bench.without)):
            path = bench.folder / f"{name}.yaml"
            path.write_text(varied(texts, Variant(dataset), database, verifier), encoding="utf-8")
            started.append(stack.enter_context(launched([path], bench.folder / f"{name}.state")))
        yield Pair(started[0], started[1], dataset)


@asynccontextmanager
async def sessions(both: Pair, asked: Statement, many: int) -> AsyncIterator[tuple[list[Any], list[Any]]]:
    """Connect as a statement's role, `many` times to each proxy. Raises asyncpg's errors, OSError."""
    opened: tuple[list[Any], list[Any]] = ([], [])
    try:
        for proxy, held in zip((both.whole, both.without), opened, strict=True):
            for _ in range(many):
                connection = await postgres_connections.connect(
                    host=proxy.host, port=proxy.port, user=asker(asked.role), password=_WORD, database=both.dataset, timeout=60
                )
                held.append(connection)
                for name, value in asked.settings:
                    await connection.execute("SELECT set_config($1, $2, false)", name, value)
        yield opened
    finally:
        for connection in (*opened[0], *opened[1]):
            await connection.close()


async def ask(both: Pair, asked: Statement, seconds: float, most: int = MOST) -> Answers:
    """Ask a statement of both for so long. Raises asyncpg's errors where no session can be had."""
    ends = time.monotonic() + seconds

    async def all_of(connection: Any) -> list[Outcome]:
        found: list[Outcome] = []
        while time.monotonic() < ends and len(found) < most // SESSIONS:
            found.append(await answer(connection, asked.sql))
        return found

    async with sessions(both, asked, SESSIONS) as (here, there):
        found = await asyncio.gather(*(all_of(connection) for connection in (*here, *there)))
    return Answers(tuple(chain.from_iterable(found[:SESSIONS])), tuple(chain.from_iterable(found[SESSIONS:])))


async def answer(connection: Any, sql: str) -> Outcome:
    """Return one answer: or the error, of which the message counts as much as the code."""
    try:
        rows = await connection.fetch(sql)
    except asyncpg.PostgresError as error:
        return Outcome((error.sqlstate, str(error)), {})
    return as_outcome([tuple(row.items()) for row in rows])


def as_outcome(rows: Sequence[Sequence[tuple[str, Any]]]) -> Outcome:
    """Return rows of named cells as events look at them. A row is named by what is no number in it."""
    numbers: dict[Hashable, float] = {}
    nulls: list[Hashable] = []
    for row in rows:
        name = tuple(str(value) for _, value in row if not _is_number(value) and value is not None)
        for column, value in row:
            if isinstance(value, list):
                numbers |= {(name, column, i): float(v) for i, v in enumerate(value) if _is_number(v)}
            elif _is_number(value):
                numbers[(name, column)] = float(value)
            elif value is None:
                nulls.append((name, column))
    columns = tuple(column for column, _ in rows[0]) if rows else ()
    return Outcome((columns, tuple(sorted(map(str, nulls)))), numbers)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)

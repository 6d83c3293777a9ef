"""Questions asked of a policy over invented rows, through a proxy as analysts have it: how far off its answers are, and why.

Knows: processes, a PostgreSQL client, policies' texts. Must not know: how errors are told. One proxy serves every variant of the
policy (`authoring.variants`), each over a copy of the same file; its ledger and its people are thrown away. What noise does is
seen beside the answer without noise, what bounds do beside the answer that no bound cuts.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpproxy import postgres_connections
from dpproxy.authoring.deviations import Rows, deviation, missing
from dpproxy.authoring.progress import Progress, silent
from dpproxy.authoring.query_log import Question
from dpproxy.authoring.variants import Variant, asker, varied
from dpproxy.policy.password import make_verifier
from dpproxy.postgres_failures import FAILURES
from dpproxy.serve.launch import Proxy, launched

AS_IS, QUIET, WHOLE = Variant("as_is"), Variant("quiet", quiet=True), Variant("whole", quiet=True, rows=None)
OTHER_ROWS = {factor: Variant(f"rows_{factor:g}".replace(".", "_"), rows=factor) for factor in (0.25, 0.5, 2.0, 4.0)}
REPEATS = 3
_WORD = "of invented people"


@dataclass(frozen=True)
class Trial:
    """A trial says how far answers to a question are off, as medians over cells, relative to the answer that no bound cuts.

    `noise`: of noise alone; `bounds`: of bounds alone; `both`: of the policy as it is; `other_rows`: of the policy with bounds
    on rows times a factor; `hidden`: rows of the answer that are not shown. None: the question could not be compared;
    `failure` says why.
    """

    noise: float | None = None
    bounds: float | None = None
    both: float | None = None
    other_rows: tuple[tuple[float, float], ...] = ()
    hidden: int = 0
    failure: str = ""


def tried(
    texts: Sequence[str], database: Path, questions: Sequence[Question], folder: Path, progress: Progress = silent
) -> tuple[Trial, ...]:
    """Ask all questions of all variants. `texts`: the policy's, and those that it includes; `folder`: an empty one for what the
    proxy needs. Raises LaunchError, OSError."""
    verifier, variants = make_verifier(_WORD), (AS_IS, QUIET, WHOLE, *OTHER_ROWS.values())
    policies = []
    for variant in variants:
        copied = folder / f"{variant.dataset}.duckdb"
        shutil.copyfile(database, copied)
        path = folder / f"{variant.dataset}.yaml"
        path.write_text(varied(texts, variant, copied, verifier), encoding="utf-8")
        policies.append(path)
    with launched(policies, folder / "state") as proxy:
        return asyncio.run(_all(proxy, questions, progress))


async def _all(proxy: Proxy, questions: Sequence[Question], progress: Progress) -> tuple[Trial, ...]:
    found = []
    for done, question in enumerate(questions):
        progress("asking", done, len(questions))
        try:
            found.append(await _trial(proxy, question))
        except FAILURES as error:
            found.append(Trial(failure=str(error)))
    return tuple(found)


async def _trial(proxy: Proxy, question: Question) -> Trial:
    whole, quiet = await _answer(proxy, WHOLE, question), await _answer(proxy, QUIET, question)
    noisy = [await _answer(proxy, AS_IS, question) for _ in range(REPEATS)]
    others = {factor: [await _answer(proxy, v, question) for _ in range(REPEATS)] for factor, v in OTHER_ROWS.items()}
    every = [quiet, *noisy]
    return Trial(
        noise=_typical(noisy, quiet, every),
        bounds=deviation(quiet, whole, every),
        both=_typical(noisy, whole, every),
        other_rows=tuple((f, off) for f, rows in others.items() if (off := _typical(rows, whole, every)) is not None),
        hidden=round(statistics.median(missing(rows, whole) for rows in noisy)),
    )


def _typical(answers: Sequence[Rows], true: Rows, others: Sequence[Rows]) -> float | None:
    found = [off for rows in answers if (off := deviation(rows, true, others)) is not None]
    return statistics.median(found) if found else None


async def _answer(proxy: Proxy, variant: Variant, question: Question) -> Rows:
    connection = await postgres_connections.connect(
        host=proxy.host, port=proxy.port, user=asker(question.role), password=_WORD, database=variant.dataset, timeout=60
    )
    try:
        for name, value in question.settings:
            if not (variant.quiet and name == "dpproxy.epsilon"):
                await connection.execute("SELECT set_config($1, $2, false)", name, value)
        rows: list[Any] = await connection.fetch(question.query)
        return [tuple(row) for row in rows]
    finally:
        await connection.close()

"""What a session gets for a question: an answer, or what EXPLAIN says of it; and the operator's log its line.

Knows: answers, previews, the log. Must not know: protocols. Where the client sets an accuracy, a question is asked several
times, each time with more of the budget (`accuracy_search`): each of these is one delivery. What is not delivered is noted by
the session, which alone knows what becomes of a refusal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from dpproxy.answers.answering import Answer, Answering
from dpproxy.answers.array_literals import text_literal
from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.answers.preview import foretold, preview
from dpproxy.answers.question import Needless, Question
from dpproxy.answers.statement_end import Ending
from dpproxy.privacy.loss import ZERO, Loss
from dpproxy.telemetry import statement_event
from dpproxy.telemetry.statement_event import StatementEvent, Verdict, milliseconds


async def deliver(
    question: Question, parameters: Sequence[str | None], *, quiet: bool = False, aimed: bool = False
) -> tuple[Answer, float]:
    """Return the answer; and the largest typical error of its aggregates where it is `aimed` at one, else 1.

    `quiet`: the client wants no notices. Raises Refusal, StatementFailed, LinkLost.
    """
    pause = question.dataset.pauses.of(question.dataset.policy.dataset, question.asker.role.name)
    if pause is not None:
        raise pause.refusal()
    if question.kind == "explain":
        lines = foretold(question.plan.explain, await preview(question, parameters))
        _note(question, Answer((), None), "explained")
        return Answer((text_literal(lines),), None), 1.0
    answering = Answering(question)
    try:
        answer = await answering.run(parameters)
    except Needless:
        return Answer(tuple(b"{}" for _ in question.plan.arrays), None), 1.0
    error = await answering.error() if aimed else 1.0
    _note(question, answer, _verdict(question, answer))
    question.ending.paid = ZERO
    silent = quiet and not question.plan.preview  # which is told in any case: its rows look like others
    return replace(answer, notice=None) if silent else answer, error


def _verdict(question: Question, answer: Answer) -> Verdict:
    if question.plan.preview:
        return "preview"
    return "answered" if answer.charged or not answer.reused else "reused"


def _note(question: Question, answer: Answer, verdict: Verdict) -> None:
    free = verdict in ("explained", "preview")
    note(
        question.dataset,
        question.asker,
        (question.session, question.statement, question.kind, verdict),
        question.ending,
        answer.charged,
        saved=0 if free else max(0, question.plan.loss.epsilon - answer.charged.epsilon),
        measurements=len(question.plan.measurements),
        reused=answer.reused,
        rows=answer.rows,
    )


def note(
    dataset: Dataset,
    asker: Asker,
    ended: tuple[int, str, str, Verdict],
    ending: Ending | None,
    paid: Loss,
    *,
    saved: int = 0,
    measurements: int = 0,
    reused: int = 0,
    rows: int = 0,
    why: tuple[str, str, str] = ("", "", ""),
) -> None:
    """Write the line of a statement that has ended, and count it. `ended`: its session, hash and kind, and what became of it;
    `why`: SQLSTATE, class and place of a refusal."""
    policy = dataset.policy
    seconds = asyncio.get_running_loop().time() - ending.began if ending is not None else 0.0
    took = milliseconds(seconds, policy.timing_quantum_ms)
    session, statement, kind, verdict = ended
    event = StatementEvent(
        time.time(),
        policy.dataset,
        asker.role.name,
        asker.user.name,
        session,
        statement,
        kind,
        verdict,
        policy.digest,
        paid.epsilon,
        paid.delta,
        saved,
        measurements,
        reused,
        rows,
        took,
        *why,
    )
    dataset.tallies.statement(event)
    statement_event.log(event)

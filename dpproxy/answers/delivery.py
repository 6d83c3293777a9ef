"""What a session gets for a question: an answer, or what EXPLAIN says of it; and the operator's log its line.

Knows: answers, previews, the log. Must not know: protocols. Where the client sets an accuracy, a question is asked several times,
each time with more of the budget (`accuracy_search`): each of these is one delivery.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import structlog

from dpproxy.answers.answering import Answer, Answering
from dpproxy.answers.array_literals import text_literal
from dpproxy.answers.preview import foretold, preview
from dpproxy.answers.question import Needless, Question

LOG = structlog.get_logger()


async def deliver(
    question: Question, parameters: Sequence[str | None], *, quiet: bool = False, aimed: bool = False
) -> tuple[Answer, float]:
    """Return the answer; and the largest typical error of its aggregates where it is `aimed` at one, else 1.

    `quiet`: the client wants no notices. Raises Refusal, StatementFailed, LinkLost.
    """
    if question.kind == "explain":
        lines = foretold(question.plan.explain, await preview(question, parameters))
        return Answer((text_literal(lines),), None), 1.0
    answering = Answering(question)
    try:
        answer = await answering.run(parameters)
    except Needless:
        return Answer(tuple(b"{}" for _ in question.plan.arrays), None), 1.0
    error = await answering.error() if aimed else 1.0
    LOG.info(
        "answered",
        dataset=question.dataset.policy.dataset,
        role=question.asker.role.name,
        kind=question.kind,
        statement=question.statement,
        measurements=len(question.plan.measurements),
        epsilon=answer.charged.epsilon,
        reused=answer.reused,
    )
    silent = quiet and not question.plan.preview  # which is told in any case: its rows look like others
    return replace(answer, notice=None) if silent else answer, error

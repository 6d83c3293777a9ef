"""What a session gets for a question: an answer, or what EXPLAIN says of it; and the operator's log its line.

Knows: answers, previews, the log. Must not know: protocols. Where the client sets an accuracy, a question is asked several
times, each time with more of the budget (`accuracy_search`): each of these is one delivery. What is not delivered is noted by
the session, which alone knows what becomes of a refusal.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dpproxy.amounts import ATTO, MICRO
from dpproxy.answers.answer_parts import AnswerParts, Source, text_literal
from dpproxy.answers.answering import Answer, Answering
from dpproxy.answers.charge_round import Asking, verdict
from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.answers.question import Needless, Question
from dpproxy.answers.standings import left, standings
from dpproxy.answers.statement_end import Ending, Grid, internal, suspended_refusal
from dpproxy.ledger.ledger import BudgetExhausted, Standing, Suspended, amounts
from dpproxy.plan.report.typical_error import errors_by_label, percent
from dpproxy.privacy.loss import ZERO, Loss
from dpproxy.privacy.vector_loss import loss_together
from dpproxy.sql.settings import ReuseMode
from dpproxy.telemetry import tallies
from dpproxy.telemetry.tallies import StatementEvent, Verdict, milliseconds

# What EXPLAIN adds to a plan: which of its measurements are stored already, what the answer would cost now, what is left.
#
# Knows: the parts of an answer, the asker's own accounts, the two spellings of EXPLAIN. Must not know: how charges are made: it
# makes none. What only other roles have seen is not told of: for this role it is still to be paid. Nor is what is left of the
# dataset's budget: EXPLAIN costs nothing, and what others have spent shall not be found out by asking.


@dataclass(frozen=True)
class Preview:
    """What an answer would cost now. `stored[i]`: what answers measurement i at no charge. `left`: of each budget of who
    asks; `refused`: by which of them the answer would be, if it would. `errors`: of aggregates by their labels, relative to what
    was last released of them. `extract`: when the snapshot was taken of which the data are an extract."""

    mode: ReuseMode
    stored: Mapping[int, Source]
    charge: Loss
    left: Sequence[Standing]
    refused: BudgetExhausted | None
    errors: Mapping[str, float] = field(default_factory=dict)
    extract: dt.datetime | None = None


async def preview(question: Question, parameters: Sequence[str | None]) -> Preview:
    """Return what an answer would find stored, and charge. Raises as `Answering.run` does before its first charge."""
    parts, q = await AnswerParts.begun(question, parameters), question
    measurements = q.plan.measurements
    if measurements:
        await parts.show_seen()
    charge = loss_together(measurements[i] for i in parts.open())
    grid = Grid(q.dataset.policy.timing_quantum_ms)
    asking = Asking(q.dataset, q.asker, q.statement, parts.lookup, grid, q.ending, q.limit)
    try:
        own, refused = await asyncio.to_thread(_accounts, asking, charge)
    except Suspended as suspended:
        raise suspended_refusal(suspended, q.dataset.policy.dataset) from None
    except Exception as error:
        raise internal(error, statement=q.statement) from error
    told = errors_by_label(q.plan.typical, await parts.seen_values())
    extract = q.dataset.watch.moment if q.dataset.watch is not None and measurements else None
    return Preview(parts.lookup.mode, parts.free, charge, own, refused, told, extract)


def _accounts(asking: Asking, charge: Loss) -> tuple[list[Standing], BudgetExhausted | None]:
    """The asker's own, and what would refuse the charge. Raises LedgerError."""
    dataset = asking.dataset
    own = [applied for applied in dataset.applied_budgets(asking.asker) if applied.scope != "dataset"]
    return standings(dataset.ledger, dataset.policy.dataset, own), verdict(asking, charge)


def foretold(explain: Sequence[str], preview: Preview) -> list[str]:
    """Return the rows of EXPLAIN with the preview: lines, or one JSON text."""
    if explain and explain[0].startswith("["):
        return [_json(explain[0], preview)]
    lines = [f"  Reuse: measurement {i + 1} {_source(source)}, epsilon 0" for i, source in sorted(preview.stored.items())]
    if not lines:
        lines = ["  Reuse: off" if preview.mode == "off" else "  Reuse: nothing stored answers this"]
    if preview.extract is not None:
        lines.insert(0, f"  Data: an extract of the database as it was at {preview.extract:%Y-%m-%d %H:%M:%S} UTC")
    if preview.errors:
        errors = ", ".join(f"{percent(error)} of {label}" for label, error in preview.errors.items())
        lines.append(f"  Expected typical error: {errors}, estimated from earlier answers to your role")
    lines.append(f"  Charge now: {amounts(preview.charge.epsilon, preview.charge.delta)}")
    lines += [f"  Left: {left(standing)}" for standing in preview.left]
    if preview.refused is not None:
        refusal = preview.refused.refusal()
        lines.append(f"  Refused: {refusal.message} ({refusal.detail}). {refusal.hint}")
    return [*explain, *lines]


def _source(source: Source) -> str:
    times = " and ".join(f"{at:%Y-%m-%d %H:%M:%S} UTC" for at in source.made)
    return f"computed from what was released at {times}" if source.computed else f"as released at {times}"


def _json(text: str, preview: Preview) -> str:
    plans: list[dict[str, dict[str, Any]]] = json.loads(text)
    stored = [
        {"Measurement": i + 1, "Released": [at.isoformat() for at in source.made], "Computed": source.computed}
        for i, source in sorted(preview.stored.items())
    ]
    charge = _amounts(preview.charge.epsilon, preview.charge.delta)
    told: dict[str, Any] = {
        "Reuse": {"Mode": preview.mode, "Stored": stored, "Charge Now": charge},
        "Left": list(map(_left, preview.left)),
        "Refused": preview.refused and preview.refused.which,
        "Expected Relative Error": dict(preview.errors),
    }
    if preview.extract is not None:
        told["Extract Of"] = preview.extract.isoformat(timespec="seconds")
    for plan in plans:
        plan["Privacy Plan"] |= told
    return json.dumps(plans, indent=2, ensure_ascii=False)


def _left(s: Standing) -> dict[str, Any]:
    resets = s.resets and s.resets.isoformat()
    return {"Scope": s.scope, "Name": s.name, "Resets": resets} | _amounts(s.left_epsilon, s.left_delta)


def _amounts(epsilon: int, delta: int) -> dict[str, float]:
    return {"Epsilon": epsilon / MICRO} | ({"Delta": delta / ATTO} if delta else {})


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
    tallies.log(event)

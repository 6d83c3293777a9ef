"""What EXPLAIN adds to a plan: which of its measurements are stored already, what the answer would cost now, what is left.

Knows: the parts of an answer, the asker's own accounts, the two spellings of EXPLAIN. Must not know: how charges are made: it
makes none. What only other roles have seen is not told of: for this role it is still to be paid. Nor is what is left of the
dataset's budget: EXPLAIN costs nothing, and what others have spent shall not be found out by asking.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpproxy.amounts import ATTO, MICRO
from dpproxy.answers.answer_parts import AnswerParts, Source
from dpproxy.answers.charge_round import Asking, verdict
from dpproxy.answers.failures import internal, suspended_refusal
from dpproxy.answers.question import Question
from dpproxy.answers.standings import left, standings
from dpproxy.answers.time_grid import Grid
from dpproxy.ledger.ledger import BudgetExhausted, Standing, Suspended, amounts
from dpproxy.plan.report.typical_error import errors_by_label, percent
from dpproxy.privacy.loss import Loss
from dpproxy.privacy.vector_loss import loss_together
from dpproxy.sql.settings import ReuseMode


@dataclass(frozen=True)
class Preview:
    """Says what an answer would cost now. `stored[i]`: what answers measurement i at no charge. `left`: of each budget of who
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

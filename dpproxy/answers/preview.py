"""What EXPLAIN adds to a plan: which of its measurements are stored already, what the answer would cost now, what is left.

Knows: the two spellings of EXPLAIN. Must not know: how answers are looked up. What only other roles have seen is not told
of: for this role it is still to be paid. Nor is what is left of the dataset's budget: EXPLAIN costs nothing, and what
others have spent shall not be found out by asking.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpproxy.answers.reuse import Mode
from dpproxy.budget.ledger import BudgetExhausted, Standing, amounts
from dpproxy.plan.report.typical_error import percent
from dpproxy.policy.model import ATTO
from dpproxy.privacy.loss import MICRO, Loss


@dataclass(frozen=True)
class Source:
    """Where a measurement would be answered from: a release, or what is computed from some. `made`: when they were."""

    made: tuple[dt.datetime, ...]
    computed: bool


@dataclass(frozen=True)
class Preview:
    """What an answer would cost now. `stored[i]`: what answers measurement i at no charge. `left`: of each budget of who asks;
    `refused`: by which of them the answer would be, if it would. `errors`: of aggregates by their labels, relative to what
    was last released of them."""

    mode: Mode
    stored: Mapping[int, Source]
    charge: Loss
    left: Sequence[Standing]
    refused: BudgetExhausted | None
    errors: Mapping[str, float] = field(default_factory=dict)


def foretold(explain: Sequence[str], preview: Preview) -> list[str]:
    """The rows of EXPLAIN with the preview: lines, or one JSON text."""
    if explain and explain[0].startswith("["):
        return [_json(explain[0], preview)]
    lines = [f"  Reuse: measurement {i + 1} {_source(source)}, epsilon 0" for i, source in sorted(preview.stored.items())]
    if not lines:
        lines = ["  Reuse: off" if preview.mode == "off" else "  Reuse: nothing stored answers this"]
    if preview.errors:
        errors = ", ".join(f"{percent(error)} of {label}" for label, error in preview.errors.items())
        lines.append(f"  Expected: typical error {errors}, by what was last released")
    lines.append(f"  Charge now: {amounts(preview.charge.epsilon, preview.charge.delta)}")
    lines += [f"  Left: {left(standing)}" for standing in preview.left]
    if preview.refused is not None:
        refusal = preview.refused.refusal()
        lines.append(f"  Refused: {refusal.message} ({refusal.detail}). {refusal.hint}")
    return [*explain, *lines]


def left(standing: Standing) -> str:
    """What is left of a budget, for people."""
    until = f" until {standing.resets:%Y-%m-%d}" if standing.resets else ""
    return f"{standing.scope} {standing.name} has {amounts(standing.left_epsilon, standing.left_delta)} left{until}"


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
    for plan in plans:
        plan["Privacy Plan"] |= told
    return json.dumps(plans, indent=2, ensure_ascii=False)


def _left(s: Standing) -> dict[str, Any]:
    resets = s.resets and s.resets.isoformat()
    return {"Scope": s.scope, "Name": s.name, "Resets": resets} | _amounts(s.left_epsilon, s.left_delta)


def _amounts(epsilon: int, delta: int) -> dict[str, float]:
    return {"Epsilon": epsilon / MICRO} | ({"Delta": delta / ATTO} if delta else {})

"""What EXPLAIN adds to a plan: which of its measurements are stored already, and what the answer would cost now.

Knows: the two spellings of EXPLAIN. Must not know: how answers are looked up. What only other roles have seen is not told
of: for this role it is still to be paid.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpproxy.budget.ledger import amounts
from dpproxy.plan.loss import MICRO, Loss
from dpproxy.policy.model import ATTO
from dpproxy.session.reuse import Mode


@dataclass(frozen=True)
class Preview:
    """What an answer would cost now. `stored[i]`: when the release was made from which measurement i is answered at no
    charge; None when it is computed from several or from finer ones."""

    mode: Mode
    stored: Mapping[int, dt.datetime | None]
    charge: Loss


def foretold(explain: Sequence[str], preview: Preview) -> list[str]:
    """The rows of EXPLAIN with the preview: lines, or one JSON text."""
    if explain and explain[0].startswith("["):
        return [_json(explain[0], preview)]
    lines = [f"  Reuse: measurement {i + 1} {_source(at)}, epsilon 0" for i, at in sorted(preview.stored.items())]
    if not lines:
        lines = ["  Reuse: off" if preview.mode == "off" else "  Reuse: nothing stored answers this"]
    return [*explain, *lines, f"  Charge now: {amounts(preview.charge.epsilon, preview.charge.delta)}"]


def _source(at: dt.datetime | None) -> str:
    return f"as released at {at:%Y-%m-%d %H:%M:%S} UTC" if at is not None else "computed from stored releases"


def _json(text: str, preview: Preview) -> str:
    plans: list[dict[str, dict[str, Any]]] = json.loads(text)
    stored = [{"Measurement": i + 1, "Released": at and at.isoformat()} for i, at in sorted(preview.stored.items())]
    charge = {"Epsilon": preview.charge.epsilon / MICRO}
    if preview.charge.delta:
        charge["Delta"] = preview.charge.delta / ATTO
    for plan in plans:
        plan["Privacy Plan"] |= {"Reuse": {"Mode": preview.mode, "Stored": stored, "Charge Now": charge}}
    return json.dumps(plans, indent=2, ensure_ascii=False)

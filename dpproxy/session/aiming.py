"""`SET dpproxy.accuracy = '2%'`: which epsilon a statement needs for the error its analyst wants.

Knows: a target, the typical error of a first, cheap answer. Must not know: exact values, connections. The error of a column is
its noise over its value: the noise is as large as epsilon is small, the value is read off the first answer. Both answers
are charged; the next epsilon follows from what was released, so that it tells nothing more.
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation

from dpproxy.errors import FEATURE_NOT_SUPPORTED, INVALID_PARAMETER_VALUE, Refusal
from dpproxy.plan.explain import amount
from dpproxy.plan.model import Plan

FIRST = 50
"""The first answer costs this part of the most a query may cost: next to nothing, and enough for groups of some size."""

STEP = 5
"""By so much it is raised while the answer is noise alone."""


def target(text: str | None) -> float | None:
    """`2%`, `2 %` or `0.02`; None when unset. Raises Refusal 22023."""
    if text is None or text.strip().lower() in ("", "off"):
        return None
    bare = text.strip()
    try:
        value = Decimal(bare.removesuffix("%").strip()) / (100 if bare.endswith("%") else 1)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or not Decimal("0.000001") <= value <= Decimal("0.5"):
        raise Refusal(INVALID_PARAMETER_VALUE, f'dpproxy.accuracy must lie between 0.0001% and 50%, not "{text[:40]}"')
    return float(value)


def check(plan: Plan) -> None:
    """Raises Refusal for what has no error that could be aimed at."""
    if not plan.aimable:
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            "dpproxy.accuracy is available for statements of counts, sums and averages alone",
            hint="RESET dpproxy.accuracy, and SET dpproxy.epsilon instead.",
        )


def first(most: int) -> int:
    """Micro-epsilon of the first answer."""
    return max(most // FIRST, 1)


def following(epsilon: int, error: float, wanted: float, most: int, text: str) -> int | None:
    """Micro-epsilon of the next answer; None when this one is exact enough. Raises Refusal beyond the role's limit."""
    if error <= wanted:
        return None
    needed = math.ceil(epsilon * error / wanted) if error < 1 else epsilon * STEP
    if error >= 1 and epsilon < most:
        return min(needed, most)
    if needed > most:
        least = "more than" if error >= 1 else "about"
        raise Refusal(
            INVALID_PARAMETER_VALUE,
            f"accuracy {text} needs {least} epsilon {amount(needed if error < 1 else most)}; a query may cost {amount(most)}",
            hint="Ask for a lower accuracy, or for fewer and larger groups.",
        )
    return needed

"""A plan told to an analyst: what is measured, bounded, charged, and how far off the answer may be.

Knows: the plan. Must not know: data; every line is known before any is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from dpproxy.plan import calibration
from dpproxy.plan.loss import Loss
from dpproxy.plan.model import Basis, Measurement, Selection
from dpproxy.plan.scope import Context
from dpproxy.policy.model import ATTO, MICRO


def explain_lines(measurements: Sequence[Measurement], loss: Loss, context: Context, outer: str) -> tuple[str, ...]:
    """The rows of EXPLAIN."""
    confidence = context.settings.confidence
    lines = [f"Differentially Private Answer  (charge epsilon={amount(loss.epsilon)}{_delta(loss)})"]
    lines.append(f"  Privacy unit: {context.policy.unit_name}; role: {context.role.name}")
    if not measurements:
        lines.append("  No measurement: nothing private is read")
    for i, measurement in enumerate(measurements, 1):
        lines += [f"  {line}" for line in _measurement(i, measurement, confidence)]
    lines.append(f"  Post-processing (free): {outer}")
    return tuple(lines)


def amount(micro: int) -> str:
    return f"{Decimal(micro) / MICRO:f}".rstrip("0").rstrip(".") if micro % MICRO else str(micro // MICRO)


def _delta(loss: Loss) -> str:
    return f", delta={float(Fraction(loss.delta, ATTO)):.3g}" if loss.delta else ""


def _measurement(number: int, m: Measurement, confidence: Decimal) -> list[str]:
    keys = ", ".join(k.label for k in m.keys)
    head = f"-> Measurement {number}" + (f" by {keys}" if keys else "")
    lines = [f"{head}  (epsilon={amount(m.loss.epsilon)}{_delta(m.loss)})"]
    lines += [f"     Bound: {note}" for note in m.notes]
    if m.keys and m.dense:
        lines.append("     Groups: all declared ones, empty ones too")
    if m.threshold is not None:
        lines.append(
            f"     Groups: those whose noisy number of units reaches {m.threshold.tau} "
            f"(delta={float(Fraction(m.threshold.delta, ATTO)):.3g}, at least {m.threshold.min_units} units)"
        )
    lines += [f"     {_basis(b, m.l0, confidence)}" for b in m.bases]
    lines += [f"     {_selection(s, m.l0)}" for s in m.selections]
    return lines


def _selection(selection: Selection, l0: int) -> str:
    what = "on rank" if selection.kind == "quantile" else "on counts"
    return (
        f"{selection.label}: exponential mechanism {what} over {selection.size} values "
        f"(epsilon={amount(selection.loss.epsilon)}, sensitivity {selection.sensitivity} x {l0} groups)"
    )


def _basis(basis: Basis, l0: int, confidence: Decimal) -> str:
    half = calibration.interval(basis.mechanism, basis.scale, Fraction(confidence)) * basis.grid
    percent = f"{confidence * 100:f}".rstrip("0").rstrip(".")
    scale = float(basis.scale * basis.grid)
    return (
        f"{basis.label}: discrete {basis.mechanism} noise, scale {scale:.6g}, {percent} % within +-{float(half):.6g} "
        f"(epsilon={amount(basis.loss.epsilon)}, sensitivity {float(basis.linf * basis.grid):.6g} x {l0} groups)"
    )

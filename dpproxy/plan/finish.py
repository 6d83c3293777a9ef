"""Compiled measurements given their noise: the charge of a statement divided, scales, thresholds, losses.

Knows: calibration, the role's limits. Must not know: SQL trees, engines, entropy. Everything a mechanism will draw with is
fixed here, before any data is touched; `mechanisms.charges` recomputes it by another road before it draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from dpproxy.errors import FEATURE_NOT_SUPPORTED, INVALID_PARAMETER_VALUE, Refusal
from dpproxy.plan import calibration
from dpproxy.plan.engines.base import parts as template_parts
from dpproxy.plan.engines.base import template
from dpproxy.plan.loss import ZERO, Loss
from dpproxy.plan.measure import BasisSpec, Compiled, SelectionSpec, Shape
from dpproxy.plan.model import Basis, Key, Measurement, Selection, Threshold
from dpproxy.plan.scope import Context
from dpproxy.policy.model import MICRO


def charge_of(context: Context) -> int:
    """The statement's epsilon in micro. Raises Refusal 22023 outside the role's limits."""
    limits = context.role.query
    epsilon = context.settings.epsilon if context.settings.epsilon is not None else limits.epsilon
    if epsilon <= 0 or epsilon > limits.max_epsilon:
        raise Refusal(
            INVALID_PARAMETER_VALUE,
            f"dpproxy.epsilon must be above 0 and at most {limits.max_epsilon / MICRO:g} for role {context.role.name}",
            hint="SET dpproxy.epsilon = ... within the policy's max_epsilon.",
        )
    return epsilon


def finish(compiled: Sequence[Compiled], context: Context) -> list[Measurement]:
    """Noise scales for all measurements of a statement: the charge is divided evenly over those that need any."""
    paying = [c for c in compiled if _parts(c)]
    if not paying:
        return [_finish_one(c, 0, 0, context) for c in compiled]
    share = charge_of(context) // len(paying)
    thresholds = sum(c.threshold is not None for c in paying)
    delta = context.role.query.delta // thresholds if thresholds else 0
    if thresholds and delta <= 0:
        raise Refusal(FEATURE_NOT_SUPPORTED, "groups without declared keys need a delta, and the policy allots none")
    if share < sum(_parts(c) for c in paying):
        raise Refusal(INVALID_PARAMETER_VALUE, "dpproxy.epsilon is too small for this statement")
    return [_finish_one(c, share if _parts(c) else 0, delta if c.threshold is not None else 0, context) for c in compiled]


def _parts(compiled: Compiled) -> int:
    """How many columns share a measurement's epsilon."""
    return len(compiled.specs) + sum(s.columns for s in compiled.selections)


def _finish_one(compiled: Compiled, epsilon: int, delta: int, context: Context) -> Measurement:
    shape = compiled.shape
    shares = _split(epsilon, _parts(compiled))
    bases = [_basis(spec, shape, part) for spec, part in zip(compiled.specs, shares, strict=False)]
    selections = []
    at = len(bases)
    for i, chosen in enumerate(compiled.selections):
        part = sum(shares[at : at + chosen.columns])
        at += chosen.columns
        selections.append(_selection(chosen, i, shape, part))
    threshold = None
    loss = sum((b.loss for b in bases), ZERO) + sum((s.loss for s in selections), ZERO)
    if compiled.threshold is not None:
        basis = bases[compiled.threshold]
        tau = calibration.threshold(basis.scale, shape.l0, delta, compiled.min_units, "laplace")
        threshold = Threshold(compiled.threshold, tau, compiled.min_units, delta)
        loss = loss + Loss.delta_only(delta)
    texts = (compiled.sql, *compiled.side)
    bounds = f" -- l0={shape.l0} linf={[b.linf for b in bases]} min={compiled.min_units}"
    chosen_bounds = [(s.kind, s.size, [str(f) for f in s.fractions], s.sensitivity) for s in selections]
    canonical = (*(part for text in texts for part in (*template_parts(text), "; ")), bounds, str(chosen_bounds))
    return Measurement(
        tuple(template(context.dialect, text) for text in texts),
        tuple(Key(label, t) for label, t in compiled.keys),
        tuple(bases),
        shape.l0,
        shape.dense is not None or not compiled.keys,  # without keys there is one group, always
        threshold,
        loss,
        canonical,
        tuple(selections),
        shape.notes,
    )


def _basis(spec: BasisSpec, shape: Shape, epsilon: int) -> Basis:
    # a column that no row can move still gets noise of one unit: its sensitivity is stated as 1, never 0
    linf = max(spec.linf(shape.rows), 1)
    scale = calibration.laplace_scale(shape.l0, linf, epsilon)
    loss = Loss.laplace_vector(shape.l0, Fraction(linf) / scale, linf)
    return Basis(spec.label, linf, spec.grid, "laplace", scale, loss)


def _selection(spec: SelectionSpec, index: int, shape: Shape, epsilon: int) -> Selection:
    """One mechanism a group, and a unit reaches L0 groups: each runs at epsilon / L0 (PRIVACY.md section 3)."""
    per_group = epsilon // shape.l0
    draw = per_group // spec.columns
    if draw < 1:
        raise Refusal(INVALID_PARAMETER_VALUE, "dpproxy.epsilon is too small for this statement")
    loss = Loss.bounded_range(draw, spec.columns * shape.l0)
    kind: Literal["quantile", "mode"] = "mode" if spec.values else "quantile"
    return Selection(spec.label, kind, index + 1, spec.size, spec.fractions, shape.rows, per_group, loss)


def _split(epsilon: int, columns: int) -> list[int]:
    """Even division of micro-epsilon, the remainder to the first."""
    if not columns:
        return []
    part = epsilon // columns
    return [part + (epsilon - part * columns if i == 0 else 0) for i in range(columns)]

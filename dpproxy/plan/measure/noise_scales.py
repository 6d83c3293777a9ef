"""Compiled measurements given their noise: the charge of a statement divided, scales, thresholds, losses.

Knows: scales of noise, thresholds, shares of epsilon, the role's limits. Must not know: SQL trees, engines, entropy. Everything
a mechanism will draw with is fixed here, before any data is touched; `mechanisms.charge_check` recomputes it by another road
before it draws.

The statement's epsilon is divided twice so that its largest relative error is least: over its measurements in
proportion to the error each would have alone, then in each over its columns (`epsilon_split.allocate`, weights of
`output_weights`). The statement's delta is divided evenly over thresholds and Gaussian parts. All parts are integers that
add up to no more than the charge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from dpproxy.errors import FEATURE_NOT_SUPPORTED, INVALID_PARAMETER_VALUE, NoRoom, Refusal
from dpproxy.plan.context import Context
from dpproxy.plan.engines.base import template
from dpproxy.plan.measure import output_weights
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.measure.specs import BasisSpec, Bounding, SelectionSpec, TopSpec
from dpproxy.policy.model import MICRO
from dpproxy.privacy import epsilon_split, noise_scale, selection_ranks
from dpproxy.privacy.loss import ZERO, Loss
from dpproxy.privacy.measurement import (
    Basis,
    Key,
    Measurement,
    Selection,
    Threshold,
    Top,
)
from dpproxy.privacy.noise_scale import MechanismName
from dpproxy.privacy.threshold import top_threshold, truncated_threshold, units_threshold

UNKNOWN_GROUPS = 100
"""How many groups undeclared keys are taken to have: only to weigh such a measurement against others of the statement."""

MOST_GROUPS = 100
"""Beyond, a measurement weighs no more: a total beside a value for each of 10,000 groups keeps a tenth of the charge."""


@dataclass(frozen=True)
class _Share:
    """What one measurement may spend. `delta_noise` is for Gaussian noise, `delta_keys` for the threshold; atto."""

    epsilon: int
    mechanism: MechanismName
    delta_noise: int
    delta_keys: int


def charge_of(context: Context) -> int:
    """Return the statement's epsilon in micro-epsilon. Raises Refusal 22023 outside the role's limits."""
    limits = context.role.query
    epsilon = context.settings.epsilon if context.settings.epsilon is not None else limits.epsilon
    if epsilon <= 0 or epsilon > limits.max_epsilon:
        raise Refusal(
            INVALID_PARAMETER_VALUE,
            f"dpproxy.epsilon must be above 0 and at most {limits.max_epsilon / MICRO:g} for role {context.role.name}",
            hint="SET dpproxy.epsilon = ... within the policy's max_epsilon.",
        )
    return epsilon


def calibrate(compiled: Sequence[Compiled], context: Context) -> list[Measurement]:
    """Fix the noise of all measurements of a statement. Raises Refusal when the charge or the policy's delta cannot carry it."""
    paying = [c for c in compiled if _columns(c)]
    if not paying:
        return [_finish_one(c, _Share(0, "laplace", 0, 0), context) for c in compiled]
    shares = iter(_shares(paying, charge_of(context), context))
    return [_finish_one(c, next(shares) if _columns(c) else _Share(0, "laplace", 0, 0), context) for c in compiled]


def _columns(compiled: Compiled) -> int:
    """How many columns share a measurement's epsilon: bases, selections each as one, and the choice of groups, last."""
    return len(compiled.specs) + len(compiled.selections) + (compiled.top is not None)


# --- division


def _shares(paying: Sequence[Compiled], whole: int, context: Context) -> list[_Share]:
    epsilons = _epsilons(paying, whole, context)
    if any(epsilon < _columns(c) for c, epsilon in zip(paying, epsilons, strict=True)):
        raise _too_small()
    thresholds = sum(_undeclared(c) for c in paying)
    least = context.role.query.delta // max(thresholds + sum(bool(c.specs) and not c.cutting for c in paying), 1)
    mechanisms = [_mechanism(c, e, least, context) for c, e in zip(paying, epsilons, strict=True)]
    needs = thresholds + mechanisms.count("gaussian")
    delta = context.role.query.delta // needs if needs else 0
    if thresholds and delta <= 0:
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            "grouping by a column without declared values needs a delta, and the policy gives this role none",
            hint="Ask the policy's author to declare the column's values, or to give the role's `query` a `delta`.",
        )
    return [
        _Share(e, m, delta if m == "gaussian" else 0, delta if _undeclared(c) else 0)
        for c, e, m in zip(paying, epsilons, mechanisms, strict=True)
    ]


def _epsilons(paying: Sequence[Compiled], whole: int, context: Context) -> list[int]:
    """What the policy allots to measure what bounds cut is divided evenly over such measurements, the rest by burden."""
    cutting = sum(c.cutting for c in paying)
    if not cutting:
        return _proportional([_burden(c) for c in paying], whole)
    each = whole * context.role.query.measure_bounds // (MICRO * cutting)
    rest = iter(_proportional([_burden(c) for c in paying if not c.cutting], whole - each * cutting))
    return [each if c.cutting else next(rest) for c in paying]


def _undeclared(compiled: Compiled) -> bool:
    return compiled.threshold is not None or (compiled.top is not None and compiled.bounding.dense is None)


def _too_small() -> Refusal:
    return Refusal(
        INVALID_PARAMETER_VALUE,
        "dpproxy.epsilon is too small for this statement",
        hint="SET dpproxy.epsilon to more, or ask for fewer aggregates in one statement.",
    )


def _mechanism(compiled: Compiled, epsilon: int, delta: int, context: Context) -> MechanismName:
    """The noise of a measurement's bases. `auto` compares at the least delta that Gaussian noise would get."""
    wanted = context.policy.mechanism
    if not compiled.specs or wanted == "laplace" or compiled.cutting:
        return "laplace"
    if wanted == "gaussian" or (compiled.bounding.norm == 2 and any(spec.norm(compiled.bounding) for spec in compiled.specs)):
        return "gaussian"
    return epsilon_split.better(_basis_weights(compiled), compiled.bounding.reach, epsilon, delta)


def weights(compiled: Compiled) -> epsilon_split.Weights:
    """Return the rows of weights of one measurement: a row for each output, one for the groups that a threshold hides, one for
    the choice of groups."""
    return epsilon_split.Weights.of(_columns(compiled), _rows(compiled))


def _rows(compiled: Compiled) -> list[dict[int, float]]:
    width = _columns(compiled)
    factor = output_weights.row_factor(compiled.bounding.rows)
    rows = []
    for made in compiled.outputs:
        row: dict[int, float] = {}
        for index, weight in zip(made.bases, made.weights, strict=False):
            row[index] = max(row.get(index, 0.0), weight * (1.0 if compiled.specs[index].kind == "units" else factor))
        if made.selection is not None:
            row[len(compiled.specs) + made.selection] = made.weights[0] * factor
        rows.append(row)
    if compiled.threshold is not None:
        weight = output_weights.WEIGHED_THRESHOLD if compiled.bounding.spread else output_weights.THRESHOLD
        rows.append({compiled.threshold: weight})
    if compiled.top is not None:
        rows.append({width - 1: output_weights.TOP})
    return rows or [dict.fromkeys(range(width), 1.0)]


def _scaled_rows(compiled: Compiled) -> list[dict[int, float]]:
    """Where some columns' sensitivity is over all groups together, those of the others count for each of the l0 groups."""
    bounding, specs = compiled.bounding, compiled.specs
    l0 = math.sqrt(bounding.reach) if bounding.norm == 2 else bounding.reach
    own = [
        spec.sensitivity(bounding) / spec.fine(bounding) / max(spec.linf(bounding.rows), 1) for spec in specs
    ]  # above 1 for units
    factors = [l0 if bounding.norm and not spec.norm(bounding) else f for spec, f in zip(specs, own, strict=True)]
    return [{c: w * factors[c] if c < len(specs) else w for c, w in row.items()} for row in _rows(compiled)]


def _basis_weights(compiled: Compiled) -> epsilon_split.Weights:
    """Of the bases alone, whose noise is of one kind."""
    count = len(compiled.specs)
    return epsilon_split.Weights.of(count, [{c: w for c, w in row.items() if c < count} for row in _scaled_rows(compiled)])


def _burden(compiled: Compiled) -> float:
    """How large the error of a measurement is at a given epsilon, beside others: L0, its columns, how small groups are.

    Sizes of groups are uneven: the usual one holds more than its even share, taken as 1 / sqrt(groups) of all.
    """
    dense = compiled.bounding.dense
    groups = 1 if not compiled.keys else min(dense.size or UNKNOWN_GROUPS, MOST_GROUPS) if dense else UNKNOWN_GROUPS
    if compiled.rest:
        groups = UNKNOWN_GROUPS  # it may be as small as one of the groups that are there
    alone = epsilon_split.allocate(weights(compiled), max(_columns(compiled), MICRO)).error
    return max(alone, 1e-3) * (1 if compiled.bounding.norm else compiled.bounding.reach) * math.sqrt(groups)


def _proportional(burdens: Sequence[float], whole: int) -> list[int]:
    """Integers about proportional to the burdens, at least one each, that add up to `whole`."""
    total = math.fsum(burdens)
    spare = whole - len(burdens)
    if spare < 0:
        raise _too_small()
    steps = [max(1, round(b / total * epsilon_split.STEPS)) for b in burdens]  # the least of them is answered too
    found = [1 + spare * step // max(sum(steps), 1) for step in steps]
    found[steps.index(max(steps))] += whole - sum(found)
    return found


# --- one measurement


def _finish_one(compiled: Compiled, share: _Share, context: Context) -> Measurement:
    bounding = compiled.bounding
    parts = _parts(compiled, share.epsilon)
    count = len(compiled.specs)
    try:
        bases = _bases(compiled, parts[:count], share)
    except NoRoom as refusal:
        raise replace(refusal, size=max(spec.hi - spec.lo for spec in compiled.specs)) from None
    chosen = zip(compiled.selections, parts[count : count + len(compiled.selections)], strict=True)
    side = list(dict.fromkeys(compiled.side))
    selections = [
        _selection(spec, side.index(sql) + 1, bounding, part) for (spec, part), sql in zip(chosen, compiled.side, strict=True)
    ]
    threshold = _threshold(compiled, bases, share.delta_keys)
    loss = sum((b.loss for b in bases), ZERO) + sum((s.loss for s in selections), ZERO)
    if threshold is not None:
        loss = loss + Loss.delta_only(threshold.delta)
    top = _top(compiled, compiled.top, parts[-1], share.delta_keys) if compiled.top is not None else None
    if top is not None:
        loss = loss + top.loss
    texts = (compiled.sql, *side)
    return Measurement(
        tuple(template(context.dialect, text) for text in texts),
        tuple(Key(label, t) for label, t in compiled.keys),
        tuple(bases),
        bounding.l0,
        bounding.dense is not None or not compiled.keys,  # without keys there is one group, always
        threshold,
        loss,
        compiled.names,
        tuple(selections),
        bounding.notes,
        top,
    )


def _parts(compiled: Compiled, epsilon: int) -> list[int]:
    if not _columns(compiled):
        return []
    found = epsilon_split.Weights.of(_columns(compiled), _scaled_rows(compiled))
    return list(epsilon_split.allocate(found, epsilon).parts)


def _bases(compiled: Compiled, parts: Sequence[int], share: _Share) -> list[Basis]:
    bounding = compiled.bounding
    if share.mechanism == "laplace" or not parts:
        return [_laplace(spec, bounding, part) for spec, part in zip(compiled.specs, parts, strict=True)]
    return _gaussians(compiled, sum(parts), share.delta_noise)


def _sensitivity(spec: BasisSpec, bounding: Bounding) -> tuple[int, int]:
    """(linf in parts of a grid unit, groups of that much)."""
    return spec.sensitivity(bounding), 1 if spec.norm(bounding) else bounding.reach


def _measured_as(spec: BasisSpec, bounding: Bounding) -> tuple[int, int, int, bool]:
    """norm, fine, steps and signed of `Basis`."""
    return spec.norm(bounding), spec.fine(bounding), spec.steps(bounding), spec.lo < 0


def _laplace(spec: BasisSpec, bounding: Bounding, epsilon: int) -> Basis:
    linf, l0 = _sensitivity(spec, bounding)
    scale = noise_scale.laplace_scale(l0, linf, epsilon)
    loss = Loss.laplace_vector(l0, Fraction(linf) / scale, linf)
    return Basis(spec.label, linf, spec.grid, "laplace", scale, loss, *_measured_as(spec, bounding))


def _gaussians(compiled: Compiled, epsilon: int, delta: int) -> list[Basis]:
    """All columns are one Gaussian mechanism of (epsilon, delta): its loss is divided, and labels add up to it."""
    found = epsilon_split.allocate(_basis_weights(compiled), epsilon, "gaussian").parts
    moved = [_sensitivity(spec, compiled.bounding)[::-1] for spec in compiled.specs]
    try:
        sigmas = noise_scale.gaussian_sigmas(moved, found, epsilon, delta)
    except ValueError:
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            "Gaussian noise needs a larger delta than the policy gives one query",
            hint="Ask the policy's author for a larger `delta` of the role's `query`, or for `mechanism: auto`.",
        ) from None
    deltas = _labels(found, delta)
    bases, bounding = [], compiled.bounding
    for spec, sigma, (l0, linf), part, atto in zip(compiled.specs, sigmas, moved, found, deltas, strict=True):
        loss = Loss.gaussian(l0, linf, sigma, part, atto)
        bases.append(Basis(spec.label, linf, spec.grid, "gaussian", sigma, loss, *_measured_as(spec, bounding)))
    return bases


def _labels(parts: Sequence[int], delta: int) -> list[int]:
    """Delta in the proportion of `parts`, adding up to it."""
    whole = sum(parts)
    found = [delta * part // whole for part in parts]
    found[0] += delta - sum(found)
    return found


def _threshold(compiled: Compiled, bases: Sequence[Basis], delta: int) -> Threshold | None:
    """Laplace noise on the units is held within its reach, which lowers the threshold (`truncated_threshold`)."""
    if compiled.threshold is None:
        return None
    units, l0, least = bases[compiled.threshold], compiled.bounding.l0, compiled.min_units
    if units.mechanism == "gaussian" or units.norm:
        tau = units_threshold(units.scale, l0, delta, least * units.fine, units.mechanism)
        return Threshold(compiled.threshold, tau, least, delta)
    tau, reach = truncated_threshold(units.scale, l0, delta, least)
    return Threshold(compiled.threshold, tau, least, delta, reach)


def _top(compiled: Compiled, spec: TopSpec, epsilon: int, delta: int) -> Top:
    """k choices share the epsilon evenly."""
    bounding, each, least = compiled.bounding, epsilon // spec.k, compiled.min_units
    if each < 1:
        raise _too_small()
    if bounding.dense is not None:
        return Top(spec.k, spec.score, each, None, 1, 0, Loss.bounded_range(each, spec.k))
    linf, _ = _sensitivity(compiled.specs[spec.score], bounding)
    absent = top_threshold(spec.k, bounding.l0, linf, each, delta, least)
    loss = Loss.bounded_range(each, spec.k) + Loss.delta_only(delta)
    return Top(spec.k, spec.score, each, absent, least, delta, loss)


def _selection(spec: SelectionSpec, query: int, bounding: Bounding, epsilon: int) -> Selection:
    """One mechanism a group, and a unit reaches L0 groups: each runs at epsilon / L0 (PRIVACY.md section 3)."""
    per_group = epsilon // bounding.l0
    number = selection_ranks.draws(spec.fractions)
    draw = per_group // number
    if draw < 1:
        raise _too_small()
    loss = Loss.bounded_range(draw, number * bounding.l0)
    kind: Literal["quantile", "mode"] = "mode" if spec.values else "quantile"
    offset = 0
    if spec.side:
        failure = (1 - spec.confidence) / 2
        offset = spec.side * selection_ranks.end_rank(spec.size, spec.fractions[0], bounding.rows, Fraction(draw, MICRO), failure)
    return Selection(spec.label, kind, query, spec.size, spec.fractions, bounding.rows, per_group, loss, offset)

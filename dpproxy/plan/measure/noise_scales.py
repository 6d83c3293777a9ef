"""Compiled measurements given their noise: scales, thresholds, losses.

Knows: scales of noise, thresholds. Must not know: SQL trees, engines, entropy, how a charge is divided
(`charge_division`). Everything a mechanism will draw with is fixed here, before any data is touched;
`mechanisms.charge_check` recomputes it by another road before it draws.

All Gaussian columns of a statement are one vector of one (epsilon, delta): their sigmas are made together. What a measurement
costs alone is priced from its own sigmas (`privacy.vector_loss`), since it may be all that is charged: the others may be reused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from typing import Literal

from dpproxy.amounts import MICRO
from dpproxy.errors import FEATURE_NOT_SUPPORTED, NoRoom, Refusal
from dpproxy.plan.context import Context
from dpproxy.plan.measure.charge_division import Share, divided, too_small
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.measure.request import names_of_sums, running_note
from dpproxy.plan.measure.specs import BasisSpec, Bounding, SelectionSpec, TopSpec
from dpproxy.privacy import noise_scale, running_sums, selection_ranks
from dpproxy.privacy.loss import ZERO, Loss
from dpproxy.privacy.measurement import (
    Basis,
    FirstRound,
    Key,
    Measurement,
    Selection,
    Threshold,
    Top,
    Vector,
)
from dpproxy.privacy.noise_tail import top_threshold, truncated_threshold, units_threshold
from dpproxy.privacy.running_sums import Running
from dpproxy.privacy.vector_loss import part_epsilon
from dpproxy.sql.template import Dialect, Template


def calibrate(compiled: Sequence[Compiled], context: Context) -> list[Measurement]:
    """Fix the noise of all measurements of a statement. Raises Refusal when the charge or the policy's delta cannot carry it."""
    shares, vector = divided(compiled, context)
    try:
        sigmas = iter(_sigmas(compiled, shares, vector))
        return [_finish_one(c, share, vector, sigmas, context) for c, share in zip(compiled, shares, strict=True)]
    except NoRoom as refusal:
        raise replace(refusal, size=max(spec.hi - spec.lo for c in compiled for spec in c.specs)) from None


# --- one measurement


def _finish_one(
    compiled: Compiled, share: Share, vector: Vector | None, sigmas: Iterator[Fraction], context: Context
) -> Measurement:
    """`sigmas`: of the Gaussian columns from this measurement's first one on."""
    bounding, parts = compiled.bounding, share.parts
    count = len(compiled.specs)
    gaussian = vector if share.mechanism == "gaussian" and count else None
    bases = _gaussians(compiled, parts, gaussian, sigmas) if gaussian else _laplaces(compiled, parts)
    chosen = zip(compiled.selections, parts[count : count + len(compiled.selections)], strict=True)
    asked = compiled.asked
    selections = [
        _selection(spec, asked.index(query, 1), bounding, part) for (spec, part), query in zip(chosen, compiled.side, strict=True)
    ]
    threshold = _threshold(compiled, bases, share.delta_keys, context.dialect)
    names, notes, running = compiled.names, bounding.notes, compiled.running if gaussian else None
    if running is not None:
        names = names_of_sums(names, running) if names is not None else None
        notes = (*notes, running_note(running, bases, context.policy.mechanism == "auto"))
    loss = sum((b.loss for b in bases), ZERO) + sum((s.loss for s in selections), ZERO)
    if threshold is not None:
        loss = loss + Loss.delta_only(threshold.delta)
    top = _top(compiled, compiled.top, parts[-1], share.delta_keys) if compiled.top is not None else None
    if top is not None:
        loss = loss + top.loss
    return Measurement(
        tuple(Template.of(context.dialect, query.text) for query in asked),
        tuple(Key(label, t) for label, t in compiled.keys),
        tuple(bases),
        bounding.l0,
        bounding.dense is not None or not compiled.keys,  # without keys there is one group, always
        threshold,
        loss,
        names,
        tuple(selections),
        notes,
        top,
        gaussian,
    )


def _sensitivity(spec: BasisSpec, bounding: Bounding) -> tuple[int, int]:
    """(linf in parts of a grid unit, groups of that much)."""
    return spec.sensitivity(bounding), 1 if spec.norm(bounding) else bounding.reach


def _measured_as(spec: BasisSpec, bounding: Bounding) -> tuple[int, int, int, bool]:
    """norm, fine, steps and signed of `Basis`."""
    return spec.norm(bounding), spec.fine(bounding), spec.steps(bounding), spec.held[0] < 0


def _sums_of(spec: BasisSpec, compiled: Compiled) -> Running | None:
    """The sums of a column that get Gaussian noise in place of its groups."""
    return replace(compiled.running, within=spec.sensitivity(compiled.bounding)) if compiled.running is not None else None


def _laplaces(compiled: Compiled, parts: Sequence[int]) -> list[Basis]:
    found, bounding = [], compiled.bounding
    for spec, epsilon in zip(compiled.specs, parts, strict=False):
        linf, l0 = _sensitivity(spec, bounding)
        scale = noise_scale.laplace_scale(l0, linf, epsilon)
        loss = Loss.laplace_vector(l0, Fraction(linf) / scale, linf)
        found.append(Basis(spec.label, linf, spec.grid / spec.parts, "laplace", scale, loss, *_measured_as(spec, bounding)))
    return found


def _moved(compiled: Compiled) -> list[noise_scale.Moved]:
    """By Gaussian noise."""
    found = []
    for spec in compiled.specs:
        running = _sums_of(spec, compiled)
        found.append((1, running_sums.changed(running)) if running else _sensitivity(spec, compiled.bounding)[::-1])
    return found


def _sigmas(compiled: Sequence[Compiled], shares: Sequence[Share], vector: Vector | None) -> list[Fraction]:
    """Of all Gaussian columns of the statement, in order. Raises Refusal when the policy's delta cannot carry them."""
    if vector is None:
        return []
    those = [(c, s) for c, s in zip(compiled, shares, strict=True) if s.mechanism == "gaussian"]
    moved = [m for c, _ in those for m in _moved(c)]
    parts = [part for c, s in those for part in s.parts[: len(c.specs)]]
    try:
        return noise_scale.gaussian_sigmas(moved, parts, vector.epsilon, vector.delta)
    except ValueError:
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            "Gaussian noise needs a larger delta than the policy gives one query",
            hint="Ask the policy's author for a larger `delta` of the role's `query`, or for `mechanism: auto`.",
        ) from None


def _gaussians(compiled: Compiled, parts: Sequence[int], vector: Vector, sigmas: Iterator[Fraction]) -> list[Basis]:
    """The measurement's columns are one Gaussian mechanism of (its price, the vector's delta): labels add up to that."""
    bounding, moved = compiled.bounding, _moved(compiled)
    own = list(islice(sigmas, len(moved)))
    price = part_epsilon(list(zip(moved, own, strict=True)), vector)
    weights = parts[: len(moved)]
    labels = zip(_labels(weights, price or vector.epsilon), _labels(weights, vector.delta), strict=True)
    bases = []
    for spec, sigma, (l0, linf), (micro, atto) in zip(compiled.specs, own, moved, labels, strict=True):
        loss = Loss.gaussian(l0, linf, sigma, micro, atto)
        basis = Basis(spec.label, linf, spec.grid / spec.parts, "gaussian", sigma, loss, *_measured_as(spec, bounding))
        running = _sums_of(spec, compiled)
        bases.append(replace(basis, norm=2, fine=running_sums.PARTS, running=running) if running else basis)
    return bases


def _labels(parts: Sequence[int], amount: int) -> list[int]:
    """An amount in the proportion of `parts`, adding up to it."""
    whole = sum(parts)
    found = [amount * part // whole for part in parts]
    found[0] += amount - sum(found)
    return found


def _threshold(compiled: Compiled, bases: Sequence[Basis], delta: int, dialect: Dialect) -> Threshold | None:
    """Laplace noise on the units is held within its reach, which lowers the threshold (`truncated_threshold`)."""
    if compiled.threshold is None:
        return None
    units, l0, least = bases[compiled.threshold], compiled.bounding.l0, compiled.min_units
    if compiled.first is not None:
        return _two_rounds(compiled, compiled.threshold, compiled.first.text, bases, delta, dialect)
    if units.mechanism == "gaussian" or units.norm:
        tau = units_threshold(units.scale, l0, delta, least * units.fine, units.mechanism)
        return Threshold(compiled.threshold, tau, least, delta)
    tau, reach = truncated_threshold(units.scale, l0, delta, least)
    return Threshold(compiled.threshold, tau, least, delta, reach)


def _two_rounds(compiled: Compiled, index: int, query: str, bases: Sequence[Basis], delta: int, dialect: Dialect) -> Threshold:
    """The first round has a tenth of delta, too, which counts by its logarithm."""
    part, l0, least = delta // 10, compiled.bounding.l0, compiled.min_units
    taus = [
        units_threshold(bases[i].scale, l0, own, least * bases[i].fine, bases[i].mechanism)
        for i, own in ((index, delta - part), (index + 1, part))
    ]
    first = FirstRound(Template.of(dialect, query), index + 1, taus[1], part)
    return Threshold(index, taus[0], least, delta, None, first)


def _top(compiled: Compiled, spec: TopSpec, epsilon: int, delta: int) -> Top:
    """k choices share the epsilon evenly."""
    bounding, each, least = compiled.bounding, epsilon // spec.k, compiled.min_units
    if each < 1:
        raise too_small()
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
        raise too_small()
    loss = Loss.bounded_range(draw, number * bounding.l0)
    kind: Literal["quantile", "mode"] = "mode" if spec.values else "quantile"
    offset = 0
    if spec.side:
        failure = (1 - spec.confidence) / 2
        offset = spec.side * selection_ranks.end_rank(spec.size, spec.fractions[0], bounding.rows, Fraction(draw, MICRO), failure)
    return Selection(spec.label, kind, query, spec.size, spec.fractions, bounding.rows, per_group, loss, offset)

"""Before any noise is drawn: does the measurement's charge cover it?

Knows: a `Measurement`'s numbers, the formulas of `privacy.loss`, what a source of noise says of itself. Must not know:
data, answers. The planner computed every charge; here each is computed again from the noise that will really be drawn,
by formula in exact rationals and by the library's own `map()`, and a plan that charges less is refused whole.
"""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from operator import add, ge

from dpproxy.amounts import MICRO
from dpproxy.mechanisms.noise import MechanismError, Noise, exact_loss
from dpproxy.privacy import noise_scale, running_sums, selection_ranks
from dpproxy.privacy.loss import ZERO, Loss
from dpproxy.privacy.measurement import Basis, FirstRound, Measurement, Selection, Threshold
from dpproxy.privacy.noise_tail import top_threshold, truncated_threshold, units_threshold
from dpproxy.privacy.running_sums import Running

MAP_ROUNDING = 1 + Fraction(1, 2**40)
"""A library states its loss as a double rounded up; it must be the formula's, and that is held against the charge."""


def check(measurement: Measurement, noise: Noise) -> None:
    """Check a measurement's charge. Raises MechanismError unless each part is charged at least what it costs, and the whole at
    least its parts."""
    for basis in measurement.bases:
        if basis.steps > 1 and not basis.norm:
            raise MechanismError("steps share a sensitivity that is not one of all groups together")
        if basis.norm == 2 and basis.mechanism != "gaussian":
            raise MechanismError("an l2 norm is no sensitivity of this noise")
        if basis.running is not None:
            _check_running(basis, basis.running, measurement)
        _check_basis(basis, basis.reach(measurement.reach), noise)
    _check_gaussians(measurement)
    for selection in measurement.selections:
        _check_selection(selection, measurement)
    _check_threshold(measurement)
    _check_top(measurement)
    parts = [b.loss for b in measurement.bases] + [s.loss for s in measurement.selections]
    if measurement.threshold:
        parts.append(Loss.delta_only(measurement.threshold.delta))
    if measurement.top:
        parts.append(measurement.top.loss)
    if not _covers(measurement.loss, reduce(add, parts, ZERO)):
        raise MechanismError("the parts of a measurement cost more than its charge")


def _check_basis(basis: Basis, l0: int, noise: Noise) -> None:
    by_formula = exact_loss(basis.mechanism, basis.scale, l0, basis.linf)
    by_source = noise.loss(basis.mechanism, basis.scale, l0, basis.linf)
    short = basis.mechanism == "laplace" and by_formula > Fraction(basis.loss.epsilon, MICRO)
    if short or by_source > by_formula * MAP_ROUNDING or not _curves_cover(basis, l0):
        raise MechanismError("a charge is smaller than the loss of its noise")


def _check_running(basis: Basis, running: Running, measurement: Measurement) -> None:
    """Running sums are of declared groups of which a unit changes one, and what it changes of them is no more than is charged
    for: the norm of the longest column of what groups are multiplied by."""
    one = measurement.dense and measurement.l0 == 1 and measurement.counted is None and measurement.top is None
    if not one or not 0 <= running.key < len(measurement.keys):
        raise MechanismError("running sums of groups of which a unit may change several")
    if basis.norm != 2 or basis.steps != 1 or basis.fine != running_sums.PARTS:
        raise MechanismError("running sums have a sensitivity that is no l2 norm")
    if running.within < 1 or basis.linf**2 < running.within**2 * running_sums.column_square(running):
        raise MechanismError("a unit changes running sums by more than is charged for")


def _check_gaussians(measurement: Measurement) -> None:
    """Gaussian columns are one mechanism: their losses add up to one, and that has the (epsilon, delta) they share.

    The single column's share of epsilon is a label: taken alone it would not be a proven reading.
    """
    columns = [b for b in measurement.bases if b.mechanism == "gaussian"]
    if not columns:
        return
    epsilon, delta = sum(b.loss.epsilon for b in columns), sum(b.loss.conversion for b in columns)
    moved = [(b.reach(measurement.reach), b.linf) for b in columns]
    try:
        covered = noise_scale.gaussian_covered(moved, [b.scale for b in columns], epsilon, delta)
    except ValueError:
        raise MechanismError("the charge of Gaussian noise needs an epsilon and a delta") from None
    if not covered:
        raise MechanismError("a charge is smaller than the loss of its noise")


def _curves_cover(basis: Basis, l0: int) -> bool:
    """The Renyi and Gaussian readings: at least this noise's, or at least those of any epsilon-DP mechanism."""
    loss, linf = basis.loss, max(basis.linf, 1)
    if basis.mechanism == "gaussian":
        return _covers(loss, Loss.gaussian(l0, linf, basis.scale, loss.epsilon, loss.conversion))
    own = Loss.laplace_vector(l0, basis.linf / basis.scale, linf)
    return _covers(loss, own) or _covers(loss, Loss.pure(loss.epsilon))


def draw_epsilon(selection: Selection) -> int:
    """Return the epsilon of each draw, in micro: the draws of one selection share its epsilon evenly."""
    return selection.epsilon // _draws(selection)


def _draws(selection: Selection) -> int:
    """None for a quantile of nothing."""
    return 0 if selection.kind == "quantile" and not selection.fractions else selection_ranks.draws(selection.fractions)


def _check_selection(selection: Selection, measurement: Measurement) -> None:
    """A unit takes part in every draw of each of its l0 groups."""
    draws, l0 = _draws(selection), measurement.l0
    if not draws or draw_epsilon(selection) < 1 or selection.sensitivity < 1:
        raise MechanismError("a selection without draws, epsilon or sensitivity")
    if selection.offset and (selection.kind != "quantile" or len(selection.fractions) != 1 or selection.fractions[0] in (0, 1)):
        raise MechanismError("a selection aims beside what is no quantile")
    if not 1 <= selection.query < len(measurement.queries):
        raise MechanismError("a selection names no query of its measurement")
    own = Loss.bounded_range(draw_epsilon(selection), draws * l0)
    if not (_covers(selection.loss, own) or _covers(selection.loss, Loss.pure(selection.epsilon * l0))):
        raise MechanismError("a charge is smaller than the loss of its selection")


def _check_threshold(measurement: Measurement) -> None:
    """Undeclared keys have a threshold on the distinct units, no lower than the noise on those units asks for."""
    threshold = measurement.threshold
    if threshold is None:
        if (
            measurement.keys and not measurement.dense and measurement.top is None
        ):  # without keys there is one group, whatever the data
            raise MechanismError("undeclared keys need a threshold")
        return
    units = measurement.bases[threshold.basis]
    if units.steps > 1:
        raise MechanismError("groups are kept by a column of steps")
    if units.linf != units.fine:
        raise MechanismError("groups are kept by a column that a unit moves by more than 1")
    if threshold.first is not None:
        _check_first(threshold, threshold.first, measurement)
    if threshold.tau < _least_tau(threshold, units, measurement.l0):
        raise MechanismError("a threshold is lower than its delta allows")


def _check_first(threshold: Threshold, first: FirstRound, measurement: Measurement) -> None:
    """Two rounds have noise and shares of delta of their own, and a unit weighs no more in either."""
    own, last = measurement.bases[first.basis], measurement.bases[threshold.basis]
    if first.basis == threshold.basis or not 0 < first.delta < threshold.delta:
        raise MechanismError("two rounds share what each needs")
    if own.steps > 1 or not own.norm or not last.norm or own.linf != own.fine:
        raise MechanismError("groups are found by a column that a unit moves by more than 1")
    if first.tau < units_threshold(own.scale, measurement.l0, first.delta, threshold.min_units * own.fine, own.mechanism):
        raise MechanismError("a threshold is lower than its delta allows")


def _check_top(measurement: Measurement) -> None:
    """The choices are charged, and groups of few units are as unlikely as delta says."""
    top = measurement.top
    if top is None:
        return
    if measurement.dense != (top.absent is None) or measurement.threshold is not None or measurement.selections:
        raise MechanismError("groups are chosen in two ways")
    if not 0 <= top.score < len(measurement.bases) or measurement.bases[top.score].norm:
        raise MechanismError("groups are chosen by no count")
    linf, l0 = measurement.bases[top.score].linf, measurement.l0
    if top.absent is not None and top.absent < top_threshold(top.k, l0, linf, top.epsilon, top.delta, top.min_units):
        raise MechanismError("a threshold is lower than its delta allows")
    if not _covers(top.loss, Loss.bounded_range(top.epsilon, top.k) + Loss.delta_only(top.delta)):
        raise MechanismError("a charge is smaller than the loss of its choices")


def _least_tau(threshold: Threshold, units: Basis, l0: int) -> int:
    if threshold.reach is None:
        own = threshold.delta - (threshold.first.delta if threshold.first is not None else 0)
        return units_threshold(units.scale, l0, own, threshold.min_units * units.fine, units.mechanism)
    _, reach = truncated_threshold(units.scale, l0, threshold.delta, threshold.min_units)
    if units.mechanism != "laplace" or units.norm or threshold.reach < reach:
        raise MechanismError("a threshold with less noise than its delta allows")
    return threshold.min_units + threshold.reach


def _covers(charge: Loss, cost: Loss) -> bool:
    """Whether every reading of `charge` is at least that of `cost`."""
    return (
        charge.epsilon >= cost.epsilon
        and charge.delta >= cost.delta
        and charge.failure >= cost.failure
        and all(map(ge, charge.rdp, cost.rdp))
        and all(map(ge, charge.gdp, cost.gdp))
    )

"""Every plan's privacy numbers a second way: in floats, from the definitions, without a formula of `dpproxy.privacy`.

For each accepted fixture, under each mechanism: epsilon from sensitivity over scale, delta of Gaussian noise from its rho, of
thresholds by adding up probabilities, of chosen groups by the exponential mechanism's own formula. What a plan charges must
be that much, at most a fiftieth more, and what EXPLAIN says must be what is charged.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import lru_cache

import plan_harness
import pytest
from fixture_cases import ACCEPTED, Case

from dpproxy.errors import Refusal
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Mechanism
from dpproxy.privacy.measurement import Basis, FirstRound, Measurement, Threshold

MICRO, ATTO = 10**6, 10**18
CLOSE = 1 + 1e-6
SPARE = 1.02  # what rounding and shares of epsilon may cost more than is needed
LEAST = 1e-9  # scales of columns that nobody can move


def reach(m: Measurement, basis: Basis) -> int:
    """Groups of a unit in which this basis' noise counts."""
    if basis.norm:
        return 1
    return min(m.l0, m.top.k) if m.top is not None else m.l0


COARSE = 20_000  # scales of noise in finer parts than this: its steps are as good as continuous, and too many to add up


@lru_cache(maxsize=100_000)
def laplace_tail(scale: float, t: int) -> float:
    """P(X >= t) of discrete Laplace noise, by its terms."""
    if scale > COARSE:
        return math.exp(-(t - 0.5) / scale) / 2
    q = math.exp(-1 / scale)
    return sum((1 - q) / (1 + q) * q**x for x in range(t, t + math.ceil(60 * scale) + 60))


@lru_cache(maxsize=100_000)
def gaussian_tail(sigma: float, t: int) -> float:
    """The same of discrete Gaussian noise."""
    if sigma > COARSE:
        return math.erfc((t - 0.5) / sigma / math.sqrt(2)) / 2
    far = math.ceil(40 * sigma) + 40
    terms = [math.exp(-(x * x) / (2 * sigma * sigma)) for x in range(far)]
    return math.fsum(terms[t:]) / (2 * math.fsum(terms) - 1)


@lru_cache(maxsize=1_000)
def gaussian_delta(rho: float, epsilon: float) -> float:
    """The least delta of rho-zCDP at epsilon that a grid of Renyi orders finds, coarse first, then fine."""

    def delta(step: float) -> float:
        gap = math.exp(step)
        log = gap * ((1 + gap) * rho - epsilon) - step + (1 + gap) * math.log1p(-1 / (1 + gap))
        return math.exp(min(log, 0))

    best = min((i / 20 for i in range(-200, 400)), key=delta)
    return min(delta(best + i / 10_000) for i in range(-600, 601))


def normal_delta(variance: float, epsilon: float) -> float:
    """Of a privacy loss of that variance, normal as that of continuous Gaussian noise is: P(loss > epsilon) - e**epsilon P(other's
    loss < -epsilon)."""
    mean, root = variance / 2, math.sqrt(2 * variance)
    if epsilon > 500:
        return math.inf
    return (math.erfc((epsilon - mean) / root) - math.exp(epsilon) * math.erfc((epsilon + mean) / root)) / 2


WHOLE = 2.5  # of the variance of noise in whole numbers: what makes normal noise such


Gaussians = list[tuple[Measurement, Basis]]


def gaussian_least(gaussians: Gaussians, epsilon: float) -> float:
    """The least delta that either way finds."""
    moved = [(reach(m, b) * b.linf**2, float(b.scale) ** 2) for m, b in gaussians]
    least = gaussian_delta(sum(square / (2 * variance) for square, variance in moved), epsilon)
    if all(variance > WHOLE for _, variance in moved):
        least = min(least, normal_delta(sum(square / (variance - WHOLE) for square, variance in moved), epsilon))
    return least


def of_laplace(m: Measurement) -> float:
    """Epsilon of everything that is epsilon-DP by itself."""
    total = sum(s.epsilon / MICRO * m.l0 for s in m.selections)
    total += m.top.k * m.top.epsilon / MICRO if m.top is not None else 0
    for basis in m.bases:
        if basis.mechanism == "laplace" and basis.scale > LEAST:
            total += reach(m, basis) * basis.linf / float(basis.scale)
    return total


def gaussian_problems(gaussians: Gaussians, promised: float, delta: float) -> list[str]:
    """Whether these columns together are (promised, delta)-DP, and little noise is wasted."""
    found = []
    if gaussians and not gaussian_least(gaussians, promised) <= delta * CLOSE:
        found.append(f"Gaussian noise is not ({promised}, {delta})-DP")
    less = [(m, replace(b, scale=b.scale * 20 / 21)) for m, b in gaussians]
    if gaussians and gaussian_least(less, promised) <= delta:
        found.append("Gaussian noise is more than it need be")
    return found


def vector_problems(made: Plan) -> list[str]:
    """All Gaussian columns of the statement at what they are charged together: the statement's charge less everything else's."""
    gaussians = [(m, b) for m in made.measurements for b in m.bases if b.mechanism == "gaussian"]
    if not gaussians:
        return [] if made.loss.epsilon == sum(m.loss.epsilon for m in made.measurements) else ["epsilons do not add up"]
    apart = sum((m.loss.epsilon - sum(b.loss.epsilon for b in m.bases if b.mechanism == "gaussian")) for m in made.measurements)
    return gaussian_problems(gaussians, (made.loss.epsilon - apart) / MICRO, made.loss.conversion / ATTO)


def problems(m: Measurement) -> list[str]:
    gaussians = [(m, b) for b in m.bases if b.mechanism == "gaussian"]
    promised = sum(b.loss.epsilon for _, b in gaussians) / MICRO
    delta = sum(b.loss.conversion for _, b in gaussians) / ATTO
    found = gaussian_problems(gaussians, promised, delta)
    epsilon, charged = of_laplace(m) + promised, m.loss.epsilon / MICRO
    if not epsilon / CLOSE <= charged <= max(epsilon * SPARE, epsilon + 1e-4):
        found.append(f"epsilon {epsilon} is charged as {charged}")
    delta += (m.threshold.delta if m.threshold else 0) / ATTO + (m.top.delta if m.top else 0) / ATTO
    if not delta / CLOSE <= m.loss.delta / ATTO <= delta * CLOSE:
        found.append(f"delta {delta} is charged as {m.loss.delta / ATTO}")
    return found + thresholds(m)


def rounds(m: Measurement, threshold: Threshold, first: FirstRound) -> list[str]:
    """A new group is shown if it passes in either round: the chance of both together, over all groups of a unit."""
    chance = 0.0
    for basis, tau in ((m.bases[first.basis], first.tau), (m.bases[threshold.basis], threshold.tau)):
        chance += m.l0 * gaussian_tail(float(basis.scale), tau - threshold.min_units * basis.fine)
    delta = threshold.delta / ATTO
    return [] if delta / SPARE <= chance <= delta * CLOSE else [f"a new group is shown with probability {chance}"]


def thresholds(m: Measurement) -> list[str]:
    """What new groups show themselves by."""
    if m.top is not None:
        linf = m.bases[m.top.score].linf
        score = m.top.absent - m.top.min_units * linf
        likely = m.top.k * m.l0 * math.exp(-m.top.epsilon / MICRO / linf * score)
        return [] if likely <= m.top.delta / ATTO * CLOSE else [f"a new group is chosen with probability {likely}"]
    if m.threshold is None:
        return [] if m.dense or not m.keys else ["undeclared groups without a threshold"]
    if m.threshold.first is not None:
        return rounds(m, m.threshold, m.threshold.first)
    units, delta = m.bases[m.threshold.basis], m.threshold.delta / ATTO / m.l0
    above = m.threshold.tau - m.threshold.min_units * units.fine
    if m.threshold.reach is not None:
        q, k = math.exp(-1 / float(units.scale)), m.threshold.reach
        likely = (1 - q) / (1 + q - 2 * q ** (k + 1)) * q**k
        right = above == k
    else:
        likely = (laplace_tail if units.mechanism == "laplace" else gaussian_tail)(float(units.scale), above)
        right = True
    return [] if right and likely <= delta * CLOSE else [f"a new group passes with probability {likely}, not {delta}"]


def told(made: Plan) -> list[str]:
    """What EXPLAIN says against the plan: the charge, each measurement's, each noise's scale."""
    text = "\n".join(made.explain)
    found = []
    charge = re.search(r"\(charge epsilon=([0-9.e+-]+)(?:, delta=([0-9.e+-]+))?", text)
    if charge is None:
        return ["EXPLAIN names no charge"]
    if not math.isclose(float(charge[1]), made.loss.epsilon / MICRO, rel_tol=1e-3, abs_tol=1e-6):
        found.append(f"EXPLAIN says epsilon {charge[1]}")
    if not math.isclose(float(charge[2] or 0), made.loss.delta / ATTO, rel_tol=1e-3):
        found.append(f"EXPLAIN says delta {charge[2]}")
    scales = [float(s) for s in re.findall(r"discrete (?:Laplace|Gaussian), scale ([0-9.e+-]+)", text)]
    wanted = [float(b.scale / b.fine * b.grid) for m in made.measurements for b in m.bases]
    if len(scales) != len(wanted) or not all(math.isclose(a, b, rel_tol=1e-3) for a, b in zip(scales, wanted, strict=False)):
        found.append(f"EXPLAIN says scales {scales}, not {wanted}")
    return found


MECHANISMS: tuple[Mechanism, ...] = ("laplace", "gaussian", "auto")
SPECIAL = ("accept_top", "accept_whole", "accept_other")
CHOSEN = [(c, MECHANISMS[i % 3]) for i, c in enumerate(ACCEPTED) if i % 6 == 0 or c.file in SPECIAL]


@pytest.mark.parametrize(("case", "mechanism"), CHOSEN, ids=str)
def test_plans(case: Case, mechanism: Mechanism, shop_catalog: Catalog) -> None:
    given = replace(plan_harness.policy(case.policy), mechanism=mechanism)
    try:
        made = case.plan(shop_catalog, given)
    except Refusal:  # a tail of epsilon that this mechanism cannot use
        assert mechanism != "laplace"
        return
    limits = given.roles[case.role].query
    assert [p for m in made.measurements for p in problems(m)] == []
    assert told(made) == []
    assert vector_problems(made) == []
    assert made.loss.failure == sum(m.loss.failure for m in made.measurements)
    assert made.loss.delta <= limits.delta
    asked = int(float(case.settings.get("dpproxy.epsilon", limits.epsilon / MICRO)) * MICRO)
    assert made.loss.epsilon <= asked

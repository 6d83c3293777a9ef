"""What several measurements of one statement cost together: all their Gaussian columns are one vector release.

Knows: measurements' numbers, what covers Gaussian noise. Must not know: SQL, ledgers, the planner. The planner states what each
measurement costs alone; here it is computed, from the noise that will be drawn, what some of them cost together, which is
less: where a unit changes column i in l0_i groups by at most linf_i each, and its noise is sigma_i, the squares
l0_i linf_i**2 / sigma_i**2 add up, and not epsilons.

Why that holds. Noise of a vector's columns is independent, so that the loss is that of one Gaussian of variance V, the sum of the
squares. That is so as well when a measurement's SQL depends on what others of the statement released (staged ones): mu-Gaussian
DP of fixed parameters composes adaptively to the root of the sum of mu**2 (Dong, Roth, Su 2022, corollary 3.3). Of discrete
noise zCDP adds up adaptively (Bun & Steinke 2016, lemma 2.3; Canonne, Kamath, Steinke 2020, theorem 14).
`noise_scale.gaussian_covered` says by which of both (epsilon, delta) is proven.

What is charged together is charged before any of it runs, staged measurements included. Were the rest charged only once the
first numbers are seen, at what it costs more, then a session could spend the same amount on something else instead, as its luck
has it, and would get twice the delta (`privacy.accountant` has the same of certificates). What else a session asks meanwhile
changes nothing: what a statement is (epsilon, delta)-DP as, it is beside others too (Vadhan & Zhang 2023).

Some of a vector alone - what is left when the others are reused, what another role is shown - costs what its own squares need:
more than its share of the whole's epsilon, and less than the whole. So a part's price is never taken from the whole's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from dpproxy.privacy.loss import ZERO, Loss
from dpproxy.privacy.measurement import Measurement, Vector
from dpproxy.privacy.noise_scale import Moved, gaussian_covered

STEPS = 1000
"""A part of a vector is priced in thousandths of the vector's epsilon, rounded up."""

Columns = Sequence[tuple[Moved, Fraction]]
"""What a unit moves a column by (l0, linf), and the column's sigma, in parts of a grid unit."""


def part_epsilon(columns: Columns, vector: Vector) -> int | None:
    """Return the least epsilon (micro), of all thousandths of the vector's, for which these columns are (epsilon,
    `vector.delta`)-DP; None when not even the vector's own is enough."""
    moved, sigmas = [m for m, _ in columns], [s for _, s in columns]

    def covered(step: int) -> bool:
        epsilon = vector.epsilon * step // STEPS
        return epsilon > 0 and gaussian_covered(moved, sigmas, epsilon, vector.delta)

    if not covered(STEPS):
        return None
    low, high = 0, STEPS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if covered(middle) else (middle, high)
    return vector.epsilon * high // STEPS


def gaussian_columns(measurement: Measurement) -> Columns:
    """Return the columns of a measurement that are part of its statement's vector."""
    bases = [b for b in measurement.bases if b.mechanism == "gaussian"]
    return [((b.reach(measurement.reach), b.linf), b.scale) for b in bases]


def loss_together(measurements: Iterable[Measurement]) -> Loss:
    """Return the loss of measurements of one statement that are charged at once."""
    made = list(measurements)
    apart = sum((m.loss for m in made), ZERO)
    shared = [m for m in made if m.vector is not None]
    vectors = {m.vector for m in shared}
    if len(shared) < 2 or len(vectors) != 1:
        return apart
    vector = vectors.pop()
    assert vector is not None
    epsilon = part_epsilon([c for m in shared for c in gaussian_columns(m)], vector)
    labels = [b.loss for m in shared for b in m.bases if b.mechanism == "gaussian"]
    single = sum(label.epsilon for label in labels)
    if epsilon is None:
        return apart
    beside = sum(label.conversion for label in labels) - vector.delta
    return replace(
        apart,
        epsilon=apart.epsilon - single + epsilon,
        delta=apart.delta - beside,
        conversion=apart.conversion - beside,
    )

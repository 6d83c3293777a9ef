"""Bits are told by chance at a small epsilon, and nearly all of them at a huge one: the attack works, noise stops it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpproxy.audit.bench import AuditBench
from dpproxy.audit.black_box import SPENT, fitted, reconstruction
from dpproxy.audit.hostile_rows import World


def test_from_guessing_to_knowing(small: AuditBench) -> None:
    attack = reconstruction(small)
    assert attack is not None
    assert [p.epsilon for p in attack.points] == [2 * e for e in SPENT]
    assert not attack.refuted
    assert attack.points[-1].advantage > 0.6 > attack.points[0].advantage


def test_where_there_is_nothing_to_try_it_on(small: AuditBench) -> None:
    assert reconstruction(replace(small, world=World((), ()))) is None


def test_counts_are_missed_by_least() -> None:
    """Less than by the truth, and not less beside it in any direction: the sum of misses is convex."""
    random = np.random.default_rng(3)
    sets, bits = random.integers(0, 2, (64, 24)).astype(float), random.integers(0, 2, 24)
    assert (fitted(sets, sets @ bits).round() == bits).all()
    counts = sets @ bits + random.laplace(scale=2, size=64).round()

    def missed(x: np.typing.NDArray[np.float64]) -> float:
        return float(np.abs(sets @ x - counts).sum())

    found = fitted(sets, counts)
    assert missed(found) < missed(bits.astype(float))
    beside = np.clip(found + random.normal(scale=0.05, size=(400, 24)), 0, 1)
    assert missed(found) < 1.001 * min(map(missed, beside))

"""The loss of a choice is computed from whole distributions: no more than is charged, and all of it where the data reach for it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpproxy.audit import movement
from dpproxy.audit.bench import AuditBench
from dpproxy.audit.movement import Exactly, Moved
from dpproxy.audit.planted import MEDIAN
from dpproxy.audit.self_test import ROLE
from dpproxy.mechanisms.exponential import counts, quantile_runs
from dpproxy.privacy.measurement import Measurement


@pytest.fixture(scope="module")
def median(small: AuditBench) -> Measurement:
    plan = small.bench.planned(ROLE, MEDIAN)
    assert plan is not None
    (found,) = plan.measurements
    return found


def test_a_unit_within_its_contributions(median: Measurement) -> None:
    (selection,) = median.selections
    k, most = selection.sensitivity, Moved()
    before, after = {(): {10: 4, 500: 4}}, {(): {10: 4, 500: 4 - k}}
    assert list(movement.compared_points(median, selection, before, after, most)) == []
    assert 0.5 < max(most.parts.values()) <= 1
    sharp = replace(selection, sensitivity=1)
    told = list(movement.compared_points(median, sharp, before, after, Moved()))
    assert any("contributions" in t for t in told)
    assert any("privacy loss" in t or "apart" in t for t in told)


def test_losses_are_those_of_the_distribution() -> None:
    """By hand: a grid of four points, one contribution more."""
    from fractions import Fraction

    def runs(points: list[int]):  # type: ignore[no-untyped-def]
        bucket = np.array(points, np.int64)
        return quantile_runs(counts(np.zeros_like(bucket), bucket, np.ones_like(bucket), 1), 4, Fraction(1, 2), 1)

    def chances(found, eta: float) -> list[float]:  # type: ignore[no-untyped-def]
        gaps = [0] * 4
        for start, length, gap in zip(found.start, found.length, found.gap, strict=True):
            gaps[start : start + length] = [gap] * length
        weights = [math.exp(-eta * g) for g in gaps]
        return [w / sum(weights) for w in weights]

    one, other, eta = runs([0, 2]), runs([0, 2, 3]), 0.7
    losses = [math.log(p / q) for p, q in zip(chances(one, eta), chances(other, eta), strict=True)]
    assert movement.loss_range(one, other, eta) == pytest.approx(max(losses) - min(losses))


def test_scores_of_the_highest_groups(small: AuditBench) -> None:
    plan = small.bench.planned(ROLE, "SELECT note, count(*) FROM orders GROUP BY 1 ORDER BY count(*) DESC LIMIT 1")
    assert plan is not None
    m = next(m for m in plan.measurements if m.top is not None)
    assert m.top is not None
    linf, width = m.bases[m.top.score].linf, len(m.bases)

    def scores(*given: int) -> Exactly:
        return Exactly(tuple(range(len(given))), {i: (g,) * width for i, g in enumerate(given)})

    def told(*after: int) -> list[str]:
        return list(movement.compared_scores(m, m.top, scores(9, 8, 7), scores(*after), Moved()))  # type: ignore[arg-type]

    assert told(9 - linf, 8 - linf, 7) == []
    assert "raises some scores and lowers others" in told(9 - linf, 8 + linf, 7)[0]
    assert any("apart" in t for t in told(9 - 3 * linf, 8, 7))

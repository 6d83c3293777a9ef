"""Guesses succeed as far as their epsilon allows, and beyond it are told."""

from __future__ import annotations

import numpy as np
import pytest

from dpproxy.audit.black_box import Attack, averaged, point, shown_keys, together
from dpproxy.audit.events import Outcome, advantage_bound


def _answers(center: float, scale: float, times: int, seed: int) -> list[Outcome]:
    noise = np.random.default_rng(seed).laplace(scale=scale, size=times)
    return [Outcome("ok", {"n": center + float(x)}) for x in noise]


def test_averaging_gains_what_it_pays_for() -> None:
    points = averaged(_answers(10, 2, 8000, 1), _answers(9, 2, 8000, 2), 0.5, 0.0, (1, 4, 16, 2000))
    assert [p.epsilon for p in points] == [0.5, 2.0, 8.0], "two thousand at a time are too few tries"
    assert points[0].advantage < points[1].advantage < points[2].advantage
    assert not Attack("averaging", "", points).refuted
    assert all(p.sure <= p.advantage <= p.allowed + 0.05 for p in points)


def test_an_answer_without_noise_is_beyond_what_is_allowed() -> None:
    points = averaged(_answers(10, 1e-6, 400, 1), _answers(9, 1e-6, 400, 2), 0.5, 0.0, (1,))
    assert Attack("averaging", "", points).refuted
    assert not Attack("timing", "", points, counts=False).refuted


def test_a_point_by_hand() -> None:
    found = point(60, 100, 40, 100, 1.0, 0.01)
    assert found.advantage == pytest.approx(0.2)
    assert 0 <= found.sure < 0.2
    assert found.allowed == advantage_bound(1.0, 0.01)


def test_answers_of_several_statements_together() -> None:
    both = together([_answers(1, 1, 3, 1), _answers(2, 1, 2, 2)])
    assert len(both) == 2
    assert set(both[0].numbers) == {(0, "n"), (1, "n")}


def test_a_key_that_is_shown_for_one_person() -> None:
    there = [Outcome("ok", {"a": 1.0, "only": 2.0})] * 60
    gone = [Outcome("ok", {"a": 1.0})] * 60
    found = shown_keys(there, gone, 0.1, 1e-9)
    assert found is not None
    assert found.sure > found.allowed
    same = shown_keys(there, there, 0.1, 1e-9)
    assert same is not None
    assert same.sure == 0
    assert shown_keys([], [], 0.1, 0.0) is None

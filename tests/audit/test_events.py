"""What tells two kinds of answers apart is found; where nothing does, nothing is claimed."""

from __future__ import annotations

import numpy as np

from dpproxy.audit.events import Outcome, evidence

ALPHA = 1e-4


def _answers(random: np.random.Generator, center: float, scale: float, times: int) -> list[Outcome]:
    return [Outcome("ok", {"n": float(round(center + x))}) for x in random.laplace(scale=scale, size=times)]


def test_noise_at_its_charge_and_at_half_of_it() -> None:
    random = np.random.default_rng(3)
    for scale, low, high in ((1.0, 0.6, 1.0), (0.5, 1.3, 2.0)):
        found = evidence(_answers(random, 10, scale, 4000), _answers(random, 9, scale, 4000), 0.0, ALPHA)
        assert low < found.epsilon < high, found


def test_the_same_answers_prove_nothing() -> None:
    random = np.random.default_rng(4)
    found = evidence(_answers(random, 10, 3, 2000), _answers(random, 10, 3, 2000), 0.0, ALPHA)
    assert found.epsilon < 0.1


def test_another_code_a_row_and_a_value_that_is_always_the_same() -> None:
    plain = [Outcome("ok", {"a": float(i % 7)}) for i in range(400)]
    error = [Outcome("22012", {}) for _ in range(400)]
    more = [Outcome("ok", {"a": float(i % 7), "b": 1.0}) for i in range(400)]
    stuck = [Outcome("ok", {"a": 3.25}) for _ in range(400)]
    for other in (error, more, stuck):
        assert evidence(plain, other, 0.0, ALPHA).epsilon > 2


def test_a_difference_that_only_several_numbers_tell() -> None:
    random = np.random.default_rng(5)

    def answers(extra: float) -> list[Outcome]:
        noise = random.laplace(scale=50, size=1000)
        return [Outcome("ok", {"a": float(x), "b": float(x) + extra}) for x in noise]

    found = evidence(answers(0.0), answers(1.0), 0.0, ALPHA)
    assert found.epsilon > 3
    assert found.event is not None
    assert "score" in found.event.name

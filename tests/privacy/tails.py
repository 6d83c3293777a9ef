"""Tails of noise by their definition: sums of probabilities."""

from __future__ import annotations

import math


def laplace_tail(scale: float, t: int) -> float:
    """P(X >= t) by summing the pmf."""
    q = math.exp(-1 / scale)
    return math.fsum((1 - q) / (1 + q) * q**x for x in range(t, t + int(60 * scale) + 60))


def gaussian_tail(sigma: float, t: int) -> float:
    reach = int(15 * sigma) + 5
    weights = [math.exp(-(x * x) / (2 * sigma * sigma)) for x in range(reach)]
    return math.fsum(weights[t:]) / (2 * math.fsum(weights) - 1)

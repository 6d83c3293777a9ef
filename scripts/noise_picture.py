"""Draws docs/policies/noise.svg: the error of a count against the size of the group, for four epsilons. Numbers are computed."""

from __future__ import annotations

import math
import sys

WIDTH, HEIGHT, MARGIN = 640, 320, 60
EPSILONS = {0.05: "#d62728", 0.1: "#ff7f0e", 0.5: "#2ca02c", 1.0: "#1f77b4"}
SIZES = (10, 100, 1_000, 10_000, 100_000)
PERCENTS = (0.01, 0.1, 1, 10, 100)


def place(size: float, percent: float) -> tuple[float, float]:
    """Where a size and an error stand, on logarithmic axes."""
    x = MARGIN + WIDTH * (math.log10(size) - 1) / 4
    return x, MARGIN + HEIGHT * (2 - math.log10(percent)) / 4


def picture() -> str:
    size = f'width="{WIDTH + 2 * MARGIN}" height="{HEIGHT + 2 * MARGIN}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    parts = [head, '<rect width="100%" height="100%" fill="white"/>']
    for people in SIZES:
        x, _ = place(people, 1)
        parts.append(f'<path d="M{x:.0f} {MARGIN}V{MARGIN + HEIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.0f}" y="{MARGIN + HEIGHT + 18}" text-anchor="middle">{people:,}</text>')
    for percent in PERCENTS:
        _, y = place(10, percent)
        parts.append(f'<path d="M{MARGIN} {y:.0f}H{MARGIN + WIDTH}" stroke="#ddd"/>')
        parts.append(f'<text x="{MARGIN - 6}" y="{y + 4:.0f}" text-anchor="end">{percent:g} %</text>')
    for i, (epsilon, colour) in enumerate(EPSILONS.items()):
        reach = math.log(20) / epsilon
        sizes = [10 ** (1 + step / 50) for step in range(201)]
        points = [place(size, 100 * reach / size) for size in sizes if 0.01 <= 100 * reach / size <= 100]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{MARGIN + WIDTH - 90}" y="{MARGIN + 20 + 18 * i}" fill="{colour}">epsilon {epsilon:g}</text>')
    title = "A count of people is off by at most this, 19 times in 20; by size of the group"
    parts.append(f'<text x="{MARGIN}" y="{MARGIN - 14}">{title}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(picture())

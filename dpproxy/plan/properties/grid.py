"""The grid a value is measured on: bounds in whole units of its resolution, or of one chosen from their width.

Knows: rationals, facts of expressions. Must not know: SQL, noise. A grid trades rounding for room: sums, their row bounds and
their noise must all fit in 64 bits. `STEPS` are tried in order; a coarser one is used only where a finer one leaves no
room for the noise (then the rounding is far below the noise).
"""

from __future__ import annotations

from fractions import Fraction

from dpproxy.plan.properties.facts import facts
from dpproxy.tree.expr import Expr

AUTO_GRID_STEPS = 10**6  # without a declared resolution, a column's range is cut into about this many steps


def grid_of(expr: Expr, steps: int) -> tuple[int, int, Fraction]:
    """Return (lo, hi, grid) of where a numeric expression is held, in whole grid units, rounded outwards."""
    known = facts(expr)
    lo, hi = known.reach.ends
    return on_grid(lo, hi, known.grid, steps)


def on_grid(lo: Fraction, hi: Fraction, grid: Fraction | None, steps: int) -> tuple[int, int, Fraction]:
    """Return the interval in whole units of `grid`, ten times as coarse while that is too fine; of one chosen if none is
    known."""
    if grid is None:
        grid = _auto_grid(max(hi - lo, Fraction(1, 10**12)))
    while max(abs(lo), abs(hi)) / grid > steps:
        grid *= 10
    return (lo / grid).__floor__(), (hi / grid).__ceil__(), grid


FINEST, FINEST_PRODUCTS = 2**21 - 1, 2**14 - 1
"""Steps of the grid in the first class of values that are measured in classes, and of products of such."""

MOST_HELD, MOST_CLASSES = 32, 18
"""The bits of the largest value in the last class, which engines round well; and classes above the first, whose sizes are told
apart in 4096ths of it, as numbers of 31 bits (`engines.norm_scaling`)."""


def doublings(lo: int, hi: int, most: int) -> int:
    """Return how many classes of twice the size there are above the first, whose values are in lo..hi: `most`, as far as there is
    room."""
    return max(1, min(most, MOST_CLASSES, MOST_HELD - (hi - lo).bit_length()))


def _auto_grid(width: Fraction) -> Fraction:
    grid = Fraction(1)
    while width / grid < AUTO_GRID_STEPS:
        grid /= 10
    while width / grid > AUTO_GRID_STEPS * 10:
        grid *= 10
    return grid

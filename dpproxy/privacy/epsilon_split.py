"""How one statement's epsilon is divided over all columns it measures.

Knows: how much each column's noise weighs in each output. Must not know: data, SQL. Any division is sound: the parts add up
to the whole, in integers. Floats only decide which division; it is deterministic, and depends on the plan alone.

A statement's columns are of two kinds. *Linear* ones (Laplace noise, selections) have a part of epsilon each, and err in
proportion to its inverse. All columns of Gaussian noise are one vector that has a part of epsilon together
(`privacy.vector_loss`); each has a part of the vector's rho, and errs in proportion to the inverse of its root.

An output's error is a function of several columns' noise (AVG: a centred sum and a count). To first order its variance is the
sum over linear columns of (weight / share)**2, and over Gaussian ones of weight**2 / (rho's share) / (the vector's share)**2,
where weight is the relative error that the column's noise would bring at the whole budget. The division minimises the largest
output error, by multiplicative weights over outputs (Arora, Hazan, Kale 2012): for fixed importances the best shares
are proportional to a root of the weighted squares (Lagrange; a vector counts as one linear column, whose weighted square is the
square of the sum of its columns' roots), then outputs that are worse off gain importance.

What is least for the worst output may leave little to one that is well off. So no column that an output needs gets less than
`LEAST` of an equal share: a quarter of epsilon over the number of linear columns, the vector being one of them, and in the vector
a quarter of rho over the number of its columns.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

Row = tuple[tuple[int, float], ...]
"""Of one output: columns, and the relative standard error that each column's noise brings it, were the column alone."""

ROUNDS = 200
NEAR = 1.02
"""Of squared errors: a division within 1 % of the best possible one is as good."""

WORK = 100_000
"""Weights looked at, in all rounds together: an analyst's statement has tens of them, one of 600 aggregates 2,000."""

STEPS = 1000
"""Shares are rounded to thousandths, so that plans are stable and readable; the error changes by less than 1 %."""

LEAST = 1 / 4
"""Of an equal share. With as many columns as one likes no output errs more than 4 times what it would if all had equal shares
(Gaussian noise: twice), and the others give at most a quarter of theirs for it."""


@dataclass(frozen=True)
class Weights:
    """Hold the weights above 0 alone: an output is made of few columns, so that there are few weights however many outputs there
    are. `gaussian`: the columns of Gaussian noise."""

    columns: int
    rows: tuple[Row, ...]
    gaussian: frozenset[int] = frozenset()

    @classmethod
    def of(cls, columns: int, rows: Sequence[Mapping[int, float]], gaussian: Collection[int] = ()) -> Weights:
        """Make weights of one mapping an output. Raises ValueError for a column that there is not, and for no output."""
        if not rows or any(not 0 <= c < columns for c in (*gaussian, *(c for row in rows for c in row))):
            raise ValueError("at least one output, made of the columns there are")
        made = tuple(tuple(sorted((c, float(w)) for c, w in row.items() if w)) for row in rows)
        return cls(columns, made, frozenset(gaussian))

    @property
    def size(self) -> int:
        """Return the number of weights."""
        return sum(map(len, self.rows))


@dataclass(frozen=True)
class Allocation:
    """`parts` of the whole, positive integers that add up to it; those of Gaussian columns add up to the vector's part, and are
    to each other as their parts of rho. `error`: the largest output error, in the unit of the weights, relative to a column
    alone with the whole."""

    parts: tuple[int, ...]
    error: float


@lru_cache(maxsize=1024)
def allocate(weights: Weights, whole: int) -> Allocation:
    """Divide `whole` (micro-epsilon) over the columns of `weights`.

    Columns that no output uses get the least share. Raises ValueError when `whole` is less than one a column, or
    there is no column.
    """
    if not weights.columns or whole < weights.columns:
        raise ValueError("a whole of at least one for each column, and at least one column")
    shares = _not_starved(weights, _minimax(weights))
    steps = [max(1, round(share * STEPS)) for share in shares]
    total = sum(steps)
    parts = [max(1, whole * step // total) for step in steps]
    largest = max(range(weights.columns), key=parts.__getitem__)
    parts[largest] += whole - sum(parts)
    found = [p / whole for p in parts]
    return Allocation(tuple(parts), max(_errors(weights, found)))


def _errors(weights: Weights, shares: Sequence[float]) -> list[float]:
    vector = math.fsum(shares[c] for c in weights.gaussian)
    per = [share * (vector if c in weights.gaussian else share) for c, share in enumerate(shares)]
    return [math.sqrt(math.fsum(w * w / per[c] for c, w in row)) for row in weights.rows]


def rounds(weights: Weights) -> int:
    """A statement of very many weights is divided less finely, so that dividing takes time in proportion to what is asked."""
    return max(1, min(ROUNDS, WORK // max(weights.size, 1)))


@lru_cache(maxsize=1024)
def _minimax(weights: Weights) -> tuple[float, ...]:
    """Shares that (nearly) minimise the largest error; the best found is kept.

    The weighted mean of the squared errors that shares were chosen for is a lower bound of every division's largest:
    when the two are within `NEAR`, there is no better one worth looking for.
    """
    importance = [1.0] * len(weights.rows)
    best, least = _shares(weights, importance), math.inf
    for k in range(rounds(weights)):
        shares = _shares(weights, importance)
        errors = _errors(weights, shares)
        worst = max(errors)
        if worst < least:
            best, least = shares, worst
        bound = math.fsum(i * e * e for i, e in zip(importance, errors, strict=True)) / math.fsum(importance)
        if worst * worst <= bound * NEAR:
            break
        rate = 2.0 / math.sqrt(1 + k / 10)
        importance = [i * math.exp(rate * (e / worst - 1)) for i, e in zip(importance, errors, strict=True)]
    return tuple(best)


def _shares(weights: Weights, importance: Sequence[float]) -> list[float]:
    """For fixed importances: minimise sum_i a_i / s_i**2 with sum_i s_i = 1: s_i ~ a_i**(1/3). In a vector of share s minimise
    sum_j b_j / r_j / s**2 with sum_j r_j = 1: r_j ~ b_j**(1/2), which leaves (sum_j b_j**(1/2))**2 / s**2."""
    terms: list[list[float]] = [[] for _ in range(weights.columns)]
    for i, row in zip(importance, weights.rows, strict=True):
        for c, w in row:
            terms[c].append(i * w**2)
    loads = [math.fsum(of_column) for of_column in terms]
    roots = {c: math.sqrt(loads[c]) for c in sorted(weights.gaussian)}
    linear = {c: load ** (1 / 3) for c, load in enumerate(loads) if c not in roots}
    vector = math.fsum(roots.values())
    whole = _held([*linear.values(), *([vector ** (2 / 3)] if roots else [])])
    found = dict(zip(linear, whole, strict=False))
    if roots:
        found |= {c: whole[-1] * r for c, r in zip(roots, _held(list(roots.values())), strict=True)}
    return [found[c] for c in range(weights.columns)]


def _held(loads: Sequence[float]) -> list[float]:
    """In proportion to the loads, adding up to 1."""
    total = math.fsum(loads)
    if total == 0:
        return [1 / len(loads)] * len(loads)
    floor = total / STEPS  # an unused column still has to be divided by something
    held = [max(load, floor) for load in loads]
    whole = math.fsum(held)
    return [load / whole for load in held]


def _not_starved(weights: Weights, shares: Sequence[float]) -> list[float]:
    """Raise what is less than `LEAST` of an equal share and of use to an output; all others give in proportion."""
    used = {c for row in weights.rows for c, _ in row}
    vector = sorted(weights.gaussian)
    linear = [c for c in range(weights.columns) if c not in weights.gaussian]
    wholes = [*(shares[c] for c in linear), *([math.fsum(shares[c] for c in vector)] if vector else [])]
    needed = [*(c in used for c in linear), *([bool(weights.gaussian & used)] if vector else [])]
    raised = _raised(wholes, needed)
    found = dict(zip(linear, raised, strict=False))
    if vector:
        inside = _raised([shares[c] / wholes[-1] for c in vector], [c in used for c in vector])
        found |= {c: raised[-1] * part for c, part in zip(vector, inside, strict=True)}
    return [found[c] for c in range(weights.columns)]


def _raised(shares: Sequence[float], needed: Sequence[bool]) -> list[float]:
    least = LEAST / len(shares)
    low: set[int] = set()
    while True:
        rest = math.fsum(s for i, s in enumerate(shares) if i not in low)
        scale = (1 - least * len(low)) / rest if rest else 1.0
        more = {i for i, s in enumerate(shares) if i not in low and needed[i] and s * scale < least}
        if not more:
            return [least if i in low else s * scale for i, s in enumerate(shares)]
        low |= more

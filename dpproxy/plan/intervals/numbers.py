"""Numbers of noise that are only known when the whole statement is planned: calls in the outer query that stand for them.

Knows: scales of noise, confidence, sqlglot's trees. Must not know: formulas, data. While a statement is bound it is not known how
its epsilon is divided: columns of half-widths and deviations hold calls of functions that nobody has, with the numbers of a
measurement and a basis as arguments. Once all scales are fixed each call gives way to its number. Of columns that are adjusted to
others of the statement (`totals`) these are the numbers of what they are adjusted to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import sqlglot
from sqlglot import exp

from dpproxy.privacy.measurement import Basis, Measurement
from dpproxy.privacy.noise_error import CHOSEN, deviation, each, excess, normal_point, step_half, sums_deviations, told_half
from dpproxy.privacy.running_sums import ROUNDING
from dpproxy.sql.dialect import FaithfulPostgres, to_sql
from dpproxy.sql.nodes import every

HALF, DEVIATION, EXCESS, NORMAL = "dpproxy_half", "dpproxy_deviation", "dpproxy_excess", "dpproxy_normal"
TAU = "dpproxy_tau"
SUM_HALF, SUM_DEVIATION = "dpproxy_sum_half", "dpproxy_sum_deviation"
"""Names no client can call: the facade has no such functions, and it has parsed the client's text."""

WHOLE = 0.99
"""What rounding may move a cell by that an interval need not be widened by: cells and truths are whole numbers, so that a cell
that is off by more than a whole half-width is off by one more at least. It is less than 1 for the last digits of floats."""


@dataclass(frozen=True)
class AdjustedNoise:
    """The noise of a cell that is a weighted sum of released ones, of the `bases`, and rounded. At one variance no weighted sum
    of noise has longer tails than the longest of those it is made of."""

    bases: tuple[Basis, ...]
    variance: float
    rounding: float

    @property
    def deviation(self) -> float:
        return math.sqrt(self.variance + self.rounding / 6)

    @property
    def excess(self) -> float:
        return max(map(excess, self.bases))

    def half(self, confidence: Fraction) -> int:
        longest = max(told_half(basis, confidence) / deviation(basis) for basis in self.bases)
        return math.ceil(longest * math.sqrt(self.variance) + self.rounding - WHOLE)


NOTHING_ADJUSTED: Mapping[tuple[int, int], AdjustedNoise] = {}


def with_error_numbers(
    tree: exp.Expr,
    measurements: Sequence[Measurement],
    confidence: Fraction,
    adjusted: Mapping[tuple[int, int], AdjustedNoise] = NOTHING_ADJUSTED,
    sources: Mapping[str, int] | None = None,
) -> exp.Expr:
    """Return the tree with every call of `HALF`, `DEVIATION`, `EXCESS` and `NORMAL` replaced by its number, those of sums by a
    formula of how many groups are in one. `adjusted`: by measurement and basis; `sources`: measurements by their alias."""
    confidence = each(confidence)
    for node in every(tree, exp.Anonymous):
        if node.this == NORMAL:
            stepped, among = (int(a.this) for a in node.expressions)
            failure = (1 - confidence) / among * (CHOSEN if stepped else 1)
            node.replace(exp.Literal.number(repr(normal_point(1 - failure))))
        elif node.this == TAU:
            threshold = measurements[int(node.expressions[0].this)].threshold
            node.replace(exp.Literal.number(threshold.tau if threshold is not None else 0))
        elif node.this in (HALF, DEVIATION, EXCESS):
            measurement, basis, *rest = (int(a.this) for a in node.expressions)
            known, better = measurements[measurement].bases[basis], adjusted.get((measurement, basis))
            if node.this == HALF:
                each_one = 1 - (1 - confidence) / rest[0]
                if known.steps > 1 and better is None:
                    number = repr(step_half(known, each_one, rest[1]))
                else:
                    number = str(told_half(known, each_one, rest[1]) if better is None else better.half(each_one))
            elif node.this == DEVIATION:
                number = repr(deviation(known, rest[0]) if better is None else better.deviation)
            else:
                number = repr(excess(known, rest[0]) if better is None else better.excess)
            node.replace(exp.Literal.number(number))
        elif node.this in (SUM_HALF, SUM_DEVIATION):
            alias, basis, first, among, cells = node.expressions
            place = (sources or {})[alias.this], int(basis.this)
            known, better = measurements[place[0]].bases[place[1]], adjusted.get(place)
            text = _sum_deviation(known, bool(int(first.this)), to_sql(cells))
            if node.this == SUM_HALF:
                text = _sum_half(known, text, normal_point(1 - (1 - confidence) / int(among.this)), to_sql(cells))
                text += f" + {2 * better.rounding}" if better is not None else ""  # at both ends of the sum
            node.replace(exp.Var(this=text))
    return tree


def _sum_deviation(basis: Basis, first: bool, cells: str) -> str:
    """That of the noise in a sum of groups that follow one another, `first`: from the first on. Without running sums their noise
    is independent."""
    if basis.running is None:
        return f"({deviation(basis)!r} * sqrt({cells}))"
    known = sums_deviations(basis)[first]
    return f"('{{{','.join(f'{x:.6g}' for x in known)}}}'::float8[])[{cells}]"


def _sum_half(basis: Basis, spread: str, z: float, cells: str) -> str:
    """z deviations, z by Cornish & Fisher's expansion to the fourth cumulant, and what rounding may add."""
    if basis.running is not None:
        return f"({z!r} * {spread} + {ROUNDING})"
    return f"ceil(({z!r} + {(z**3 - 3 * z) / 24 * excess(basis)!r} / {cells}) * {spread})"


def text_with_error_numbers(
    sql: str, measurements: Sequence[Measurement], confidence: Fraction, sources: Mapping[str, int] | None = None
) -> str:
    """Do what `with_error_numbers` does, for SQL of ours as text."""
    if not any(name in sql for name in (HALF, DEVIATION, SUM_HALF, SUM_DEVIATION)):
        return sql
    return to_sql(with_error_numbers(sqlglot.parse_one(sql, read=FaithfulPostgres), measurements, confidence, sources=sources))

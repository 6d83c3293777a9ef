"""What a measurement measures, before noise: basis columns, selections, and how contributions are bounded.

Knows: expressions, grids, sensitivities. Must not know: SQL text, noise, budgets. The sensitivity of a basis column is
stated here, beside the reason why it holds; `bounding` writes the SQL that makes it true.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpproxy.plan.domains import Dense
from dpproxy.plan.expr import Expr


@dataclass(frozen=True)
class BasisSpec:
    """A basis column before noise. `kind`: count | units | sum | distinct. `value` is what is counted or summed.

    `lo`, `hi`: one row's contribution in grid units; `center` is subtracted from the value first (for AVG). `mean`: the
    sum goes with a count into a mean; rows of a unit beyond the bound then weigh as many as the bound allows, all alike.

    Why `linf` holds with `mean`: let n rows of a unit add up to s in a group, k be the row bound and m = max(|lo|, |hi|).
    Each row adds at most m, so |s| <= n m. With n <= k the unit adds s, and |s| <= k m. With n > k it adds s k / n rounded
    towards zero, and |s k / n| <= n m k / n = k m. Either is a number between the unit's least and greatest k-row sums.
    """

    kind: str
    value: Expr | None
    where: Expr | None
    label: str
    lo: int = 0
    hi: int = 1
    grid: Fraction = Fraction(1)
    center: Fraction = Fraction(0)
    mean: bool = False

    @property
    def shift(self) -> int:
        """The centre in grid units: it is a whole number of them."""
        assert (self.center / self.grid).denominator == 1
        return int(self.center / self.grid)

    def linf(self, rows: int) -> int:
        """The most one unit changes the column by in one group, in grid units."""
        if self.kind == "units":
            return 1
        return rows * max(abs(self.lo), abs(self.hi))


@dataclass(frozen=True)
class SelectionSpec:
    """A value to be selected before noise: `value` on the grid lo..hi (whole units of `grid`), or a declared value.

    `fractions` of PERCENTILE (0 is MIN, 1 is MAX); empty for MODE, whose candidates are `values`.
    """

    value: Expr
    where: Expr | None
    label: str
    lo: int
    hi: int
    grid: Fraction
    fractions: tuple[Fraction, ...]
    values: tuple[str | None, ...] = ()

    @property
    def size(self) -> int:
        return len(self.values) if self.values else self.hi - self.lo + 1

    @property
    def columns(self) -> int:
        return max(len(self.fractions), 1)


@dataclass(frozen=True)
class Shape:
    """How contributions are bounded. `per_unit`: the GROUP BY (unit, keys) step; `pick`: groups kept of each unit."""

    rows: int
    l0: int
    per_unit: bool
    pick: bool
    dense: Dense | None
    notes: tuple[str, ...]

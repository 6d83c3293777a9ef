"""What a measurement measures, before noise: basis columns, selections, and how contributions are bounded.

Knows: expressions, grids, sensitivities. Must not know: SQL text, noise, budgets. The sensitivity of a basis column is
stated here, beside the reason why it holds; `bounding` writes the SQL that makes it true.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import isqrt

from dpproxy.plan.intervals.arithmetic import Range
from dpproxy.plan.measure.output_weights import Kind
from dpproxy.plan.properties.key_domains import Dense
from dpproxy.tree.expr import Expr
from dpproxy.tree.interval import OPEN, Interval

PRECISION = 2**20

CONTRIBUTION_STEPS = 12
"""Sizes of contributions that are measured apart, each twice the one before: of `rows: 10` up to 20,480 rows. What is longer
is scaled down to that. More steps cost the backend a column each, and no noise."""


Sure = tuple[bool, bool]
"""Of a low and of a high end, whether it is a fact (`plan.properties.facts.Facts.sure`)."""


def size_classes(rows: int, greatest: int | None) -> int:
    """Return how many sizes of contributions are measured apart where a unit weighs `rows`: with the last one `greatest` rows are
    no more than it holds."""
    if greatest is None:
        return CONTRIBUTION_STEPS
    return min((max(-(-greatest // rows), 1) - 1).bit_length() + 1, CONTRIBUTION_STEPS)


@dataclass(frozen=True)
class BasisSpec:
    """A basis column before noise. `kind`: count | units | sum | distinct | distinct_sum | weight. `value` is what is
    counted or summed; of distinct_sum each value once, whoever has it.
    A weight is the unit's 1 in each of its groups, scaled to norm 1: what thresholds look at where `Bounding.spread` is set.
    Of distinct values a unit has at most as many as the row bound allows, in a group or, where `Bounding.norm` is set, in all its
    groups together: the numbers of them, a group each, have that norm. Nor are there more in a group than are declared: `most`.

    `lo`, `hi`: one row's contribution in grid units; `center` is subtracted from the value first (for AVG). `mean`: the sum
    or count goes into a mean; rows of a unit beyond the bound then weigh as many as the bound allows, all alike.
    `taken`: the centre that is subtracted in `value` itself, of distinct values.
    `sure`: whether no value is below `lo`, and none above `hi`, as far as the policy is true; else those beyond are held there.
    `doublings`: in how many classes more of values, each of twice the size, these are measured apart, so that what is beyond `lo`
    and `hi` counts (`engines.norm_scaling`); as counts are where rows of a unit weigh together, though a unit has one row.
    `counted` of such a sum is what its count counts (None: rows): not NULL in any row whose value is not NULL.
    `round` of a weight: 1 where it is measured by itself before the other columns, 2 over groups that were not found then
    (`mechanisms.key_rounds`), 0 where there is one round.

    `parts`: people are told of it in so many parts of a grid unit: weights of reports are added up as whole numbers.

    Why `linf` holds with `mean`: let n rows of a unit add up to s in a group, k be the row bound and m = max(|lo|, |hi|).
    Each row adds at most m or nothing, so |s| <= n m. With n <= k the unit adds s, and |s| <= k m. With n > k it adds s k / n
    rounded towards zero, and |s k / n| <= n m k / n = k m. Either is a number between the unit's least and greatest k-row sums.
    """

    kind: str
    value: Expr | None
    where: Expr | None
    label: str
    lo: int = 0
    hi: int = 1
    grid: Fraction = field(default=Fraction(1), hash=False)  # to hash a fraction is slow
    center: Fraction = field(default=Fraction(0), hash=False)
    mean: bool = False
    counted: Expr | None = None
    most: int | None = None
    round: int = 0
    parts: int = 1
    taken: Fraction = field(default=Fraction(0), hash=False)
    sure: Sure = (True, True)
    doublings: int = 0

    @property
    def held(self) -> tuple[int, int]:
        """Return where one row's contribution is held: at `lo` and `hi`; with classes, as far beyond as these reach."""
        more = (self.hi - self.lo) * ((1 << self.doublings) - 1)
        return self.lo if self.sure[0] else self.lo - more, self.hi if self.sure[1] else self.hi + more

    @property
    def shift(self) -> int:
        """Return the centre in grid units: it is a whole number of them."""
        assert (self.center / self.grid).denominator == 1
        return int(self.center / self.grid)

    @property
    def about(self) -> int:
        """Return the centre of a mean's sum in grid units, wherever it is subtracted."""
        return self.shift + int(self.taken / self.grid)

    def linf(self, rows: int) -> int:
        """Return the most one unit changes the column by in one group, in grid units."""
        if self.kind in ("units", "weight"):
            return 1
        if self.kind == "distinct":
            return self.kept(rows)
        if self.kind == "distinct_sum":
            return self.kept(rows) * max(abs(self.lo), abs(self.hi))
        return rows * max(abs(self.lo), abs(self.hi))

    def kept(self, rows: int) -> int:
        """Say how many of a unit's distinct values count in a group."""
        return rows if self.most is None else max(min(rows, self.most), 1)

    @property
    def distinct(self) -> bool:
        """Tell whether a value that several units have is there once."""
        return self.kind in ("distinct", "distinct_sum")

    def norm(self, bounding: Bounding) -> int:
        """1 or 2 where the unit's contributions to all groups have an l1 or l2 norm of at most `linf`; 0 where each has."""
        units = bounding.spread and bounding.dense is None  # elsewhere a unit's 1 costs no more by itself
        whole = self.kind in ("count", "sum", "weight") or self.distinct or (self.kind == "units" and units)
        if self.doublings:
            return bounding.norm or 1  # of one row a unit, in one group
        return bounding.norm if whole else 0

    @property
    def scaled(self) -> bool:
        """Tell whether that norm is kept by scaling down. Of distinct values as many are picked as it allows."""
        return not self.distinct

    def steps(self, bounding: Bounding) -> int:
        """Say how many sizes of contributions are measured apart. Of means, whose noise large ones would drown, none are."""
        if self.doublings:
            return max(self.doublings + 1, bounding.classes if bounding.norm else 1)
        return bounding.classes if self.norm(bounding) and self.stepped else 1

    @property
    def stepped(self) -> bool:
        return self.kind in ("count", "sum") and not self.mean

    def fine(self, bounding: Bounding) -> int:
        """Parts of a grid unit in which scaled contributions are measured: rounding them down loses a millionth. Where no unit is
        scaled down for good, what is divided by a step is whole in these parts: nothing is lost."""
        if not self.scaled or not self.norm(bounding):
            return 1
        linf = max(self.linf(bounding.rows), 1)
        whole = self.steps(bounding) - 1 if bounding.closed else 0
        return 1 << max((max(PRECISION // linf, 1) - 1).bit_length(), whole)

    def sensitivity(self, bounding: Bounding) -> int:
        """Return the most one unit changes the column by in one group, or that norm over all groups, in `fine` parts of a grid
        unit.

        A column that no row can move still gets noise of one part: this is 1, never 0. Units are numbers of 0 and 1 in
        each group: in as many groups as there may be rows their l1 norm is that number, their l2 norm its root.
        """
        fine = self.fine(bounding)
        if self.distinct and self.norm(bounding):
            each, row = self.linf(bounding.rows), max(self.linf(1), 1)
            all_groups = each * bounding.l0 if bounding.norm == 1 else isqrt(max(each * each * bounding.l0 - 1, 0)) + 1
            return max(min(bounding.rows * row, all_groups), 1)
        if self.kind == "units" and self.norm(bounding):
            return bounding.rows * fine if bounding.norm == 1 else isqrt(bounding.rows * fine * fine) + 1
        return max(self.linf(bounding.rows), 1) * fine


@dataclass(frozen=True)
class SelectionSpec:
    """A value to be selected before noise: `value` on the grid lo..hi (whole units of `grid`), or a declared value.

    `fractions` of PERCENTILE (0 is MIN, 1 is MAX); empty for MODE, whose candidates are `values`.
    `side`: of the one quantile, not itself but the low (-1) or high (1) end of its interval that holds with `confidence`. `sure`:
    whether no value is below `lo`, and none above `hi`, as far as the policy is true.
    """

    value: Expr
    where: Expr | None
    label: str
    lo: int
    hi: int
    grid: Fraction
    fractions: tuple[Fraction, ...]
    values: tuple[str | None, ...] = ()
    side: int = 0
    confidence: Fraction = Fraction(0)
    sure: Sure = (True, True)

    @property
    def size(self) -> int:
        return len(self.values) if self.values else self.hi - self.lo + 1

    @property
    def columns(self) -> int:
        return max(len(self.fractions), 1)


@dataclass(frozen=True)
class TopSpec:
    """Only the k groups in which basis `score`, a count, is highest are asked for."""

    k: int
    score: int


@dataclass(frozen=True)
class Bounding:
    """A bounding says how contributions are bounded. `per_unit`: the GROUP BY (unit, keys) step; `pick`: groups kept of each
    unit.

    `norm`: 1 or 2 where a unit's contributions to all its groups are scaled down together until their l1 or l2 norm is
    that of `rows` rows in one group: then one unit changes the column by at most `linf` in that norm, however many groups
    it reaches. Scaling one unit's vector looks at that unit alone, so that nothing else moves. 0 otherwise. By which power
    of 2 it was scaled down decides in which column it is counted (`norm_scaling`): still one unit changes them by `linf` in all.
    `kept`: where no more than so many groups are released, None elsewhere. `greatest`: the most rows that a unit has at all, by
    the policy's word; None where nothing says it.
    """

    rows: int
    l0: int
    per_unit: bool
    pick: bool
    dense: Dense | None
    notes: tuple[str, ...]
    norm: int = 0
    kept: int | None = None
    greatest: int | None = None

    @property
    def classes(self) -> int:
        """Say in how many sizes contributions are measured apart: as many as hold units of the greatest number of rows."""
        return size_classes(self.rows, self.greatest)

    @property
    def closed(self) -> bool:
        """Tell whether no unit has more rows than its size is measured for: nothing is scaled down for good."""
        return self.greatest is not None and self.greatest <= self.rows << self.classes - 1

    @property
    def holds_rows(self) -> bool:
        """Tell whether no unit has more rows than count in one group."""
        return self.greatest is not None and self.greatest <= self.rows

    @property
    def holds_groups(self) -> bool:
        """Tell whether no unit has rows in more groups than are kept of it."""
        return not self.pick or (self.greatest is not None and self.greatest <= self.l0)

    @property
    def spread(self) -> bool:
        """Tell whether a unit's contributions to several groups are bounded together."""
        return bool(self.norm) and self.l0 > 1

    @property
    def reach(self) -> int:
        """Say how many of the released groups one unit changes at most."""
        return self.l0 if self.kept is None else min(self.l0, self.kept)


@dataclass(frozen=True)
class Measured:
    """A measured aggregate has `formula` over the bases, `{0}`.. numbering `bases`, or over the columns of `selection`; `type` is
    PostgreSQL's.

    `range` encloses it (None for selections; of an interval it is in seconds); `bound` holds for it whatever the noise. `kind`,
    `weights` and `statistic`: as in `output_weights.Output`. `single`: of a selection the formula of one of its columns, `{0}`.
    `devices`: the variance that devices have made of it, over the bases; `noise_told`: what people are told of that.
    """

    bases: tuple[BasisSpec, ...]
    formula: str
    type: str
    kind: Kind
    weights: tuple[float, ...]
    range: Range | None = None
    selection: SelectionSpec | None = None
    bound: Interval = OPEN
    statistic: str = ""
    single: str = ""
    devices: str = ""
    noise_told: str = ""

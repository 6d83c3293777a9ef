"""What is measured: the contract between the planner, which fixes every number of it, and the mechanisms, which draw.

Knows: templates of generated SQL, losses. Must not know: how either is made. All values are frozen, and fixed before any data is
touched; `mechanisms.charge_check` recomputes the loss of a measurement before anything is drawn.

A measurement has noise. Of reports, which devices have randomised, there is another type (`privacy.readings`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dpproxy.privacy.loss import Loss
from dpproxy.privacy.running_sums import Running
from dpproxy.sql.template import Param, Template, Text

EXTRA = 3
"""Columns that are released in addition to one with steps (`Measurement.stepped`)."""


@dataclass(frozen=True)
class Key:
    """A key is a grouping column of the backend's result: named `k0`, `k1`, ... there."""

    label: str  # as the analyst wrote it
    type: str  # PostgreSQL type


@dataclass(frozen=True)
class Basis:
    """A basis is an integer column of the backend's result, named `b0`, `b1`, ...: BIGINT, never NULL, within +-2**62.

    `linf`: the most one unit can change it by in one group, in grid units.
    `scale`: of the discrete Laplace noise, or sigma of the discrete Gaussian noise, in grid units.
    `grid`: the value of one grid unit (a label for people; arithmetic is in the outer query).
    `norm`: 1 or 2 where `linf` bounds that norm of a unit's changes in all groups together (`specs.Bounding`), else 0.
    `fine`: what the backend returns, `linf` and `scale` are in this many parts of a grid unit; what is released is rounded.
    `running`: what the backend returns is in whole grid units, and noise is added to its running sums, which are in `fine` parts;
    `linf` bounds the l2 norm of a unit's changes of those (`running_sums.changed`).
    `steps`: above 1, the backend returns that many columns, `b0s0`, `b0s1`, ..., of which one unit changes one, by `linf` in
    all groups together; column j is in 2**j units (`engines.norm_scaling`). Each gets noise of `scale`; they
    are put together after.
    """

    label: str
    linf: int
    grid: Fraction
    mechanism: Literal["laplace", "gaussian"]
    scale: Fraction
    loss: Loss
    norm: int = 0
    fine: int = 1
    steps: int = 1
    signed: bool = False  # some rows count as less than nothing
    running: Running | None = None

    def columns(self, index: int) -> list[str]:
        """Return the names of the basis's columns in the backend's result, as basis number `index`."""
        return [f"b{index}"] if self.steps == 1 else [f"b{index}s{j}" for j in range(self.steps)]

    def reach(self, l0: int) -> int:
        """Return how many groups' worth of `linf` one unit changes, of the `l0` groups it may be in."""
        return 1 if self.norm else l0


@dataclass(frozen=True)
class Vector:
    """The Gaussian columns of all measurements of a statement are one vector release, which is (`epsilon` micro, `delta`
    atto)-DP. What some of them cost is in `privacy.vector_loss`."""

    epsilon: int
    delta: int


@dataclass(frozen=True)
class FirstRound:
    """Finds groups before others are looked for (`mechanisms.key_rounds`): those whose noisy `bases[basis]` is at least `tau`.
    `query` returns (k0.., b0, h): what each group weighs, and a number of it. `delta` (atto) is part of the threshold's."""

    query: Template
    basis: int
    tau: int
    delta: int


@dataclass(frozen=True)
class Threshold:
    """Groups are kept when the *noisy* `bases[basis]` (distinct units) is at least `tau`.

    The backend has already dropped groups of fewer than `min_units` units; `tau` accounts for it.
    With `reach` the noise on that basis is discrete Laplace held within +-reach (`threshold.truncated_threshold`).
    With `first`, groups found in that round are kept as well, and `tau` is at what that leaves of `delta`.
    """

    basis: int
    tau: int
    min_units: int
    delta: int  # atto, for all L0 groups of a unit together
    reach: int | None = None
    first: FirstRound | None = None


@dataclass(frozen=True)
class Top:
    """Groups are chosen one after the other by the exponential mechanism on the exact `bases[score]`, a count, k times at
    `epsilon` (micro) each: a unit raises each score by at most that basis's linf and lowers none. "No further one" has
    the score `absent` (`threshold.top_threshold`); the backend has dropped groups of fewer than `min_units` units. Of
    declared groups all are there, whatever the data: `absent` is None, and no delta is charged.
    `loss` is `Loss.bounded_range(epsilon, k)` and `delta`.
    """

    k: int
    score: int
    epsilon: int
    absent: int | None
    min_units: int
    delta: int  # atto
    loss: Loss


@dataclass(frozen=True)
class Selection:
    """A selection is a value chosen per group by a mechanism on scores; `query` is the index in `Measurement.queries`.

    quantile: the query returns (k0.., bucket BIGINT, n BIGINT): how many contributions fall in each bucket of
    the grid `0..size-1`; released is a grid index, one column a fraction (0 is MIN, 1 is MAX).
    mode: the same, over the positions of declared values; `fractions` is empty, released is one position.
    `offset`: of a single fraction, by how many ranks beside it is aimed (`selection_ranks.end_rank`); then what lies beyond the
    grid on that side is a candidate too, released as the grid's first or last point.
    `sensitivity`: most contributions of one unit in one group. `epsilon` (micro) is spent in each group, its draws
    (`selection_ranks.draws`) sharing it; a unit reaches `l0` groups. `loss` is `Loss.bounded_range` of the epsilon of a draw and
    of draws * l0 times.
    """

    label: str
    kind: Literal["quantile", "mode"]
    query: int
    size: int
    fractions: tuple[Fraction, ...]
    sensitivity: int
    epsilon: int
    loss: Loss
    offset: int = 0


@dataclass(frozen=True)
class Accept:
    """A condition of the rows that groups could decide as well: the key named `key` is one of `values` (of `type`)."""

    key: Text
    type: str
    values: tuple[str | Param, ...]


@dataclass(frozen=True)
class KeyGroups:
    """What decides which rows the declared groups of a key hold (`plan.measure.coverage`). `source`: the values of the key, as
    generated SQL, without what `Names.accepts` asks of them. `open`: names of the columns that may hold other values than those
    there are groups for, each as a key; None where such a column has no name. `held`: all rows of a unit have one value."""

    source: Text
    open: tuple[Text, ...] | None
    held: bool


@dataclass(frozen=True)
class Names:
    """A measurement for answer reuse: everything but its noise and the order of its parts.

    `rows`: the bounded rows and their groups. `keys[i]` is that of `Measurement.keys[i]`. `columns`: bases in order, then
    a name for each drawn column of each selection. Equal names, with equal values in the holes, mean equal exact values.

    The rest is for answers added up from finer groups. `base`: the rows without their groups and without what `accepts`
    asks of them; `totals[i]`: column i over all of these, None for what cannot be added up. `groups[i]`: what is known of key
    i. `complete`: all declared groups are there, and none of a unit's rows in them were left out or scaled down; `bound`: the
    rows of a unit in a group beyond which they were cut, 0 where each unit has one row. `additive[i]`: column i of some
    groups is the sum over finer ones, where each unit is in one of the finer ones or nothing was cut. `mixes[i]`: column i as
    a sum of other totals, each times a whole number, exactly; empty where there is no such sum.
    """

    rows: Text
    keys: tuple[Text, ...]
    columns: tuple[Text, ...]
    base: Text
    totals: tuple[Text | None, ...]
    accepts: tuple[Accept, ...]
    groups: tuple[KeyGroups, ...]
    complete: bool
    bound: int
    additive: tuple[bool, ...]
    mixes: tuple[tuple[tuple[Text, int], ...], ...]


@dataclass(frozen=True)
class Measurement:
    """A measurement releases `keys -> bases` over rows that belong to units (PRIVACY.md section 3).

    `queries[0]` returns columns k0..,b0.. with one row a group: when `dense`, exactly the declared groups in a fixed
    order (empty ones as zeros); else the groups of at least `threshold.min_units` units, ordered by key.
    `loss` is what the measurement costs alone: the sum over bases and selections and the threshold's delta. `vector`: that of its
    Gaussian columns; charged at once with others of its statement it costs less (`privacy.vector_loss`).
    `canonical` names the measurement for answer reuse; None for one that is never reused.
    `counted`: where `l0` rests on how many declared groups there are, the keys (by number) that differ among a unit's rows: of
    groups that agree in the others there are at most `l0`, which is counted before noise is drawn.
    `independent`: it is averaged with others of its statement, and so is not computed from stored answers, which may be theirs.
    """

    queries: tuple[Template, ...]
    keys: tuple[Key, ...]
    bases: tuple[Basis, ...]
    l0: int
    dense: bool
    threshold: Threshold | None
    loss: Loss
    canonical: Names | None
    selections: tuple[Selection, ...] = ()
    notes: tuple[str, ...] = ()  # for EXPLAIN: bounds applied, skip rules used
    top: Top | None = None  # instead of a threshold
    vector: Vector | None = None
    counted: tuple[int, ...] | None = None
    independent: bool = False

    @property
    def reach(self) -> int:
        """Return how many of the released groups one unit changes at most."""
        return self.l0 if self.top is None else min(self.l0, self.top.k)

    @property
    def stepped(self) -> tuple[int, ...]:
        """List the bases of several steps, by number. Of each, three more columns are released, after all others: its value with
        no group's noise smoothed by others', the number of the last step that is in it, and what all later steps hold."""
        return tuple(i for i, basis in enumerate(self.bases) if basis.steps > 1)

    def step_column(self, basis: int) -> int | None:
        """Return where the first of the three stands among released columns that are no keys; None for bases without steps."""
        if self.bases[basis].steps == 1:
            return None
        drawn = sum(max(len(s.fractions), 1) for s in self.selections)
        return len(self.bases) + drawn + EXTRA * self.stepped.index(basis)

"""Readings of reports: the contract between the planner and the second door (`mechanisms.reports`), which draws nothing.

Knows: templates of generated SQL, claims of devices. Must not know: how either is made. Devices have randomised what a reading
is of, so that nothing is charged for it. It is no `privacy.measurement.Measurement` without noise: that type has none. All values
are frozen, and only a reading that the kernel has judged is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dpproxy.local.claims import Claim
from dpproxy.privacy.measurement import Key
from dpproxy.sql.template import Template


@dataclass(frozen=True)
class Listed:
    """What candidates weigh: those `named`, by their texts, what is said there, all others `rest`."""

    named: tuple[tuple[str, int], ...]
    rest: int

    def of(self, candidates: Sequence[str]) -> tuple[int, ...]:
        """Return the weight of each candidate."""
        named = dict(self.named)
        return tuple(named.get(candidate, self.rest) for candidate in candidates)

    @property
    def values(self) -> frozenset[int]:
        """Return all weights there may be."""
        return frozenset((self.rest, *(weight for _, weight in self.named)))


@dataclass(frozen=True)
class Later:
    """Weights that are listed when the statement's parameters are known, as the plan's weighing of this `number` says; of a
    condition they are 0 and 1."""

    number: int
    condition: bool


Weights = Literal["own"] | Listed | Later
"""What a true value weighs: 1 where it is the candidate of the row, or as listed."""

NO_ESTIMATE = -(2**62)
SPREAD = 2**16


@dataclass(frozen=True)
class ReportCell:
    """A column of reports: in the backend's result it has a number, and its name begins with r.

    `type`: PostgreSQL's, of the values that are shown. `claims`: how devices randomised, by the version of the claim. `values`:
    the candidates as texts, the number of the query that lists them, or None: those that weights name, when these are listed.
    `grouped`: there is a row for each, but for those that `shown` gives no weight.
    """

    label: str
    type: str
    claims: tuple[tuple[int, Claim], ...]
    values: tuple[str, ...] | int | None
    grouped: bool
    shown: Listed | Later | None = None


@dataclass(frozen=True)
class Estimate:
    """An estimate is a column of a reading: backend column `a{total}` added up over reports, each as often as its device's true
    value weighs.

    `weights`: of each cell, None where whatever it says counts. With none at all it is a sum, exact. `among`: the backend column
    that counts the reports it is of, itself where it counts; `squares`: that of the squares of what it adds up. `consistent`: the
    estimates of all candidates are moved so that none is below 0, and they add up to the reports. `noise`: of a sum of numbers
    that devices made noisy the variance of one of them, or `share`: of a count of reports, each of which counts by chance.
    """

    label: str
    total: int
    among: int
    squares: int
    weights: tuple[Weights | None, ...]
    consistent: bool = False
    noise: Fraction | Literal["share"] | None = None

    @property
    def exact(self) -> bool:
        """Tell whether it has no noise."""
        return self.noise is None and all(weight is None for weight in self.weights)

    @property
    def counts(self) -> bool:
        """Tell whether it counts reports, each once or not at all."""
        if any(isinstance(weights, Later) and not weights.condition for weights in self.weights):
            return False
        return self.total == self.among and all(w.values <= {0, 1} for w in self.weights if isinstance(w, Listed))


@dataclass(frozen=True)
class Ends:
    """Two columns: how far below and above what is shown of an estimate the true value may be, but with probability `failure`."""

    estimate: int
    failure: Fraction


@dataclass(frozen=True)
class Verdict:
    """The kernel's word that these queries read reports and public rows alone. `kernel.reports` makes it, and nobody else."""

    queries: tuple[Template, ...]


@dataclass(frozen=True)
class Reading:
    """A reading adds up reports: no noise is drawn, as devices drew it, and nothing is charged.

    `queries[0]` returns k0.., the version `v` where there are several, r0.., a0..: a row for each plain group and report, in any
    order; a0 counts reports. Others list candidates. Groups of fewer than `at_least` reports are not shown, and of what fewer
    are in an estimate is `NO_ESTIMATE`. Released are keys, candidates, `estimates`, two columns for each of `ends`, and for each
    of `spreads` the standard error of that estimate, in parts of `SPREAD`. `verdict` is None until the kernel has judged it.
    """

    queries: tuple[Template, ...]
    keys: tuple[Key, ...]
    cells: tuple[ReportCell, ...]
    estimates: tuple[Estimate, ...]
    at_least: int
    ends: tuple[Ends, ...] = ()
    spreads: tuple[int, ...] = ()
    verdict: Verdict | None = None

    @property
    def versions(self) -> tuple[int, ...]:
        """Return the versions of the claim; one that has no name where no column of reports is read."""
        return tuple(version for version, _ in self.cells[0].claims) if self.cells else (0,)

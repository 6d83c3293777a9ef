"""Which measurements are of sums over runs of groups, and get noise on those (`privacy.running_sums`)?

Knows: compiled measurements, what reads them. Must not know: data, SQL. That is possible where a unit is in one group, all groups
are declared, and one key puts them into runs of a known length; and of use where only sums over that key are asked for. Noise is
Gaussian then: of the two kinds of noise the better one is chosen as for any measurement (`charge_division`), here for the sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpproxy.amounts import MICRO
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.privacy import noise_error, running_sums
from dpproxy.privacy.measurement import Basis, Names
from dpproxy.privacy.running_sums import Running
from dpproxy.sql.types import INTEGERS, TIMES

MOST_SENSITIVE = 2**20
"""Grid units that one unit may change a group by: a hundred million such units in each group of a year of days still fit into 64
bits when they are coded."""

IN_ORDER = (*INTEGERS, *TIMES)
"""Types of keys whose order in a backend's answer, of numbers or of texts, is that of the outer query's ORDER BY: some backends
tell decimals as texts, and a facade may have another collation."""


@dataclass(frozen=True)
class Series:
    """Sums along key number `key` are all that is asked of the groups: over `widths` of them, None for all so far."""

    key: int
    widths: tuple[int | None, ...]


def running_of(compiled: Compiled, series: Series | None) -> Running | None:
    """Return how sums are measured in place of groups; None where they cannot be, or are not better for it. Of its widths it is
    the one whose use makes the worst sum best; `within` is 1."""
    bounding, dense = compiled.bounding, compiled.bounding.dense
    if series is None or dense is None or dense.size is None or bounding.l0 != 1 or bounding.norm or compiled.selections:
        return None
    if compiled.keys[series.key][1] not in IN_ORDER:
        return None
    if not compiled.specs or any(spec.sensitivity(bounding) > MOST_SENSITIVE for spec in compiled.specs):
        return None
    sizes = zip(dense.parts, dense.sizes, strict=True)
    length = next((size for part, size in sizes if [number for number, _ in part.keys] == [series.key]), None)
    if length is None or not 2 <= length <= running_sums.MOST_GROUPS:
        return None
    widths = {min(width or length, length) for width in series.widths}
    found = [Running(series.key, length, width, 1) for width in sorted(widths)]
    best = min(found, key=lambda r: max(running_sums.ratio(r, width) for width in widths))
    return best if max(running_sums.ratio(best, width) for width in widths) < 1 else None


def names_of_sums(names: Names, running: Running) -> Names:
    """Name a measurement whose sums got the noise: it is another one than that of its groups, and nothing is added up of it. The
    key is told by its name: its number is that of one spelling, and rows have the same name in any."""
    told = f" in sums of {running.width} of {running.length} along "
    columns = tuple((*column, told, *names.keys[running.key]) for column in names.columns)
    nothing = tuple(None for _ in columns)
    additive, mixes = tuple(False for _ in columns), tuple(() for _ in columns)
    return replace(names, columns=columns, complete=False, totals=nothing, additive=additive, mixes=mixes)


def running_note(running: Running, bases: Sequence[Basis], laplace: bool) -> str:
    """Say what noise on sums does, for the column where it does least, compared with noise of the same charge on each group by
    itself."""
    sums, single = min(_gains(basis, laplace) for basis in bases)
    asked = (
        f"totals so far of {running.length}"
        if running.width == running.length
        else f"sums of {running.width} of {running.length}"
    )
    return (
        f"only {asked} groups are asked for, and noise is on these (square-root factorisation): their errors are typically "
        f"{sums:.2g} times less than of groups added up, those of single groups {single:.2g} times more"
    )


def _gains(basis: Basis, laplace: bool) -> tuple[float, float]:
    """By how much a sum errs less, and a group more, than with Gaussian noise on each group, or with `laplace` noise if there
    might be any and it is less."""
    assert basis.running is not None
    running, scale = basis.running, float(basis.scale)
    apart = scale * running.within / basis.linf
    if laplace:
        apart = min(apart, math.sqrt(2) * running.within * MICRO / basis.loss.epsilon)
    added = apart * math.sqrt(running_sums.typical_cells(running.length, running.width))
    typical = scale * running_sums.typical_spread(running.length, running.width, running.width)
    return added / typical, noise_error.deviation(basis) / apart

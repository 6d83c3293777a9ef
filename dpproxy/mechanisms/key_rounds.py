"""Groups that nobody declared, looked for twice: those that many are in first, then the others.

Knows: a `Measurement`, what its backend returned, a source of noise. Must not know: SQL, budgets. A unit weighs 1 over all its
groups together (their l2 norm). Most of it is spent on groups that are far above the threshold anyway. So a tenth of the
precision finds those first; in the second round a unit's weight is spread over its other groups alone, and these are shown
where their noisy weight reaches the threshold. People in many groups no longer hide the rare ones among them.

Source: Swanberg, Desfontaines, Haney 2023, "DP-SIPS: A simpler, more scalable mechanism for differentially private partition
selection" (rounds of weighted uniform set union, each over what is not yet found, with shares that grow geometrically).

Why it is private. Let D' be D without unit u, and N the groups that exist (have `min_units` units) in D alone; u is in each of
them, and there are at most l0. Let C be the mechanism on D that never finds a group of N.

- *None of N is shown*, but with probability delta: in either round a group of N weighs at most min_units, since no unit weighs
  more than 1 in a group, so that one of N passes with probability at most that round's share of delta, whatever was drawn for
  all other groups (`threshold.units_threshold`); the shares add up to delta. Where none passes, D answers as C does.
- *C is close to D'*: the groups common to both get noise on vectors that u moves by an l2 norm of at most 1 in the first
  round; in the second one as well, for any set F of found groups: what a unit weighs there is made of its own rows and of F,
  and has norm 1 at most; other columns by what `Basis.linf` says. That is an adaptive composition of Gaussian mechanisms,
  their sigmas fixed beforehand: zCDP adds up (Bun & Steinke 2016, lemma 2.3), and so do the squares of GDP's mu (Dong, Roth,
  Su 2022, corollary 3.3), which is how `charge_check` adds the columns of both rounds.

So P(D in S) <= delta + P(C in S) <= delta + (e**eps P(D' in S) + delta_noise), and P(D in S) >= (1 - delta) P(C in S), as in
`units_threshold`. F enters the second query as numbers of groups that were released. Should two groups have one number, the other
one is weighed by nobody and is not shown: what is kept of the first round is told by keys alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpproxy.mechanisms import charge_check
from dpproxy.mechanisms.groups import int64, positions
from dpproxy.mechanisms.noise import Exact, FoundGroups, Int64, MechanismError, Noise, saturate
from dpproxy.privacy.measurement import Measurement

MOST_NUMBERS = 100_000
"""Of found groups that the second query is told: a megabyte or two of it. Others are weighed twice, and shown all the same."""


def found_first(measurement: Measurement, exact: Exact, noise: Noise) -> FoundGroups:
    """Return the groups of the first round, by `FirstRound.query`. Raises MechanismError, with a text that does not depend on
    data."""
    charge_check.check(measurement, noise)
    first = measurement.threshold.first if measurement.threshold is not None else None
    if first is None:
        raise MechanismError("a measurement of one round has no first one")
    (table,) = exact._open()
    names = [f"k{i}" for i in range(len(measurement.keys))]
    if table.column_names != [*names, "b0", "h"]:
        raise MechanismError("the backend's answer has other columns than the plan")
    weights, numbers, basis = int64(table.column("b0")), int64(table.column("h")), measurement.bases[first.basis]
    noisy = (noise.laplace if basis.mechanism == "laplace" else noise.gaussian)(basis.scale, saturate(weights))
    if noisy.dtype != np.int64 or noisy.shape != weights.shape:
        raise MechanismError("a source of noise returned another shape")
    kept = np.flatnonzero(noisy >= first.tau)
    keys = tuple(pc.take(table.column(name).combine_chunks(), pa.array(kept)) for name in names)
    return FoundGroups(keys, tuple(numbers[kept[:MOST_NUMBERS]].tolist()))


def places(found: FoundGroups, keys: Sequence[pa.ChunkedArray], rows: int) -> Int64:
    """Return which of `rows` groups were found in the first round."""
    ours = [pa.chunked_array([key]) for key in found.keys]
    at = positions(keys, rows, ours, len(ours[0]) if ours else 0)
    return at[at >= 0]

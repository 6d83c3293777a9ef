"""What is said of groups that an answer leaves out because too few units share them: how many are too few, in numbers.

Knows: thresholds, noise, how contributions to several groups are bounded. Must not know: data. A group is shown when its noisy
number of units reaches the threshold: as often as not at the threshold itself, nearly always where the noise is unlikely to
take it below. A unit that is in many groups is kept to some of them, or counts for a part in each: groups of such units have to
be larger, and without being told an analyst would take them for empty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.measure.specs import Bounding
from dpproxy.privacy.measurement import Measurement
from dpproxy.privacy.noise_error import half_width

NEARLY = Fraction(9, 10)
"""Noise is within its half-width with this probability, and below it with half of what is left: 95 % of groups are shown."""
SEVERAL = 4
"""An example of several groups: its root is a whole number."""


def sizes(measurement: Measurement) -> tuple[int, int] | None:
    """Return how many units a group has that is shown half of the time, and 95 % of the time; None without a threshold."""
    threshold = measurement.threshold
    if threshold is None:
        return None
    basis = measurement.bases[threshold.basis]
    half = max(-(-threshold.tau // basis.fine), threshold.min_units)
    return half, half + half_width(basis, NEARLY)


def hidden_text(measurement: Measurement, bounding: Bounding, unit: str, values_of: str = "") -> str:
    """Say which groups of a measurement are not shown; empty where all are. `values_of`: the aggregate whose values they are."""
    if measurement.top is not None and measurement.top.absent is not None:
        label = measurement.bases[measurement.top.score].label
        return f"groups with {label} below about {measurement.top.absent} are not shown"
    found = sizes(measurement)
    if found is None or measurement.threshold is None:
        return ""
    half, nearly = found
    if values_of:
        shared = f"of the values of {values_of}, those that fewer than about {half} {unit}s share"
        return f"{shared} do not count (of those that {nearly} or more share, 95 % do)"
    said = f"groups of fewer than about {half} {unit}s are not shown (of those of {nearly} or more, 95 % are)"
    norm = measurement.bases[measurement.threshold.basis].norm
    if norm:
        least = half * (math.isqrt(SEVERAL) if norm == 2 else SEVERAL)
        such = "such groups" if measurement.threshold.first is not None else "groups"  # those of the first round do not count
        return f"{said}; {unit}s who are in several {such} count for less: where each is in {SEVERAL}, it takes about {least}"
    if not bounding.pick:
        return said
    many, groups = SEVERAL * measurement.l0, f"{measurement.l0} group{'s' if measurement.l0 > 1 else ''}"
    return f"{said}; a {unit} counts in {groups} at most: where each is in {many}, it takes about {SEVERAL * half}"


def hidden_groups(measurements: Sequence[Measurement], compiled: Sequence[Compiled], unit: str) -> tuple[str, ...]:
    """Say which groups an answer leaves out: analysts would else take an empty answer for an empty table."""
    said = (hidden_text(m, c.bounding, unit, c.values_of) for m, c in zip(measurements, compiled, strict=True))
    return tuple(dict.fromkeys(filter(None, said)))

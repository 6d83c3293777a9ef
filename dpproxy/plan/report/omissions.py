"""What an answer leaves out, in words: what bounds cut, rows in no declared group, groups that too few units share.

Knows: the bounds of a plan, thresholds and noise, released numbers of the measurements that count what bounds cut. Must not know:
exact values. What is said follows from the plan and from released numbers, so nothing is charged for saying it. Whether there are
rows that no group counts is not said to analysts, but to the policy's author (`dpproxy policy check`).

A group is shown when its noisy number of units reaches the threshold: as often as not at the threshold itself, nearly always
where the noise is unlikely to take it below. A unit that is in many groups is kept to some of them, or counts for a part in each.
Groups of such units have to be larger; an analyst who is not told takes them for empty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from dpproxy.kernel.contributions import Found, Reach
from dpproxy.kernel.verdict import Derived
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.measure.specs import Bounding
from dpproxy.plan.model import Cut, LeftOut
from dpproxy.plan.report.typical_error import Values
from dpproxy.policy.names import plural
from dpproxy.privacy.measurement import Basis, Measurement
from dpproxy.privacy.noise_error import half_width


def cuts_told(cuts: Sequence[Cut], values: Mapping[int, Values], bounds: Sequence[str]) -> str:
    """Say what bounds cut, and which bounds may cut something that nothing measures.

    For example: `bounds cut about 12 % of customers (3 rows of a customer in a group)`.
    """
    said = [f"bounds cut {share_cut(cut, values[cut.measurement])}" for cut in cuts if cut.measurement in values]
    return "; ".join(
        [*dict.fromkeys(said), *([f"what is beyond these bounds may be missing: {', '.join(bounds)}"] if bounds else [])]
    )


def share_cut(cut: Cut, values: Values) -> str:
    """Say which part of the units bounds cut. Both numbers are noisy: where hardly any unit was counted, no part is stated."""
    units, beyond = (int(column[0]) for column in values)
    bounds = f"({', '.join(cut.bounds)})"
    if units < 1:
        return f"an unknown share: there are too few {cut.units} to say {bounds}"
    percent = float(100 * min(max(Fraction(beyond, units), Fraction(0)), Fraction(1)))
    return f"about {percent:.{0 if percent >= 10 else 2}{'f' if percent >= 10 else 'g'}} % of {cut.units} {bounds}"


_OTHERS = {"values": "not one of its declared values (`values`)", "range": "outside its declared `range`", "": ""}


def rows_text(out: LeftOut) -> str:
    """Say which rows of a column are meant, and the setting of the policy that decides it."""
    reasons = ["NULL (`nulls`)"] if out.nulls else []
    reasons += [_OTHERS[out.others]] if out.others else []
    return f"rows whose {out.column} is {' or '.join(reasons)}"


def left_out_told(out: Sequence[LeftOut], unitless: Sequence[str]) -> str:
    """Say in a notice what is not counted; empty where everything is."""
    said = [*map(rows_text, out), *unitless]
    return f"not counted, if there are any: {', '.join(said)}" if said else ""


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
        shared = f"of the values of {values_of}, those that fewer than about {half} {plural(unit)} share"
        return f"{shared} do not count (of those that {nearly} or more share, 95 % do)"
    said = f"groups of fewer than about {half} {plural(unit)} are not shown (of those of {nearly} or more, 95 % are)"
    norm = measurement.bases[measurement.threshold.basis].norm
    if norm:
        least = half * (math.isqrt(SEVERAL) if norm == 2 else SEVERAL)
        such = "such groups" if measurement.threshold.first is not None else "groups"  # those of the first round do not count
        less = f"{plural(unit)} who are in several {such} count for less: where each is in {SEVERAL}, it takes about {least}"
        return f"{said}; {less}"
    if not bounding.pick:
        return said
    many, groups = SEVERAL * measurement.l0, f"{measurement.l0} group{'s' if measurement.l0 > 1 else ''}"
    return f"{said}; a {unit} counts in {groups} at most: where each is in {many}, it takes about {SEVERAL * half}"


def hidden_groups(measurements: Sequence[Measurement], compiled: Sequence[Compiled], unit: str) -> tuple[str, ...]:
    """Say which groups an answer leaves out: analysts would else take an empty answer for an empty table."""
    said = (hidden_text(m, c.bounding, unit, c.values_of) for m, c in zip(measurements, compiled, strict=True))
    return tuple(dict.fromkeys(filter(None, said)))


# The proof of a measurement, as EXPLAIN (FORMAT JSON) prints it: what is claimed, and what the kernel derived.
#
# Knows: a measurement, what is derived of its trees. Must not know: data. The form is a promise to outside checkers, who hold
# it against data of their own (docs/proof.md has it): names are never changed, only added.


_NORMS = {0: "each group", 1: "l1", 2: "l2"}


def with_proofs(account: dict[str, Any], proved: Sequence[tuple[Measurement, Derived]]) -> dict[str, Any]:
    """Return what EXPLAIN says of a plan with the proof of each measurement."""
    told = [m | {"Proof": _proof(*proof)} for m, proof in zip(account["Measurements"], proved, strict=True)]
    return account | {"Measurements": told}


def _proof(claimed: Measurement, derived: Derived) -> dict[str, Any]:
    main = derived.main
    growth = {"Times": derived.growth.times, "Power": derived.growth.power}
    found = {
        "Claimed": _claim(claimed), "Derived": _derived(main), "Groups Counted": claimed.counted is not None, "Growth": growth,
    }  # fmt: skip
    if claimed.selections:
        found["Selections"] = [
            {"Claimed": {"Sensitivity": s.sensitivity, "Groups": claimed.l0}, "Derived": _derived(derived.side[s.query - 1])}
            for s in claimed.selections
        ]
    return found


def _claim(claimed: Measurement) -> dict[str, Any]:
    found: dict[str, Any] = {
        "Groups": claimed.l0,
        "Declared": claimed.dense,
        "Columns": [_column(basis) for basis in claimed.bases],
    }
    if claimed.threshold is not None:
        threshold = claimed.threshold
        found["Threshold"] = {"Column": threshold.basis, "At Least": threshold.tau, "Minimum Units": threshold.min_units}
    return found


def _column(basis: Basis) -> dict[str, Any]:
    return {"Sensitivity": basis.linf, "Norm": _NORMS[basis.norm], "Parts": basis.fine, "Steps": basis.steps}


def _derived(found: Found) -> dict[str, Any]:
    return {
        "Groups": found.groups,
        "Declared": found.declared,
        "Columns": [_reach(reach) for reach in found.columns],
        "Minimum Units": found.least,
    }


def _reach(reach: Reach) -> dict[str, Any]:
    """Of an l2 norm the square is known exactly."""
    whole = {1: {"Sum": reach.whole}, 2: {"Sum of Squares": reach.whole}}.get(reach.norm, {})
    return {"Least": reach.lo, "Most": reach.hi, "Norm": _NORMS[reach.norm], "Steps": reach.steps, **whole}

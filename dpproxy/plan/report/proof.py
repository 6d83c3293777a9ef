"""The proof of a measurement, as EXPLAIN (FORMAT JSON) prints it: what is claimed, and what the kernel derived.

Knows: a measurement, what is derived of its trees. Must not know: data. The form is a promise to outside checkers, who hold it
against data of their own (docs/proof.md has it): names are never changed, only added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpproxy.kernel.contributions import Found, Reach
from dpproxy.kernel.verdict import Derived
from dpproxy.privacy.measurement import Basis, Measurement

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

"""What EXPLAIN (FORMAT JSON) prints of the proof: its form is kept for outside checkers."""

from __future__ import annotations

import json
from typing import Any

import plan_harness
import pytest

from dpproxy.plan.report.omissions import with_proofs
from dpproxy.policy.catalog import Catalog


def proofs(sql: str, catalog: Catalog, policy: str = "shop") -> list[dict[str, Any]]:
    (text,) = plan_harness.plan(f"EXPLAIN (FORMAT JSON) {sql}", catalog, plan_harness.policy(policy)).explain
    return [m["Proof"] for m in json.loads(text)[0]["Privacy Plan"]["Measurements"]]


def test_claim_and_derivation_side_by_side(shop_catalog: Catalog) -> None:
    (proof,) = proofs("SELECT status, count(*) FROM orders GROUP BY 1", shop_catalog)
    column = {"Sensitivity": 3, "Norm": "each group", "Parts": 1, "Steps": 1}
    assert proof["Claimed"] == {"Groups": proof["Claimed"]["Groups"], "Declared": True, "Columns": [column]}
    reach = {"Least": 0, "Most": 3, "Norm": "each group", "Steps": 1}
    assert proof["Derived"] == {
        "Groups": proof["Claimed"]["Groups"], "Declared": True, "Columns": [reach], "Minimum Units": 1,
    }  # fmt: skip
    assert proof["Groups Counted"] is False


@pytest.mark.parametrize("policy", ["shop", "whole"])
def test_thresholds_norms_and_selections(policy: str, shop_catalog: Catalog) -> None:
    (proof,) = proofs(
        "SELECT page, secs, count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY secs) FROM visits GROUP BY 1, 2",
        shop_catalog,
        policy,
    )
    threshold = proof["Claimed"]["Threshold"]
    assert threshold["Minimum Units"] == proof["Derived"]["Minimum Units"]
    claimed, derived = (proof[side]["Columns"] for side in ("Claimed", "Derived"))
    assert [c["Norm"] for c in claimed] == [d["Norm"] for d in derived]
    assert all(c["Sensitivity"] >= d["Most"] for c, d in zip(claimed, derived, strict=True) if c["Norm"] == "each group")
    (selection,) = proof["Selections"]
    assert selection["Claimed"]["Sensitivity"] >= selection["Derived"]["Columns"][0]["Most"]


def test_without_measurements_there_is_nothing_to_prove() -> None:
    assert with_proofs({"Measurements": [], "Role": "analyst"}, ()) == {"Measurements": [], "Role": "analyst"}

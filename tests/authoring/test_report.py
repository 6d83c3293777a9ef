"""The same problems as text, as JSON, and as SARIF that its readers take."""

from __future__ import annotations

import json
from typing import Any

from dpproxy.authoring.check_command import PRIVATE, as_json, as_sarif, line
from dpproxy.policy.problems import Problem

WRONG = Problem("shop.yaml", 3, 5, "no table `order`", "did you mean `orders`?", "unknown-table")
DOUBT = Problem("shop.yaml", 9, 1, "no range", "write one", "no-range")
EXACT = Problem("b.yaml", 2, 7, "5 % are beyond", "know it", "data-beyond-range")


def test_lines() -> None:
    assert line(WRONG) == "shop.yaml:3:5: no table `order`; fix: did you mean `orders`? [unknown-table]"
    assert line(DOUBT) == "shop.yaml:9:1: warning: no range; fix: write one [no-range]"
    assert line(EXACT) == f"b.yaml:2:7: warning: {PRIVATE}5 % are beyond; fix: know it [data-beyond-range]"


def test_json() -> None:
    found = json.loads(as_json([WRONG, EXACT]))
    assert found[0] == {
        "file": "shop.yaml",
        "line": 3,
        "column": 5,
        "severity": "error",
        "code": "unknown-table",
        "message": "no table `order`",
        "fix": "did you mean `orders`?",
        "exact": False,
    }
    assert (found[1]["exact"], json.loads(as_json([]))) == (True, [])


def test_sarif_has_what_2_1_0_demands() -> None:
    """Required by the standard: version, runs, the tool's name, messages; each result's rule is the one its index points at."""
    log: dict[str, Any] = json.loads(as_sarif([WRONG, DOUBT, EXACT], "1.2.3"))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"]
    assert driver["semanticVersion"] == "1.2.3"
    assert [rule["id"] for rule in driver["rules"]] == ["data-beyond-range", "no-range", "unknown-table"]
    assert all(driver["rules"][r["ruleIndex"]]["id"] == r["ruleId"] for r in run["results"])
    assert [r["level"] for r in run["results"]] == ["error", "warning", "warning"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "shop.yaml"}, "region": {"startLine": 3, "startColumn": 5}}
    assert PRIVATE in run["results"][2]["message"]["text"]
    assert json.loads(as_sarif([], "1"))["runs"][0]["results"] == []

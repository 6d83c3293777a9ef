"""Doubts about reports: of the shipped policies, and at the figures from which on something is said. More are cases of broken.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpproxy.policy.load import load_file, read_text
from dpproxy.review.report_doubts import report_doubts

POLICIES = Path(__file__).resolve().parents[2] / "policies"
PLAIN = "day: { plain: true, range: [2026-01-01, 2026-12-31] }"


def said(reports: str, column: str, plain: str = PLAIN) -> list[str]:
    text = f"""
version: 1
dataset: d
backend: {{ duckdb: d.duckdb }}
privacy_unit: {{ name: device }}
tables: {{ t: {{ reports: {{ {reports} }}, columns: {{ {plain}, x: {{ randomised: {{ {column} }} }} }} }} }}
roles: {{ analyst: {{}} }}
users: {{}}
"""
    return [p.code for p in report_doubts(read_text(text, "p.yaml", Path("/d"), {}), None)]


def test_the_published_collection_earns_its_warnings() -> None:
    found = list(report_doubts(load_file(POLICIES / "keyboard.yaml"), None))
    assert sorted(p.code for p in found) == ["reports-choice", *["reports-day"] * 4, "reports-forever", "reports-many"]
    many = next(p.what for p in found if p.code == "reports-many")
    assert many == "by all tables of reports together a device tells up to epsilon 54 a day, and 4,860 in the 90 days kept"
    assert any("16 a day by `new_words`, and 1,440 in the 90 days kept: odds change by up to e^16" in p.what for p in found)


@pytest.mark.parametrize("name", ["coin", "emoji"])
def test_the_others_earn_none(name: str) -> None:
    assert list(report_doubts(load_file(POLICIES / f"{name}.yaml"), None)) == []


AUTO, COIN = "by: auto, values: [a, b, c]", "by: rr, if_yes: 3/4, if_no: 1/4"


@pytest.mark.parametrize(
    ("reports", "column", "plain", "codes"),
    [
        ("epsilon: 4, keep: 1d", AUTO, PLAIN, []),
        ("epsilon: 4.1, keep: 1d", AUTO, PLAIN, ["reports-day"]),
        ("epsilon: 2, per_day: 2, keep: 30d, answers: memoised", AUTO, PLAIN, []),
        ("epsilon: 2, per_day: 2, keep: 1d", AUTO, PLAIN, ["reports-forever"]),
        ("epsilon: 2, answers: memoised", COIN, PLAIN, []),  # what is repeated tells nothing new
        ("epsilon: 2", COIN, PLAIN, ["reports-forever", "reports-forever"]),
        ("epsilon: 4, keep: 1d", AUTO, "region: { plain: true }", ["reports-plain"]),
        ("epsilon: 4, keep: 1d", AUTO, "a: { plain: true, values: [1, 2] }", []),
        ("epsilon: 4, keep: 1d, at_least: 1000000", AUTO, "a: { plain: true, values: [1, 2] }", ["reports-plain"]),
        ("epsilon: 4, keep: 1d", AUTO, "install_id: { plain: true, values: [1, 2] }", ["reports-id"]),
        ("epsilon: 4, keep: 1d", AUTO, "user: { plain: true, values: [1, 2] }", ["reports-id"]),
        ("epsilon: 4, keep: 1d", "by: hcms, k: 1024, m: 1024, seed: a", PLAIN, []),
        ("epsilon: 4, keep: 1d", "by: hcms, k: 512, m: 1024, seed: a", PLAIN, ["reports-sketch"]),
        ("epsilon: 4, keep: 1d, rows: cells", "by: cms, k: 4096, m: 2048, seed: a", PLAIN, []),
        ("epsilon: 4, keep: 1d", "by: pgr, values: [a, b, c]", PLAIN, ["reports-choice"]),
        ("epsilon: 4, keep: 1d, rows: cells", "by: oue, values: [a, b, c]", PLAIN, ["reports-choice"]),
    ],
)
def test_from_which_figure_on(reports: str, column: str, plain: str, codes: list[str]) -> None:
    assert said(reports, column, plain) == codes

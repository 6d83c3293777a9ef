"""Questions through a real proxy over invented rows: noise and bounds are told apart, and a question that fails harms no other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dpproxy.authoring import trials
from dpproxy.authoring.trials import Question, Variant, tried
from dpproxy.authoring.workbench import open_workbench, write_sample
from dpproxy.facade.sample import Size


def test_noise_and_bounds(town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "OTHER_ROWS", {4.0: Variant("rows_4", rows=4.0)})
    bench = asyncio.run(open_workbench(town)).bench
    write_sample(tmp_path / "rows.duckdb", bench.policy, bench.catalog, {}, Size(units=400, rows=20))
    (tmp_path / "trial").mkdir()
    text = (
        town.read_text()
        .replace("  shops: { public: true }\n", "")
        .replace(", shops]", "]")
        .replace("rows: 5 ", "rows_per_group: 5, groups: 1 ")
    )
    asked = [
        Question("analyst", "SELECT count(*) FROM people", (("dpproxy.epsilon", "1"),)),
        Question("analyst", "SELECT count(*) FROM visits"),
        Question("analyst", "SELECT nothing FROM people"),
    ]
    people, visits, failed = tried([text], tmp_path / "rows.duckdb", asked, tmp_path / "trial")
    assert people.bounds == 0, "one row a person: nothing is cut"
    assert people.noise is not None
    assert people.noise < 0.2, "95 % of a Laplace of scale 1, of 400"
    assert visits.bounds is not None
    assert visits.bounds > 0.4, "5 rows a person of 20 in the mean"
    (wider,) = visits.other_rows
    assert wider[1] < visits.bounds, "20 rows a person cut less"
    assert "nothing" in failed.failure

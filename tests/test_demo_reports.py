"""The demo of reports: devices, a proxy and psql as they are, and what is shown is compared with what is printed as the truth."""

from __future__ import annotations

from typing import cast

import duckdb
import pytest

from dpproxy import demo_reports
from dpproxy.demo_reports import DEVICES, World
from dpproxy.serve.launch import Proxy


def test_the_truth_is_in_the_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    with demo_reports.served("127.0.0.1:0") as (world, proxy):
        assert demo_reports.show(world, proxy)
        assert sum(world.people.values()) == sum(world.emojis.values()) == DEVICES
        with duckdb.connect(str(world.folder / "emoji.duckdb"), read_only=True) as data:
            assert data.execute("SELECT sum(n), count(DISTINCT day) FROM emoji_reports").fetchone() == (
                DEVICES,
                demo_reports.DAYS,
            )
    shown = capsys.readouterr().out
    assert shown.count("no epsilon charged") == 2
    assert "5,000" in shown, "the truth of the west stands beside its estimate"


def test_wrong_intervals_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[district, "10", "0", "20"] for district in demo_reports.DISTRICTS]
    monkeypatch.setattr(demo_reports, "_asked", lambda proxy, scene: (rows, ""))
    monkeypatch.setattr(demo_reports, "_raw", lambda world, scene: {})
    world = World(folder=demo_reports.POLICIES)
    world.ill.update(dict.fromkeys(demo_reports.DISTRICTS, 10))
    world.emojis.update(dict.fromkeys(demo_reports.DISTRICTS, 10))
    assert demo_reports.show(world, cast(Proxy, None))
    world.emojis["east"] = 100
    assert demo_reports.show(world, cast(Proxy, None)), "one may miss"
    world.emojis.update(dict.fromkeys(demo_reports.DISTRICTS, 100))
    world.ill["west"] = 100
    assert not demo_reports.show(world, cast(Proxy, None))

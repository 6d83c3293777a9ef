"""The bench of intervals: which SELECTs it asks, and what it takes for held, open and missing."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from bench_honesty import Probe, Tally, _spreads, _tally, line, probes

PLAIN = "SELECT region AS r, COUNT(*) AS n FROM people GROUP BY region, sex HAVING COUNT(*) > 3 ORDER BY n LIMIT 2"


def asked(sql: str) -> list[list[Probe]]:
    return list(probes({"id": "x", "sql": sql}))


def test_keys_that_are_not_shown_are_asked_for() -> None:
    ((probe,),) = asked(PLAIN)
    assert probe.sql.startswith(
        "SELECT region AS r, COUNT(*) AS n, region AS dpproxy_g0, sex AS dpproxy_g1, dpproxy.low(COUNT(*))"
    )
    assert probe.sql.endswith("GROUP BY region, sex HAVING COUNT(*) > 3 ORDER BY n LIMIT 2")
    assert probe.exact.endswith("FROM people GROUP BY region, sex")  # all groups there are
    assert (probe.keys, probe.values, probe.width, probe.chosen) == ((0, 2, 3), (1,), 4, True)


def test_inner_selects_follow_outer_ones_with_what_they_name() -> None:
    outer, inner = asked("WITH a AS (SELECT 1 AS one), b AS (SELECT SUM(x) AS s FROM a, t) SELECT MAX(s) FROM b")
    assert [p.labels for p in (*outer, *inner)] == [("MAX(s)",), ("SUM(x)",)]
    assert inner[0].sql.startswith("WITH a AS (SELECT 1 AS one) SELECT SUM(x) AS s, dpproxy.low(SUM(x))")


OTHERS = ["AVG(COUNT(*)) OVER ()", "SUM(COUNT(*)) OVER (ORDER BY a ROWS 6 PRECEDING)", "RANK() OVER (ORDER BY COUNT(*))"]


def test_sums_over_all_groups_are_asked_for() -> None:
    ((probe,),) = asked("SELECT a, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY b) AS part FROM t GROUP BY a, b")
    assert probe.labels == ("100.0 * COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY b)",)


@pytest.mark.parametrize(
    "sql", ["SELECT a FROM t", "SELECT * FROM t", *(f"SELECT {other} FROM t GROUP BY a" for other in OTHERS)]
)
def test_nothing_is_asked_where_no_output_is_an_aggregate(sql: str) -> None:
    assert [p for depth in asked(sql) for p in depth] == []


EXACT = [("a", 10.0), ("b", 20.0), ("c", 30.0)]


def seen(*rows: tuple[object, ...], told: bool = False, label: str = "COUNT(*)") -> Tally:
    return _tally(Probe("x", "", "", (0,), (1,), 2, (label,), False), rows, [EXACT], (), told)


def test_cells_are_held_open_or_without_an_error() -> None:
    found = seen(("a", 11.0, 9.0, 12.0), ("b", 25.0, 21.0, 29.0), ("c", 28.0, 27.0, None))
    assert (found.cells, found.held, found.open, found.without, found.missing) == (3, 2, 1, 0, 0)
    infinite = seen(("a", 11.0, float("-inf"), float("inf")), ("b", 20.0, None, None), ("c", 30.0, 30.0, 30.0))
    assert (infinite.cells, infinite.held, infinite.without) == (3, 1, 2)
    assert "50.0%" not in line([found])
    assert line([found]).split("\t")[:3] == ["1", "3", "66.7%"]
    assert line([found, infinite]).split("\t")[-2:] == ["0 of 2", "1 of 2"], "of the second one cell has ends, and they hold"


def test_the_width_of_an_interval_about_nothing_is_infinite() -> None:
    found = seen(("a", 0.0, 0.0, 12.0), ("b", 20.0, 15.0, 25.0), ("c", 0.0, 0.0, 40.0))
    assert found.widths == [math.inf, 0.25, math.inf]
    assert line([found]).split("\t")[-3] == "inf"


def test_a_cell_without_an_error_may_be_told_in_words() -> None:
    def without(notice: str) -> tuple[int, int]:
        probe = Probe("x", "", "", (0,), (1,), 2, ("SUM(x) / COUNT(*)",), False)
        found = _tally(probe, [("a", 11.0, None, None)], [EXACT], (), False, notice)
        return found.without, found.worded

    assert without("typical error 3 % of SUM(x)") == (1, 0)
    assert without("charged; no interval can be given for sum(x) (bounds may have cut rows)") == (0, 1)
    assert without("charged; no interval can be given for sum(y) (bounds may have cut rows)") == (1, 0)


def test_of_cells_told_in_words_the_spread_is_asked_for() -> None:
    ((probe,),) = asked("SELECT a, SUM(x), COUNT(*) FROM t GROUP BY a")
    assert "dpproxy.stderr(SUM(x)) AS dpproxy_low0" in _spreads(probe, 0)
    assert _spreads(probe, 0).count("NULL AS") == 3
    notice = "charged; no interval can be given for sum(x) (bounds may have cut rows)"
    found = _tally(probe, [("a", 11.0, 4.0, None, 3.0, None, 5.0)], [[("a", 10.0, 4.0)]], (), False, notice)
    assert found.endless == [(0, ("a",))]


def test_of_a_group_that_is_not_there_counts_are_nothing() -> None:
    row = ("d", 4.0, 0.0, 9.0)
    assert seen(row).held == 1
    assert seen(row, label="AVG(x)").cells == 0


def test_groups_missing_without_a_word() -> None:
    row = ("a", 10.0, 9.0, 11.0)
    assert seen(row).missing == 2
    assert seen(row, told=True).missing == 0

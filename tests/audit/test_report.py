"""An audit is told with its figures, never as passed; JSON has a form that scripts may rely on."""

from __future__ import annotations

import io
import json

from rich.console import Console

from dpproxy.audit.bench import Statement
from dpproxy.audit.planted import PLANTED
from dpproxy.audit.replay import Replayed
from dpproxy.audit.report import Report, as_json, show
from dpproxy.audit.self_test import Caught

FINE = Replayed(Statement("analyst", "SELECT count(*) FROM t", "count"), 0.1, 0.0, moved={"count(*)": 1.0}, runs=9)
REFUSED = Replayed(Statement("analyst", "SELECT x FROM t", "rows"), refused="rows of single people")
BROKEN = Replayed(Statement("analyst", "SELECT sum(x) FROM t", "sum"), 0.1, 0.0, problems=("sum(x) moved by 9",), runs=9)
CAUGHT, MISSED = Caught(PLANTED[0], "replay", "moved", ""), Caught(PLANTED[1], "", "", "")


def _report(*replayed: Replayed, planted: tuple[Caught, ...] = ()) -> Report:
    return Report("shop.yaml", "shop", "0.1.0", "2026-01-01T00:00:00+00:00", 1, replayed, planted=planted)


def _text(report: Report) -> str:
    out = io.StringIO()
    show(report, Console(file=out, width=120))
    return out.getvalue()


def test_what_fails_an_audit() -> None:
    assert not _report(FINE, REFUSED, planted=(CAUGHT,)).failed
    assert _report(FINE, BROKEN).failed
    assert _report(FINE, planted=(MISSED,)).failed


def test_text() -> None:
    fine = _text(_report(FINE, REFUSED, planted=(CAUGHT,)))
    assert "100 %" in fine
    assert "1 more are refused" in fine
    assert "no proof" in fine
    assert "passed" not in fine.lower()
    broken = _text(_report(BROKEN, planted=(MISSED,)))
    assert "SELECT sum(x) FROM t" in broken
    assert "sum(x) moved by 9" in broken
    assert "MISSED" in broken
    assert "FAILED: 1 statements are refuted by replay; 1 planted bugs are missed." in broken


def test_json() -> None:
    found = json.loads(as_json(_report(FINE, REFUSED, planted=(CAUGHT,))))
    assert (found["form"], found["failed"], found["dataset"]) == (1, False, "shop")
    one, two = found["replay"]
    assert one["of_claim"] == {"count(*)": 1.0}
    assert (one["refused"], two["refused"]) == (None, "rows of single people")
    assert found["self_test"][0]["caught_by"] == "replay"

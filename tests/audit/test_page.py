"""One file that asks nobody for anything, in light and dark, with what was found in it, escaped."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from dpproxy.audit.bench import Statement
from dpproxy.audit.black_box import Attack, Figure, Point
from dpproxy.audit.planted import PLANTED
from dpproxy.audit.replay import Replayed
from dpproxy.audit.report import Report, page
from dpproxy.audit.self_test import Caught

ASKED = Statement("analyst", "SELECT count(*) FROM t WHERE a < 'b & c'", "count")
REPORT = Report(
    "shop.yaml", "shop", "0.1.0", "2026-01-01T00:00:00+00:00", 1,
    (Replayed(ASKED, 0.1, moved={"count(*)": 0.7}), Replayed(Statement("analyst", "SELECT x", "rows"), refused="rows of people")),
    (Figure(ASKED, 1.0, 0.0, 0.4, "count is 3", 500, 1.7),),
    (
        Attack("averaging", "one question", (Point(0.1, 0.02, 0.0, 0.05, 90), Point(10.0, 0.7, 0.5, 0.99, 9))),
        Attack("races", "at once", (Point(5.0, 0.0, 0.0, 0.0, 24),), "5 answers"),
    ),
    (Caught(PLANTED[0], "replay", "moved", ""),),
)  # fmt: skip


def test_everything_is_in_it() -> None:
    text = page(REPORT)
    for word in (
        "a &lt; &#39;b &amp; c&#39;",
        "rows of people",
        "averaging",
        "5 answers",
        PLANTED[0].name,
        "No private row was read",
    ):
        assert word in text, word
    assert "prefers-color-scheme: dark" in text
    assert "b & c" not in text
    assert not re.search(r"(?:src|href)=|url\(|@import|<script", text), "nothing is asked of anybody"


def test_pictures_are_drawn() -> None:
    pictures = re.findall(r"<svg.*?</svg>", page(REPORT), re.S)
    assert len(pictures) == 4
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        assert root.get("aria-label")
    curve = ElementTree.fromstring(pictures[2])
    lines = {line.get("class"): line.get("points", "").split() for line in curve.iter("polyline")}
    assert set(lines) == {"seen", "allowed"}
    heights = {kind: [float(p.split(",")[1]) for p in points] for kind, points in lines.items()}
    assert all(seen > allowed for seen, allowed in zip(heights["seen"], heights["allowed"], strict=True)), "less is lower"


def test_a_report_of_planted_bugs_alone() -> None:
    text = page(Report("", "", "0.1.0", "2026-01-01T00:00:00+00:00", 1, planted=REPORT.planted))
    assert "Audit of the audit" in text
    assert "Replay" not in text

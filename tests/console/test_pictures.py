"""Pictures are well-formed, stay within their frame, and tell the numbers they draw."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from dpproxy.console.figures import HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axis, BurnDown, burn_picture, error_picture
from tests.worlds.told_source import EVIL
from tests.worlds.told_status import STATUS

ACCOUNT = STATUS.accounts[0]


def points(svg: str, name: str) -> list[tuple[float, float]]:
    (line,) = [e for e in ElementTree.fromstring(svg).iter("polyline") if e.get("class") == name]
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in (line.get("points") or "").split())]


def test_a_burn_down_falls_in_steps_and_goes_on_as_a_dashed_line() -> None:
    line = BurnDown(ACCOUNT, ((0, 2_000_000), (500, 1_500_000), (1000, 1_500_000)), 0, 1000, 4000)
    picture = burn_picture(line)
    solid, ahead = points(picture.svg, "line"), points(picture.svg, "ahead")
    assert solid[0] == (LEFT, TOP)
    assert solid[1][1] == TOP, "what was left stays left until the charge"
    assert ahead[0] == solid[-1]
    assert all(LEFT <= x <= WIDTH - RIGHT and TOP <= y <= HEIGHT for x, y in (*solid, *ahead))
    assert "1.500 of 2.000" in picture.svg
    assert len(picture.data["x"]) == len(picture.data["series"][0]["values"]) == len(picture.data["series"][1]["values"])
    assert picture.data["series"][0]["values"][:2] == [2.0, 1.5]


def test_names_are_escaped() -> None:
    account = type(ACCOUNT)(**{**vars(ACCOUNT), "name": EVIL + '"'})
    svg = burn_picture(BurnDown(account, ((0, 1), (10, 1)), 0, 10, None)).svg
    (label,) = [e.get("aria-label") for e in [ElementTree.fromstring(svg)]]
    assert EVIL + '"' in (label or "")


def test_an_error_is_a_part_of_its_group() -> None:
    picture = error_picture(100.0)
    values = dict(zip(picture.data["x"], picture.data["series"][0]["values"], strict=True))
    assert values[10.0] == 100
    assert values[1000.0] == pytest.approx(10, rel=0.01)
    assert values[100000.0] == pytest.approx(0.1)
    ElementTree.fromstring(picture.svg)


def test_axes() -> None:
    assert [Axis(0, 10, ()).place(v) for v in (-1, 5, 11)] == [0, 0.5, 1]
    assert Axis(10, 1000, (), log=True).place(100) == pytest.approx(0.5)
    assert Axis(3, 3, ()).place(3) == 0

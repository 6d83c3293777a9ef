"""Pictures as SVG within the page, and the same numbers for uPlot, which draws them anew where there is JavaScript.

Knows: points, axes. Must not know: what is drawn. There is no colour and no style in an SVG here: the page's stylesheet has both,
for light and dark, and the pages' rule of content allows no other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from markupsafe import Markup, escape

from dpproxy.amounts import MICRO
from dpproxy.console.figures import BurnDown, moment, percent

WIDTH: Final = 640
HEIGHT: Final = 200
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 24
"""Margins: for the numbers of the axes."""
GROUPS: Final = (10, 100_000)
"""Sizes of groups between which errors are drawn: below, no group should be looked at; above, noise is nothing."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """One direction: from where to where, and its label. `log`: in tenfolds."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def place(self, value: float) -> float:
        """Return where a value is, from 0 to 1."""
        low, high, at = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return min(1.0, max(0.0, (at - low) / (high - low))) if high > low else 0.0


@dataclass(frozen=True)
class Picture:
    """A picture: `svg` with a text for who cannot see it, and `data` for uPlot."""

    svg: Markup
    data: dict[str, Any]


def burn_picture(line: BurnDown) -> Picture:
    """Draw what is left of a budget over its window, and, dashed, how it goes on at this pace."""
    account = line.account
    limit = max(account.limit_epsilon, 1) / MICRO
    end = max(line.ends, line.begins + 60)
    left = [(at, amount / MICRO) for at, amount in line.points]
    ahead = _ahead(line, end)
    x = Axis(line.begins, end, tuple((at, moment(at)[:10]) for at in (line.begins, (line.begins + end) / 2, end)))
    y = Axis(0, limit, tuple((limit * part, f"{limit * part:.3g}") for part in (0, 0.5, 1)))
    told = f"Epsilon left of {account.scope} {account.name}: {left[-1][1]:.3f} of {limit:.3f} at {moment(line.now)} UTC"
    svg = _svg(told, x, y, (("line", _steps(left)), ("ahead", ahead)))
    times = sorted({end, *(at for at, _ in (*left, *ahead))})
    data = {
        "kind": "time",
        "x": times,
        "y": [limit],
        "series": [
            {"label": "epsilon left", "values": [_at(left, at) if at <= line.now else None for at in times], "stepped": True},
            {"label": "at this pace", "values": [dict(ahead).get(at) for at in times], "dashed": True},
        ],
    }
    return Picture(svg, data)


def _ahead(line: BurnDown, end: float) -> list[Point]:
    left, spent = (a / MICRO for a in (line.points[-1][1], line.account.spent_epsilon))
    if spent <= 0 or line.now >= end:
        return []
    until = min(end, line.spent_by or end)
    return [(line.now, left), (until, max(0.0, left - spent * (until - line.now) / max(line.now - line.begins, 1.0)))]


def error_picture(within: float) -> Picture:
    """Draw what part of a group's size an error of `within` people or rows is, by that size."""
    low, high = GROUPS
    sizes = [low * (high / low) ** (i / 60) for i in range(61)]
    points = [(size, min(1.0, within / size)) for size in sizes]
    x = Axis(low, high, tuple((10.0**i, f"{10**i:,}") for i in range(1, 6)), log=True)
    y = Axis(0, 1, tuple((part, percent(part)) for part in (0, 0.5, 1)))
    told = f"Error as a part of the group: 100 % at {within:,.4g} rows, 10 % at {within * 10:,.4g}, 1 % at {within * 100:,.4g}"
    series = [{"label": "error, % of the group", "values": [round(part * 100, 3) for _, part in points]}]
    data = {"kind": "log", "x": [round(size, 1) for size in sizes], "y": [100], "series": series}
    return Picture(_svg(told, x, y, (("line", points),)), data)


def _steps(points: Sequence[Point]) -> list[Point]:
    """What was left stays left until the next charge."""
    found = list(points[:1])
    for (_, before), (at, value) in pairwise(points):
        found += [(at, before), (at, value)]
    return found


def _at(points: Sequence[Point], at: float) -> float:
    return next((value for time, value in reversed(points) if time <= at), points[0][1])


def _svg(told: str, x: Axis, y: Axis, lines: Sequence[tuple[str, Sequence[Point]]]) -> Markup:
    across: Callable[[float], str] = lambda v: f"{LEFT + x.place(v) * (WIDTH - LEFT - RIGHT):.1f}"  # noqa: E731
    down: Callable[[float], str] = lambda v: f"{HEIGHT - BOTTOM - y.place(v) * (HEIGHT - TOP - BOTTOM):.1f}"  # noqa: E731
    parts = [Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(WIDTH, HEIGHT, told)]
    for value, text in y.ticks:
        at = down(value)
        parts.append(Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(LEFT, WIDTH - RIGHT, at, at))
        parts.append(Markup('<text x="{}" y="{}" text-anchor="end" dy="4">{}</text>').format(LEFT - 6, at, text))
    for number, (value, text) in enumerate(x.ticks):
        anchor = "start" if number == 0 else "end" if number == len(x.ticks) - 1 else "middle"
        parts.append(Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(across(value), HEIGHT - 6, anchor, text))
    for name, points in lines:
        if points:
            path = " ".join(f"{across(a)},{down(b)}" for a, b in points)
            parts.append(Markup('<polyline class="{}" points="{}"/>').format(name, path))
    return escape(Markup("").join([*parts, Markup("</svg>")]))

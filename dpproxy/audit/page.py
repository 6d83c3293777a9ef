"""An audit as one HTML file that opens without a network: tables, and pictures as SVG within it, for light and dark.

Knows: what the parts of an audit found, a template. Must not know: how. Colours are the page's: an SVG names classes only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dpproxy.audit.black_box import Figure
from dpproxy.audit.guesses import Attack
from dpproxy.audit.replay import Replayed
from dpproxy.audit.report import Report, verdict

WIDTH, LEFT, ROW = 720, 210, 20
PLOT, HEIGHT, MARGIN = 340, 190, 34
MOST = 1.25
"""Of a claim: what bars are cut at."""


def page(report: Report) -> str:
    """Return the page."""
    made = Environment(loader=PackageLoader("dpproxy.audit", "."), autoescape=True, undefined=StrictUndefined)
    asked = [r for r in report.replayed if r.told]
    return made.get_template("report.html").render(
        report=report,
        verdict=verdict(report),
        asked=len(asked),
        refused=[r for r in report.replayed if not r.told],
        claims=_claims(asked),
        bounds=_bounds(report.figures),
        attacks=[(a, _curve(a)) for a in report.attacks],
    )


def _svg(width: int, height: int, told: str, parts: Iterator[Markup]) -> Markup:
    begin = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(width, height, told)
    return Markup("").join([begin, *parts, Markup("</svg>")])


def _text(x: float, y: float, text: str, anchor: str = "start", label: bool = False) -> Markup:
    kind = "label" if label else ""
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}">{}</text>').format(x, y, anchor, kind, text)


def _line(kind: str, x: float, y: float, to_x: float, to_y: float) -> Markup:
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(kind, x, y, to_x, to_y)


def _bar(x: float, y: float, width: float) -> Markup:
    return Markup('<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{}"/>').format(x, y, max(width, 1), ROW - 7)


def _claims(asked: Sequence[Replayed]) -> Markup:
    """A bar a shape: the most of a claim that was seen."""
    nearest: dict[str, float] = {}
    for r in asked:
        nearest[r.statement.shape] = max(r.closest, nearest.get(r.statement.shape, 0.0))
    scale, height = (WIDTH - LEFT - 60) / MOST, ROW * len(nearest) + 30

    def parts() -> Iterator[Markup]:
        for i, (shape, part) in enumerate(nearest.items()):
            y = 8 + ROW * i
            yield _text(LEFT - 8, y + 11, shape, "end", True)
            yield _bar(LEFT, y, scale * min(part, MOST))
            yield _text(LEFT + scale * min(part, MOST) + 6, y + 11, f"{100 * part:.0f} %")
        yield _line("mark", LEFT + scale, 4, LEFT + scale, height - 22)
        yield _text(LEFT + scale, height - 6, "claimed", "middle")

    return _svg(WIDTH, height, "How much of each claim the invented people used up, by shape of statement", parts())


def _bounds(figures: Sequence[Figure]) -> Markup:
    """A bar a statement: what answers prove; a mark: what is charged."""
    most = max((max(f.epsilon, f.shown) for f in figures), default=1.0) * 1.1
    scale, height = (WIDTH - LEFT - 60) / most, ROW * len(figures) + 30

    def parts() -> Iterator[Markup]:
        for i, f in enumerate(figures):
            y = 8 + ROW * i
            yield _text(LEFT - 8, y + 11, f.statement.shape, "end", True)
            yield _bar(LEFT, y, scale * f.shown)
            yield _line("mark", LEFT + scale * f.epsilon, y - 2, LEFT + scale * f.epsilon, y + ROW - 5)
        yield _text(LEFT, height - 6, "epsilon: bars are proved by answers, marks are charged")

    return _svg(WIDTH, height, "What answers prove of epsilon, beside what is charged", parts())


def _curve(attack: Attack) -> Markup:
    """Advantage against epsilon, in tenfolds where it spans several."""
    points = sorted(attack.points, key=lambda p: p.epsilon)
    if not points or points[-1].epsilon <= 0 or len({p.epsilon for p in points}) < 2:
        return _single(attack)
    low, high = math.log10(max(points[0].epsilon, 1e-3)), math.log10(points[-1].epsilon)

    def place(epsilon: float, part: float) -> str:
        x = MARGIN + (PLOT - MARGIN - 10) * (math.log10(max(epsilon, 1e-3)) - low) / max(high - low, 1e-9)
        return f"{x:.1f},{HEIGHT - MARGIN - (HEIGHT - MARGIN - 10) * min(max(part, 0), 1):.1f}"

    def parts() -> Iterator[Markup]:
        for part in (0.0, 0.5, 1.0):
            y = HEIGHT - MARGIN - (HEIGHT - MARGIN - 10) * part
            yield _line("grid", MARGIN, y, PLOT - 10, y)
            yield _text(MARGIN - 4, y + 4, f"{part:g}", "end")
        for kind, values in (("allowed", [p.allowed for p in points]), ("seen", [p.advantage for p in points])):
            path = " ".join(place(p.epsilon, v) for p, v in zip(points, values, strict=True))
            yield Markup('<polyline class="{}" points="{}"/>').format(kind, path)
        for epsilon, anchor in ((points[0].epsilon, "start"), (points[-1].epsilon, "end")):
            yield _text(float(place(epsilon, 0).split(",")[0]), HEIGHT - 14, f"ε {epsilon:.3g}", anchor)

    told = (
        f"{attack.name}: advantage {points[-1].advantage:.2f}, allowed {points[-1].allowed:.2f} at epsilon {points[-1].epsilon:g}"
    )
    return _svg(PLOT, HEIGHT, told, parts())


def _single(attack: Attack) -> Markup:
    """Of one amount: bars of what was seen, marks of what is allowed."""
    scale, height = PLOT - MARGIN - 20, ROW * max(len(attack.points), 1) + 26

    def parts() -> Iterator[Markup]:
        for i, p in enumerate(attack.points):
            y = 6 + ROW * i
            yield _bar(MARGIN, y, scale * min(max(p.advantage, 0), 1))
            yield _line("mark", MARGIN + scale * p.allowed, y - 2, MARGIN + scale * p.allowed, y + ROW - 5)
        yield _text(MARGIN, height - 6, "0")
        yield _text(MARGIN + scale, height - 6, "1", "end")

    told = f"{attack.name}: advantage, beside what is allowed"
    return _svg(PLOT, height, told, parts())

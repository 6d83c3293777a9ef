"""An audit told: as text for a terminal, and as JSON for scripts, in a form that is documented (docs/audit.md) and stays.

Knows: what the parts of an audit found. Must not know: how. Nothing is told as passed: a part says what it looked at, how
near the data came to what is claimed, and what it would have seen.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from dpproxy.audit.black_box import Attack, Figure
from dpproxy.audit.replay import Replayed
from dpproxy.audit.self_test import Caught

FORM = 1
"""Of the JSON: it changes when a field changes its meaning or goes."""
NEAR = 0.5
"""Of a claim: below, the invented rows hardly reached for it."""


@dataclass(frozen=True)
class Report:
    """An audit of one policy. `made`: when, as ISO 8601; `planted`: what became of planted bugs."""

    policy: str
    dataset: str
    version: str
    made: str
    seed: int
    replayed: tuple[Replayed, ...] = ()
    figures: tuple[Figure, ...] = ()
    attacks: tuple[Attack, ...] = ()
    planted: tuple[Caught, ...] = ()

    @property
    def failed(self) -> bool:
        """Return whether a promise was refuted, or a planted bug was not caught."""
        shown = (
            *(bool(r.problems) for r in self.replayed),
            *(f.refuted for f in self.figures),
            *(a.refuted for a in self.attacks),
        )
        return any(shown) or not all(c.right for c in self.planted)


def as_json(report: Report) -> str:
    """Write a report as one JSON object."""
    found: dict[str, Any] = {
        "form": FORM,
        "dpproxy": report.version,
        "made": report.made,
        "policy": report.policy,
        "dataset": report.dataset,
        "seed": report.seed,
        "failed": report.failed,
        "replay": [_replayed(r) for r in report.replayed],
        "black_box": [_figure(f) for f in report.figures],
        "attacks": [_attack(a) for a in report.attacks],
        "self_test": [_planted(c) for c in report.planted],
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _charged(of: Replayed | Figure) -> dict[str, Any]:
    asked = of.statement
    return {"role": asked.role, "shape": asked.shape, "sql": asked.sql, "epsilon": of.epsilon, "delta": of.delta}


def _replayed(r: Replayed) -> dict[str, Any]:
    return {
        **_charged(r),
        "refused": r.refused or None,
        "problems": list(r.problems),
        "of_claim": {label: round(part, 4) for label, part in r.moved.items()},
        "runs": r.runs,
    }


def _figure(f: Figure) -> dict[str, Any]:
    return {
        **_charged(f),
        "shown": round(f.shown, 4),
        "event": f.event or None,
        "answers": f.answers,
        "detectable": round(f.detectable, 4) if math.isfinite(f.detectable) else None,
        "refuted": f.refuted,
    }


def _attack(a: Attack) -> dict[str, Any]:
    points = [
        {
            "epsilon": p.epsilon,
            "advantage": round(p.advantage, 4),
            "sure": round(p.sure, 4),
            "allowed": round(p.allowed, 4),
            "tries": p.tries,
        }
        for p in a.points
    ]
    return {"attack": a.name, "tried": a.tried, "said": a.said, "counts": a.counts, "refuted": a.refuted, "points": points}


def _planted(c: Caught) -> dict[str, Any]:
    bug = c.bug
    return {
        "bug": bug.name,
        "source": bug.source,
        "sql": bug.sql,
        "part": bug.part,
        "caught_by": c.by or None,
        "said": c.said,
        "without_bug": c.clean or None,
    }


def show(report: Report, console: Console) -> None:
    """Print a report."""
    for part in _parts(report):
        console.print(part)
    console.print(Text(verdict(report), style="bold red" if report.failed else "bold"))


def verdict(report: Report) -> str:
    """Return the audit in one sentence."""
    bad = sum(bool(r.problems) for r in report.replayed)
    missed = sum(not c.right for c in report.planted)
    if report.failed:
        shown, won = sum(f.refuted for f in report.figures), sum(a.refuted for a in report.attacks)
        told = [f"{bad} statements are refuted by replay"] * bool(bad)
        told += [f"{shown} charges are refuted by black box"] * bool(shown)
        told += [f"{won} attacks succeed beyond what is allowed"] * bool(won)
        told += [f"{missed} planted bugs are missed"] * bool(missed)
        return f"FAILED: {'; '.join(told)}."
    return "Nothing was refuted. That is no proof: beside each figure stands how closely was looked."


def _parts(report: Report) -> Iterator[RenderableType]:
    if report.replayed:
        yield _replay_table(report.replayed)
    if report.figures:
        yield _figure_table(report.figures)
    if report.attacks:
        yield _attack_table(report.attacks)
    if report.planted:
        yield _planted_table(report.planted)


def _replay_table(replayed: Sequence[Replayed]) -> RenderableType:
    """A line a shape: the statements of one shape are alike. Refuted ones are listed one by one."""
    asked = [r for r in replayed if r.told]
    table = Table(title="Replay: the same dice on neighbours", title_justify="left")
    for name, justify in (("shape", "left"), ("statements", "right"), ("nearest to a claim", "right"), ("refuted", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for shape, times in Counter(r.statement.shape for r in asked).items():
        mine = [r for r in asked if r.statement.shape == shape]
        bad = sum(bool(r.problems) for r in mine)
        table.add_row(shape, str(times), f"{100 * max(r.closest for r in mine):.0f} %", str(bad or "-"))
    runs, refused = sum(r.runs for r in replayed), len(replayed) - len(asked)
    told = f"{len(asked)} statements, {runs} runs of generated SQL; {refused} more are refused, which costs and tells nothing."
    far = sum(r.closest < NEAR for r in asked)
    if far:
        told += f" In {far} the invented rows came less than half as far as is claimed."
    problems = [Text(f"{r.statement.role}: {r.statement.sql}\n    {p}", style="red") for r in replayed for p in r.problems]
    return Group(table, Text(told), *problems)


def _figure_table(figures: Sequence[Figure]) -> RenderableType:
    table = Table(title="Black box: what answers prove of epsilon", title_justify="left")
    table.add_column("statement")
    for name in ("epsilon charged", "at least", "answers each", "seen from"):
        table.add_column(name, justify="right")
    for f in figures:
        style = "bold red" if f.refuted else ""
        seen = f"{f.detectable:.2f}" if math.isfinite(f.detectable) else "-"
        table.add_row(f.statement.shape, f"{f.epsilon:g}", Text(f"{f.shown:.3f}", style=style), str(f.answers), seen)
    told = "With this many answers, a loss above the last column would have been shown to exceed its charge."
    return Group(table, Text(told), *(Text(f"{f.statement.sql}\n    {f.event}", style="red") for f in figures if f.refuted))


def _attack_table(attacks: Sequence[Attack]) -> RenderableType:
    """The point at which an attack came nearest to what it is allowed."""
    table = Table(title="Attacks: advantage over guessing, beside what is allowed", title_justify="left")
    table.add_column("attack")
    for name in ("epsilon spent", "advantage", "sure", "allowed"):
        table.add_column(name, justify="right")
    table.add_column("how it went")
    for a in attacks:
        p = max(a.points, key=lambda p: p.sure - p.allowed)
        style = "bold red" if a.refuted else ""
        table.add_row(
            a.name,
            f"{p.epsilon:g}",
            f"{p.advantage:.2f}",
            Text(f"{p.sure:.2f}", style=style),
            f"{p.allowed:.2f}",
            a.said or a.tried,
        )
    return Group(table)


def _planted_table(planted: Sequence[Caught]) -> RenderableType:
    table = Table(title="Self-test: planted bugs", title_justify="left")
    for name in ("bug", "caught by", "what it said"):
        table.add_column(name)
    for c in planted:
        by = Text(c.by or "MISSED", style="" if c.right else "bold red")
        table.add_row(c.bug.name, by, (f"without the bug: {c.clean}" if c.clean else c.said)[:120])
    right = sum(c.right for c in planted)
    return Group(table, Text(f"{right} of {len(planted)} planted bugs are caught by the part that is for them."))


# An audit as one HTML file that opens without a network: tables, and pictures as SVG within it, for light and dark.
#
# Knows: what the parts of an audit found, a template. Must not know: how. Colours are the page's: an SVG names classes only.


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

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

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from dpproxy.audit.black_box import Figure
from dpproxy.audit.guesses import Attack
from dpproxy.audit.replay import Replayed
from dpproxy.audit.self_test import Caught

FORM = 1
"""Of the JSON: it changes when a field changes its meaning or goes."""
NEAR = 0.5
"""Of a claim: below, the invented rows hardly reached for it."""


@dataclass(frozen=True)
class Report:
    """Is an audit of one policy. `made`: when, as ISO 8601; `planted`: what became of planted bugs."""

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
    """A line a shape: the statements of one shape are alike. Refuted ones are told one by one."""
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

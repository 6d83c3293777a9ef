"""A simulation: a year of questions over invented rows, told as a table, as Markdown and as a picture.

Knows: what trials and spending found. Must not know: how. The picture is SVG, drawn from the numbers in the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from dpproxy.authoring.spending import Spent
from dpproxy.authoring.trials import Trial
from dpproxy.review.verdicts import Refused, Verdict

_WIDTH, _HEIGHT, _MARGIN = 720, 220, 60
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f")


@dataclass(frozen=True)
class Line:
    """A line is one question: what the policy says of it, and how its trial went; no trial of what is refused."""

    role: str
    name: str
    verdict: Verdict
    trial: Trial | None


@dataclass(frozen=True)
class Simulation:
    """A simulation is what was found. `budgets`: by role, the dataset's by "". `epsilons`: for the same questions at a factor of
    their epsilon, the first day on which a budget refuses one, None when all last; `windows`: the same where the budgets of roles
    begin anew in each such window."""

    lines: tuple[Line, ...]
    budgets: Mapping[str, Spent]
    epsilons: Mapping[float, int | None]
    windows: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def answered(self) -> int:
        return sum(not isinstance(line.verdict, Refused) for line in self.lines)


def table(found: Simulation) -> str:
    """Write a simulation as Markdown, which is read in a terminal as well."""
    lines = [f"{found.answered} of {len(found.lines)} questions are answered.", "", *_budgets(found), "", *_questions(found)]
    lines += ["", *_advice(found)]
    return "\n".join(lines) + "\n"


def _budgets(found: Simulation) -> list[str]:
    lines = ["| budget | epsilon a day (first week) | limit | every | lasts |", "|---|---|---|---|---|"]
    for name, spent in sorted(found.budgets.items()):
        lasts = f"until day {spent.ends}; {spent.refused} questions a year are refused" if spent.ends else "all year"
        days = min(7, len(spent.by_day))
        rate = spent.by_day[days - 1] / days
        lines.append(f"| {f'role {name}' if name else 'all roles'} | {rate:.3g} | {spent.limit:g} | {spent.every} | {lasts} |")
    return lines


def _questions(found: Simulation) -> list[str]:
    lines = ["| role | question | epsilon | off by | by noise | by bounds | rows hidden |", "|---|---|---|---|---|---|---|"]
    for line in found.lines:
        said = f"| {line.role} | {_short(line.name)} | "
        if isinstance(line.verdict, Refused):
            lines.append(f"{said}refused: {_short(line.verdict.message)} | | | | |")
        elif line.trial is None or line.trial.failure:
            lines.append(
                f"{said}{line.verdict.epsilon.normalize():f} | {_short(line.trial.failure if line.trial else '')} | | | |"
            )
        else:
            t = line.trial
            cells = (_percent(t.both), _percent(t.noise), _percent(t.bounds), str(t.hidden))
            lines.append(f"{said}{line.verdict.epsilon.normalize():f} | {' | '.join(cells)} |")
    return lines


def _advice(found: Simulation) -> list[str]:
    lines = ["| bounds on rows | questions are off by (median) |", "|---|---|"]
    errors = row_errors(found)
    for factor, off in sorted(errors.items()):
        lines.append(f"| as they are{'' if factor == 1 else f' times {factor:g}'} | {_percent(off)} |")
    if errors:
        best = min(errors, key=lambda f: errors[f])
        better = best != 1 and errors[best] < 0.9 * errors.get(1.0, 0.0)
        lines += ["", f"Bounds on rows times {best:g} serve these questions better." if better else "These bounds serve well."]
    for line in found.lines:
        if line.trial and line.trial.bounds and line.trial.noise is not None and line.trial.bounds > line.trial.noise:
            cuts = getattr(line.verdict, "cuts", ())
            lines.append(
                f"Bounds hurt {line.role}'s `{_short(line.name)}` more than noise" + (f": {'; '.join(cuts)}." if cuts else ".")
            )
    lines += ["", "| epsilon of each question | budgets last |", "|---|---|"]
    lines += [f"| times {factor:g} | {_lasts(day)} |" for factor, day in sorted(found.epsilons.items())]
    if found.windows:
        lines += ["", "| the roles' epsilon anew every | budgets last |", "|---|---|"]
        lines += [f"| {window} | {_lasts(day)} |" for window, day in found.windows.items()]
    return lines


def _lasts(day: int | None) -> str:
    return f"until day {day}" if day else "all year"


def row_errors(found: Simulation) -> dict[float, float]:
    """Return the median error over questions by the factor of bounds on rows; of those compared at every factor."""
    errors: dict[float, list[float]] = {}
    for line in found.lines:
        if line.trial is not None and line.trial.both is not None:
            for factor, off in ((1.0, line.trial.both), *line.trial.other_rows):
                errors.setdefault(factor, []).append(off)
    return {factor: sorted(offs)[len(offs) // 2] for factor, offs in errors.items()}


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.2g} %" if part < 1 else f"{100 * part:.0f} %"


def _short(text: str) -> str:
    plain = " ".join(text.split()).replace("|", "\\|")
    return plain if len(plain) <= 80 else plain[:79] + "…"


def picture(found: Simulation) -> str:
    """Draw what is spent of each budget, in percent of its limit, over the year, and how far off each question is."""
    bars = [line for line in found.lines if line.trial is not None and line.trial.both is not None]
    height = _HEIGHT + 2 * _MARGIN + 22 * len(bars) + _MARGIN
    size, below = f'width="{_WIDTH + 2 * _MARGIN}" height="{height}"', _HEIGHT + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_MARGIN}" y="30" font-size="15">Spent of each budget, percent of its limit, by day</text>',
        *_axes(),
        *_curves(found),
        f'<text x="{_MARGIN}" y="{below}" font-size="15">How far off answers are, median over cells (noise and bounds)</text>',
        *_bars(bars),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _axes() -> list[str]:
    top, bottom = _MARGIN, _MARGIN + _HEIGHT
    lines = [f'<path d="M{_MARGIN} {top}V{bottom}H{_MARGIN + _WIDTH}" fill="none" stroke="black"/>']
    for percent in (0, 50, 100):
        y = bottom - _HEIGHT * percent / 100
        lines.append(f'<text x="{_MARGIN - 6}" y="{y + 4:.0f}" text-anchor="end">{percent}</text>')
    return lines


def _curves(found: Simulation) -> list[str]:
    lines = []
    for i, (name, spent) in enumerate(sorted(found.budgets.items())):
        colour, days = _COLOURS[i % len(_COLOURS)], max(len(spent.by_day) - 1, 1)
        points = (
            f"{_MARGIN + _WIDTH * day / days:.1f},{_MARGIN + _HEIGHT * (1 - min(amount / spent.limit, 1)):.1f}"
            for day, amount in enumerate(spent.by_day)
        )
        lines.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        label = escape(f"role {name}" if name else "all roles")
        lines.append(
            f'<text x="{_MARGIN + 12 + 130 * (i % 5)}" y="{_MARGIN + 16 + 16 * (i // 5)}" fill="{colour}">{label}</text>'
        )
    return lines


def _bars(lines: Sequence[Line]) -> list[str]:
    drawn, top = [], _HEIGHT + 2 * _MARGIN + 14
    for i, line in enumerate(lines):
        assert line.trial is not None
        assert line.trial.both is not None
        y, long = top + 22 * i, min(line.trial.both, 1.0) * _WIDTH / 2
        drawn.append(f'<rect x="{_MARGIN}" y="{y}" width="{max(long, 1):.1f}" height="16" fill="#9ecae1"/>')
        label = escape(f"{_percent(line.trial.both)}  {line.role}: {_short(line.name)}")
        drawn.append(f'<text x="{_MARGIN + 6}" y="{y + 12}">{label}</text>')
    return drawn

"""A simulation: a year of questions over invented rows, told as a table, as Markdown and as a picture.

Knows: what trials and spending found. Must not know: how. The picture is SVG, drawn from the numbers in the table.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated
from xml.sax.saxutils import escape

import typer

from dpproxy.authoring.cases import Asked, Question, cases_beside, of_cases, read_cases, read_log
from dpproxy.authoring.progress import Progress, bar
from dpproxy.authoring.spending import Habit, Spent, spending
from dpproxy.authoring.trials import Trial, tried
from dpproxy.authoring.workbench import invented, open_workbench
from dpproxy.budget_windows import WINDOWS, Window
from dpproxy.facade.sample import Size
from dpproxy.policy.load import Loaded, load_file
from dpproxy.policy.model import Policy
from dpproxy.policy.problems import PolicyError, Problem
from dpproxy.review.verdicts import Answered, Bench, Refused, Verdict

FEW = 5
"""Questions from which on their median says something of others."""
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
    lines = ["| bounds on rows | questions are off by (median) | half of them between | questions |", "|---|---|---|---|"]
    errors = row_errors(found)
    for factor, off in sorted(errors.items()):
        between = f"{_percent(off.low)} and {_percent(off.high)}"
        name = f"as they are{'' if factor == 1 else f' times {factor:g}'}"
        lines.append(f"| {name} | {_percent(off.median)} | {between} | {off.questions} |")
    lines += ["", _better(errors)] if errors else []
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


def _better(errors: Mapping[float, Spread]) -> str:
    """Which bounds to write. A few questions say nothing of others, and a difference that is within their spread says nothing."""
    now, best = errors.get(1.0), min(errors, key=lambda f: errors[f].median)
    if now is None or now.questions < FEW:
        return f"Of fewer than {FEW} questions nothing can be said of bounds."
    if best != 1 and errors[best].median < 0.9 * now.median:
        doubt = "" if errors[best].high < now.low else ", as far as so few questions can tell"
        return f"Bounds on rows times {best:g} serve these questions better{doubt}."
    return "These bounds serve well."


@dataclass(frozen=True)
class Spread:
    """How far off questions are: the median, and the quarters that half of them lie between."""

    low: float
    median: float
    high: float
    questions: int


def row_errors(found: Simulation) -> dict[float, Spread]:
    """Return the errors of questions by the factor of bounds on rows; of those compared at every factor."""
    errors: dict[float, list[float]] = {}
    for line in found.lines:
        if line.trial is not None and line.trial.both is not None:
            for factor, off in ((1.0, line.trial.both), *line.trial.other_rows):
                errors.setdefault(factor, []).append(off)
    return {factor: _spread(sorted(offs)) for factor, offs in errors.items()}


def _spread(offs: Sequence[float]) -> Spread:
    number = len(offs)
    return Spread(offs[(number - 1) // 4], statistics.median(offs), offs[number - 1 - (number - 1) // 4], number)


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


# The command `policy simulate`: a year of questions over invented rows.
#
# Knows: the terminal, files, the order of steps. Must not know: how anything is found. Questions come from the policy's tests
# or from a log (`authoring.cases`).


EPSILONS = (0.5, 1.0, 2.0, 4.0)


def simulate(
    policy: Annotated[Path, typer.Argument(help="the policy's file; its backend tells the shape, and the rows of public tables")],
    log: Annotated[Path | None, typer.Option(help="questions, a JSON object a line; default: the policy's tests")] = None,
    per_day: Annotated[float, typer.Option(min=0.001, help="how often each question of the tests is asked")] = 10.0,
    reloads: Annotated[float, typer.Option(min=0, help="how often a day the data change")] = 1.0,
    units: Annotated[int, typer.Option(min=1, help="invented privacy units")] = Size.units,
    rows: Annotated[float, typer.Option(min=0, help="rows of a unit, in the mean")] = Size.rows,
    skew: Annotated[float, typer.Option(min=0, max=4, help="how unlike units are in activity; 0: all alike")] = Size.skew,
    seed: Annotated[int, typer.Option(help="other rows of the same kind")] = Size.seed,
    report: Annotated[Path | None, typer.Option(help="write the tables here, as Markdown")] = None,
    svg: Annotated[Path | None, typer.Option(help="write the picture here")] = None,
) -> None:
    """Ask a year of questions of the policy over invented rows: how many are answered, how long budgets last, how far off answers
    are, and which bound or epsilon would serve better. No private row is read and nothing is charged."""
    loaded = load_file(policy)
    asked = read_log(log) if log is not None else _from_tests(cases_beside(policy), per_day)
    with bar("planning") as progress:
        bench = asyncio.run(open_workbench(policy)).bench
        verdicts = []
        for done, a in enumerate(asked):
            progress("planning", done, len(asked))
            verdicts.append(bench.verdict(a.question.role, a.question.query, dict(a.question.settings)))
    answered = [a.question for a, v in zip(asked, verdicts, strict=True) if isinstance(v, Answered)]
    with bar("inventing rows") as progress:
        trials = _trials(loaded, answered, Size(units, rows, skew, seed), progress)
    left = iter(trials)
    lines = [
        Line(a.question.role, a.name, v, next(left) if isinstance(v, Answered) else None)
        for a, v in zip(asked, verdicts, strict=True)
    ]
    habits = _habits(asked, verdicts)
    epsilons: dict[float, int | None] = {}
    with bar("spending a year") as progress:
        for done, factor in enumerate(EPSILONS):
            progress("spending a year", done, len(EPSILONS))
            epsilons[factor] = _lasts_scaled(bench, asked, factor, reloads)
    windows: dict[str, int | None] = {
        w: _days(_renewed(loaded.policy, w), habits, reloads) for w, rule in WINDOWS.items() if rule.days
    }
    found = Simulation(tuple(lines), spending(loaded.policy, habits, reloads), epsilons, windows)
    print(table(found), end="")
    for path, text in ((report, table(found)), (svg, picture(found))):
        if path is not None:
            path.write_text(text, encoding="utf-8")


def _trials(loaded: Loaded, questions: Sequence[Question], size: Size, progress: Progress) -> tuple[Trial, ...]:
    with tempfile.TemporaryDirectory(prefix="dpproxy-simulation-") as name:
        folder = Path(name)
        asyncio.run(invented(loaded, folder / "rows.duckdb", size, progress))
        texts = [path.read_text(encoding="utf-8-sig") for path in (Path(loaded.file), *loaded.included)]
        return tried(texts, folder / "rows.duckdb", questions, folder, progress)


def _habits(asked: Sequence[Asked], verdicts: Sequence[Verdict]) -> list[Habit]:
    return [
        Habit(a.question.role, v.loss, a.per_day, a.name)
        for a, v in zip(asked, verdicts, strict=True)
        if isinstance(v, Answered) and v.loss
    ]


def _days(policy: Policy, habits: Sequence[Habit], reloads: float) -> int | None:
    """The first day on which a budget refuses a question."""
    return min((s.ends for s in spending(policy, habits, reloads).values() if s.ends is not None), default=None)


def _lasts_scaled(bench: Bench, asked: Sequence[Asked], factor: float, reloads: float) -> int | None:
    """The same where each question costs a factor of what it does."""
    policy = _scaled(bench.policy, factor)
    scaled = Bench(policy, bench.catalog, bench.dialect)
    verdicts = [scaled.verdict(a.question.role, a.question.query, _scaled_settings(a.question, factor)) for a in asked]
    return _days(policy, _habits(asked, verdicts), reloads)


def _renewed(policy: Policy, window: Window) -> Policy:
    """The policy where the budgets of roles begin anew in each such window; the dataset's stays as it is."""
    roles = {name: replace(role, budget=replace(role.budget, every=window)) for name, role in policy.roles.items()}
    return replace(policy, roles=roles)


def _scaled_settings(question: Question, factor: float) -> dict[str, str]:
    settings = dict(question.settings)
    if "dpproxy.epsilon" in settings:
        settings["dpproxy.epsilon"] = str(Decimal(settings["dpproxy.epsilon"]) * Decimal(factor))
    return settings


def _scaled(policy: Policy, factor: float) -> Policy:
    def scaled(amount: int) -> int:
        return max(1, int(amount * factor))

    roles = {
        name: replace(r, query=replace(r.query, epsilon=scaled(r.query.epsilon), max_epsilon=scaled(r.query.max_epsilon)))
        for name, r in policy.roles.items()
    }
    return replace(policy, roles=roles)


def _from_tests(path: Path, per_day: float) -> tuple[Asked, ...]:
    if not path.exists():
        raise PolicyError(
            [Problem(str(path), 1, 1, "there are no tests to take questions from", "write some, or name a --log", "empty")]
        )
    cases = read_cases(path.read_text(encoding="utf-8"), path).cases
    return of_cases([case for case in cases if case.refuse is None], per_day)  # what is to be refused is nobody's question

"""The command `policy simulate`: a year of questions over invented rows.

Knows: the terminal, files, the order of steps. Must not know: how anything is found. Questions come from the policy's tests or
from a log (`authoring.query_log`).
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import typer

from dpproxy.authoring.cases import cases_beside, read_cases
from dpproxy.authoring.progress import Progress, bar
from dpproxy.authoring.query_log import Asked, Question, of_cases, read_log
from dpproxy.authoring.sample_file import invented
from dpproxy.authoring.simulation import Line, Simulation, picture, table
from dpproxy.authoring.spending import Habit, spending
from dpproxy.authoring.trials import Trial, tried
from dpproxy.authoring.workbench import open_workbench
from dpproxy.budget_windows import WINDOWS, Window
from dpproxy.facade.sample import Size
from dpproxy.policy.load import Loaded, load_file
from dpproxy.policy.model import Policy
from dpproxy.policy.problems import PolicyError, Problem
from dpproxy.review.verdicts import Answered, Bench, Verdict

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
    bench = asyncio.run(open_workbench(policy)).bench
    verdicts = [bench.verdict(a.question.role, a.question.query, dict(a.question.settings)) for a in asked]
    answered = [a.question for a, v in zip(asked, verdicts, strict=True) if isinstance(v, Answered)]
    with bar("inventing rows") as progress:
        trials = _trials(loaded, answered, Size(units, rows, skew, seed), progress)
    left = iter(trials)
    lines = [
        Line(a.question.role, a.name, v, next(left) if isinstance(v, Answered) else None)
        for a, v in zip(asked, verdicts, strict=True)
    ]
    habits = _habits(asked, verdicts)
    found = Simulation(
        tuple(lines),
        spending(loaded.policy, habits, reloads),
        {factor: _lasts_scaled(bench, asked, factor, reloads) for factor in EPSILONS},
        {window: _lasts(_renewed(loaded.policy, window), habits, reloads) for window, rule in WINDOWS.items() if rule.days},
    )
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


def _lasts(policy: Policy, habits: Sequence[Habit], reloads: float) -> int | None:
    """The first day on which a budget refuses a question."""
    return min((s.ends for s in spending(policy, habits, reloads).values() if s.ends is not None), default=None)


def _lasts_scaled(bench: Bench, asked: Sequence[Asked], factor: float, reloads: float) -> int | None:
    """The same where each question costs a factor of what it does."""
    policy = _scaled(bench.policy, factor)
    scaled = Bench(policy, bench.catalog, bench.dialect)
    verdicts = [scaled.verdict(a.question.role, a.question.query, _scaled_settings(a.question, factor)) for a in asked]
    return _lasts(policy, _habits(asked, verdicts), reloads)


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
    return of_cases(read_cases(path.read_text(encoding="utf-8"), path).cases, per_day)

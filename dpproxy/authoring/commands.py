"""The commands `policy test`, `policy diff` and `policy sample`.

Knows: the terminal, files. Must not know: how a verdict is found. Exit codes: 0 when all is well, 1 when a test fails or
something cannot be read, 3 when a policy exposes more than another.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from dpproxy.authoring import case_results, comparison
from dpproxy.authoring.cases import cases_beside, read_cases
from dpproxy.authoring.exposure import changes, grows
from dpproxy.authoring.progress import bar
from dpproxy.authoring.query_log import Asked, of_cases, read_log
from dpproxy.authoring.sample_file import invented
from dpproxy.authoring.workbench import on_shape, open_workbench
from dpproxy.facade.sample import Size
from dpproxy.policy.load import load_file
from dpproxy.policy.problems import PolicyError, Problem

GROWS = 3  # the exit code of `policy diff` when exposure grows

Shape = Annotated[
    Path | None,
    typer.Option(help="a DuckDB file of the data's shape, as `policy sample` writes it; default: the policy's backend"),
]


def run_tests(
    files: Annotated[list[Path], typer.Argument(help="test files, or policies that have one beside them")],
    shape: Shape = None,
    junit: Annotated[Path | None, typer.Option(help="write the results here, as JUnit's XML")] = None,
    update: Annotated[bool, typer.Option("--update", help="let tests that fail expect what the policy says now")] = False,
) -> None:
    """Ask each question of the test files, and hold what the policy says against what they expect. No private row is read and
    nothing is charged."""
    found = []
    for path in map(_tests_of, files):
        text = _text_of(path)
        cases = read_cases(text, path)
        results = case_results.results(cases, asyncio.run(open_workbench(cases.policy, shape)).bench)
        found.append((cases, results))
        print(case_results.as_text(cases, results), end="")
        if update and any(r.failures for r in results):
            path.write_text(case_results.updated(text, results), encoding="utf-8")
            print(f"{path}: updated")
    if junit is not None:
        junit.write_text(case_results.as_junit(found), encoding="utf-8")
    failed = any(r.failures for _, results in found for r in results)
    raise typer.Exit(1 if failed and not update else 0)


def _tests_of(path: Path) -> Path:
    """A test file by its own name, or by that of its policy."""
    return path if ".test." in path.name else cases_beside(path)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PolicyError(
            [Problem(str(path), 1, 1, f"cannot be read: {reason}", "write tests beside the policy", "unreadable-file")]
        ) from None


def diff(
    old: Annotated[Path, typer.Argument(help="the policy as it was")],
    new: Annotated[Path, typer.Argument(help="the policy as it is to be")],
    tests: Annotated[
        Path | None, typer.Option(help="questions of which verdict, price and error are compared; default: those beside NEW")
    ] = None,
    log: Annotated[Path | None, typer.Option(help="questions instead, a JSON object a line, as `policy simulate` reads")] = None,
    shape: Shape = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="write Markdown, for a pull request")] = False,
) -> None:
    """Say what of people one policy exposes more, or less, than another, and what becomes of the questions of the tests
    or of a log. Exit code 3 when exposure grows."""
    before, after = load_file(old), load_file(new)
    found = changes(on_shape(before, shape).policy, on_shape(after, shape).policy)
    asked = read_log(log) if log is not None else _tested(new, tests)
    moved: tuple[comparison.Shift, ...] = ()
    if asked:
        benches = [asyncio.run(open_workbench(path, shape)).bench for path in (old, new)]
        moved = comparison.shifts(asked, *benches)
    print(comparison.as_markdown(str(old), str(new), found, moved) if markdown else comparison.as_text(found, moved), end="")
    raise typer.Exit(GROWS if grows(found) or any(shift.opens for shift in moved) else 0)


def _tested(new: Path, tests: Path | None) -> tuple[Asked, ...]:
    path = tests if tests is not None else cases_beside(new)
    return of_cases(read_cases(_text_of(path), path).cases) if tests is not None or path.exists() else ()


def sample(
    policy: Annotated[Path, typer.Argument(help="the policy's file; its backend tells the shape, and the rows of public tables")],
    out: Annotated[Path, typer.Argument(help="the DuckDB file to write; it must not exist")],
    units: Annotated[int, typer.Option(min=1, help="privacy units")] = Size.units,
    rows: Annotated[float, typer.Option(min=0, help="rows of a unit, in the mean, in tables that hold several")] = Size.rows,
    skew: Annotated[float, typer.Option(min=0, max=4, help="how unlike units are in activity; 0: all alike")] = Size.skew,
    seed: Annotated[int, typer.Option(help="other rows of the same kind")] = Size.seed,
) -> None:
    """Write a small database of the policy's shape, of declared values and ranges and public tables; no private row is read."""
    if out.exists():
        raise PolicyError([Problem(str(out), 1, 1, "exists already", "name a file that does not", "unreadable-file")])
    with bar("reading") as progress:
        made = asyncio.run(invented(load_file(policy), out, Size(units, rows, skew, seed), progress))
    for name, count in made.items():
        print(f"{name}: {count} rows")

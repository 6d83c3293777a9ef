"""`dpproxy policy check`: what is wrong or doubtful in policy files.

Knows: the terminal, exit codes. Must not know: how problems are found. Text goes to standard error, one line a problem, with `ok`
on standard output for each file without errors; JSON and SARIF go to standard output whole.
"""

from __future__ import annotations

import asyncio
import enum
import sys
from pathlib import Path
from typing import Annotated

import typer

from dpproxy import __version__
from dpproxy.authoring import report


class Output(enum.StrEnum):
    """Names the forms of a report."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def check(
    files: Annotated[list[Path], typer.Argument(help="policy files, one a dataset")],
    data: Annotated[
        bool | None,
        typer.Option(
            help="--data: exact counts as well (rows without a unit, beyond ranges, cut by bounds), for the author alone, never"
            " for analysts. --no-data: the file alone, the backend is not asked. Default: names, types, keys and promises"
        ),
    ] = None,
    output: Annotated[Output, typer.Option("--format", help="text, json, or sarif (2.1.0)")] = Output.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="exit with 1 for warnings as well")] = False,
) -> None:
    """Print every problem of each file with its place and what to write instead.

    Exit codes: 0 when there is no error, 1 when there is one (with --strict: or a warning), 2 when the command itself is wrong.
    """
    from dpproxy.authoring.checking import Depth, findings  # and engines with it, which `--help` does not wait for

    depth = {None: Depth.SHAPES, True: Depth.DATA, False: Depth.FILE}[data]
    found = asyncio.run(findings(files, depth))
    if output is Output.JSON:
        print(report.as_json(found), end="")
    elif output is Output.SARIF:
        print(report.as_sarif(found, __version__), end="")
    else:
        for problem in found:
            print(report.line(problem), file=sys.stderr)
        wrong = {p.file for p in found if p.severity == "error"}
        for path in files:
            if str(path) not in wrong:
                print(f"{path}: ok")
    fatal = ("error", "warning") if strict else ("error",)
    raise typer.Exit(1 if any(p.severity in fatal for p in found) else 0)

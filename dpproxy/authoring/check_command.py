"""`dpproxy policy check`: what is wrong or doubtful in policy files, as text, JSON, or SARIF 2.1.0 for pull requests.

Knows: problems and their codes, the terminal, exit codes. Must not know: how problems are found. Text goes to standard error, one
line a problem, with `ok` on standard output for each file without errors; JSON and SARIF go to standard output whole. Paths stay
as they were given, so that a pull request finds its file. Severities are those of `policy.problems`.
"""

from __future__ import annotations

import asyncio
import enum
import json
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Annotated, Any

import typer

from dpproxy import __version__
from dpproxy.policy.problems import CODES, Problem

PRIVATE = "[exact: for the author alone, not for analysts] "
"""Before what rests on exact data. Who shows it to analysts tells them of single people."""


def line(problem: Problem) -> str:
    """Return a problem as one line; errors without a word before them, as at start."""
    kind = CODES[problem.code]
    grave = "" if kind.severity == "error" else f"{kind.severity}: "
    private = PRIVATE if kind.exact else ""
    return f"{problem.file}:{problem.line}:{problem.column}: {grave}{private}{problem.what}; fix: {problem.fix} [{problem.code}]"


def as_json(problems: Sequence[Problem]) -> str:
    """Return a list of objects, one a problem."""
    return json.dumps([_object(p) for p in problems], indent=2) + "\n"


def _object(problem: Problem) -> dict[str, Any]:
    kind = CODES[problem.code]
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "severity": kind.severity,
        "code": problem.code,
        "message": problem.what,
        "fix": problem.fix,
        "exact": kind.exact,
    }


def as_sarif(problems: Sequence[Problem], version: str) -> str:
    """Return one SARIF log of one run, with a rule for each code that occurs."""
    codes = sorted({p.code for p in problems})
    rules = [
        {
            "id": code,
            "shortDescription": {"text": CODES[code].meaning},
            "defaultConfiguration": {"level": CODES[code].severity},
        }
        for code in codes
    ]
    driver = {"name": "dpproxy policy check", "semanticVersion": version, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(p, codes.index(p.code)) for p in problems],
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _result(problem: Problem, rule: int) -> dict[str, Any]:
    kind = CODES[problem.code]
    private = PRIVATE if kind.exact else ""
    place = {
        "artifactLocation": {"uri": PurePath(problem.file).as_posix()},
        "region": {"startLine": problem.line, "startColumn": problem.column},
    }
    return {
        "ruleId": problem.code,
        "ruleIndex": rule,
        "level": kind.severity,
        "message": {"text": f"{private}{problem.what}; fix: {problem.fix}"},
        "locations": [{"physicalLocation": place}],
        "properties": {"exact": kind.exact},
    }


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
        print(as_json(found), end="")
    elif output is Output.SARIF:
        print(as_sarif(found, __version__), end="")
    else:
        for problem in found:
            print(line(problem), file=sys.stderr)
        wrong = {p.file for p in found if p.severity == "error"}
        for path in files:
            if str(path) not in wrong:
                print(f"{path}: ok")
    fatal = ("error", "warning") if strict else ("error",)
    raise typer.Exit(1 if any(p.severity in fatal for p in found) else 0)

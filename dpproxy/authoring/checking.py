"""Everything that can be said of a policy file, in order: the file, its doubts, the backend's shapes, the data.

Knows: how the other files of this room are put together, the backend. Must not know: terminals, formats. What follows from a
problem that is told already is not told again: a file that cannot be read has no doubts, one that does not fit the backend is not
held against its data.
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
from dpproxy.backends.base import Backend, BackendError
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.load import Loaded, load_file
from dpproxy.policy.model import PostgresBackend
from dpproxy.policy.problems import CODES, START, PolicyError, Problem
from dpproxy.reuse.data_epoch import epoch_query
from dpproxy.review import doubts
from dpproxy.serve import data_checks
from dpproxy.serve.data_checks import checked_catalog, open_backend


class Depth(enum.Enum):
    """How far a check goes."""

    FILE = "the file alone"
    SHAPES = "names, types, keys, and the promise of one row per unit"
    DATA = "exact counts as well"


async def findings(paths: Sequence[Path], depth: Depth) -> tuple[Problem, ...]:
    """Return the problems of all files, in the order of the files and within each of its lines."""
    files: list[Loaded] = []
    found: list[tuple[Problem, ...]] = []
    for path in paths:
        try:
            loaded = load_file(path)
        except PolicyError as error:
            found.append(error.problems)
            continue
        files.append(loaded)
        found.append(await _of(loaded, depth))
    together = doubts.shared_data(files)
    order = {str(path): i for i, path in enumerate(paths)}
    everything = {p for problems in (*found, together) for p in problems}
    return tuple(sorted(everything, key=lambda p: (order.get(p.file, len(order)), p)))


async def _of(loaded: Loaded, depth: Depth) -> tuple[Problem, ...]:
    if depth is Depth.FILE:
        return doubts.doubts(loaded, None)
    try:
        backend = open_backend(loaded)
    except PolicyError as error:
        return (*error.problems, *_grave(loaded))
    try:
        return await _with_backend(loaded, backend, depth)
    except BackendError as error:
        at = loaded.positions.get(("backend",), START)
        what, fix = f"the data cannot be read: {error}", data_checks.OWN_SERVER
        return (at.problem(loaded.file, what, fix, "backend-data"), *_grave(loaded))
    finally:
        await backend.close()


async def _with_backend(loaded: Loaded, backend: Backend, depth: Depth) -> tuple[Problem, ...]:
    try:
        catalog = await checked_catalog(loaded, backend)
    except PolicyError as error:
        return (*error.problems, *_grave(loaded))
    found = [*await _of_extract(loaded, catalog, backend), *doubts.doubts(loaded, catalog)]
    found += await data_checks.doubts(loaded, catalog, backend)
    if loaded.policy.views or epoch_query(loaded.policy) is not None:
        from dpproxy.authoring.sql_texts import wrong_texts  # the planner is imported where there is SQL to read

        wrong = await wrong_texts(loaded, catalog, backend)
        found += wrong
        if not any(problem.code == "epoch" for problem in wrong):  # what reads private tables is not run
            found += await data_checks.epoch_problems(loaded, backend)
    if depth is Depth.DATA:
        from dpproxy.authoring.exact_counts import questions

        for question in questions(loaded, catalog, backend.dialect):
            told = question.told(await backend.violations(question.queries))
            found += [told] if told is not None else []
    return tuple(found)


def _grave(loaded: Loaded) -> list[Problem]:
    """Doubts shown together with errors of the backend: no notes, which may follow from those."""
    return [doubt for doubt in doubts.doubts(loaded, None) if doubt.severity == "warning"]


async def _of_extract(loaded: Loaded, catalog: Catalog, backend: Backend) -> tuple[Problem, ...]:
    """Why a policy does not fit an extract of its PostgreSQL database."""
    if not isinstance(loaded.policy.backend, PostgresBackend):
        return ()
    from dpproxy.serve.extracts import held_problems  # what serves is imported where there may be an extract

    return await held_problems(loaded, catalog, backend)


# Problems as text for people, JSON for scripts, and SARIF 2.1.0 for pull requests.
#
# Knows: problems and their codes. Must not know: how they were found. Paths stay as they were given, so that a pull request
# finds its file. Severities are those of `policy.problems`; SARIF has the same three by the same names.


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


# `dpproxy policy check`: what is wrong or doubtful in policy files.
#
# Knows: the terminal, exit codes. Must not know: how problems are found. Text goes to standard error, one line a problem, with
# `ok` on standard output for each file without errors; JSON and SARIF go to standard output whole.


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

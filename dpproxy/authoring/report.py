"""Problems as text for people, JSON for scripts, and SARIF 2.1.0 for pull requests.

Knows: problems and their codes. Must not know: how they were found. Paths stay as they were given, so that a pull request finds
its file. Severities are those of `policy.codes`; SARIF has the same three by the same names.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from dpproxy.policy.codes import CODES
from dpproxy.policy.problems import Problem

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

"""What analysts ask, for commands that ask it of a policy: a log, a JSON object a line, or the tests beside the policy.

    {"role": "analyst", "query": "SELECT ...", "per_day": 20, "set": {"dpproxy.epsilon": "0.5"}, "name": "orders by region"}

Knows: the format of a log, files. Must not know: policies, what a question comes to. A line has a role and a query;
every line that has not is told at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpproxy.authoring.cases import Case
from dpproxy.policy.problems import PolicyError, Problem


@dataclass(frozen=True)
class Question:
    """A question is what one role asks. `settings` are those of its session."""

    role: str
    query: str
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Asked:
    """What is asked, how often a day. `name`: what it is called in the report."""

    question: Question
    name: str
    per_day: float = 1.0


def read_log(path: Path) -> tuple[Asked, ...]:
    """Return the questions of a log. Raises PolicyError with every line that is no question, OSError."""
    found, problems = [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            try:
                found.append(_asked(json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError):
                fix = 'write {"role": "...", "query": "...", "per_day": 1}'
                problems.append(Problem(str(path), number, 1, "this line is no question", fix, "wrong-type"))
    if problems or not found:
        raise PolicyError(problems or [Problem(str(path), 1, 1, "there are no questions", "write one a line", "empty")])
    return tuple(found)


def of_cases(cases: Sequence[Case], per_day: float = 1.0) -> tuple[Asked, ...]:
    """Return the questions of tests, each asked so often a day."""
    return tuple(Asked(Question(c.role, c.query, tuple(c.settings.items())), c.name, per_day) for c in cases)


def _asked(entry: Mapping[str, object]) -> Asked:
    query, settings = entry["query"], entry.get("set", {})
    if not isinstance(query, str) or not isinstance(entry["role"], str) or not isinstance(settings, dict):
        raise TypeError("a question has a role and a query")
    per_day = float(str(entry.get("per_day", 1)))
    chosen = tuple((str(name), str(value)) for name, value in settings.items())
    return Asked(Question(entry["role"], query, chosen), str(entry.get("name", query)), per_day)

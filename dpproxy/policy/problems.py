"""What is wrong with a policy, said once, for the person who writes it.

Knows: places in a file and sentences. Must not know: YAML, tables, data. A problem says where (1-based line and
column, as editors count), what is wrong, and what to write instead. Problems are collected and raised together,
since fixing a file one error a run is a waste of its owner's day. A problem never repeats a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from dpproxy.errors import OperatorError
from dpproxy.policy.codes import CODES, Code, Severity

__all__ = ["START", "Code", "Mark", "PolicyError", "Problem", "suggestion"]


@dataclass(frozen=True, order=True)
class Mark:
    """Marks a place in a text: line and column, both from 1. `file`: the file, where it is another than the policy's own."""

    line: int
    column: int
    file: str = ""

    def problem(self, file: str, what: str, fix: str, code: Code) -> Problem:
        """Return a problem at this place. `file`: the policy's own."""
        return Problem(self.file or file, self.line, self.column, what, fix, code)


START = Mark(1, 1)


@dataclass(frozen=True, order=True)
class Problem:
    """Says one thing that is wrong; problems are ordered by place. `fix` says what to write, `code` of what kind it is."""

    file: str
    line: int
    column: int
    what: str
    fix: str
    code: Code

    @property
    def severity(self) -> Severity:
        return CODES[self.code].severity

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.what}; fix: {self.fix}"


class PolicyError(OperatorError):
    """Says that a policy cannot be used, with every problem found in it, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `did you mean x?`, or the list of what is known when nothing is near."""
    names = sorted(known)
    for name in names:
        if name != word and name.lower() == word.lower() and word == word.lower():
            return f"write `'\"{name}\"'`, in quotes within quotes: without them names are folded to lower case"
    near = difflib.get_close_matches(word, names, n=1)
    if near:
        return f"did you mean `{near[0]}`?"
    shown = ", ".join(f"`{n}`" for n in names[:20])  # twenty names still fit a terminal's few lines
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"use one of {shown}{more}" if names else "remove it"

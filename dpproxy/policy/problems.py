"""What is wrong with a policy, said once, for the person who writes it.

Knows: places in a file and sentences. Must not know: YAML, tables, data. A problem says where (1-based line and
column, as editors count), what is wrong, and what to write instead. Problems are collected and raised together,
since fixing a file one error a run is a waste of its owner's day. A problem never repeats a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from dpproxy.errors import OperatorError

# The kinds of problems a policy can have: a short code for each, how grave it is, and what it means.
#
# Knows: names. Must not know: how a problem is found. Codes are what editors, pull requests and scripts go by, so that a
# sentence may be worded better without anybody's filter breaking; a code is never given another meaning. A new one is added to
# `Code` and to `CODES`; mypy refuses a problem whose code is not there.


Severity = Literal["error", "warning", "note"]
"""An error stops the start. A warning is a policy that works and is hardly what its author meant. A note is to be known."""

Code = Literal[
    "backend", "backend-data", "bad-name", "bounds", "budget", "claim", "column-role", "duplicate", "empty", "epoch",
    "missing-key",
    "no-unit", "not-granted", "not-unique", "out-of-range", "password", "public-table", "range", "reports", "resolution",
    "secret-reference",
    "shown-rows",
    "too-large", "type-mismatch", "unit-key", "unit-path", "unknown-column", "unknown-key", "unknown-role", "unknown-table",
    "unreadable-file", "values", "version", "view", "wrong-type", "yaml", "yaml-feature",
    "constant-bounds", "greedy-query", "greedy-role", "high-delta", "no-delta", "no-range", "no-users", "nullable-unit",
    "open-decision", "reports-choice", "reports-day", "reports-forever", "reports-id", "reports-many", "reports-plain",
    "reports-sketch",
    "personal-column", "personal-table", "unseen-rows", "secret-in-clear", "shared-data", "unit-not-listed",
    "half-key", "row-unit", "second-unit", "unkept-key", "unreachable", "unused-role", "whole-budget",
    "data-beyond-range", "data-beyond-rows", "data-cut", "data-null-unit", "data-open", "data-public-empty", "data-public-ids",
    "data-small",
    "data-undeclared", "data-reports",
]  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """Of a code how grave it is, what it means, and whether it rests on exact data (then it is the author's alone)."""

    severity: Severity
    meaning: str
    exact: bool = False


CODES: Mapping[Code, Kind] = {
    "backend": Kind("error", "The backend is not declared as one of the known engines."),
    "backend-data": Kind("error", "The backend's data cannot be opened or read."),
    "bad-name": Kind("error", "A name that PostgreSQL cannot hold, or that is taken."),
    "bounds": Kind("error", "Bounds are missing, or contradict the rows a unit may have."),
    "budget": Kind("error", "A part may spend more than what it belongs to."),
    "claim": Kind("error", "A mechanism cannot be what is written, or tells more than its own epsilon."),
    "column-role": Kind("error", "A column cannot have the role it is given."),
    "duplicate": Kind("error", "A name, key or value is given twice."),
    "empty": Kind("error", "A list is empty where something must be in it."),
    "epoch": Kind("error", "The data's epoch cannot be read this way."),
    "missing-key": Kind("error", "A key that must be there is missing."),
    "no-unit": Kind("error", "A private table does not say whose rows it holds."),
    "not-granted": Kind("error", "The backend's role may not read what the policy uses."),
    "not-unique": Kind("error", "A table of one row per unit has more, or rows share a key of a path or of `keys`."),
    "out-of-range": Kind("error", "A number is too small or too large for its field."),
    "password": Kind("error", "A password is not a SCRAM-SHA-256 verifier."),
    "public-table": Kind("error", "A public table has a key that only private tables have."),
    "range": Kind("error", "A range is not two ends in order."),
    "reports": Kind("error", "A table of reports, or a randomised column, has what contradicts it."),
    "resolution": Kind("error", "A column has no resolution."),
    "secret-reference": Kind("error", "A reference to the environment or a file cannot be used here."),
    "shown-rows": Kind("error", "A public table shows rows of a private one."),
    "too-large": Kind("error", "The file is larger or deeper than any policy needs."),
    "type-mismatch": Kind("error", "What the policy says of a column does not fit the column's type."),
    "unit-key": Kind("error", "The privacy unit's key is not the unit of a listed private table."),
    "unit-path": Kind("error", "A path does not lead from a table to the privacy unit."),
    "unknown-column": Kind("error", "The table has no such column."),
    "unknown-key": Kind("error", "The format has no such key here."),
    "unknown-role": Kind("error", "A user has a role that is not declared."),
    "unknown-table": Kind("error", "The backend or the policy has no such table."),
    "unreadable-file": Kind("error", "The policy file cannot be read."),
    "values": Kind("error", "Declared values contradict each other or the range."),
    "version": Kind("error", "The format's version is not one that this release knows."),
    "view": Kind("warning", "A view's text is no query of the policy's tables."),
    "wrong-type": Kind("error", "A field is of another kind than it must be."),
    "yaml": Kind("error", "The file is not YAML."),
    "yaml-feature": Kind("error", "A feature of YAML that policies do not have."),
    "constant-bounds": Kind("warning", "Bounds so large that noise hides every answer."),
    "greedy-query": Kind("warning", "One query may cost so much that it tells of single people."),
    "greedy-role": Kind("warning", "A role may learn so much in a month that single people stand out."),
    "high-delta": Kind("warning", "Delta is not far below one in the number of people."),
    "no-delta": Kind("warning", "Columns without declared values cannot be groups, as the role has no delta."),
    "no-range": Kind("warning", "A number or date without a range can be counted, and not added up."),
    "no-users": Kind("warning", "Nobody can log in."),
    "nullable-unit": Kind("note", "Rows without a unit are left out of every answer."),
    "open-decision": Kind("warning", "A comment says TODO: nobody has decided yet."),
    "reports-choice": Kind("warning", "Another mechanism has a smaller error at the same epsilon."),
    "reports-day": Kind("warning", "A device tells so much in a day that a guess about it is hardly ever wrong."),
    "reports-forever": Kind("warning", "Reports are kept for ever, or a device answers the same question again and again."),
    "reports-id": Kind("warning", "A plain column that is named like one that tells devices apart."),
    "reports-many": Kind("warning", "All tables of reports together tell much of a device."),
    "reports-plain": Kind("warning", "Plain columns make groups too small to be shown, or tell too much of a report."),
    "reports-sketch": Kind("warning", "Values that share cells of a hash function add more error than devices do."),
    "personal-column": Kind("warning", "A column that is named like a person's is shown."),
    "personal-table": Kind("warning", "A public table that is named, or has a key, like one about people."),
    "unseen-rows": Kind("warning", "Which rows a table has is decided where dpproxy cannot see it."),
    "secret-in-clear": Kind("warning", "A secret stands in the policy itself."),
    "shared-data": Kind("warning", "Two policies over one database: their budgets do not add up."),
    "half-key": Kind("warning", "The unit is one column of a key whose other columns tell people apart as well."),
    "row-unit": Kind("warning", "The privacy unit is a row, where a column names somebody who may have many."),
    "second-unit": Kind("warning", "Rows name two units, and only one of them is protected."),
    "unit-not-listed": Kind("note", "The column that names the unit is hidden, and can be neither counted nor joined on."),
    "unkept-key": Kind("note", "No key of the database keeps its rows as the policy says: they are looked at again and again."),
    "unreachable": Kind("warning", "A table or column that no query of any role can use."),
    "unused-role": Kind("note", "No user has the role."),
    "whole-budget": Kind("warning", "One role may spend the budget that is for all roles."),
    "data-beyond-range": Kind("warning", "Values of the data lie beyond the declared range.", True),
    "data-beyond-rows": Kind("warning", "People of the data have more rows than `rows_at_most` says.", True),
    "data-open": Kind("note", "Nothing says how many rows a person has at most: intervals are open above.", True),
    "data-cut": Kind("warning", "Bounds cut rows or groups of people in the data.", True),
    "data-null-unit": Kind("warning", "Rows of the data belong to nobody.", True),
    "data-public-ids": Kind("error", "A public table holds ids of people in the data.", True),
    "data-public-empty": Kind("note", "A public table, or that of units, has no rows: no ids could be compared.", True),
    "data-small": Kind("warning", "Delta is not far below one in the number of people in the data.", True),
    "data-undeclared": Kind("warning", "Values of the data are not among those declared.", True),
    "data-reports": Kind("error", "Reports of the data are none that the claim allows.", True),
}


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
    """One thing that is wrong; problems are ordered by place. `fix` says what to write, `code` of what kind it is."""

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
    """A policy cannot be used, with every problem found in it, in the order of the file."""

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

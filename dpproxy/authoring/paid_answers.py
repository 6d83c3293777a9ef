"""What answers that were paid for become in a draft: ranges, values and bounds, each with what it cost and how far off it may be.

Knows: questions, answers with noise, what EXPLAIN said of them. Must not know: data, proxies. Ends are rounded outwards to two
digits, so that a proposal looks like what it is. What cannot be told from noise is not proposed: an end whose rank may be off
by more than there are ranks beyond it, values of too many kinds, whole numbers whose values leave many people out; the draft then
says what was tried. Everything here is computed from released numbers.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from dpproxy.authoring.draft import Cell, Column, Decisions
from dpproxy.authoring.paid_questions import MOST, MOST_ROWS, Asked, Subject
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.check import family
from dpproxy.sql.types import INTEGERS
from dpproxy.table_terms import TableName

MOST_VALUES = 50  # of a column: more are no list that a person reads, and undeclared keys do as well
FEW = 30  # from the smallest to the largest of whole numbers that are listed: they are codes, ratings, counts of a few
COVERED = Decimal("0.9")  # of people must have one of the numbers listed; otherwise ends serve better
FINE = Decimal("0.1")  # of people: where values of more than these may be missing, a list is not whole without a person


@dataclass(frozen=True)
class Account:
    """Is what EXPLAIN says of a question beforehand. `within`: by how many people, or ranks, it may be off (95 %); `hidden`:
    groups of fewer people are not shown."""

    within: int = 0
    hidden: int = 0


@dataclass(frozen=True)
class Answer:
    """Is what was answered to a question, and what it cost."""

    asked: Asked
    epsilon: Decimal
    rows: Sequence[tuple[Any, ...]]
    account: Account


def account(explained: str) -> Account:
    """Read EXPLAIN (FORMAT JSON)."""
    within = hidden = 0
    for measurement in json.loads(explained)[0]["Privacy Plan"]["Measurements"]:
        hidden = max(hidden, measurement.get("Groups", {}).get("Threshold", 0))
        for output in measurement["Outputs"]:
            within = max(within, output.get("Within Ranks", 0), round(output.get("Within", 0)))
    return Account(within, hidden)


def measured(catalog: Catalog, decisions: Decisions, answers: Sequence[Answer]) -> Decisions:
    """Return decisions with what was answered."""
    return _Measured(catalog, decisions, answers).decisions()


class _Measured:
    def __init__(self, catalog: Catalog, decisions: Decisions, answers: Sequence[Answer]) -> None:
        self._catalog, self._decisions, self._answers = catalog, decisions, answers
        self._counts = {_table(a.asked.about): a for a in answers if a.asked.aim == "people" and a.rows}
        self._noun = f"{decisions.unit_name}s"
        self._ranges, self._values = dict(decisions.ranges), dict(decisions.values)
        self._origins: dict[Subject, str] = dict(decisions.origins)

    def decisions(self) -> Decisions:
        tables: dict[TableName, dict[str, Answer]] = {}
        for answer in self._answers:
            about = answer.asked.about
            if isinstance(about, TableName):
                tables.setdefault(about, {})[answer.asked.aim] = answer
            elif answer.asked.aim == "ends":
                self._ends(about, answer)
            elif answer.asked.aim == "values":
                self._kinds(about, answer)
        bounds = {name: found for name, parts in tables.items() if (found := self._bounds(name, parts)) is not None}
        return replace(
            self._decisions,
            ranges=self._ranges,
            values=self._values,
            bounds={**self._decisions.bounds, **bounds},
            origins=self._origins,
            people=self._known(),
        )

    def _known(self) -> str:
        """What is known of how many people there are."""
        count = self._counts.get(self._decisions.unit[0])
        return f"about {count.rows[0][0]} {self._noun}, {_off(count)}" if count is not None else ""

    def _people(self, about: Subject) -> int | None:
        """How many people have rows in a table; None where that is not known."""
        count = self._counts.get(_table(about))
        return int(count.rows[0][0]) if count is not None else None

    def _ends(self, place: Column, answer: Answer) -> None:
        low, high = answer.rows[0] if answer.rows else (None, None)
        if low is None or high is None or self._too_far(place, answer):
            return
        column = self._catalog.tables[place[0]].column(place[1])
        if column is not None and family(column.type) == "date":
            first, last = dt.date.fromisoformat(low[:10]), dt.date.fromisoformat(high[:10])
            self._ranges[place] = (f"{min(first, last).year}-01-01", f"{max(first, last).year}-12-31")
        else:
            least, most = out(Decimal(low), up=False), out(Decimal(high), up=True)
            self._ranges[place] = (f"{least:f}", f"{max(most, least + 1):f}")
        self._origins[place] = f"of all but about 5 % of {self._noun} at each end, {_off(answer)}"

    def _kinds(self, place: Column, answer: Answer) -> None:
        column = self._catalog.tables[place[0]].column(place[1])
        found: list[Cell] = [row[0] for row in answer.rows if row[0] is not None]
        whole = self._people(place)
        coarse = whole is not None and answer.account.hidden > FINE * whole
        least = f"{answer.account.hidden} {self._noun} (epsilon {answer.epsilon})"
        if column is not None and column.type in INTEGERS:
            people = sum(row[1] for row in answer.rows)
            if not found or int(max(found)) - int(min(found)) > FEW or people < COVERED * (whole or 0) or coarse:
                return  # its ends are asked for
        elif not found or len(found) > MOST_VALUES:
            many = f"more than {MOST_VALUES} values" if found else "no value"
            self._origins[place] = f"{many} of at least about {least}"
            return
        self._values[place] = tuple(found)
        self._origins[place] = (
            f"{'TODO complete it: ' if coarse else ''}measured; there may be others of fewer than about {least}"
        )

    def _bounds(self, name: TableName, parts: Mapping[str, Answer]) -> tuple[int, int] | None:
        """Rows and groups that are enough for most people. One row is never proposed: a measurement is no promise."""
        answer = parts.get("rows")
        if answer is None or not answer.rows or answer.rows[0][0] is None or self._too_far(name, answer):
            return None
        rows = max(2, int(out(Decimal(answer.rows[0][0]), up=True)))
        said, groups = f"rows of about 95 % of {self._noun}, {_off(answer)}", min(rows, 10)
        other = parts.get("groups")
        if other is not None and other.rows and other.rows[0][0] is not None and not self._too_far(name, other):
            groups = max(1, min(rows, int(Decimal(other.rows[0][0]))))
            said += f"; groups by one column likewise, {_off(other)}"
        self._origins[name] = said
        return min(rows, MOST_ROWS), groups

    def _too_far(self, about: Subject, answer: Answer) -> bool:
        """Whether a percentile may be off by more ranks than there are people beyond it; then it says nothing."""
        people = self._people(about)
        beyond = int((people or 0) * (1 - MOST))
        if people is None or answer.account.within <= beyond:
            return False
        tried = f"not measured: at epsilon {answer.epsilon} ranks are off by up to {answer.account.within}, and 5 % of"
        self._origins[about] = f"{tried} {self._noun} with rows here are about {beyond}"
        return True


def _table(about: Subject) -> TableName:
    return about if isinstance(about, TableName) else about[0]


def _off(answer: Answer) -> str:
    return f"give or take {answer.account.within} (epsilon {answer.epsilon})"


def out(value: Decimal, up: bool) -> Decimal:
    """Round to two digits, away from the middle."""
    if value == 0:
        return Decimal(0)
    step = Decimal(1).scaleb(value.adjusted() - 1)
    return (value / step).to_integral_value("ROUND_CEILING" if up else "ROUND_FLOOR") * step

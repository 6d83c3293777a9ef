"""What is asked of the data for a draft, of epsilon that the owner allots: how many people there are, values of columns of
few, rows and groups of a person, ends of numbers and dates.

Knows: catalogs, decisions, SQL as analysts write it. Must not know: mechanisms, ledgers; the questions go through a proxy of
the draft itself, are planned, charged and recorded there as anybody's (`authoring.paid_session`). Values of whole numbers are
asked for before their ends, as a histogram takes much less epsilon than percentiles do. A person is counted once wherever that is
possible: of a table of many rows a person's smallest and largest value are asked for. Search begins from ends that are the type's
own, not the data's.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

from dpproxy.authoring.draft import Cell, Column, Decisions, Open, led, one_row, open_columns
from dpproxy.authoring.schema_facts import Facts, Place
from dpproxy.authoring.unit_links import Link
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.check import family
from dpproxy.policy.names import plural, quote_name
from dpproxy.review import hints
from dpproxy.sql.types import INTEGERS
from dpproxy.table_terms import TableName

LEAST, MOST = Decimal("0.05"), Decimal("0.95")
"""Percentiles proposed as ends. Those nearer the edge would take much more epsilon: a private percentile misses by some hundred
ranks where epsilon is small, and must not miss past the first row."""
WIDE = ("-1000000", "1000000")
MOST_ROWS = 1000
PEOPLE_WEIGHT = Decimal("0.25")  # one count: of much less error than percentiles need
ENDS_WEIGHT = Decimal(3)  # two percentiles are off by five times as many people as a count, at the same epsilon
KEYS = 8  # columns of a table whose values are counted for a person

Subject = Column | TableName
Aim = Literal["people", "ends", "values", "rows", "groups"]


@dataclass(frozen=True)
class Asked:
    """One question: what for, about what, and its SQL. `weight`: its part of the epsilon, relative to the others'."""

    aim: Aim
    about: Subject
    sql: str
    weight: Decimal = Decimal(1)


def searching(catalog: Catalog, decisions: Decisions, facts: Mapping[Place, Facts]) -> Decisions:
    """Return decisions whose undecided numbers have the ends that a search begins from."""
    found = open_columns(catalog, decisions, facts)
    ranges = {c.place: WIDE for c in found if family(c.type) == "number" and not c.has_ends}
    return replace(decisions, ranges={**ranges, **decisions.ranges})


def questions(catalog: Catalog, decisions: Decisions, facts: Mapping[Place, Facts]) -> list[Asked]:
    """Return what is asked first: people, values, rows and groups."""
    found, unit = led(catalog, decisions), decisions.unit
    private = [name for name in found if name in catalog.tables]
    asked = [Asked("people", name, _people(found, name), PEOPLE_WEIGHT) for name in private]
    columns = [c for c in _open(catalog, decisions, facts) if family(c.type) == "text" or c.type in INTEGERS]
    asked += [Asked("values", column.place, _values(column.place, found)) for column in columns]
    for name in private:
        if name not in decisions.bounds and not one_row(catalog.tables[name], found[name], unit):
            asked.append(Asked("rows", name, _most(found, name, "count(*)")))
            counts = [f"count(DISTINCT t0.{quote_name(c.place[1])})" for c in columns if c.place[0] == name][:KEYS]
            if counts:
                largest = f"greatest({', '.join(counts)})" if len(counts) > 1 else counts[0]
                asked.append(Asked("groups", name, _most(found, name, largest)))
    return asked


def ends(catalog: Catalog, decisions: Decisions, facts: Mapping[Place, Facts]) -> list[Asked]:
    """Return what is asked then: the ends of numbers and dates that are still undecided."""
    found = led(catalog, decisions)
    columns = [c for c in _open(catalog, decisions, facts) if family(c.type) in ("number", "date")]
    single = {c.place[0]: one_row(catalog.tables[c.place[0]], found[c.place[0]], decisions.unit) for c in columns}
    return [Asked("ends", c.place, _ends(c, found, single[c.place[0]]), ENDS_WEIGHT) for c in columns]


def _open(catalog: Catalog, decisions: Decisions, facts: Mapping[Place, Facts]) -> list[Open]:
    """Columns that are undecided and worth a question: what is called like a key may find a person."""
    return [c for c in open_columns(catalog, decisions, facts) if not hints.key_like(c.place[1])]


def _ends(column: Open, found: Mapping[TableName, Link], alone: bool) -> str:
    name, key = column.place[0], f"t0.{quote_name(column.place[1])}"
    source, person = _source(found, name)
    cast = "::date::text" if family(column.type) == "date" else "::text"
    low, high, rows = key, key, source
    if not alone:
        low, high = "low", "high"
        rows = f"(SELECT {person} AS person, min({key}) AS low, max({key}) AS high FROM {source} GROUP BY 1) AS each"
    both = ", ".join(f"percentile_disc({p}) WITHIN GROUP (ORDER BY {end}){cast}" for p, end in ((LEAST, low), (MOST, high)))
    return f"SELECT {both} FROM {rows}"


def _people(found: Mapping[TableName, Link], name: TableName) -> str:
    source, person = _source(found, name)
    return f"SELECT count(DISTINCT {person}) FROM {source}"


def _values(place: Column, found: Mapping[TableName, Link]) -> str:
    source, person = _source(found, place[0])
    return f"SELECT t0.{quote_name(place[1])}, count(DISTINCT {person}) FROM {source} GROUP BY 1 ORDER BY 1"


def _most(found: Mapping[TableName, Link], name: TableName, counted: str) -> str:
    source, person = _source(found, name)
    each = f"SELECT {person} AS person, least({counted}, {MOST_ROWS}) AS n FROM {source} GROUP BY 1"
    return f"SELECT percentile_disc({MOST}) WITHIN GROUP (ORDER BY n)::text FROM ({each}) AS each"


def _source(found: Mapping[TableName, Link], name: TableName) -> tuple[str, str]:
    """The table, as t0, joined with those on its path to the unit, and the column that names the unit there."""
    text, link = f"{_table(name)} AS t0", found[name]
    number = 0
    while link.target is not None:
        here, there = f"t{number}.{quote_name(link.column)}", f"t{number + 1}.{quote_name(link.target_column)}"
        text += f" JOIN {_table(link.target)} AS t{number + 1} ON {here} = {there}"
        link, number = found[link.target], number + 1
    return text, f"t{number}.{quote_name(link.column)}"


def _table(name: TableName) -> str:
    return f"{quote_name(name.schema)}.{quote_name(name.name)}"


# What answers that were paid for become in a draft: ranges, values and bounds, each with what it cost and how far off it may
# be.
#
# Knows: questions, answers with noise, what EXPLAIN said of them. Must not know: data, proxies. Ends are rounded outwards to
# two digits, so that a proposal looks like what it is. What cannot be told from noise is not proposed: an end whose rank may be
# off by more than there are ranks beyond it, values of too many kinds, whole numbers whose values leave many people out; the
# draft then says what was tried. Everything here is computed from released numbers.


MOST_VALUES = 50  # of a column: more are no list that a person reads, and undeclared keys do as well
FEW = 30  # from the smallest to the largest of whole numbers that are listed: they are codes, ratings, counts of a few
COVERED = Decimal("0.9")  # of people must have one of the numbers listed; otherwise ends serve better
FINE = Decimal("0.1")  # of people: where values of more than these may be missing, a list is not whole without a person


@dataclass(frozen=True)
class Account:
    """What EXPLAIN says of a question beforehand. `within`: by how many people, or ranks, it may be off (95 %); `hidden`:
    groups of fewer people are not shown."""

    within: int = 0
    hidden: int = 0


@dataclass(frozen=True)
class Answer:
    """What was answered to a question, and what it cost."""

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


def forecast(epsilon: Decimal, asked: Sequence[tuple[Asked, Account]], noun: str) -> str:
    """Say what so much epsilon can tell, before any is spent. `asked`: questions with what EXPLAIN says of them. `noun`: the
    plural of what a unit is called. A percentile that is off by some ranks tells nothing unless 5 % of the people are more."""
    by_aim: dict[str, list[Account]] = {}
    for question, said in asked:
        by_aim.setdefault(question.aim, []).append(said)
    lines = [f"epsilon {epsilon:f} is to be spent on {len(asked)} questions; it can tell:"]
    if "people" in by_aim:
        lines.append(f"- how many {noun} have rows in a table: give or take {_worst(by_aim['people']).within}")
    if "values" in by_aim:
        least = _worst(by_aim["values"]).hidden
        lines.append(f"- values of {len(by_aim['values'])} columns: those that {least:,} {noun} or more share")
    for aim, what in (("rows", "rows of one"), ("groups", "groups of one"), ("ends", "lowest and highest values")):
        if aim in by_aim:
            least = int(_worst(by_aim[aim]).within / (1 - MOST))
            lines.append(f"- {what}, asked {len(by_aim[aim])} times: in tables of {least:,} {noun} or more")
    lines.append("What is not measured leaves a TODO, and its epsilon is spent all the same.")
    return "\n".join(lines)


def _worst(accounts: Sequence[Account]) -> Account:
    return Account(max(a.within for a in accounts), max(a.hidden for a in accounts))


def measured(catalog: Catalog, decisions: Decisions, answers: Sequence[Answer]) -> Decisions:
    """Return decisions with what was answered."""
    return _Measured(catalog, decisions, answers).decisions()


class _Measured:
    def __init__(self, catalog: Catalog, decisions: Decisions, answers: Sequence[Answer]) -> None:
        self._catalog, self._decisions, self._answers = catalog, decisions, answers
        self._counts = {_answered_table(a.asked.about): a for a in answers if a.asked.aim == "people" and a.rows}
        self._noun = plural(decisions.unit_name)
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
        count = self._counts.get(_answered_table(about))
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


def _answered_table(about: Subject) -> TableName:
    return about if isinstance(about, TableName) else about[0]


def _off(answer: Answer) -> str:
    return f"give or take {answer.account.within} (epsilon {answer.epsilon})"


def out(value: Decimal, up: bool) -> Decimal:
    """Round to two digits, away from the middle."""
    if value == 0:
        return Decimal(0)
    step = Decimal(1).scaleb(value.adjusted() - 1)
    return (value / step).to_integral_value("ROUND_CEILING" if up else "ROUND_FLOOR") * step

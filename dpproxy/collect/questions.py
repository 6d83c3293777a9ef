"""The mechanism's file: what a device is asked, how it randomises, and the hash under which a collector takes its reports.

Knows: the file's form, claims, the values they are about. Must not know: policies, HTTP, the ledger. The file is shipped with
the app; a server that changes a question, an epsilon, a seed or a list of values changes the hash, and then the device and the
collector no longer speak of one thing. What can be made on a device is checked when the file is read, not when somebody answers.

The hash is over what gives reports their meaning: the table, the names and order of its columns, claims, values. Lists of plain
values and what a device may tell in a day are not in it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from dpproxy.collect.encode import randomised, reportable
from dpproxy.collect.ledger import DeviceError, micro
from dpproxy.local.claims import Claim, ClaimError, claim_of
from dpproxy.local.spaces import Space

FORMAT: Final = 1
TEXT: Final = 200
"""Characters of a plain text whose values are not listed."""
DAY: Final = "day"
"""The plain column that the collector fills: the UTC day on which a report came. Devices tell no day."""
READ_ONLY: Final = frozenset({"laplace", "duchi"})
"""Mechanisms of reports that were made elsewhere."""

Plain = str | int | bool


class FileRefused(DeviceError):
    """A mechanism's file that cannot be read, or asks more than the app permits."""


class OutsideSpace(ValueError):
    """A value that a question does not know."""


@dataclass(frozen=True)
class PlainColumn:
    """A column that reports have as it is, without noise. `values`: what it may be; None: not listed. `low`, `high`: of
    numbers and days, as text."""

    name: str
    values: tuple[Plain, ...] | None = None
    low: str | None = None
    high: str | None = None

    def holds(self, value: object) -> bool:
        """Whether a report may have it."""
        if isinstance(value, float) or value is None:
            return False
        if self.values is not None:
            return any(value == known and type(value) is type(known) for known in self.values)
        if self.low is not None and self.high is not None:
            return _between(value, self.low, self.high)
        return isinstance(value, bool | int) or (isinstance(value, str) and _is_text(value))

    def document(self) -> dict[str, Any]:
        values = None if self.values is None else list(self.values)
        return {
            name: value
            for name, value in (("name", self.name), ("values", values), ("low", self.low), ("high", self.high))
            if value is not None
        }


@dataclass(frozen=True)
class RandomisedColumn:
    """A column that is randomised on the device. `values`: the candidates in the order of their numbers; None where they are
    open."""

    name: str
    claim: Claim
    values: tuple[str, ...] | None = None

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The number of each candidate."""
        return {value: number for number, value in enumerate(self.values or ())}

    @cached_property
    def space(self) -> Space:
        """The reports that there are."""
        return self.claim.space

    def law(self) -> dict[str, Any]:
        """What gives a report its meaning; of the values their hash."""
        listed = None if self.values is None else hashlib.sha256(_canonical(list(self.values))).hexdigest()
        return {"name": self.name, "claim": self.claim.document(), "values": listed}

    def document(self) -> dict[str, Any]:
        return {"name": self.name, "claim": self.claim.document(), "values": None if self.values is None else list(self.values)}


@dataclass(frozen=True)
class Question:
    """A table that devices report to: one report of it is a row, with a value for each of its columns."""

    table: str
    per_day: int
    memoised: bool
    plain: tuple[PlainColumn, ...]
    randomised: tuple[RandomisedColumn, ...]
    name: str = field(default="")

    @property
    def epsilon(self) -> int:
        """Of one report, in micro-epsilon, rounded up: its randomised columns add up."""
        return micro(sum(column.claim.epsilon for column in self.randomised), up=True)

    @cached_property
    def claim(self) -> str:
        """The hash of the file's meaning, SHA-256 in hexadecimal."""
        columns = {"plain": [column.name for column in self.plain], "randomised": [column.law() for column in self.randomised]}
        return hashlib.sha256(_canonical({"table": self.table} | columns)).hexdigest()

    def value(self, said: object) -> str:
        """Return a value as JSON: of several randomised columns a mapping gives each. Raises OutsideSpace."""
        if len(self.randomised) == 1 and not isinstance(said, Mapping):
            said = {self.randomised[0].name: said}
        if not isinstance(said, Mapping) or said.keys() != {column.name for column in self.randomised}:
            raise OutsideSpace(f"{self.table} asks for {', '.join(column.name for column in self.randomised)}")
        return json.dumps([_settled(column, said[column.name]) for column in self.randomised])

    def plain_values(self, said: Mapping[str, object]) -> str:
        """Return the plain columns as JSON. Raises OutsideSpace."""
        if said.keys() != {column.name for column in self.plain}:
            raise OutsideSpace(f"{self.table} asks for the plain columns {[column.name for column in self.plain]}")
        values = [_written(said[column.name]) for column in self.plain]
        for column, value in zip(self.plain, values, strict=True):
            if not column.holds(value):
                raise OutsideSpace(f"{value!r} is no value of the plain column {column.name}")
        return json.dumps(values)

    def report(self, value: str) -> str:
        """Randomise a value. Both are JSON."""
        columns = zip(self.randomised, json.loads(value), strict=True)
        return json.dumps([_randomised(column, settled) for column, settled in columns])

    def document(self) -> dict[str, Any]:
        """The file."""
        return {
            "dpproxy": FORMAT,
            "table": self.table,
            "per_day": self.per_day,
            "answers": "memoised" if self.memoised else "fresh",
            "plain": [column.document() for column in self.plain],
            "randomised": [column.document() for column in self.randomised],
            "claim": self.claim,
        }


def question_of(document: object) -> Question:
    """Read a mechanism's file. Raises FileRefused."""
    try:
        question = _read(document)
    except ClaimError as wrong:
        raise FileRefused(f"the mechanism's file: {wrong}") from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise FileRefused("this is no mechanism's file as `dpproxy collect file` writes it") from None
    if isinstance(document, Mapping) and document.get("claim") != question.claim:
        raise FileRefused(f"the mechanism's file of {question.table} was changed: its hash is another")
    return question


def _read(document: Any) -> Question:
    if document["dpproxy"] != FORMAT:
        raise FileRefused(f"the mechanism's file is of version {document['dpproxy']!r}, and this library reads {FORMAT}")
    plain = tuple(PlainColumn(c["name"], _tuple(c.get("values")), c.get("low"), c.get("high")) for c in document["plain"])
    columns = tuple(RandomisedColumn(c["name"], claim_of(c["claim"]), _tuple(c["values"])) for c in document["randomised"])
    for column in columns:
        check(column)
    answers = {"fresh": False, "memoised": True}[document["answers"]]
    name = columns[0].name if len(columns) == 1 else document["table"]
    if not columns or type(document["per_day"]) is not int or document["per_day"] < 1:
        raise FileRefused("a mechanism's file has a randomised column, and at least one report a day")
    return Question(document["table"], document["per_day"], answers, plain, columns, name)


def check(column: RandomisedColumn) -> None:
    """Raises FileRefused where no device can randomise a column."""
    claim = column.claim
    if claim.name in READ_ONLY:
        raise FileRefused(f"{column.name}: {claim.name} is for reports that were made elsewhere, no device makes them")
    wanted = claim.candidates if claim.name not in ("rr", "levels") else None
    known = None if column.values is None else len(column.values)
    if wanted is not None and wanted != known:
        raise FileRefused(f"{column.name}: the claim is about {wanted} values, the list has {known or 0}: a stale list of values")
    if known is not None and len(column.numbers) != known:
        raise FileRefused(f"{column.name}: a value stands twice in the list")


def _settled(column: RandomisedColumn, value: object) -> bool | str:
    """A value as JSON can say it: a number as the text of a fraction. Raises OutsideSpace; the text does not tell the value."""
    number = column.claim.name == "levels"
    if isinstance(value, str | bool | int | float | Decimal):
        with contextlib.suppress(ValueError, OverflowError):
            typed = Fraction(str(value)) if number and not isinstance(value, bool) else value
            if isinstance(typed, str | bool | Fraction) and reportable(column.claim, typed, column.values or ()):
                return str(typed) if number else typed  # type: ignore[return-value]
    raise OutsideSpace(f"the value is none that {column.name} asks for")


def _randomised(column: RandomisedColumn, settled: bool | str) -> bool | int | str:
    value = Fraction(settled) if column.claim.name == "levels" else settled
    return randomised(column.claim, value, column.values or ())


def _tuple(values: Iterable[Any] | None) -> tuple[Any, ...] | None:
    if values is None:
        return None
    if not isinstance(values, Sequence) or isinstance(values, str) or not all(isinstance(v, str | int) for v in values):
        raise TypeError
    return tuple(values)


def _written(value: object) -> Any:
    """A day as text; other values as they are."""
    return value.isoformat() if isinstance(value, dt.date) else value


def _decimal(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _between(value: object, low: str, high: str) -> bool:
    """Whether a number, or a day as text, lies in a range."""
    number = _decimal(value) if isinstance(value, int) else None
    if number is not None:
        ends = _decimal(low), _decimal(high)
        return ends[0] is not None and ends[1] is not None and ends[0] <= number <= ends[1]
    try:
        return isinstance(value, str) and low <= dt.date.fromisoformat(value).isoformat() <= high and len(value) == 10
    except ValueError:
        return False


def _is_text(value: str) -> bool:
    """Whether a database can hold a text."""
    return len(value) <= TEXT and "\x00" not in value and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

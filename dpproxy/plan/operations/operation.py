"""What one row of the catalogue of operations says.

Knows: kinds of values, intervals, templates of SQL. Must not know: which operations there are, how an engine computes an operand,
relations. An operation is a name in a tree (`Call.op`); all else that a room needs to know of it is a field of its row, so that a
new one is a new row. A field is data where the operation alone decides, and a function where its operands do.

A spelling is a template of `str.format` over the operands: `{0}` is the first as it stands, `{0:f}` in the form that an engine
calls `f` (`engines.base.Engine.operand`), `{all:|, }` all of them with commas between, `{whole}` the engine's type of the result.
A template may write an operand several times. Where a template does not suffice, `By` names a method of the engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal, Protocol

from dpproxy.tree.expr import Expr, Lit
from dpproxy.tree.interval import OPEN, Interval


class Nulls(Enum):
    """When an operation is NULL, for operands within what a policy can declare."""

    NEVER = "never"
    OPERAND = "where an operand is"
    DIVISOR = "where an operand is, and where the divisor is 0"
    OTHERS = "where an operand is, and for some values that are not"
    FIRST = "where the first operand is"
    FIRST_OR_OTHERS = "where the first operand is, and for some values that are not"
    LOGIC = "where an operand is and the others do not decide"
    ALL = "where all operands are"

    def decides(self, place: int) -> bool:
        """Tell whether it is NULL whenever the operand at this place is."""
        if self in (Nulls.FIRST, Nulls.FIRST_OR_OTHERS):
            return place == 0
        return self in (Nulls.OPERAND, Nulls.DIVISOR, Nulls.OTHERS)

    @property
    def lenient(self) -> bool:
        """Whether something else than NULL can be made of an operand that is NULL."""
        return self not in (Nulls.OPERAND, Nulls.DIVISOR, Nulls.OTHERS)


@dataclass(frozen=True)
class By:
    """A spelling by the engine's method `spell_<method>`, which is given the call, the names in scope and these parameters."""

    method: str
    parameters: tuple[str, ...] = ()


def by(method: str, *parameters: str) -> By:
    return By(method, parameters)


@dataclass(frozen=True)
class Refused:
    """No spelling, and the reason where one is known."""

    why: str = ""


Spelling = str | By | Refused


class Operand(Protocol):
    """What is known of an operand where its operation is looked at."""

    @property
    def expr(self) -> Expr: ...
    @property
    def bound(self) -> Interval: ...
    @property
    def span(self) -> Interval: ...
    @property
    def grid(self) -> Fraction | None: ...
    @property
    def longest(self) -> int | None:
        """Characters at most, None for a text of any length."""

    @property
    def made_by(self) -> Operation | None:
        """The operation that it is, None for other expressions."""

    @property
    def operands(self) -> Sequence[Operand]:
        """Of the operation that it is."""


Operands = Sequence[Operand]
BoundRule = Callable[[list[Interval]], Interval]
"""From the intervals of the operands: used for what a policy declares and for what types can hold."""
FormRule = Callable[[Operands, Interval, Interval], tuple[Interval, Interval]]
"""Bound and span from the form of the operands, where that tells more than their intervals."""
FoldRule = Callable[[str, Sequence[Lit]], Lit | None]
"""The constant that it is of constants, from its type; None where that is not known. Raises ValueError where there is none."""
Exact = Callable[..., Decimal | bool]
"""Of exact numbers, whose value every engine yields."""
GridRule = Callable[[Operands], Fraction | None]
LengthRule = Callable[[Sequence[int], Sequence[Expr]], int]
"""Characters of a text at most, from those of the operands."""
CountRule = Callable[[Sequence[Expr], Callable[[Expr], Interval]], int | None]
"""How many values it has, NULL aside, from its constants and the seconds between which moments lie."""
Step = Literal["month", "day", "hour"]
StepRule = Callable[[Sequence[Expr]], Step | None]
"""The coarsest step such that moments within one have one result; None for a finer one than an hour."""


class Span(Enum):
    """How an interval is made, which says how large its fields are."""

    DIFFERENCE = "moments subtracted: days and a time of day"
    AGE = "moments subtracted by the calendar"
    MULTIPLE = "a constant so many times"
    PARTS = "a constant times a fraction"


class Test(Enum):
    """What a condition asks of its operands."""

    EQUAL = "whether they are equal"
    ORDER = "which is greater"
    NULL = "whether it is NULL"
    LOGIC = "what conditions say together"


class Like(Enum):
    """Types of results that follow the operand's."""

    OPERAND = "the operand's type"
    FRACTION = "the operand's type, float8 of whole numbers"
    REAL = "numeric of numeric, float8 of others"


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation.

    `takes`: signatures, patterns of the operands' kinds and the result's (`KINDS`). `functions`: what PostgreSQL calls it, where
    a call of a function is this operation and nothing more; `operands` and `result` are then what it is called with, a letter
    of `plan.functions.plain` each, and the type it has.
    """

    name: str
    takes: str
    nulls: Nulls
    duckdb: Spelling
    postgres: Spelling
    spark: Spelling
    functions: tuple[str, ...] = ()
    operands: str = ""
    result: str | Like = ""
    bound: BoundRule | None = None
    form: FormRule | None = None
    grid: GridRule | None = None
    passes_null: bool = False
    """Whether an operand that is NULL is passed over, so that the bounds of the others hold."""
    dense: bool = False
    """Whether whole numbers within its bound are all taken to be values of it."""
    field: bool = False
    """Whether EXTRACT takes it, by its name."""
    count: CountRule | None = None
    step: StepRule | None = None
    moment: int = 0
    """Which operand `step` is about."""
    rises: int | None = None
    """The operand that it never falls with, where the others are constants; None where that is not known."""
    length: LengthRule | None = None
    part: bool = False
    """Whether it is a part of its first operand, no longer in bytes."""
    grows: bool = False
    """Whether longer texts are made of shorter ones, so that columns are cut first."""
    widens: bool = False
    """Whether several bytes may be needed for one, so that very long texts are left out."""
    chooses: bool = False
    """Whether it is one of its operands, or NULL."""
    matches: bool = False
    """Whether its second operand is a pattern for the first."""
    prints: bool = False
    """Whether it writes a text of digits and names, of one byte a character."""
    interval: Span | None = None
    test: Test | None = None
    fold: FoldRule | None = None
    steady: bool = False
    """Whether what it keeps of a time of day is what the analyst asked for, or a truth that seldom changes."""
    exact: Exact | None = None
    cuts: bool = False
    """Whether it cuts a moment, its second operand, to the unit that its first one names."""
    zone: int = 0
    """1 where it yields what a zone's clocks show of a moment in UTC, -1 where it goes back."""
    mirrored: str = ""
    """The comparison with its operands exchanged."""

    @cached_property
    def _signatures(self) -> re.Pattern[str]:
        return re.compile(f"(?:{self.takes})")

    def accepts(self, types: Sequence[str], result: str) -> bool:
        """Tell whether it is an operation of operands of these types, with a result of that one."""
        return _fits(self._signatures, tuple(types), result)

    def accepts_first(self, type_: str) -> bool:
        """Tell whether some signature begins with an operand of this type."""
        return any(re.match(f"{alternative.partition('>')[0]}$", kind(type_)) for alternative in self.takes.split("|"))

    @property
    def result_kind(self) -> str:
        """The kind of all its results; empty where it depends on the operands."""
        results = {signature.rpartition(">")[2] for signature in self.takes.split("|")}
        return results.pop() if len(results) == 1 else ""

    def values(self, operands: Operands) -> tuple[Interval, Interval]:
        """Return the bound and the span of its results."""
        bound, span = OPEN, OPEN
        if self.bound is not None:
            bound, span = self.bound([o.bound for o in operands]), self.bound([o.span for o in operands])
        return self.form(operands, bound, span) if self.form is not None else (bound, span)


KINDS = {
    "int2": "i", "int4": "i", "int8": "i", "numeric": "n", "float4": "f", "float8": "f", "bool": "b", "text": "t", "varchar": "t",
    "bpchar": "t", "name": "t", "unknown": "t", "date": "d", "timestamp": "p", "timestamptz": "p", "time": "c", "interval": "v",
    "uuid": "u", "record": "r",
}  # fmt: skip
"""Kinds of values: i whole number, n numeric, f float, b boolean, t text, d date, p moment, c time of day, v interval, u uuid, r
row."""


def kind(type_: str) -> str:
    return KINDS.get(type_, "x")


@lru_cache(4096)
def _fits(signatures: re.Pattern[str], types: tuple[str, ...], result: str) -> bool:
    return signatures.fullmatch(f"{''.join(map(kind, types))}>{kind(result)}") is not None


def constant(expr: Expr) -> str:
    """Return the text of a constant, empty for anything else."""
    return (expr.text or "") if isinstance(expr, Lit) else ""

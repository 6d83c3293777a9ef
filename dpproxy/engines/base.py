"""What a rendering engine must offer, and what is the same in all of them.

Knows: the planner's expressions and SQL's common core. Must not know: policies, measurements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Final

from dpproxy.engines.norm_scaling import Words
from dpproxy.engines.spelling import Fixed, Operand, filled
from dpproxy.errors import FEATURE_NOT_SUPPORTED, STATEMENT_TOO_COMPLEX, Refusal
from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.operation import By, Operation, Refused, constant
from dpproxy.plan.operations.times import FROM_UTC
from dpproxy.plan.properties import text_growth
from dpproxy.policy.names import quote_name
from dpproxy.sql.effort import step
from dpproxy.sql.template import Dialect, hole
from dpproxy.sql.types import FLOATS, INTEGERS, NUMBERS, TIMES
from dpproxy.tree.expr import (
    Agg,
    Call,
    Case,
    Cast,
    Column,
    Exists,
    Expr,
    Hole,
    InList,
    InQuery,
    Lit,
    Ref,
    Relation,
    Scalar,
    Win,
    children,
)
from dpproxy.tree.measured import Added, Coding, Counted, Listed

LIMIT = 2**62  # basis columns are saturated here (privacy.measurement.Basis)
MAX_PATTERN = 1_000  # characters of a pattern of LIKE that is a value of the row
MAX_TEXT = (
    64_000  # characters of one expression: guards repeat their operand, nested ones multiply; engines plan these for seconds
)

CASTS: Final = "Cast to int, bigint, numeric, float8, text, boolean, date, timestamp or interval."
APART: Final = "Take it apart: part of it in a subquery of its own, or around the aggregate."

Names = Mapping[int, str]  # column id -> SQL text in scope
Subquery = Callable[[Relation, tuple[Expr, ...], Names], str]


def quote(text: str) -> str:
    """Write a string literal (standard_conforming_strings on both engines)."""
    if "\x00" in text:
        raise Refusal(FEATURE_NOT_SUPPORTED, "a string contains a NUL character")
    return "'" + text.replace("'", "''") + "'"


def _moment(column: Expr, other: Expr) -> Expr:
    """A date as the moment it is compared as: an engine's own cast may raise for days that are no moments."""
    both = {column.type, other.type} <= set(TIMES) and column.type == "date" != other.type
    return Cast("timestamp", column) if both else column


def check_number(expr: Expr) -> None:
    """Refuse to make a number of what is none: for some text the cast would raise. That functions of numbers are given numbers is
    checked by PostgreSQL before; but what it takes a name for is not to decide whether a row can raise. Raises Refusal."""
    if expr.type not in (*NUMBERS, "unknown"):
        raise Refusal(FEATURE_NOT_SUPPORTED, f"a function of numbers is given {expr.type}", hint=CASTS)


def named(column: Column, names: Names) -> str:
    """Return the text of a column. Raises Refusal for one of a query around this one, which is asked alone."""
    if column.id not in names:
        raise Refusal(FEATURE_NOT_SUPPORTED, f"column {column.name} cannot be read from within this subquery", hint=APART)
    return names[column.id]


def held_number(text: str, lo: int, hi: int) -> str:
    """Spell a number moved to the nearer end of a range; NULL stays NULL, unlike in LEAST and GREATEST."""
    return f"(CASE WHEN {text} BETWEEN {lo} AND {hi} THEN {text} WHEN {text} < {lo} THEN {lo} WHEN {text} > {hi} THEN {hi} END)"


class Engine(ABC):
    """Spells expressions. `subquery` renders a relation as `SELECT exprs FROM ...`; it is set by `render`."""

    dialect: Dialect
    title: str
    """What people call it."""
    cut: int
    """Characters that columns are cut to where longer texts are made of them (`text_growth.CUTS`)."""
    subquery: Subquery
    words = Words()
    fence = ("", "")
    """What a derived table begins and ends with so that its expressions are computed once, whoever refers to them."""
    keeps = False
    """Whether a query may say what its next one begins with as well (`sql.template.KEPT`)."""
    parts = False
    """Whether units are grouped in parts of the rows, where that is the same (`partial_groups`)."""

    def expr(self, expr: Expr, names: Names) -> str:
        """SQL text of an expression; column ids are looked up in `names`. Raises Refusal for what the engine lacks,
        and for expressions that grow beyond reason."""
        text = self._spelled(expr, names)
        if len(text) > MAX_TEXT:
            raise Refusal(
                STATEMENT_TOO_COMPLEX,
                "this expression is too complex below an aggregate over private rows",
                hint=APART,
            )
        return text

    def _spelled(self, expr: Expr, names: Names) -> str:
        step()
        match expr:
            case Ref(column=column):
                return named(column, names)
            case Lit(text=text):
                return self.literal(expr.type, text)
            case Hole(index=index):
                return hole(index, expr.type)
            case Cast():
                return self.cast(expr, names)
            case Case():
                return self.case(expr, names)
            case InList():
                return self.in_list(expr, names)
            case InQuery(args=args, relation=relation, columns=columns, negated=negated):
                left = ", ".join(self.comparable(a, b, names) for a, b in zip(args, columns, strict=True))
                inner = self.subquery(relation, tuple(map(_moment, columns, args)), names)
                return f"(({left}) {'NOT IN' if negated else 'IN'} ({inner}))"
            case Exists(relation=relation, negated=negated):
                inner = self.subquery(relation, (Lit("int4", "1"),), names)
                return f"({'NOT ' if negated else ''}EXISTS ({inner}))"
            case Scalar(relation=relation, value=value):
                return f"({self.subquery(relation, (value,), names)})"
            case Call():
                return self.call(expr, names)
            case Agg():
                return self.aggregate(expr, names)
            case Win():
                return self.window(expr, names)
        raise Refusal(FEATURE_NOT_SUPPORTED, "this expression is not supported over private tables", hint=APART)

    def case(self, expr: Case, names: Names) -> str:
        body = " ".join(
            f"WHEN {self.expr(test, names)} THEN {self.as_type(result, expr.type, names)}" for test, result in expr.whens
        )
        default = f" ELSE {self.as_type(expr.default, expr.type, names)}" if expr.default is not None else ""
        return f"(CASE {body}{default} END)"

    def in_list(self, expr: InList, names: Names) -> str:
        items = ", ".join(self.comparable(item, expr.arg, names) for item in expr.items)
        left = self.comparable(expr.arg, expr.items[0], names) if expr.items else self.expr(expr.arg, names)
        return f"({left} {'NOT IN' if expr.negated else 'IN'} ({items}))"

    def order(self, order: tuple[tuple[Expr, bool, bool], ...], names: Names) -> str:
        terms = (
            f"{self.expr(e, names)} {'DESC' if desc else 'ASC'} NULLS {'FIRST' if first else 'LAST'}" for e, desc, first in order
        )
        return ", ".join(terms)

    def window(self, expr: Win, names: Names) -> str:
        args = ", ".join(self.window_args(expr, names)) if expr.name != "count" or expr.args else "*"
        return f"{expr.name}({args}){self.over(expr, names)}"

    def window_args(self, expr: Win, names: Names) -> list[str]:
        """A row of LAG and LEAD, and what stands for one that is not there, are of one type: an engine would cast the second."""
        if expr.name not in ("lag", "lead") or len(expr.args) < 3:
            return [self.expr(a, names) for a in expr.args]
        value, place, other = expr.args
        if expr.type in INTEGERS:
            row, none = (f"CAST({self.output(e, names)} AS BIGINT)" for e in (value, other))
        else:
            row, none = (self.as_type(e, expr.type, names) for e in (value, other))
        return [row, self.expr(place, names), none]

    def over(self, expr: Win, names: Names) -> str:
        partition = ", ".join(self.expr(p, names) for p in expr.partition)
        order = f" ORDER BY {self.order(expr.order, names)}" if expr.order else ""
        frame = f" {expr.frame}" if expr.frame else ""
        return f" OVER (PARTITION BY {partition}{order}{frame})"

    @abstractmethod
    def literal(self, type_: str, text: str | None) -> str: ...

    @abstractmethod
    def cast(self, expr: Cast, names: Names) -> str: ...

    def call(self, call: Call, names: Names) -> str:
        """Spell an operation by its row of the catalogue. Raises Refusal where this engine has no spelling of it, and for
        operands of kinds that it does not take."""
        row = operation(call.op)
        spelling = getattr(row, self.dialect)
        if isinstance(spelling, Refused):
            raise self.lacking(call.op, spelling.why)
        if not row.accepts([arg.type for arg in call.args], call.type):
            types = ", ".join(arg.type for arg in call.args)
            raise Refusal(FEATURE_NOT_SUPPORTED, f"`{call.op}` of {types} as {call.type} is not supported", hint=CASTS)
        if isinstance(spelling, By):
            return str(getattr(self, f"spell_{spelling.method}")(call, names, *spelling.parameters))
        operands = [Operand(partial(self.operand, arg, call, names)) for arg in call.args]
        return self.guarded(row, call, operands, filled(spelling, operands, lambda: self.type_of(call)))

    def lacking(self, op: str, why: str) -> Refusal:
        """Return the refusal of an operation without a spelling."""
        return Refusal(FEATURE_NOT_SUPPORTED, f"`{op}` is not supported over private tables on {self.title}", hint=APART)

    def operand(self, arg: Expr, call: Call, names: Names, form: str) -> str:
        """Spell an operand in a form that templates of the catalogue ask for.

        Of all engines: as it stands, `c` to be compared with the other, `g` to be put into a longer text, `n` a constant number,
        `o` as a column, `q` a constant text, `w` as one of the result's type, `y` as a key.
        """
        match form:
            case "":
                return self.expr(arg, names)
            case "c":
                return self.comparable(arg, next((a for a in call.args if a is not arg), arg), names)
            case "g":
                return self.grown(arg, names)
            case "n":
                return str(int(constant(arg)))
            case "o":
                return self.output(arg, names)
            case "q":
                return quote(constant(arg))
            case "w":
                return self.as_type(arg, call.type, names)
            case "y":
                return self.key(arg, names)
        raise ValueError(f"no operand of the form {form}")

    def guarded(self, row: Operation, call: Call, operands: Sequence[Operand], text: str) -> str:
        """Spell a filled template so that no operand is too long for it."""
        return text

    def type_of(self, call: Call) -> str:
        """Return the engine's type of a result."""
        raise NotImplementedError

    def of_texts(self, name: str, *texts: str) -> str:
        """Spell an operation by its template over texts of operands."""
        return filled(str(getattr(operation(name), self.dialect)), [Fixed(text) for text in texts], str)

    def clocks(self, utc: str, zone: str) -> str:
        """Spell what a zone's clocks show at a moment of UTC."""
        return self.of_texts(FROM_UTC, utc, quote(zone))

    def grown(self, expr: Expr, names: Names) -> str:
        """Spell a part of a longer text: columns, and whatever else may be of any length, are cut."""
        if isinstance(expr, Lit):
            return self.as_type(expr, "text", names)
        if text_growth.leaf(expr):
            return f"left({self.as_type(expr, 'text', names)}, {self.cut})"
        if text_growth.grows(expr):
            return self.expr(expr, names)
        return f"coalesce({', '.join(self.grown(part, names) for part in children(expr))})"

    @abstractmethod
    def aggregate(self, expr: Agg, names: Names) -> str:
        """Spell a per-unit aggregate; it never raises on data."""

    def extreme_interval(self, expr: Agg, names: Names) -> str:
        """Spell MIN or MAX of intervals: of equal ones, a month and 30 days, the first by their text, in whatever order rows
        come."""
        text = self.expr(expr.args[0], names)
        where = f"{text} IS NOT NULL" + (f" AND {self.expr(expr.where, names)}" if expr.where is not None else "")
        order = f"{text}{' DESC' if expr.name == 'max' else ''}, CAST({text} AS varchar)"
        return f"(array_agg({text} ORDER BY {order}) FILTER (WHERE {where}))[1]"

    @abstractmethod
    def comparable(self, expr: Expr, other: Expr, names: Names) -> str:
        """Spell `expr` so that it compares with `other` without an implicit cast that could raise."""

    @abstractmethod
    def as_type(self, expr: Expr, type_: str, names: Names) -> str:
        """Spell `expr` in the engine's representation of PostgreSQL type `type_`."""

    def output(self, expr: Expr, names: Names) -> str:
        """Spell `expr` as a column that others refer to by its type alone: within the range its type promises, NULL beyond."""
        return self.expr(expr, names)

    def summand(self, expr: Expr, names: Names) -> str:
        """Spell `expr` as a column that is held within bounds next: a whole number may be any of 64 bits."""
        return self.output(expr, names)

    def key(self, expr: Expr, names: Names) -> str:
        """Spell `expr` as a column to group by: equal values look alike.

        Of -0 and 0, of 1.0 and 1.00, of a month and 30 days, an engine keeps the one it meets first, which may be one
        person's: what is shown of a group would then tell whether that person's rows are there. Intervals are told apart.
        """
        text = self.output(expr, names)
        if expr.type == "interval":
            return f"CAST({text} AS varchar)"
        return self.plain(text, expr.type) if expr.type in ("numeric", *FLOATS) else text

    def plain(self, text: str, type_: str) -> str:
        """Spell a number as the one that stands for all that are equal to it."""
        return f"({text} + 0)"

    def same(self, a: str, b: str, type_: str) -> str:
        """Equality of two columns of PostgreSQL type `type_` under which NULL equals NULL; fit for a hash join."""
        return f"{a} IS NOT DISTINCT FROM {b}"

    @abstractmethod
    def fixed(self, expr: Expr, lo: int, hi: int, grid: Fraction, center: Fraction, names: Names) -> str:
        """Spell (expr - center) / grid, rounded, clamped to [lo, hi], an integer of at most 64 bits; NULL for NULL and NaN."""

    def addend(self, expr: Expr, lo: int, hi: int, grid: Fraction, names: Names) -> tuple[str, int]:
        """Spell a value as `fixed` does about 0, in whatever type sums exactly at least cost, and return the grid units in one
        unit of that sum."""
        return self.fixed(expr, lo, hi, grid, Fraction(0), names), 1

    @abstractmethod
    def pick_hash(self, columns: list[str], key: int) -> str:
        """Spell a pseudo-random order of a unit's groups, by a key of 63 bits (`Context.pick_key`).

        The bound rests on its being a function of the unit's own rows alone, whatever the key; who does not know the key
        cannot choose groups so that somebody's are kept.
        """

    @abstractmethod
    def group_number(self, columns: list[str], key: int) -> str:
        """Spell a 64-bit number of a group, made of its keys, the same in all statements. No bound rests on its telling groups
        apart."""

    def text_number(self, column: str, key: int) -> str:
        """Spell the same of a group with one key, a text."""
        return self.group_number([column], key)

    @abstractmethod
    def wide_sum(self, text: str) -> str:
        """SUM of 64-bit integers that can't overflow, saturated to +-2**62 and 0 when empty, as a 64-bit integer."""

    def total(self, column: str, shift: int, factor: int = 1) -> str:
        """Spell SUM of (column * factor - shift), exact and wide enough never to overflow; NULL when empty."""
        units = f"sum({column})" if factor == 1 else f"sum({column}) * {factor}"
        return units if shift == 0 else f"({units} - CAST(count({column}) AS numeric) * {shift})"

    def unit_total(self, column: str, lo: int, hi: int, shift: int, *, shared: bool = False) -> str:
        """SUM of (column - shift) over one unit's rows, NULL when empty; every column - shift lies within [lo, hi]. `shared`:
        the column is counted or summed for something else as well."""
        return self.total(column, shift)

    def repeated(self, text: str, many: str, total: Counted | Added) -> str:
        """Spell what a unit has in a group whose rows are there `many` times, which may never overflow."""
        raise NotImplementedError

    def share(self, total: str, rows: int, count: str, lo: int, hi: int, shift: int) -> str:
        """Spell the whole part of total * rows / count, where total is a `unit_total` (of the same bounds) of `count` > rows
        values."""
        return self.quotient(f"({total} * {rows})", count)

    def saturated(self, total: str) -> str:
        """Spell a wide integer held within +-2**62, 0 for NULL, as a 64-bit integer."""
        return f"CAST(least(greatest(coalesce({total}, 0), {-LIMIT}), {LIMIT}) AS BIGINT)"

    def clamped(self, number: str, lo: int, hi: int) -> str:
        """Spell a wide integer held within [lo, hi], at least as wide as a bound of 64 bits needs; 0 for NULL (lo <= 0 <= hi)."""
        return f"CAST(least(greatest(coalesce({number}, 0), {lo}), {hi}) AS BIGINT)"

    def quotient(self, text: str, by: str) -> str:
        """Spell the whole part of a wide integer divided by a positive one."""
        return f"div({text}, {by})"

    @abstractmethod
    def series(self, lo: int, hi: int, kind: str) -> str:
        """Spell a FROM item with one column `v` of the whole numbers, hours, days, or first days of months from lo to hi."""

    def coded(self, text: str, values: Coding) -> str | None:
        """Spell a key as a column that costs less to group by than its `text`, so that `declared` tells its `values` from others;
        None where the engine has none."""
        return None

    def declared(self, code: str, values: Coding) -> str:
        """Spell whether a `coded` column has one of the values."""
        return f"{code} IS NOT NULL" if isinstance(values, Listed) else f"{code} BETWEEN 0 AND {values.size - 1}"

    def decoded(self, code: str, values: Coding) -> str:
        """Spell the key again whose `coded` column is one of the values."""
        if isinstance(values, Listed):
            return f"CAST({code} AS varchar)"
        return f"({self.literal('timestamp', f'{values.first} 00:00:00')} + {code} * INTERVAL '{values.months} months')"

    def values(self, rows: list[tuple[str, ...]], alias: str, columns: list[str]) -> str:
        """Spell a FROM item of constant rows."""
        body = ", ".join("(" + ", ".join(row) + ")" for row in rows)
        return f"(VALUES {body}) AS {alias}({', '.join(columns)})"

    def like_of_row(self, word: str, value: str, pattern: str) -> str:
        """LIKE with a pattern of the row: NULL where it ends in its escape character, for which PostgreSQL raises, and where
        it is so long that matching it would take long."""
        escapes = f"length({pattern}) - length(rtrim({pattern}, '\\'))"
        even = f"CASE WHEN length({pattern}) <= {MAX_PATTERN} THEN ({escapes}) % 2 = 0 END"
        return f"(CASE WHEN {even} THEN {value} {word} {pattern} ESCAPE '\\' END)"

    def identifier(self, name: str) -> str:
        """Spell a name of a table or column as it is."""
        return quote_name(name)

    @abstractmethod
    def column(self, column: Column, text: str) -> str:
        """Spell a table's column in the representation expressions expect."""

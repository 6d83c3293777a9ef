"""Spark SQL's spelling of the planner's expressions, total by construction, for Spark 4 and for Sail 0.7.

Knows: what raises or wraps around there (with ANSI on and off), and which functions are proven to be PostgreSQL's. Must not
know: policies. Representation: `spark_types`. An operation that is not proven equal is refused with its reason
(`spark_operations`): a subset is answered as every engine answers it, and nothing else. Sums of all rows are DECIMAL(38, 0)
that cannot overflow.

The order of a unit's groups is a hash that is keyed as on every engine. Yet SQL that Spark runs is kept: in its event log, its
web pages, its metrics' labels, for whoever may read these. So the key is in no statement: it is read from a temporary view of the
proxy's own session (`PICK`), which `backends.spark` makes of bytes that Spark shows to nobody.

What a statement names twice Spark may compute twice, of tables that are written meanwhile. So a unit's groups are counted, picked
and scaled by windows over one reading of them (`Words.still`): a bound does not rest on two readings that agree.
"""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

from dpproxy.engines import spark_times as times
from dpproxy.engines import spark_types as numbers
from dpproxy.engines.base import LIMIT, Names
from dpproxy.engines.doubles import snapped
from dpproxy.engines.norm_scaling import Words
from dpproxy.engines.spark_operations import SparkOperations
from dpproxy.engines.spark_types import (
    SUMMAND,
    TYPES,
    WIDE,
    double,
    one_kind,
    quote,
    refused,
    representation,
    whole,
    written,
)
from dpproxy.plan.properties.facts import beyond_type, facts
from dpproxy.policy.names import quote_name
from dpproxy.sql.template import Dialect
from dpproxy.sql.types import FLOATS, INTEGERS, TEXTS, TIMES
from dpproxy.tree.expr import Agg, Cast, Column, Expr, InQuery, Lit, Ref, Scalar, Win, walk

PICK = ("dpproxy_pick", "salt")
"""The view, and its one column, whose one row holds the key of a unit's order of groups."""
_KEYED = f"(SELECT {PICK[1]} FROM {PICK[0]})"
_NARROW = {"int2": "SMALLINT", "int4": "INT", "int8": "BIGINT"}
_FITTING = {"int2": 2**15 - 1, "int4": 2**31 - 1, "int8": 2**63 - 1}
_COUNTED = ("ntile", "nth_value", "lag", "lead")


class Spark(SparkOperations):
    dialect: Dialect = "spark"
    title = "Spark"
    words = Words("DOUBLE", cut="CAST({} AS BIGINT)", floor="({})", added=f"sum(CAST({{}} AS {SUMMAND}))", still=False)

    # --- constants and columns

    def _spelled(self, expr: Expr, names: Names) -> str:
        if isinstance(expr, Lit) and expr.type in TIMES and expr.text is not None and not _in_calendar(expr.type, expr.text):
            raise refused(f"the {expr.type} '{expr.text}'", "its calendar is of the years 1 to 9999")
        if isinstance(expr, InQuery) and expr.negated:
            raise refused("NOT IN (SELECT ...)", "Sail takes NULLs for values there", "Write NOT EXISTS (SELECT 1 ...).")
        if isinstance(expr, Scalar):
            raise refused("a subquery that yields a value", "Sail cannot run it", "Join a subquery that is grouped by the key.")
        return super()._spelled(expr, names)

    def literal(self, type_: str, text: str | None) -> str:
        if type_ not in TYPES:
            raise refused(f"a constant of type {type_}")
        native = TYPES[type_]
        if text is None or (type_ in TIMES and not _in_calendar(type_, text)):
            return f"CAST(NULL AS {native})" if type_ != "unknown" else "NULL"
        if type_ in INTEGERS:
            return f"{text}L" if abs(value := int(text)) < 2**63 else whole(value)
        if native == "DOUBLE":
            return f"CAST({quote(text)} AS DOUBLE)"
        if type_ == "bool":
            return "TRUE" if text in ("true", "t") else "FALSE"
        return f"CAST({quote(text)} AS {native})" if type_ in TIMES else quote(text)

    def identifier(self, name: str) -> str:
        return quote_name(name, "`")

    def column(self, column: Column, text: str) -> str:
        if column.type in FLOATS:
            return numbers.one_nan(f"CAST({text} AS DOUBLE)")
        if column.type in TEXTS:
            return f"try_validate_utf8({text})"  # bytes that are no text make whoever reads a result fail
        if column.type != "timestamptz":
            return text
        utc = f"CAST({text} AS TIMESTAMP_NTZ)"
        return times.clocks_of(quote(column.zone), utc) if column.zone else utc

    def output(self, expr: Expr, names: Names) -> str:
        if beyond_type(expr):
            return _narrowed(self.summand(expr, names), _NARROW[expr.type], "BIGINT")
        return self.summand(expr, names)

    def summand(self, expr: Expr, names: Names) -> str:
        if any(isinstance(e, InQuery) for e in walk(expr)):
            raise refused("IN (SELECT ...) as a value", "Sail cannot run it", "Join the subquery, or put it into WHERE.")
        text = self.expr(expr, names)
        summed = isinstance(expr, Agg | Win) and expr.name == "sum"  # of BIGINT it is a DECIMAL
        wide = expr.type in INTEGERS and (summed or representation(expr) != "BIGINT")
        return _narrowed(text, "BIGINT", WIDE if summed else representation(expr)) if wide and not isinstance(expr, Ref) else text

    def key(self, expr: Expr, names: Names) -> str:
        if expr.type == "interval":
            raise refused("an interval as a key")
        if one_kind((expr,)):
            return self.output(expr, names)  # equal DECIMALs look alike, and adding 0 to a wide one would cut digits off
        return super().key(expr, names)

    # --- types

    def as_type(self, expr: Expr, type_: str, names: Names) -> str:
        if isinstance(expr, Lit) and expr.text is None:
            return self.literal(type_, None)
        if type_ in INTEGERS:
            return self.number(expr, names, representation(expr))
        if type_ in ("numeric", *FLOATS):
            return self.number(expr, names, "DOUBLE")
        if type_ in ("timestamp", "timestamptz"):
            return times.moment(self.expr(expr, names), expr.type)
        if type_ in TEXTS and expr.type not in (*TEXTS, "unknown"):
            return self.cast(Cast(type_, expr), names)
        return self.expr(expr, names)

    def cast(self, expr: Cast, names: Names) -> str:
        source, target, text = expr.arg.type, expr.type, self.expr(expr.arg, names)
        if target in INTEGERS:
            return self._cast_int(expr, text)
        if target in ("numeric", "float8"):
            return self._cast_number(expr, names)
        if target in TEXTS:
            value = self._cast_text(expr.arg, text)
            return f"left({value}, {expr.length[0]})" if expr.length and target != "text" else value
        if target == "bool" and source in INTEGERS:
            return f"({text} <> 0)"
        if target == "date" and source in TIMES:
            return times.day(text, source)
        if target in ("timestamp", "timestamptz") and source in TIMES:
            return times.moment(text, source)
        if target == source and target in TYPES:
            return text
        raise refused(f"a cast of {source} to {target}", _why(source))

    def _cast_int(self, expr: Cast, text: str) -> str:
        source, narrow = expr.arg.type, _NARROW[expr.type]
        if source == "bool":
            return f"CAST({text} AS BIGINT)"
        if source in INTEGERS:
            fits = facts(expr.arg).span.within(_FITTING[expr.type])
            return text if fits else _narrowed(text, narrow, representation(expr.arg))
        if source == "numeric":
            return _narrowed(f"round(CAST({text} AS DOUBLE), 0)", narrow, "DOUBLE")
        if source in FLOATS:
            return _narrowed(numbers.nearest(f"CAST({text} AS DOUBLE)"), narrow, "BIGINT")
        raise refused(f"a cast of {source} to {expr.type}", _why(source))

    def _cast_number(self, expr: Cast, names: Names) -> str:
        if expr.arg.type not in (*INTEGERS, "numeric", *FLOATS):
            raise refused(f"a cast of {expr.arg.type} to {expr.type}", _why(expr.arg.type))
        value = self.number(expr.arg, names, "DOUBLE")
        if expr.type == "numeric" and expr.arg.type in FLOATS:
            value = snapped(value)
        return f"round({value}, {expr.length[1] if len(expr.length) > 1 else 0})" if expr.length else value

    def _cast_text(self, arg: Expr, text: str) -> str:
        if arg.type in (*TEXTS, "unknown"):
            return text
        if arg.type in INTEGERS or arg.type == "bool":
            double_ = representation(arg) == "DOUBLE"  # whose text has a `.0`
            return written(numbers.cut_off(text) if double_ else text)
        if arg.type in ("date", "timestamp"):
            return times.guarded(text, arg.type, written(text))
        if arg.type in ("numeric", *FLOATS) and facts(arg).grid == 1:
            return written(_narrowed(text, "BIGINT", WIDE if one_kind((arg,)) else "DOUBLE"))
        raise refused(f"a cast of {arg.type} to text", hint="Group by the value itself and format it in the outer query.")

    # --- one unit's aggregates and windows

    def aggregate(self, expr: Agg, names: Names) -> str:
        where = f" FILTER (WHERE {self.expr(expr.where, names)})" if expr.where is not None else ""
        return self._aggregated(expr, "DISTINCT " if expr.distinct else "", where, names)

    def window(self, expr: Win, names: Names) -> str:
        if "INTERVAL" in expr.frame.upper() or "EXCLUDE" in expr.frame.upper():
            raise refused("a window whose frame is an interval, or leaves rows out")
        if any(not isinstance(term, Ref | Lit) and term.type in ("numeric", *FLOATS) for term, *_ in expr.order):
            raise refused("a window ordered by a computed number", "Sail cannot plan it", "Compute it in a subquery first.")
        if expr.name in _COUNTED and any(not isinstance(a, Lit) for a in _counts(expr)):
            raise refused(f"`{expr.name}` by a number that is not constant")
        if expr.name in _COUNTED:
            args = self.window_args(expr, names)
            at = 0 if expr.name == "ntile" else 1
            if len(args) > at:
                args[at] = self._place(expr)
            return f"{expr.name}({', '.join(args)}){self.over(expr, names)}"
        if expr.name in ("row_number", "rank", "dense_rank", "first_value", "last_value"):
            return super().window(expr, names)
        return self._aggregated(expr, "", self.over(expr, names), names)

    @staticmethod
    def _place(expr: Win) -> str:
        (number,) = _counts(expr)
        assert isinstance(number, Lit)
        least = 1 if expr.name in ("ntile", "nth_value") else -(2**31) + 1
        return str(max(least, min(int(number.text or 0), 2**31 - 1)))

    def _aggregated(self, expr: Agg | Win, distinct: str, tail: str, names: Names) -> str:
        if expr.name == "count":
            return f"count({distinct}{', '.join(self.expr(a, names) for a in expr.args) or '*'}){tail}"
        value = expr.args[0] if len(expr.args) == 1 else None
        if expr.name in ("min", "max") and value is not None and value.type in ("numeric", *FLOATS) and not one_kind((value,)):
            return numbers.extreme(expr.name, self.number(value, names, "DOUBLE"), tail)
        if expr.name in ("min", "max") and value is not None and value.type in TYPES:
            return f"{expr.name}({self.expr(value, names)}){tail}"
        if expr.name in ("bool_and", "bool_or", "every") and value is not None:
            return f"{'bool_and' if expr.name == 'every' else expr.name}({self.expr(value, names)}){tail}"
        if expr.name in ("sum", "avg") and value is not None:
            if value.type in INTEGERS and representation(value) == "BIGINT":
                return numbers.whole_total(expr.name, self.expr(value, names), distinct, tail)
            return numbers.total(expr.name, value, self.number(value, names, "DOUBLE"), distinct, tail)
        raise refused(f"`{expr.name}` of one unit's rows", "its last digits depend on the order of rows there")

    # --- the measurement's own needs

    def fixed(self, expr: Expr, lo: int, hi: int, grid: Fraction, center: Fraction, names: Names) -> str:
        """A DOUBLE within the float bounds is rounded to within the whole ones: each side errs by less than 2**32 * 2**-50."""
        shift = center / grid
        low, high = lo + int(shift), hi + int(shift)
        if shift.denominator != 1 or max(abs(low), abs(high)) > 2**50:
            raise ValueError("a centre off the grid, or more steps than a double counts")
        if expr.type in INTEGERS and grid == 1 and (kind := representation(expr)) != "DOUBLE":
            text = self.number(expr, names, kind)
            within, first, last, finite = f"try_cast({text} AS BIGINT)", whole(low), whole(high), ""
        else:
            text = self.number(expr, names, "DOUBLE")
            within = numbers.nearest(text if grid == 1 else _scaled(text, grid))
            first, last = (double(float(x * grid)) for x in (low, high))
            finite = f" AND {text} <= {double(float('inf'))}"  # NaN sorts above everything: it is nobody's value
        value = f"CASE WHEN {text} BETWEEN {first} AND {last} THEN {within} WHEN {text} < {first} THEN {low}L"
        value += f" WHEN {text} > {last}{finite} THEN {high}L END"
        return value if shift == 0 else f"(CAST({value} AS BIGINT) - {int(shift)}L)"

    def pick_hash(self, columns: list[str], key: int) -> str:
        """The key is not written (see above): `key` only says that there is one."""
        return f"xxhash64({', '.join([_KEYED, *columns])})"

    def group_number(self, columns: list[str], key: int) -> str:
        return self.pick_hash(columns, key)

    def wide_sum(self, text: str) -> str:
        return self.saturated(self.words.added.format(text))

    def saturated(self, total: str) -> str:
        return f"CAST({_held(f'coalesce({total}, CAST(0 AS {WIDE}))', -LIMIT, LIMIT)} AS BIGINT)"

    def total(self, column: str, shift: int, factor: int = 1) -> str:
        distinct, _, value = column.rpartition(" ")
        added = f"sum({distinct} CAST({value} AS {SUMMAND}))" if distinct else self.words.added.format(column)
        if factor != 1:
            raise ValueError("sums are of grid units here")
        return added if shift == 0 else f"({added} - CAST(count({column}) AS {WIDE}) * {shift}L)"

    def clamped(self, number: str, lo: int, hi: int) -> str:
        within = f"WHEN {number} BETWEEN {lo} AND {hi} THEN try_cast({number} AS BIGINT)"
        return f"CASE {within} WHEN {number} < {lo} THEN {lo}L WHEN {number} > {hi} THEN {hi}L ELSE 0L END"

    def share(self, total: str, rows: int, count: str, lo: int, hi: int, shift: int) -> str:
        """total = q * count + r with |q| below 2**63: no product has more than 38 digits, and quotients fit `div`'s BIGINT."""
        counted = f"CAST({count} AS {WIDE})"
        parts = f"CAST({total} div {counted} AS {WIDE}) * {rows}L", f"({total} % {counted}) * {rows}L div {counted}"
        return f"({parts[0]} + CAST({parts[1]} AS {WIDE}))"

    def series(self, lo: int, hi: int, kind: str) -> str:
        numbered = f"range({lo}, {hi + 1}) AS s"
        if hi == 2**63 - 1:  # what follows it is no BIGINT
            numbered = f"(SELECT id FROM range({lo}, {hi}) UNION ALL SELECT {hi}L) AS s"
        if kind == "int":
            return f"(SELECT id AS v FROM {numbered})"
        if kind == "day":
            return f"(SELECT date_add(DATE'1970-01-01', CAST(id AS INT)) AS v FROM {numbered})"
        if kind == "month":
            return f"(SELECT add_months(DATE'1970-01-01', CAST(id AS INT)) AS v FROM {numbered})"
        return f"(SELECT {times.of_micros('id * 3600000000L')} AS v FROM {numbered})"


def _held(text: str, lo: int, hi: int) -> str:
    first, last = (f"CAST('{x}' AS {WIDE})" for x in (lo, hi))
    return f"least(greatest({text}, {first}), {last})"


def _narrowed(text: str, narrow: str, kind: str) -> str:
    """Spell a whole number of type `kind` as BIGINT, NULL where `narrow` does not hold it."""
    if narrow == "BIGINT":
        return numbers.cut_off(text) if kind == "DOUBLE" else f"try_cast({text} AS BIGINT)"
    return f"CAST(try_cast({text} AS {narrow}) AS BIGINT)"


def _counts(expr: Win) -> tuple[Expr, ...]:
    """The argument of a window function that says how many, where it has one."""
    return expr.args[:1] if expr.name == "ntile" else expr.args[1:2]


def _scaled(text: str, grid: Fraction) -> str:
    inverse = 1 / grid
    sign, factor = ("*", inverse) if inverse.denominator == 1 else ("/", grid)
    return f"({text} {sign} {double(float(factor))})"


def _in_calendar(type_: str, text: str) -> bool:
    """Whether a date or moment is ISO text of a year that Spark has."""
    try:
        (dt.date if type_ == "date" else dt.datetime).fromisoformat(text)
    except ValueError:
        return False
    return True


def _why(source: str) -> str:
    return "it reads texts otherwise" if source in (*TEXTS, "unknown") else ""

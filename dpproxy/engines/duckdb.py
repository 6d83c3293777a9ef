"""DuckDB's spelling of the planner's expressions, total by construction.

Knows: DuckDB 2's types and what can raise there (integer overflow, division by zero, casts, date arithmetic; floats
never raise). Must not know: policies. Representation: integers are BIGINT or, where their span may pass it,
HUGEINT or DOUBLE; NUMERIC computes as DOUBLE (columns keep their DECIMAL until computed with); TIMESTAMPTZ is the
session's local TIMESTAMP. The rule: an operation whose operands could make DuckDB raise is widened or guarded,
here or in `duckdb_operations`, which spells operators and functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpproxy.engines import doubles
from dpproxy.engines.base import CASTS, Names, named, quote
from dpproxy.engines.doubles import snapped
from dpproxy.engines.duckdb_operations import (
    INT64,
    NARROW_TYPES,
    TYPES,
    DuckDBOperations,
    adds_in_64_bits,
    one_kind,
    representation,
)
from dpproxy.engines.norm_scaling import TURNS, Words
from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.properties.facts import LARGEST, beyond_type, facts
from dpproxy.sql.template import Dialect
from dpproxy.sql.types import FLOATS, INTEGERS, TEXTS, decimal
from dpproxy.tree.expr import Agg, Call, Case, Cast, Column, Expr, InList, Lit, Ref, Win
from dpproxy.tree.measured import PER_YEAR, Coding, Listed, place

INT32 = 2**31 - 1
MOST_LISTED = 1_000
"""Texts that a type is made of in each statement that lists them."""
DECIMALS = 9  # places of a DECIMAL summed as it is: 2**32 grid units of each of 2**63 rows, times 10**9, fit 38 digits


def _dashed(text: str) -> str:
    """A day of eight digits, which PostgreSQL reads as one, with the dashes that DuckDB wants."""
    return f"regexp_replace({text}, '^([0-9]{{4}})([0-9]{{2}})([0-9]{{2}})$', '\\1-\\2-\\3')"


class DuckDB(DuckDBOperations):
    dialect: Dialect = "duckdb"
    title = "DuckDB"
    keeps = True
    words = Words(steps=3, small="sum_no_overflow({})", turn=f"CAST(({{}} >> 1) & {2**63 - TURNS} AS BIGINT) + {{}}")

    def literal(self, type_: str, text: str | None) -> str:
        if text is None:
            return f"CAST(NULL AS {TYPES.get(type_, 'VARCHAR')})" if type_ != "unknown" else "NULL"
        if type_ in INTEGERS:
            value = int(text)
            return str(value) if abs(value) <= INT64 else f"CAST({value} AS HUGEINT)"
        if type_ in ("numeric", *FLOATS):
            return f"CAST({quote(text)} AS DOUBLE)"
        if type_ == "bool":
            return "TRUE" if text in ("true", "t") else "FALSE"
        if type_ == "interval":
            months, days, micros = text.split()
            return f"(INTERVAL ({months}) MONTH + INTERVAL ({days}) DAY + INTERVAL ({micros}) MICROSECOND)"
        if type_ in TEXTS or type_ == "unknown":
            return quote(text)
        if type_ in TYPES:
            return f"TRY_CAST({quote(text)} AS {TYPES[type_]})"
        raise Refusal(FEATURE_NOT_SUPPORTED, f"constants of type {type_} are not supported over private tables", hint=CASTS)

    def output(self, expr: Expr, names: Names) -> str:
        if beyond_type(expr):
            return f"TRY_CAST({self.expr(expr, names)} AS {NARROW_TYPES[expr.type]})"
        return self.summand(expr, names)

    def summand(self, expr: Expr, names: Names) -> str:
        text = self.expr(expr, names)
        summed = isinstance(expr, Agg | Win) and expr.name == "sum"  # SUM of BIGINT is a HUGEINT
        wide = expr.type in INTEGERS and (summed or representation(expr) != "BIGINT")
        return f"TRY_CAST({text} AS BIGINT)" if wide and not isinstance(expr, Ref) else text

    def as_type(self, expr: Expr, type_: str, names: Names) -> str:
        if isinstance(expr, Lit) and expr.text is None:
            return self.literal(type_, None)
        if type_ in INTEGERS:
            return self.expr(expr, names)
        if type_ in ("numeric", *FLOATS):
            return self.number(expr, names, "DOUBLE")
        if type_ in ("timestamp", "timestamptz"):
            return f"TRY_CAST({self.expr(expr, names)} AS TIMESTAMP)"
        if type_ in TEXTS and expr.type not in (*TEXTS, "unknown"):
            return self.cast(Cast(type_, expr), names)
        return self.expr(expr, names)

    def cast(self, expr: Cast, names: Names) -> str:
        source, target = expr.arg.type, expr.type
        text = self.expr(expr.arg, names)
        if target in INTEGERS:
            return self._cast_int(expr, text)
        if target in ("numeric", *FLOATS):
            value = f"TRY_CAST({text} AS DOUBLE)"
            if target == "float4":
                return f"CAST(TRY_CAST({value} AS FLOAT) AS DOUBLE)"
            if target == "numeric" and source in FLOATS:
                value = snapped(value)
            return f"round({value}, {expr.length[1] if len(expr.length) > 1 else 0})" if expr.length else value
        if target in TEXTS:
            value = self._cast_text(expr.arg, text)
            return f"left({value}, {expr.length[0]})" if expr.length and target != "text" else value
        if target == "bool" and source in INTEGERS:
            return f"({text} <> 0)"
        if target in TYPES:
            text = _dashed(text) if source in TEXTS and target in ("date", "timestamp", "timestamptz") else text
            return text if source == target else f"TRY_CAST({text} AS {TYPES[target]})"
        raise Refusal(FEATURE_NOT_SUPPORTED, f"casts to {target} are not supported over private tables", hint=CASTS)

    def _cast_int(self, expr: Cast, text: str) -> str:
        source = expr.arg.type
        if source == "bool":
            return f"CAST({text} AS BIGINT)"
        narrow = NARROW_TYPES.get(expr.type, "BIGINT")
        if source in INTEGERS:
            return text if facts(expr.arg).span.within(LARGEST[expr.type]) else f"CAST(TRY_CAST({text} AS {narrow}) AS BIGINT)"
        if source == "numeric":
            text = f"round({text})"
        return f"CAST(TRY_CAST({text} AS {narrow}) AS BIGINT)" if narrow != "BIGINT" else f"TRY_CAST({text} AS BIGINT)"

    def _cast_text(self, arg: Expr, text: str) -> str:
        if arg.type in INTEGERS and representation(arg) == "DOUBLE":  # whose text has a `.0`
            return f"CAST(TRY_CAST({text} AS BIGINT) AS VARCHAR)"
        if arg.type in (*TEXTS, "unknown", "uuid", *INTEGERS, "date", "timestamp", "bool"):
            return f"CAST({text} AS VARCHAR)"
        if arg.type in ("numeric", *FLOATS) and facts(arg).grid == 1:
            return f"CAST(TRY_CAST({text} AS BIGINT) AS VARCHAR)"
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            f"casting {arg.type} to text is not supported below an aggregate",
            hint="Group by the value itself and format it in the outer query.",
        )

    def case(self, expr: Case, names: Names) -> str:
        """A text that is one of a list, NULL for others: looked up once for each entry of a dictionary, not row by row."""
        match expr:
            case Case(whens=((InList(arg=Ref() as text, items=items, negated=False), same),), default=None) if text == same:
                values = [item.text for item in items if isinstance(item, Lit) and item.text is not None]
                if text.type in ("text", "varchar") and 0 < len(values) == len(items) <= MOST_LISTED:
                    return f"CAST({self.listed(named(text.column, names), list(dict.fromkeys(values)))} AS VARCHAR)"
        return super().case(expr, names)

    def aggregate(self, expr: Agg, names: Names) -> str:
        if expr.name in ("min", "max") and expr.args[0].type == "interval":
            return self.extreme_interval(expr, names)
        distinct = "DISTINCT " if expr.distinct else ""
        where = f" FILTER (WHERE {self.expr(expr.where, names)})" if expr.where is not None else ""
        exact = self._added_up(expr, distinct, where, names)
        if exact is not None:
            return exact
        args = [self.expr(a, names) for a in expr.args]
        order = f" ORDER BY {self.order(expr.order, names)}" if expr.order else ""
        if expr.name.startswith(("stddev", "var")):  # of equal rows in another order they differ in the last digits
            args = [self.number(expr.args[0], names, "DOUBLE")]
            order = f" ORDER BY {args[0]}"
        inner = distinct + (", ".join(args) if args else "*")
        text = f"{expr.name}({inner}{order}){where}"
        as_it_is = expr.name in ("min", "max") and one_kind(expr.args)
        return f"CAST({text} AS DOUBLE)" if expr.type in ("numeric", *FLOATS) and not as_it_is else text

    def window(self, expr: Win, names: Names) -> str:
        """DuckDB raises for ntile(0), and for an nth value before the first; a number of tiles may be a column."""
        if expr.name in ("ntile", "nth_value"):
            *first, number = expr.args
            number = Call("int8", "greatest", (Call("int8", "least", (number, Lit("int4", str(INT32)))), Lit("int4", "1")))
            expr = replace(expr, args=(*first, number))
        return self._added_up(expr, "", self.over(expr, names), names) or super().window(expr, names)

    def _added_up(self, expr: Agg | Win, distinct: str, tail: str, names: Names) -> str | None:
        """A sum or mean of what is not BIGINT (whose sums are of 128 bits); None for other aggregates."""
        if expr.name not in ("sum", "avg") or (expr.args[0].type in INTEGERS and representation(expr.args[0]) == "BIGINT"):
            return None
        (value,) = expr.args
        return doubles.total(expr.name, value, self.number(value, names, "DOUBLE"), distinct, tail)

    def fixed(self, expr: Expr, lo: int, hi: int, grid: Fraction, center: Fraction, names: Names) -> str:
        """The test of the usual case comes first: least and greatest cost several times as much.

        A DOUBLE within the float bounds is rounded to within the whole ones: each side errs by less than 2**32 * 2**-50.
        """
        shift = center / grid
        low, high = lo + int(shift), hi + int(shift)
        if shift.denominator != 1 or max(abs(low), abs(high)) > 2**32:
            raise ValueError("a centre off the grid, or more steps than are known to round well")
        if expr.type in INTEGERS and grid == 1 and representation(expr) != "DOUBLE":
            text = self.expr(expr, names)
            value = f"CASE WHEN {text} BETWEEN {low} AND {high} THEN {text} "
            value += f"WHEN {text} < {low} THEN {low} WHEN {text} > {high} THEN {high} END"
        else:
            text = self.number(expr, names, "DOUBLE")
            first, last = (f"CAST('{float(x * grid)!r}' AS DOUBLE)" for x in (low, high))
            scaled = text if grid == 1 else _scaled(text, grid)
            type_ = "INTEGER" if max(abs(low), abs(high)) <= INT32 else "BIGINT"
            # NaN sorts above everything in DuckDB: keep it out by hand, as it is nobody's value
            value = f"CASE WHEN {text} BETWEEN {first} AND {last} THEN CAST({scaled} AS {type_}) WHEN isnan({text}) THEN NULL "
            value += f"WHEN {text} < {first} THEN {low} WHEN {text} > {last} THEN {high} END"
        return value if shift == 0 else f"(CAST({value} AS BIGINT) - {int(shift)})"

    def addend(self, expr: Expr, lo: int, hi: int, grid: Fraction, names: Names) -> tuple[str, int]:
        """DECIMALs are summed as such: as DOUBLE they cost twice as much. What does not fit DECIMAL(18) is out of bounds."""
        places = len(str(grid.denominator)) - 1
        if expr.type != "numeric" or grid != Fraction(1, 10**places) or places > DECIMALS:
            return super().addend(expr, lo, hi, grid, names)
        text = self.expr(expr, names)
        narrow, wide, type_ = f"TRY_CAST({text} AS DECIMAL(18, {places}))", f"CAST({text} AS DOUBLE)", f"DECIMAL(18, {places})"
        first, last = (f"CAST('{decimal(x * grid)}' AS {type_})" for x in (lo, hi))
        value = f"CASE WHEN {narrow} BETWEEN {first} AND {last} THEN {narrow} WHEN {text} IS NULL OR isnan({wide}) THEN NULL "
        return f"{value}WHEN {wide} < {float((lo + hi) * grid / 2)!r} THEN {first} ELSE {last} END", 10**places

    def pick_hash(self, columns: list[str], key: int) -> str:
        return f"hash({', '.join([str(key), *columns])})"

    def coded(self, text: str, values: Coding) -> str:
        """A small whole number, whose range DuckDB knows, so that few of them index a table instead of being hashed: an ENUM, or
        years and months, whose range follows from that of the stored times."""
        if isinstance(values, Listed):
            return self.listed(text, values.values)
        per, first = PER_YEAR[values.unit], place(values.unit, values.first)
        if per == 1:
            return f"CAST(year({text}) - {first} AS INTEGER)"
        return f"CAST(year({text}) * {per} + {values.unit}({text}) - {first + 1} AS INTEGER)"

    def listed(self, text: str, values: Sequence[str]) -> str:
        """An ENUM; NULL of other texts."""
        return f"TRY_CAST({text} AS ENUM({', '.join(map(quote, values))}))"

    def group_number(self, columns: list[str], key: int) -> str:
        return f"CAST({self.pick_hash(columns, key)} >> 1 AS BIGINT)"

    def wide_sum(self, text: str) -> str:
        # NULL out first: least and greatest skip NULLs, so that an empty sum would come out as -LIMIT
        return self.saturated(f"sum({text})")

    def unit_total(self, column: str, lo: int, hi: int, shift: int, *, shared: bool = False) -> str:
        """Up to 2**31 rows of a unit fit 64 bits: half the memory of DuckDB's own sum, of 128. Of more the sum is another whole
        number, of that unit's rows alone still, and held within its bound as any. A centre is subtracted from each value, but
        where these are counted or added up as they are anyway: a count of its own costs more."""
        if not adds_in_64_bits(lo, hi, shift):
            return super().unit_total(column, lo, hi, shift)
        if shared and shift:
            return f"(sum_no_overflow(CAST({column} AS BIGINT)) - CAST(count({column}) AS HUGEINT) * {shift})"
        return f"sum_no_overflow(CAST({column} AS BIGINT){f' - {shift}' if shift else ''})"

    def share(self, total: str, rows: int, count: str, lo: int, hi: int, shift: int) -> str:
        return super().share(f"CAST({total} AS HUGEINT)", rows, count, lo, hi, shift)

    def total(self, column: str, shift: int, factor: int = 1) -> str:
        units = f"sum({column})" if factor == 1 else f"CAST(sum({column}) * {factor} AS HUGEINT)"
        return units if shift == 0 else f"({units} - CAST(count({column}) AS HUGEINT) * {shift})"

    def clamped(self, number: str, lo: int, hi: int) -> str:
        type_ = "INTEGER" if max(-lo, hi) <= INT32 else "BIGINT"
        within = f"WHEN {number} BETWEEN {lo} AND {hi} THEN {number}"
        return f"CAST(CASE {within} WHEN {number} < {lo} THEN {lo} WHEN {number} > {hi} THEN {hi} ELSE 0 END AS {type_})"

    def quotient(self, text: str, by: str) -> str:
        return f"({text} // {by})"

    def series(self, lo: int, hi: int, kind: str) -> str:
        numbers = f"range({lo}, {hi + 1}) AS s(n)"
        if hi == INT64:  # what follows it is no BIGINT
            numbers = f"generate_series(CAST({lo} AS BIGINT), CAST({hi} AS BIGINT)) AS s(n)"
        if kind == "int":
            return f"(SELECT n AS v FROM {numbers})"
        if kind == "day":
            return f"(SELECT DATE '1970-01-01' + CAST(n AS INTEGER) AS v FROM {numbers})"
        if kind == "month":
            return f"(SELECT CAST(DATE '1970-01-01' + to_months(CAST(n AS INTEGER)) AS DATE) AS v FROM {numbers})"
        return f"(SELECT TIMESTAMP '1970-01-01' + to_hours(n) AS v FROM {numbers})"

    def column(self, column: Column, text: str) -> str:
        if column.zone:
            return self.clocks(f"timezone('UTC', {text})", column.zone)
        # of moments of other precisions: to compare one with a usual one DuckDB makes that one of the finer, and may raise
        return f"TRY_CAST({text} AS TIMESTAMP)" if column.exact.startswith("TIMESTAMP_") else text


def _scaled(text: str, grid: Fraction) -> str:
    inverse = 1 / grid
    sign, factor = ("*", inverse) if inverse.denominator == 1 else ("/", grid)
    return f"{text} {sign} CAST('{float(factor)!r}' AS DOUBLE)"

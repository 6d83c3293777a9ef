"""PostgreSQL's spelling of the planner's expressions, total by construction (versions 14 to 18).

Knows: what can raise there (integer and float overflow, division by zero, domains of functions, casts, the ends of the
calendar) and what keeps plans parallel and hashed. Must not know: policies. Representation: whole numbers are bigint or,
where their span may pass it, numeric; NUMERIC is numeric; floats are float8; every text is `text`; TIMESTAMPTZ is
the UTC timestamp. Guards are CASE expressions over columns, never AND: PostgreSQL promises an order of evaluation for CASE
alone. Constants are typed literals, since an untyped one in a branch that is never taken would be read all the same.
Operators and functions are spelled by `postgres_operations`. Nothing is beyond SQL functions that PostgreSQL marks immutable
and parallel safe (docs/how-to/postgresql.md lists them).
"""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

from dpproxy.engines import postgres_casts as casts
from dpproxy.engines import postgres_casts as times
from dpproxy.engines import postgres_numbers
from dpproxy.engines.base import CASTS, Names, quote
from dpproxy.engines.norm_scaling import EXACT, Words
from dpproxy.engines.postgres_numbers import number_kind, number_literal
from dpproxy.engines.postgres_operations import PostgresOperations
from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.properties.facts import beyond_type, facts
from dpproxy.sql.template import Dialect
from dpproxy.sql.types import FLOATS, INTEGERS, NUMBERS, TEXTS, decimal
from dpproxy.tree.expr import Agg, Case, Cast, Column, Expr, Lit, Win
from dpproxy.tree.measured import Added, Counted

LIMIT = 2**62  # basis columns are saturated here (privacy.measurement.Basis)
MOST_ROWS = 2**42  # of a unit in a group, as they are counted where it has its rows several times
SUMMED = 100  # powers of ten within which floats and numerics are summed inside a unit: their squares stay finite
INT32 = 2**31 - 1

_NORM = (
    f"CASE WHEN {{0}} <= {EXACT} THEN CAST(CAST({{0}} AS BIGINT) AS DOUBLE PRECISION) ELSE CAST({{0}} AS DOUBLE PRECISION) END"
)
"""A numeric is made a double by way of its text, unless it is made a bigint first."""

_FLAGS = {"min": "bool_and", "max": "bool_or"}  # MIN and MAX of booleans, which PostgreSQL lacks


class Postgres(PostgresOperations):
    dialect: Dialect = "postgres"
    title = "PostgreSQL"
    words = Words(norm=_NORM, once=" MATERIALIZED", steps=6, divided="{} / {}")
    parts = True
    fence = ("WITH fence AS (SELECT) ", "")  # derived tables that begin so are not merged with the query around them

    # --- constants and columns

    def literal(self, type_: str, text: str | None) -> str:
        if type_ not in casts.TYPES:
            raise Refusal(FEATURE_NOT_SUPPORTED, f"constants of type {type_} are not supported over private tables", hint=CASTS)
        native = casts.TYPES[type_]
        if text is None or (native == "uuid" and not casts.is_uuid(text)):
            return f"NULL::{native}"
        if type_ in NUMBERS:
            return number_literal(native, text)  # type: ignore[arg-type]
        if native == "boolean":
            return "TRUE" if text in ("true", "t") else "FALSE"
        if native == "interval":
            return times.interval_literal(text)
        if native in ("date", "timestamp"):
            return _time_literal(native, text)
        return f"{quote(text)}::{native}"

    def column(self, column: Column, text: str) -> str:
        if column.type == "timestamptz":
            utc = f"timezone('UTC', {text})"
            return self.clocks(utc, column.zone) if column.zone else utc
        if column.type not in TEXTS:
            return text
        # texts of two collations cannot be compared: PostgreSQL says so when the first row comes to it
        return f'{text}::text COLLATE "default"' if column.collated else f"{text}::text"

    def output(self, expr: Expr, names: Names) -> str:
        if beyond_type(expr):
            return casts.int_to_int(self.expr(expr, names), expr.type)
        return self.summand(expr, names)

    def summand(self, expr: Expr, names: Names) -> str:
        if expr.type in INTEGERS and number_kind(expr) != "bigint":
            return casts.int_to_int(self.expr(expr, names), "int8")
        return self.expr(expr, names)

    # --- types

    def as_type(self, expr: Expr, type_: str, names: Names) -> str:
        if isinstance(expr, Lit) and expr.text is None:
            return self.literal(type_, None)
        if type_ in INTEGERS:
            return self.output(expr, names)
        if type_ in NUMBERS and expr.type in NUMBERS:
            return self.number(expr, names, casts.TYPES[type_])
        if type_ != expr.type and (expr.type == "date" or (type_ in TEXTS and expr.type not in (*TEXTS, "unknown"))):
            return self.cast(Cast(type_, expr), names)
        return self.expr(expr, names)

    def case(self, expr: Case, names: Names) -> str:
        arms = " ".join(f"WHEN {self.expr(t, names)} THEN {self._choice(r, expr, names)}" for t, r in expr.whens)
        other = f" ELSE {self._choice(expr.default, expr, names)}" if expr.default is not None else ""
        return f"(CASE {arms}{other} END)"

    def cast(self, expr: Cast, names: Names) -> str:
        source, target = expr.arg.type, expr.type
        if target in INTEGERS:
            return self._cast_int(expr, names)
        if target in ("numeric", *FLOATS):
            return self._cast_number(expr, names)
        if target in TEXTS:
            value = self._cast_text(expr.arg, names)
            return f"left({value}, {expr.length[0]})" if expr.length and target != "text" else value
        text = self.expr(expr.arg, names)
        if target == source or {source, target} == {"timestamp", "timestamptz"}:
            return text
        if target == "bool":
            return f"({text} <> 0)" if source in INTEGERS else casts.text_to_bool(text)
        if target in ("timestamp", "timestamptz"):
            return times.date_to_timestamp(text) if source == "date" else casts.text_to_timestamp(text)
        if target == "date":
            return f"{text}::date" if source in ("timestamp", "timestamptz") else casts.text_to_date(text)
        if target == "time" and source in ("timestamp", "timestamptz"):
            return f"{text}::time"
        if target == "uuid":
            return casts.text_to_uuid(text)
        raise Refusal(FEATURE_NOT_SUPPORTED, f"casts to {target} are not supported over private tables", hint=CASTS)

    def _cast_int(self, expr: Cast, names: Names) -> str:
        source, text = expr.arg.type, self.expr(expr.arg, names)
        if source == "bool":
            return f"{text}::int::bigint"
        if source in INTEGERS:
            fits = facts(expr.arg).span.within(casts.RANGES[expr.type] - 1)
            return self.number(expr.arg, names, number_kind(expr.arg)) if fits else casts.int_to_int(text, expr.type)
        if source == "numeric":
            return casts.numeric_to_int(text, expr.type)
        if source in FLOATS:
            return casts.float_to_int(self.number(expr.arg, names, "float8"), expr.type)
        return casts.text_to_int(text, expr.type)

    def _cast_number(self, expr: Cast, names: Names) -> str:
        native = number_kind(expr)
        if expr.arg.type in NUMBERS:
            value = self.number(expr.arg, names, native)
        else:
            value = casts.text_to_number(self.expr(expr.arg, names), native)
        if expr.type == "float4":
            return casts.to_float4(value)
        return f"round({value}, {expr.length[1] if len(expr.length) > 1 else 0})" if expr.length else value

    def _cast_text(self, arg: Expr, names: Names) -> str:
        text = self.expr(arg, names)
        if arg.type in (*TEXTS, "unknown", "uuid", *INTEGERS, "date", "timestamp", "bool"):
            return f"{text}::text"
        if arg.type in ("numeric", *FLOATS) and facts(arg).grid == 1:
            return f"{casts.numeric_to_int(self.number(arg, names, 'numeric'), 'int8')}::text"
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            f"casting {arg.type} to text is not supported below an aggregate",
            hint="Group by the value itself and format it in the outer query.",
        )

    # --- one unit's aggregates and windows

    def aggregate(self, expr: Agg, names: Names) -> str:
        if expr.name in ("min", "max") and expr.args[0].type == "interval":
            return self.extreme_interval(expr, names)
        name, args = self._summands(expr.name, expr.args, names)
        inner = ("DISTINCT " if expr.distinct else "") + (", ".join(args) if args else "*")
        order = f" ORDER BY {self.order(expr.order, names)}" if expr.order else ""
        where = f" FILTER (WHERE {self.expr(expr.where, names)})" if expr.where is not None else ""
        return self._total(expr, f"{name}({inner}{order}){where}")

    def window(self, expr: Win, names: Names) -> str:
        name, args = self._summands(expr.name, expr.args, names)
        if name in ("lag", "lead"):
            args = self.window_args(expr, names)
        if name == "ntile":
            args = [f"greatest(least({args[0]}, {INT32}), 1)::int"]
        if name in ("lag", "lead") and len(args) > 1:
            args[1] = f"greatest(least({args[1]}, {INT32}), {-INT32})::int"
        if name == "nth_value":
            args[1] = f"greatest(least({args[1]}, {INT32}), 1)::int"
        inner = ", ".join(args) if args or name != "count" else "*"
        return self._total(expr, f"{name}({inner}){self.over(expr, names)}")

    def _summands(self, name: str, args: tuple[Expr, ...], names: Names) -> tuple[str, list[str]]:
        """The function and arguments that cannot overflow."""
        if name in ("min", "max") and args[0].type == "bool":
            return _FLAGS[name], [self.expr(args[0], names)]
        if name in ("min", "max") and args[0].type == "uuid":
            return name, [f"{self.expr(args[0], names)}::text"]
        if name in ("sum", "avg") or name.startswith(("stddev", "var")):
            (value,) = args
            if value.type in INTEGERS:
                narrow = facts(value).span.within(INT32) and name == "sum"
                return name, [f"{self.expr(value, names)}::int" if narrow else self.number(value, names, number_kind(value))]
            limited = self._numbers.limited(value, names, SUMMED)
            # sums of floats depend on the order of rows, and that on everybody's: exact as numeric (of 15 digits)
            text = f"({limited})::numeric" if number_kind(value) == "float8" else limited
            return name, [text if name == "sum" else self.plain(text, "numeric")]
        return name, [self.output(a, names) for a in args]

    def _total(self, expr: Agg | Win, text: str) -> str:
        if expr.name in ("min", "max") and expr.type == "uuid":
            return f"{text}::uuid"
        if expr.name == "sum" and expr.type in INTEGERS and not facts(expr.args[0]).span.within(INT32):
            return casts.int_to_int(text, "int8")
        added = expr.name in ("sum", "avg") or expr.name.startswith(("stddev", "var"))
        return postgres_numbers.narrowed(text) if added and number_kind(expr.args[0]) == "float8" else text

    # --- the measurement's own needs

    def fixed(self, expr: Expr, lo: int, hi: int, grid: Fraction, center: Fraction, names: Names) -> str:
        shift = center / grid
        if shift.denominator != 1 or max(abs(lo + shift), abs(hi + shift)) > 2**50:
            raise ValueError("a centre off the grid, or more steps than a double counts")
        low, high, own = lo + int(shift), hi + int(shift), number_kind(expr)
        moved = f" - {int(shift)}" if shift > 0 else f" + {-int(shift)}" if shift < 0 else ""
        type_ = "int" if _narrow(lo, hi, int(shift)) else "bigint"
        if own == "bigint" and grid != 1:
            own = "numeric"
        value = text = self.number(expr, names, own)
        if grid != 1 and (1 / grid).denominator == 1:
            value = f"{text} * {number_literal(own, str(1 / grid))}"
        elif grid != 1:
            nudge = " + '1e-200'::float8" if own == "float8" else ""  # a quotient that underflows raises
            value = f"({text}{nudge}) / {number_literal(own, decimal(grid))}"
        first, last = (number_literal(own, decimal(x * grid)) for x in (low, high))
        # NaN is above infinity here: the last test keeps NULL and NaN out, neither is anybody's value
        beyond = f"{text} > {last}" if own == "bigint" else f"{text} <= 'Infinity'::{own}"
        within = f"WHEN {text} <= {last} THEN ({value})::{type_}{moved}"  # in most rows: least and greatest would cost more
        return f"CASE WHEN {text} < {first} THEN '{lo}'::{type_} {within} WHEN {beyond} THEN '{hi}'::{type_} END"

    def pick_hash(self, columns: list[str], key: int) -> str:
        return f"hash_record_extended(ROW({', '.join(columns)}), {key})"

    def group_number(self, columns: list[str], key: int) -> str:
        return self.pick_hash(columns, key)

    def text_number(self, column: str, key: int) -> str:
        return f"coalesce(hashtextextended({column}, {key}), {key})"  # of a row it takes five times as long

    def total(self, column: str, shift: int, factor: int = 1) -> str:
        return super().total(f"{column}::bigint", shift, factor)  # a sum of bigint is numeric, of int it is bigint

    def unit_total(self, column: str, lo: int, hi: int, shift: int, *, shared: bool = False) -> str:
        """A sum of int is bigint, at a fraction of numeric's cost; it holds 2**32 rows of one unit in one group."""
        if _narrow(lo, hi, shift):
            return f"sum({column} - {shift})" if shift else f"sum({column})"
        return f"sum(({column} - {shift})::int)" if _narrow(lo, hi) else self.total(column, shift)

    def repeated(self, text: str, many: str, total: Counted | Added) -> str:
        """What was bigint stays bigint, and within what `share` can take."""
        if isinstance(total, Counted):
            return f"CASE WHEN {many} = 1 THEN {text} ELSE least({text}::numeric * {many}, {MOST_ROWS})::bigint END"
        if not _narrow(total.lo, total.hi):
            return f"{text} * {many}"
        product = f"greatest(least({text}::numeric * {many}, {LIMIT}), {-LIMIT})::bigint"  # LEAST takes NULL for nothing
        return f"CASE WHEN {many} = 1 OR {text} IS NULL THEN {text} ELSE {product} END"

    def share(self, total: str, rows: int, count: str, lo: int, hi: int, shift: int) -> str:
        """total = q * count + r with |q| <= INT32: neither product overflows while a unit has less than 2**43 rows."""
        if rows > 2**20 or not _narrow(lo, hi):
            return self.quotient(f"({total}::numeric * {rows})", count)
        return f"({total} / {count} * {rows} + {total} % {count} * {rows} / {count})"

    def wide_sum(self, text: str) -> str:
        return f"least(greatest(coalesce(sum({text}), 0), {-LIMIT}), {LIMIT})::bigint"

    def series(self, lo: int, hi: int, kind: str) -> str:
        numbers = f"generate_series({lo}::bigint, {hi}::bigint) AS s(n)"
        if kind == "int":
            return f"(SELECT n AS v FROM {numbers})"
        if kind == "day":
            return f"(SELECT '1970-01-01'::date + n::int AS v FROM {numbers})"
        if kind == "month":
            return f"(SELECT ('1970-01-01'::date + n * '1 month'::interval)::date AS v FROM {numbers})"
        return f"(SELECT '1970-01-01'::timestamp + n * '1 hour'::interval AS v FROM {numbers})"


def _narrow(lo: int, hi: int, shift: int = 0) -> bool:
    """Whether whole numbers in [lo, hi], and those before `shift` was subtracted from them, fit int."""
    return max(abs(lo), abs(hi), abs(lo + shift), abs(hi + shift)) <= INT32


def _time_literal(native: str, text: str) -> str:
    """ISO text that PostgreSQL is sure to read; NULL for any other, which would raise before a row is read."""
    try:
        (dt.date if native == "date" else dt.datetime).fromisoformat(text)
    except ValueError:
        if text not in ("infinity", "-infinity"):
            return f"NULL::{native}"
    return f"'{text}'::{native}"

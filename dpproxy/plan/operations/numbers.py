"""Rows of the catalogue: arithmetic, functions of numbers, bits and buckets.

Knows: where engines would raise, and what PostgreSQL yields there or NULL. Must not know: where they are used.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from dpproxy.plan.operations import bounds, function_bounds
from dpproxy.plan.operations.operation import BoundRule, Like, Nulls, Operation, Refused, Spelling, by
from dpproxy.tree import interval as iv

_LAST_DIGIT = Refused("its last digit is another in Java than in PostgreSQL")
_ANY = "i>i|n>n|f>f"
_REAL = "[if]>f|n>n"
_ROUNDED = "[if]>f|n>n|[inf]i>n"
_TWO = "ii>i|[in]{2}>n|[inf]{2}>f"
_FINITE, _POSTGRES_FINITE = "abs({0:f}) < CAST('Infinity' AS DOUBLE)", "abs({0:f}) < 'Infinity'::float8"


def _rounded_by(rounding: str) -> Callable[[Decimal], Decimal]:
    return lambda x: x.to_integral_value(rounding)


def _arithmetic(name: str, takes: str, bound: BoundRule, **more: object) -> Operation:
    spelling = by("arithmetic")
    nulls = more.pop("nulls", Nulls.OPERAND)
    return Operation(name=name, takes=takes, nulls=nulls, bound=bound, duckdb=spelling, postgres=spelling, spark=spelling, **more)  # type: ignore[arg-type]


def _real(name: str, duckdb: Spelling, postgres: Spelling, spark: Spelling = _LAST_DIGIT, **more: object) -> Operation:
    """A function of one number: numeric of numeric, else float8."""
    return Operation(
        name=name, takes=_REAL, nulls=Nulls.OTHERS, duckdb=duckdb, postgres=postgres, spark=spark, operands="r",
        result=Like.REAL,
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _angle(name: str, duckdb: str, postgres: str, bound: BoundRule | None = None, nulls: Nulls = Nulls.OTHERS) -> Operation:
    """A function of float8."""
    return Operation(
        name=name, takes="f>f", nulls=nulls, bound=bound, duckdb=duckdb, postgres=postgres, spark=_LAST_DIGIT,
        functions=(name,),
        operands="f", result="float8",
    )  # fmt: skip


def _circular(name: str, bound: BoundRule | None) -> Operation:
    """Of an infinite angle there is none."""
    return _angle(
        name, f"(CASE WHEN {_FINITE} THEN {name}({{0:f}}) END)", f"(CASE WHEN {_POSTGRES_FINITE} THEN {name}({{0:f}}) END)", bound
    )


def _inverse(name: str, bound: BoundRule) -> Operation:
    return _angle(
        name,
        f"(CASE WHEN {{0:f}} BETWEEN -1 AND 1 THEN {name}({{0:f}}) END)",
        f"(CASE WHEN {{0:f}} BETWEEN '-1'::float8 AND '1'::float8 THEN {name}({{0:f}}) END)",
        bound,
    )


def _bits(name: str, duckdb: str, postgres: str, spark: Spelling, bound: BoundRule | None, takes: str = "ii>i") -> Operation:
    return Operation(
        name=name, takes=takes, nulls=Nulls.OPERAND, bound=bound, duckdb=duckdb, postgres=postgres, spark=spark
    )  # fmt: skip


_BUCKET = (
    "(CASE WHEN {{0:f}} IS NULL OR isnan({{0:f}}) THEN NULL WHEN {{0:f}} < {{1:f}} THEN 0 WHEN {{0:f}} >= {{2:f}} THEN {{3}} + 1 "
    "ELSE least(CAST(floor({}) AS BIGINT), {{3}} - 1) + 1 END)"
)


def _bucket(name: str, takes: str, place: str, postgres: str) -> Operation:
    return Operation(
        name=name, takes=takes, nulls=Nulls.OPERAND, bound=bounds.buckets, dense=True, duckdb=_BUCKET.format(place),
        postgres=postgres, spark=Refused(),
    )  # fmt: skip


NUMBERS = (
    _arithmetic("+", _TWO, bounds.sums, exact=operator.add, grid=bounds.common_grid),
    _arithmetic("-", _TWO, bounds.differences, exact=operator.sub, grid=bounds.common_grid, rises=0),
    _arithmetic("*", _TWO, bounds.products, exact=operator.mul, grid=bounds.product_of_grids),
    _arithmetic("/", "[in]{2}>n|[inf]{2}>f", bounds.quotients, form=bounds.stepped_quotients, nulls=Nulls.DIVISOR),
    _arithmetic("int/", "ii>i", bounds.whole_quotients, grid=bounds.whole, dense=True, nulls=Nulls.DIVISOR),
    _arithmetic("%", "ii>i|[in]{2}>n", bounds.remainders, form=bounds.whole_remainders, dense=True, nulls=Nulls.DIVISOR),
    _arithmetic("neg", _ANY, lambda p: iv.negate(p[0]), grid=bounds.grid_of_first),
    _arithmetic(
        "abs", _ANY, lambda p: iv.absolute(p[0]), grid=bounds.grid_of_first, exact=abs, functions=("abs",), operands="r",
        result=Like.OPERAND
    ),
    Operation(
        name="square", takes="[inf]>f", nulls=Nulls.OPERAND, bound=bounds.squares, duckdb="({0:f} * {0:f})",
        postgres=by("arithmetic"), spark="({0:f} * {0:f})",
    ),
    Operation(
        name="floor", takes=_REAL, nulls=Nulls.OPERAND, exact=_rounded_by(ROUND_FLOOR), bound=lambda p: iv.floor(p[0]),
        grid=bounds.whole, dense=True, rises=0,
        duckdb=by("arithmetic"), postgres="floor({0:k})", spark=by("number", "floor"), functions=("floor",), operands="r",
        result=Like.FRACTION,
    ),
    Operation(
        name="ceil", takes=_REAL, nulls=Nulls.OPERAND, exact=_rounded_by(ROUND_CEILING), bound=lambda p: iv.ceiling(p[0]),
        grid=bounds.whole, dense=True, rises=0,
        duckdb=by("arithmetic"), postgres="ceil({0:k})", spark=by("number", "ceiling"), functions=("ceil", "ceiling"),
        operands="r",
        result=Like.FRACTION,
    ),
    Operation(
        name="round", takes=_ROUNDED, nulls=Nulls.OPERAND, bound=bounds.outward, form=bounds.rounded,
        grid=bounds.grid_of_places,
        dense=True, rises=0, duckdb=by("rounded"), postgres=by("rounded", "round"), spark=by("rounded"),
    ),
    Operation(
        name="trunc", takes=_ROUNDED, nulls=Nulls.OPERAND, bound=bounds.outward, form=bounds.rounded,
        grid=bounds.grid_of_places,
        dense=True, rises=0, duckdb=by("truncated"), postgres=by("rounded", "trunc"), spark=by("truncated"),
    ),
    Operation(
        name="sign", takes="[inf]>i", nulls=Nulls.OTHERS, bound=bounds.within(-1, 1), grid=bounds.whole,
        duckdb="CAST(sign({0:f}) AS BIGINT)", postgres=by("sign"), spark=by("number", "sign"),
    ),
    _real(
        "sqrt", "(CASE WHEN {0:f} >= 0 THEN sqrt({0:f}) END)", "(CASE WHEN {0:x} >= 0 THEN sqrt({0:x}) END)",
        "(CASE WHEN {0:f} >= 0 THEN sqrt({0:f}) END)", bound=lambda p: function_bounds.root(p[0]), functions=("sqrt",),
    ),
    _real(
        "ln", "(CASE WHEN {0:f} > 0 THEN ln({0:f}) END)", "(CASE WHEN {0:x} > 0 THEN ln({0:x}) END)", functions=("ln",),
        bound=lambda p: function_bounds.logarithm(p[0]), form=bounds.logarithms(math.e),
    ),
    _real(
        "log", "(CASE WHEN {0:f} > 0 THEN log10({0:f}) END)", "(CASE WHEN {0:x} > 0 THEN log({0:x}) END)", functions=("log10",),
        bound=lambda p: function_bounds.logarithm(p[0], 10), form=bounds.logarithms(10),
    ),
    _real(
        "exp", "(CASE WHEN {0:f} IS NOT NULL THEN exp(least({0:f}, 700)) END)",
        "(CASE WHEN {0:x} IS NOT NULL THEN exp(greatest(least({0:x}, 700), -700)) END)", functions=("exp",),
        bound=lambda p: function_bounds.exponential(p[0]),
    ),
    Operation(
        name="power", takes="[inf]{2}>[nf]", nulls=Nulls.OTHERS, bound=lambda p: function_bounds.power(p[0], p[1]),
        duckdb="pow({0:f} + 0, {1:f})",  # of -0 too: see `Engine.key`
        postgres=by("power"), spark=_LAST_DIGIT,
    ),
    _circular("sin", bounds.plus_minus(1)),
    _circular("cos", bounds.plus_minus(1)),
    _circular("tan", None),
    _inverse("asin", bounds.plus_minus(2)),
    _inverse("acos", bounds.within(0, 4)),
    _angle("atan", "atan({0:f})", "atan({0:f})", bounds.plus_minus(2), Nulls.OPERAND),
    _angle("cbrt", "cbrt({0:f})", "cbrt({0:f})", None, Nulls.OPERAND),
    Operation(  # -0 is as good as 0: which of the two an engine keeps of a unit's rows is its own choice
        name="atan2", takes="ff>f", nulls=Nulls.OPERAND, bound=bounds.plus_minus(4), duckdb="atan2({0:f} + 0, {1:f} + 0)",
        postgres="(CASE WHEN abs({0:f}) >= '1e-150'::float8 THEN atan2({0:f}, {1:f} + '0'::float8) "
        "ELSE atan2({0:f} * '0'::float8 + '0'::float8, {1:f} + '0'::float8) END)",
        spark=_LAST_DIGIT, functions=("atan2",), operands="ff", result="float8",
    ),
    _bits("bitand", "({0:i} & {1:i})", "({0:i} & {1:i})", "({0:i} & {1:i})", bounds.masked),
    _bits("bitor", "({0:i} | {1:i})", "({0:i} | {1:i})", "({0:i} | {1:i})", bounds.bits),
    _bits("bitxor", "xor({0:i}, {1:i})", "({0:i} # {1:i})", "({0:i} ^ {1:i})", bounds.bits),
    _bits("bitnot", "(~({0:i}))", "(~{0:i})", "(~({0:i}))", None, "i>i"),
    _bits("bitright", "({0:i} >> {1:i})", "({0:i} >> {1:i}::int)", Refused(), bounds.shifted_right),
    _bucket(
        "bucket_float", "fffi>i", "{3} * (({0:f} - {1:f}) / ({2:f} - {1:f}))",
        "(CASE WHEN {0:f} <= 'Infinity'::float8 THEN width_bucket({0:f}, {1:f}, {2:f}, {3}::int)::bigint END)",
    ),
    _bucket(  # numeric computes as DOUBLE on DuckDB: what is a little less than a whole number for it alone must still be one
        "bucket_numeric", "nnni>i", "round(({0:f} - {1:f}) * {3} / ({2:f} - {1:f}), 9)",
        "(CASE WHEN {0:d} <= 'Infinity'::numeric THEN width_bucket({0:d}, {1:d}, {2:d}, {3}::int)::bigint END)",
    ),
)  # fmt: skip

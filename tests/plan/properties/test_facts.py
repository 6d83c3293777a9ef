"""What the planner says of an expression is true of its values: bounds, grids, ends of types, NULLs.

Every allowed function and operator (those of `typed_expressions`, and more) is computed by DuckDB over a shop whose
values lie within their declared ranges: each result must lie within the stated bound and on the stated grid. Over a shop
full of trouble each must lie within the stated span, which decides how wide the engine computes. A function that is added
to the allow-list, or a rule to the intervals, without an expression here fails the last tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import duckdb
import plan_harness
import pytest
import shop_world
import typed_expressions as total

from dpproxy.errors import Refusal
from dpproxy.plan.functions.registry import names
from dpproxy.plan.measure import compiler
from dpproxy.plan.measure.compiler import Compiler
from dpproxy.plan.operations.catalogue import CATALOGUE
from dpproxy.plan.operations.units import CUT
from dpproxy.plan.outer import registry
from dpproxy.plan.properties.facts import facts
from dpproxy.policy.catalog import Catalog
from dpproxy.sql.types import FLOATS, INTEGERS
from dpproxy.tree.expr import Call, Column, Expr, Lit, Ref, walk
from dpproxy.tree.interval import Interval

BATCH = 40
NUMBERS = (*INTEGERS, "numeric", *FLOATS)
ROUNDING = 1e-9
"""NUMERIC computes as DOUBLE on DuckDB."""


def more() -> Iterator[str]:
    """Where a rule of intervals has a corner: signs, digits, zeros, intervals of time."""
    for n in ("c.score", "o.weight", "o.qty", "c.wealth", "o.amount"):
        yield from (f"{f}({n}::numeric, {d})" for f in ("round", "trunc") for d in (-3, -1, 1, 4))
        yield from (f"{n} * {n}", f"- {n} * 3", f"{n} / 7", f"7 / {n}", f"{n} % 7", f"mod({n}::int, -7)", f"-7 % {n}::int")
        yield from (f"abs({n} - 5)", f"sign({n} - 3)", f"{n}::int / 3", f"{n}::int / -3", f"round({n})::int", f"({n} > 0)::int")
        yield from (f"power({n}, 2)", f"sqrt(abs({n}))", f"{n} + 0.05", f"{n} * 0.1", f"least({n}, 3)", f"greatest({n}, -3.5)")
        yield from (f"coalesce({n}, 1000)", f"nullif({n}, 0)", f"CASE WHEN {n} > 2 THEN {n} WHEN {n} < 0 THEN 0.5 END")
        yield from (f"width_bucket({n}, 0, 10, 5)", f"if({n} > 1, {n}, -1)", f"floor({n} / 10) * 10", f"trunc({n})::int % 4")
        yield from (f"{f}(greatest({n}, 0.5))" for f in ("ln", "log", "exp", "sqrt"))
        yield from (
            f"ln(nullif({n}, 0))",
            f"log({n} + 1)",
            f"exp(- {n} / 100.0)",
            f"1 / (1 + exp(- {n} / 100.0))",
            f"sqrt({n} + 2)",
        )
        yield from (
            f"power({n}, 3)",
            f"power({n}, -2)",
            f"power({n} / 100.0, 0)",
            f"power(abs({n}) + 0.5, 0.5)",
            f"power(1.01, {n})",
        )
        yield from (f"power(0.9, {n} / 10.0)", f"power(abs({n}), o.qty / 20.0)", f"power(abs({n}) + 0.1, c.score / 100.0)")
        yield from (
            f"1 / nullif({n}, 0)",
            f"o.amount / {n}",
            f"c.score / nullif(- {n}, 0)",
            f"{n} / o.qty",
            f"{n} / nullif(c.score, 0)",
        )
    yield from (f"extract({u} from o.ts - c.signup)" for u in ("day", "hour", "minute", "epoch"))
    yield from (f"extract({u} from c.signup::timestamp - o.ts)" for u in ("day", "hour", "minute", "epoch"))
    yield from (f"extract({u} from o.ts)" for u in sorted(EXTRACTED))
    yield from (f"date_part('{u}', o.due)" for u in sorted(EXTRACTED))
    yield from (f"date_trunc('{u}', {d})" for u in sorted(CUT) for d in ("o.ts", "o.due"))
    yield from (f"extract(epoch from date_trunc('{u}', o.ts))" for u in sorted(CUT))
    yield from ("o.due - c.signup", "o.due - 30", "o.due + o.qty", "date(o.ts) - o.due", "length(o.note)", "strpos(o.note, 'a')")
    yield from ("o.ts + interval '3 months'", "o.due + interval '1 day'", "o.ts - interval '1 year'", "c.vip::int", "NOT c.vip")
    yield from (
        "extract(year from o.due + 400)",
        "extract(year from o.ts - interval '300 days')",
        "(o.ts)::date - DATE '2024-01-01'",
    )
    yield from (
        "btrim(o.note)",
        "char_length(o.note)",
        "character_length(o.note)",
        "substr(o.note, 2)",
        "pow(o.qty, 2)",
        "log10(o.qty)",
    )
    yield from ("o.qty IN (1, 2)", "o.qty BETWEEN 1 AND 3", "o.amount IS NULL", "o.qty + 1 + o.qty * 2 - c.score")
    yield from ("make_date(2024, 1, o.qty)", "make_date(extract(year from o.ts)::int, 12, 31)", "date_from_parts(2024, 2, 1)")
    yield from (f"{f}(o.note)" for f in ("lower", "upper", "reverse", "md5", "trim", "ltrim", "rtrim", "length"))
    yield from (f"{f}(o.qty)" for f in ("ceil", "ceiling", "ln", "log", "exp", "trunc", "floor"))
    yield from (
        "replace(o.note, 'a', 'b')",
        "starts_with(o.note, 'a')",
        "left(o.note, 2)",
        "right(o.note, 2)",
        "concat(o.note, 1)",
    )
    yield from (
        "split_part(o.note, 'a', 1)",
        "substring(o.note, 2)",
        "lpad(o.note, 3)",
        "rpad(o.note, 3)",
        "to_char(o.ts, 'YYYY')",
    )
    yield from (f"{f}(o.weight / 50)" for f in ("acos", "asin", "atan", "cos", "sin", "tan", "cot", "cbrt", "degrees", "radians"))
    yield from (
        "atan2(o.weight, o.qty)",
        "div(o.qty, 3)",
        "pi() * o.qty",
        "num_nulls(o.note, o.qty)",
        "num_nonnulls(o.note, o.qty)",
    )
    yield from (
        "ascii(o.note)",
        "chr(o.qty + 65)",
        "octet_length(o.note)",
        "initcap(o.note)",
        "repeat(o.note, 2)",
        "isfinite(o.ts)",
    )
    yield from (
        "concat_ws('-', o.note, o.status)",
        "format('%s', o.note)",
        "overlay(o.note placing 'x' from 1)",
        "translate(o.note, 'a', 'b')",
    )
    yield from (
        "regexp_count(o.note, 'a')",
        "regexp_like(o.note, 'a')",
        "regexp_replace(o.note, 'a', 'b')",
        "regexp_substr(o.note, 'a')",
    )
    yield from (
        "age(o.ts, c.signup)",
        "extract(year from age(o.ts, c.signup))",
        "date_bin('7 days', o.ts, TIMESTAMP '2024-01-01')",
        "strftime(o.ts, '%Y-%m')",
        "make_timestamp(2024, o.qty, 1, 12, 0, 0)",
    )
    yield from (f"{part}(o.ts)" for part in ("year", "quarter", "month", "day", "hour", "minute"))
    yield from ("dpproxy_first(o.qty)", "dpproxy_first(c.score)")
    yield from (
        "to_date(o.note, 'YYYY-MM-DD')",
        "to_timestamp(o.qty)",
        "timezone('UTC', o.ts)",
        "extract(month from age(c.signup, o.ts))",
    )
    yield from (f"({n} {op})" for n in ("o.qty", "c.score") for op in ("& 5", "| 5", "# 5", "<< 2", ">> 1", "& -5", "| -5"))
    yield from ("~o.qty", "~c.score", "o.qty # c.score", "o.qty & c.score", "o.qty | c.score", "c.score >> 2", "c.score << 3")


EXTRACTED = ("year", "month", "day", "quarter", "dow", "isodow", "doy", "week", "hour", "minute", "second", "epoch", "isoyear")


EXPRESSIONS = tuple(dict.fromkeys((*total.EXPRESSIONS[::3], *more())))


class Bound:
    """An expression as the planner has it, and its text in the generated FROM."""

    def __init__(self, compiler: Compiler, expr: Expr) -> None:
        self.expr, self.known = expr, facts(expr)
        source = compiler._source
        block = source.block
        self.text = source.renderer.resumed().output(expr, block.names)
        self.source = f"{block.source}{block.where_text}"


def bound(sql: str, catalog: Catalog) -> Bound | None:
    """None for what is refused."""
    found: list[Bound] = []

    class Spy(compiler.Compiler):
        def compiled(self, *parts: Any) -> compiler.Compiled:
            specs = parts[1] if len(parts) > 1 else ()
            found.extend(Bound(self, s.value) for s in specs if s.value is not None)
            return super().compiled(*parts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "Compiler", Spy)
        try:
            plan_harness.plan(f"SELECT {sql} {total.FROM}", catalog)
        except Refusal:
            return None
    return found[-1] if found else None


@pytest.fixture(scope="module")
def every(shop_catalog: Catalog) -> dict[str, Bound]:
    found = {sql: bound(f"count(DISTINCT {sql})", shop_catalog) for sql in EXPRESSIONS}
    found |= {sql: bound(sql, shop_catalog) for sql in ("stddev(c.score)", "corr(o.weight, o.qty)")}
    return {sql: b for sql, b in found.items() if b is not None and "\x00" not in b.text}


def shop(seed: int, trouble: bool) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    shop_world.fill(connection, seed, trouble=trouble)
    plan_harness.plan_plainly(connection)
    return connection


def number(b: Bound) -> str | None:
    """The value on the scale of intervals: days for dates, seconds for times; None for what has no order there."""
    kind = b.expr.type
    if kind in NUMBERS:
        return b.text
    if kind == "bool":
        return f"CAST({b.text} AS INTEGER)"
    if kind == "date":
        return f"(CASE WHEN isfinite({b.text}) THEN epoch({b.text}) / 86400 END)"
    if kind in ("timestamp", "timestamptz"):
        return f"(CASE WHEN isfinite({b.text}) THEN epoch({b.text}) END)"
    return f"epoch({b.text})" if kind == "interval" else None


Extent = tuple[float | None, float | None, int, bool | None]


def extents(chosen: list[Bound], connection: duckdb.DuckDBPyConnection, grid: bool) -> list[Extent]:
    """(least, greatest, NULLs, whether all are on the grid) of each."""
    values, items = [], []
    for i, b in enumerate(chosen):
        values += [f"CAST({number(b)} AS DOUBLE) AS x{i}", f"{b.text} IS NULL AS n{i}"]
        finite = f"(CASE WHEN isfinite(x{i}) THEN x{i} END)"
        steps = f"{finite} / CAST('{float(b.known.grid)!r}' AS DOUBLE)" if grid and b.known.grid else ""
        on_grid = f"bool_and(abs({steps} - round({steps})) <= {ROUNDING} * greatest(abs({steps}), 100))" if steps else "NULL"
        items += [f"min({finite})", f"max({finite})", f"count_if(n{i})", on_grid]
    inner = f"SELECT {', '.join(values)} FROM {chosen[0].source}"
    row = connection.execute(f"WITH v AS MATERIALIZED ({inner}) SELECT {', '.join(items)} FROM v").fetchone()
    assert row is not None
    return [tuple(row[i : i + 4]) for i in range(0, len(row), 4)]


def outside(least: float | None, most: float | None, known: Any) -> bool:
    def slack(end: Fraction) -> float:
        return ROUNDING * max(abs(float(end)), 1.0)

    if least is None or most is None:
        return False
    low = known.lo is not None and least < float(known.lo) - slack(known.lo)
    return low or (known.hi is not None and most > float(known.hi) + slack(known.hi))


def batches(every: dict[str, Bound]) -> Iterator[list[tuple[str, Bound]]]:
    ordered = [(sql, b) for sql, b in every.items() if number(b) is not None]
    for source in sorted({b.source for _, b in ordered}):
        mine = [(sql, b) for sql, b in ordered if b.source == source]
        yield from (mine[i : i + BATCH] for i in range(0, len(mine), BATCH))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_values_lie_within_their_bounds_and_on_their_grids(seed: int, every: dict[str, Bound]) -> None:
    connection, wrong = shop(seed, trouble=False), {}
    for batch in batches(every):
        for (sql, b), (least, most, _, on_grid) in zip(batch, extents([b for _, b in batch], connection, True), strict=True):
            if outside(least, most, b.known.bound):
                wrong[sql] = f"{least}..{most} is not within {b.known.bound}"
            elif on_grid is False:
                wrong[sql] = f"not on the grid {b.known.grid}"
    assert wrong == {}


@pytest.mark.parametrize("seed", [1])
def test_values_of_any_data_lie_within_the_span_of_their_type(seed: int, every: dict[str, Bound]) -> None:
    """Infinities and NaN have their own way: numbers that are not finite are DOUBLE, whatever the span."""
    connection, wrong = shop(seed, trouble=True), {}
    for batch in batches(every):
        for (sql, b), (least, most, nulls, _) in zip(batch, extents([b for _, b in batch], connection, False), strict=True):
            if b.expr.type in INTEGERS and outside(least, most, b.known.span):
                wrong[sql] = f"{least}..{most} is not within {b.known.span}"
            if nulls and not b.known.nullable:
                wrong[sql] = f"{nulls} NULLs"
    assert wrong == {}


def test_a_wrong_rule_is_found(shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {
        "abs": lambda p: p[0],
        "*": lambda p: p[0],
        "trunc_time": lambda p: p[0],
        "ceil": lambda p: p[0],
        "-": lambda p: p[0],
    }
    asked = {"abs": "abs(-c.score - 50)", "*": "c.score * c.score", "ceil": "ceil(o.qty / 19.5)", "-": "c.score - o.qty"}
    connection = shop(1, trouble=False)
    for op, sql in asked.items():
        monkeypatch.setitem(CATALOGUE, op, replace(CATALOGUE[op], bound=wrong[op]))
        found = bound(f"count(DISTINCT {sql})", shop_catalog)
        assert found is not None
        ((least, most, _, _),) = extents([found], connection, False)
        assert outside(least, most, found.known.bound), op
        monkeypatch.undo()


def test_every_allowed_function_is_here() -> None:
    texts = " ".join(EXPRESSIONS)
    assert [name for name in sorted(names()) if f"{name}(" not in texts] == []
    assert [unit for unit in EXTRACTED if f"extract({unit} from" not in texts] == []
    assert [unit for unit in CUT if f"date_trunc('{unit}'" not in texts] == []


def test_every_rule_of_intervals_is_used_here(every: dict[str, Bound]) -> None:
    used = {e.op for b in every.values() for e in walk(b.expr) if isinstance(e, Call)}
    assert sorted({row.name for row in CATALOGUE.values() if row.bound is not None} - used) == []


def test_a_column_of_one_value_that_may_be_null_is_no_constant_to_least() -> None:
    """`least(one, many)` is any value of `many` where `one` is NULL."""
    one = Column(1, "one", "int4", Interval(Fraction(5), Fraction(5)))
    many = Column(2, "many", "int4", Interval(Fraction(0), Fraction(90)))
    both = (Ref("int4", one), Ref("int4", many))
    assert facts(Call("int4", "least", both)).bound.ends[1] >= 90
    assert facts(Call("int4", "greatest", both)).bound.ends[0] <= 0
    assert facts(Call("int4", "least", (Lit("int4", "5"), both[1]))).bound.ends == (0, 5)

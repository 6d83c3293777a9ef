"""SQL aggregates as basis columns and a formula over their released values (PRIVACY.md section 3, Aggregates).

Knows: which bases each aggregate needs, and the post-processing formula in PostgreSQL's SQL. Must not know: noise, clients.
A formula refers to basis i as `{i}` (an int8 in grid units) and yields the aggregate's own PostgreSQL type; the facade
computes it, in exact numeric where PostgreSQL would. What has no sound mechanism here is refused with what to use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction

from dpproxy.errors import INSUFFICIENT_PRIVILEGE, Refusal
from dpproxy.plan.context import GRID_STEPS
from dpproxy.plan.intervals import arithmetic
from dpproxy.plan.intervals.arithmetic import Range
from dpproxy.plan.measure import (
    durations,
    moments,
    output_weights,
    selections,
)
from dpproxy.plan.measure.output_weights import Kind, Output
from dpproxy.plan.measure.specs import BasisSpec, Measured, SelectionSpec, Sure
from dpproxy.plan.properties.cardinality import most_distinct
from dpproxy.plan.properties.facts import facts, literal_number
from dpproxy.plan.properties.grid import FINEST, grid_of
from dpproxy.plan.properties.required_bounds import bounded_argument
from dpproxy.plan.refusals import unsupported
from dpproxy.sql.types import FLOATS, INTEGERS, NUMBERS, decimal
from dpproxy.tree.expr import Agg, Case, Expr, Lit, Ref, conjunction
from dpproxy.tree.interval import OPEN, Interval

LIMIT = 2**62  # basis columns stay within it
LARGEST_FACTOR = 10**9  # of a count: what is beyond is summed like any other number


def _measured(bases: tuple[BasisSpec, ...], found: Range, type_: str, kind: Kind, weights: tuple[float, ...]) -> Measured:
    return Measured(bases, found.value, type_, kind, weights, found)


Counted = tuple[Expr, Expr | None]
"""A value and a FILTER whose rows are counted and summed about a centre anyway."""


def companions(aggs: Iterable[Agg], one: bool) -> frozenset[Counted]:
    """Inputs whose SUM follows from columns that other aggregates of the query need: it is not measured by itself.

    A mean's count and centred sum give the sum; where a unit has `one` row a count alone is enough to make the centred
    sum (of half the sensitivity) worth it. With more rows a clamped sum loses less to the row bound than a cut count.
    """
    found = set()
    for agg in aggs:
        if agg.distinct or len(agg.args) > 1:
            continue
        if agg.name == "avg" or agg.name in moments.SINGLE or (agg.name == "count" and one and agg.args):
            found.add((agg.args[0], agg.where))
        elif agg.name == "count" and one:
            found |= {(a.args[0], a.where) for a in aggs if a.name == "sum" and a.where == agg.where and not _nullable(a)}
    return frozenset(found)


def _nullable(agg: Agg) -> bool:
    return facts(agg.args[0]).nullable


def measured_aggregate(
    agg: Agg,
    label: str,
    unit_name: str,
    is_unit: Callable[[Expr], bool],
    shared: frozenset[Counted] = frozenset(),
    steps: int = GRID_STEPS[0],
    is_key: Callable[[Expr], bool] = lambda _: False,
    whole: bool = False,
) -> Measured:
    """Return the bases and formula of one aggregate. `shared`: see `companions`; `steps`: of grids; `is_key`: whether no two
    rows share a value other than NULL; `whole`: contributions are measured in steps of size (`moments`). Raises Refusal."""
    if agg.name == "count":
        return _count(agg, label, is_unit, is_key)
    if agg.name in ("sum", "avg"):
        if agg.distinct:
            return (_sum_of_distinct if agg.name == "sum" else _avg_of_distinct)(agg, label, steps)
        if durations.is_duration(agg.args[0]):
            return durations.measured(agg, lambda a: (_sum if a.name == "sum" else _avg)(a, label, steps, whole))
        if agg.name == "sum" and (counted := _counted_cases(agg)) is not None:
            return _count_times(*counted, label)
        if agg.name == "sum":
            of_mean = (agg.args[0], agg.where) in shared and not whole
            return _sum_of_mean(agg, label, steps) if of_mean else _sum(agg, label, steps, whole)
        return _avg(agg, label, steps, whole)
    if agg.name in moments.SINGLE or agg.name in moments.PAIRED:
        bases, found, type_, weights = moments.moments(agg.name, _arguments(agg), agg.where, label, steps, whole)
        return replace(_measured(bases, found, type_, "derived", weights), statistic=agg.name)
    if agg.name in ("min", "max", "percentile_cont", "percentile_disc", "mode"):
        selection, single, type_ = selections.selected(agg, label)
        numbers = type_ in NUMBERS and not selection.values
        bound = Interval(selection.lo * selection.grid, selection.hi * selection.grid) if numbers else OPEN
        weights, formula = (_selection_weight(selection),), selections.together(single, type_, range(selection.columns))
        return Measured((), formula, type_, "selected", weights, None, selection, bound, "", single)
    raise _refused(agg.name, unit_name)


def needed_bases(
    agg: Agg, is_unit: Callable[[Expr], bool], shared: frozenset[Counted], steps: int, whole: bool = False
) -> tuple[BasisSpec, ...]:
    """Return the bases of `measured_aggregate` alone, without formulas that are long. Raises Refusal as it does."""
    if agg.name in moments.SINGLE or agg.name in moments.PAIRED:
        return moments.needed(agg.name, _arguments(agg), agg.where, "", steps, whole)
    return measured_aggregate(agg, "", "", is_unit, shared, steps, whole=whole).bases


def _arguments(agg: Agg) -> list[Expr]:
    """What a statistic of moments is of."""
    if agg.distinct:
        raise unsupported(
            f"{agg.name.upper()}(DISTINCT ...)",
            f"Take it of the values that are there: SELECT {agg.name}(x) FROM (SELECT DISTINCT x FROM ...) t.",
        )
    return [bounded_argument(replace(agg, args=(a,))) for a in agg.args]


def aggregate_output(measured: Measured, label: str, bases: tuple[int, ...], selection: int | None, filtered: bool) -> Output:
    """Describe an aggregate for EXPLAIN and the division of epsilon."""
    factor = output_weights.FILTERED if filtered else 1.0
    weights = tuple(w * factor for w in measured.weights)
    found = measured.range or arithmetic.constant("")
    low = () if found.positive else found.low_needs  # it is 0 at least
    below, above = (frozenset((need[0], bases[int(need[1:])]) for need in needs) for needs in (low, found.high_needs))
    return Output(label, measured.kind, weights, bases, selection, measured.statistic, below, above, measured.noise_told)


def _selection_weight(spec: SelectionSpec) -> float:
    """The fractions of one selection share its epsilon: each has a share of it."""
    if spec.values:
        return output_weights.MODE
    extreme = any(f in (0, 1) for f in spec.fractions)
    return (output_weights.EXTREME if extreme else output_weights.QUANTILE) * spec.columns


_GROUPED = "Group by the column instead: each value that enough people share becomes a row."
_PLACES = "Use min, max or percentile_cont(0.5) WITHIN GROUP (ORDER BY x); or group by the column."
_INSTEAD = {
    **dict.fromkeys(
        ("string_agg", "array_agg", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg", "xmlagg"), _GROUPED
    ),
    **dict.fromkeys(("list", "group_concat", "any_value"), _GROUPED),
    **dict.fromkeys(("first", "last", "arg_max", "arg_min"), _PLACES),
    "median": "Use percentile_cont(0.5) WITHIN GROUP (ORDER BY x).",
    "histogram": "Use width_bucket(x, low, high, count) AS bucket, count(*) ... GROUP BY 1.",
    **dict.fromkeys(("rank", "dense_rank", "percent_rank", "cume_dist"), "Use count(*) FILTER (WHERE x < ...) and count(*)."),
    "bool_or": "Use count(*) FILTER (WHERE ...) > 0.",
    "bool_and": "Use count(*) FILTER (WHERE NOT ...) = 0.",
    "every": "Use count(*) FILTER (WHERE NOT ...) = 0.",
}


def _refused(name: str, unit_name: str) -> Refusal:
    hint = _INSTEAD.get(name, "Use count, sum, avg or count(DISTINCT ...).")
    return Refusal(INSUFFICIENT_PRIVILEGE, f"{name}() over private rows would reveal a single {unit_name}'s value", hint=hint)


COUNTED = arithmetic.count(0)


def _count(agg: Agg, label: str, is_unit: Callable[[Expr], bool], is_key: Callable[[Expr], bool]) -> Measured:
    """COUNT of rows, of values, of units, of distinct values. Distinct values of a key are as many as rows have one.

    COUNT(DISTINCT x) of a group is the size of a union of sets S_u, one a unit. S_u holds at most k of the unit's values
    there, chosen by a hash of unit and value: it is a function of that unit's rows alone. So one unit less takes away at
    most the |S_u| <= k values that no other unit has, in at most L0 groups, and adds none: sensitivity k a group, reached
    when a unit's k values are its own (Knop & Steinke 2023, "Counting distinct elements under person-level differential
    privacy", section 3: any choice of at most k a person has it). The hash differs between units, so that units with the
    same many values do not all keep the same k of them, which would lose more of the union.
    """
    value = agg.args[0] if agg.args else None
    if agg.distinct and value is None:
        raise unsupported("count(DISTINCT *)", "Count what is to be distinct: count(DISTINCT x).")
    unit = value is not None and is_unit(value)
    if unit and not (isinstance(value, Ref) and value.column.optional):
        value = None  # rows of nobody are not there
    if agg.distinct and not is_key(agg.args[0]):
        most = None if unit else most_distinct(agg.args[0])
        spec = BasisSpec("units" if unit else "distinct", value, agg.where, label, most=most)
        found = _distinct_range(most)
        return _measured((spec,), found, "int8", "linear", (1.0,))
    if value is not None and not facts(value).nullable:
        value = None
    return _measured((BasisSpec("count", value, agg.where, label),), COUNTED, "int8", "linear", (1.0,))


def _constant(value: Expr) -> Fraction | None:
    """A constant above 0, each row's share of a sum."""
    if not isinstance(value, Lit) or value.text is None or value.type not in NUMBERS:
        return None
    number = literal_number(value.type, value.text)
    return number if number is not None and 0 < number <= LARGEST_FACTOR else None


def _counted_cases(agg: Agg) -> tuple[Agg, Fraction] | None:
    """A sum in which each row counts for a constant or for nothing, as that of `CASE WHEN c THEN 1 ELSE 0 END`: the aggregate
    with the rows that count as its FILTER, and the constant. None for others."""
    value = agg.args[0]
    if (times := _constant(value)) is not None:
        return agg, times
    if not isinstance(value, Case) or len(value.whens) != 1 or not _nothing(value.default):
        return None
    ((condition, result),) = value.whens
    times = _constant(result)
    if times is None:
        return None
    where = conjunction((*((agg.where,) if agg.where is not None else ()), condition))
    return replace(agg, where=where), times


def _nothing(value: Expr | None) -> bool:
    """Whether it adds nothing to a sum: NULL, or 0."""
    if value is None:
        return True
    if not isinstance(value, Lit):
        return False
    return value.text is None or (value.type in NUMBERS and literal_number(value.type, value.text) == 0)


def _count_times(agg: Agg, times: Fraction, label: str) -> Measured:
    """SUM of a constant: so many times the rows there are. It shares their count."""
    type_ = sum_type(agg.args[0].type)
    found = _scaled(COUNTED, times, type_)
    spec = BasisSpec("count", None, agg.where, label)
    return _measured((spec,), found, type_, "linear" if times == 1 else "derived", (1.0,))


def _distinct_range(most: int | None) -> Range:
    """Of declared values there are no more than are declared. The upper end of the interval stays: rows may hold others."""
    if most is None:
        return COUNTED
    return replace(COUNTED, value=f"LEAST({COUNTED.value}, {most})", low=f"LEAST({COUNTED.low}, {most})")


def sum_type(type_: str) -> str:
    return {"int2": "int8", "int4": "int8", "int8": "numeric"}.get(type_, type_)


def _sum(agg: Agg, label: str, steps: int, whole: bool) -> Measured:
    value = bounded_argument(agg)
    sure = facts(value).sure
    classes = whole and not all(sure)
    lo, hi, grid = grid_of(value, min(steps, FINEST) if classes else steps)
    spec = BasisSpec("sum", value, agg.where, label, lo, hi, grid, sure=sure)
    spec = moments.in_classes(spec, moments.VALUES) if classes else spec
    type_ = sum_type(value.type)
    found = _scaled(_signed(lo, sure), grid, type_)
    return _measured((spec,), found, type_, "linear", (output_weights.total(lo, hi),))


def _signed(lo: int, sure: Sure) -> Range:
    """Basis 0, which is not negative where it is a fact that its values are not."""
    return arithmetic.count(0) if lo >= 0 and sure[0] else arithmetic.basis(0)


def _sum_of_mean(agg: Agg, label: str, steps: int) -> Measured:
    """From the count and the centred sum that the query needs anyway: sum(x) = sum(x - c) + c * count(x)."""
    value = bounded_argument(agg)
    lo, hi, grid = grid_of(value, steps)
    middle = (lo + hi) // 2
    type_ = sum_type(value.type)
    found = _sum_about(middle, arithmetic.basis, grid, type_)
    if lo >= 0 and facts(value).sure[0]:  # rows left out do not make the sum less than it is, whatever they do to its two parts
        found = arithmetic.positive_part(arithmetic.whichever(_sum_about(middle, arithmetic.noisy, grid, type_), found))
    usual = output_weights.typical(lo, hi)
    weights = (float(abs(middle) / usual), float(max(hi - middle, middle - lo) / usual))
    return _measured(moments.mean_bases(value, agg.where, label, steps), found, type_, "total", weights)


def _sum_about(middle: int, basis: Callable[[int], Range], grid: Fraction, type_: str) -> Range:
    """The sum of a count, basis 0, and a sum centred at `middle`."""
    times = arithmetic.rising(basis(0), lambda x: f"{abs(middle)}::numeric * {x}")
    whole = arithmetic.plus(basis(1), times) if middle >= 0 else arithmetic.minus(basis(1), times)
    if type_ == "int8":  # a product of two large numbers could be beyond it
        whole = arithmetic.within(whole, str(-LIMIT), str(LIMIT))
    return _scaled(whole, grid, type_)


def _sum_of_distinct(agg: Agg, label: str, steps: int) -> Measured:
    """SUM of the values there are, each once. Of a group it is the sum over a union of sets S_u, one a unit, of at most k values
    (see `_count`): without a unit at most k values go, each of at most max(|lo|, |hi|), and none comes."""
    value = _told_apart(agg, steps)
    lo, hi, grid = grid_of(value, steps)
    type_ = sum_type(value.type)
    sure = facts(value).sure
    found = _scaled(_signed(lo, sure), grid, type_)
    spec = BasisSpec("distinct_sum", value, agg.where, label, lo, hi, grid, most=most_distinct(value), sure=sure)
    return _measured((spec,), found, type_, "linear", (output_weights.total(lo, hi),))


def _told_apart(agg: Agg, steps: int) -> Expr:
    """Return the argument. Values are distinguished on their grid, so it must be that of all values: on a coarser one two of them
    would be one. Raises Refusal."""
    value = bounded_argument(agg)
    if facts(value).grid != grid_of(value, steps)[2]:
        raise unsupported(
            f"{agg.name.upper()}(DISTINCT ...) of numbers without a resolution",
            f"Round them: {agg.name}(DISTINCT round(x::numeric, 2)), or ask the policy's author for a `resolution` of the "
            "column.",
        )
    return value


def _scaled(a: Range, grid: Fraction, type_: str) -> Range:
    def cast(text: str) -> str:
        return f"CAST({text} AS {type_})" if grid != 1 or type_ != "int8" or text != "{0}" else text

    if grid == 1:
        return arithmetic.rising(a, cast)
    product = arithmetic.rising(a, lambda x: f"CAST({x} AS numeric) * {decimal(grid)}")
    if grid > 1 and type_ in INTEGERS:  # noise on a coarse grid could be beyond the type
        product = arithmetic.within(product, str(-LIMIT), str(LIMIT))
    return arithmetic.rising(product, cast)


def _avg(agg: Agg, label: str, steps: int, whole: bool) -> Measured:
    """Count and centred sum: centring halves the sensitivity and keeps the ratio stable when the count is small."""
    value = bounded_argument(agg)
    rows, total = moments.mean_bases(value, agg.where, label, steps, whole)
    lo, hi = total.lo + total.shift, total.hi + total.shift
    weights = output_weights.quotient(lo, hi, total.shift) if whole else output_weights.mean(lo, hi)
    return _mean(rows, total, Interval(lo * total.grid, hi * total.grid), value.type, weights)


def _avg_of_distinct(agg: Agg, label: str, steps: int) -> Measured:
    """AVG of the values there are, each once: their number, and the sum of how far each is from the middle of their bound."""
    value = _told_apart(agg, steps)
    i, most, where = moments.centred(value, steps), most_distinct(value), agg.where
    rows = BasisSpec("distinct", value, where, f"count for {label}", most=most)
    total = BasisSpec(
        "distinct_sum", i.centred, where, f"centred sum for {label}", i.lo, i.hi, i.grid, most=most, taken=i.center, sure=i.sure
    )
    lo, hi, grid = grid_of(value, steps)
    return _mean(rows, total, Interval(lo * grid, hi * grid), value.type, output_weights.mean(lo, hi))


def _mean(rows: BasisSpec, total: BasisSpec, bound: Interval, of: str, weights: tuple[float, float]) -> Measured:
    """A sum about its centre by a count of at least 1, within the bound of what is averaged; NULL of no rows."""
    type_ = "float8" if of in FLOATS else "numeric"
    step, center = (f"{decimal(x)}::numeric" for x in (total.grid, total.center + total.taken))
    ratio = arithmetic.over(arithmetic.scaled(arithmetic.basis(1), step), arithmetic.at_least(arithmetic.basis(0), "1"))
    low, high = map(decimal, bound.ends)
    held = arithmetic.clamped(arithmetic.plus(arithmetic.constant(center), ratio), low, high, total.sure)
    found = arithmetic.among(arithmetic.rising(held, lambda x: f"CAST({x} AS {type_})"), arithmetic.basis(0), 1)
    known = Interval(*(end if sure else None for end, sure in zip(bound.ends, total.sure, strict=True)))
    return replace(_measured((rows, total), found, type_, "mean", weights), bound=known)


def per_unit_type(name: str, args: tuple[Expr, ...]) -> str:
    """Return the PostgreSQL type of an aggregate or window function inside one unit."""
    if name in ("count", "row_number", "rank", "dense_rank"):
        return "int8"
    if name == "ntile":
        return "int4"
    if name == "sum":
        return sum_type(args[0].type)
    if name in ("avg", "stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop"):
        return "float8" if args[0].type in FLOATS else "numeric"
    if name in ("bool_or", "bool_and", "every"):
        return "bool"
    return args[0].type if args else "int8"

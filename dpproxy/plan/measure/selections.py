"""MIN, MAX, percentiles and MODE as selections from a grid (PRIVACY.md section 3: the exponential mechanism on rank).

Knows: grids of numbers, days and seconds, and how a chosen grid index reads in PostgreSQL. Must not know: how it is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpproxy.errors import INSUFFICIENT_PRIVILEGE, NUMERIC_VALUE_OUT_OF_RANGE, Refusal
from dpproxy.plan.context import GRID_STEPS
from dpproxy.plan.functions.operators import minus
from dpproxy.plan.functions.times import extract
from dpproxy.plan.measure import durations
from dpproxy.plan.measure.specs import CONTRIBUTION_STEPS, SelectionSpec
from dpproxy.plan.operations.catalogue import operation, unit_cut_to
from dpproxy.plan.operations.constants import stamp_of
from dpproxy.plan.operations.units import DAY, UNITS
from dpproxy.plan.properties.facts import Facts, facts
from dpproxy.plan.properties.grid import on_grid
from dpproxy.plan.properties.key_origins import expanded
from dpproxy.plan.properties.required_bounds import bounded_argument
from dpproxy.plan.refusals import unsupported
from dpproxy.sql.types import INTEGERS, NUMBERS, TIMES, decimal
from dpproxy.table_terms import Enumeration, spelled_type
from dpproxy.tree.expr import Agg, Call, Case, Cast, Expr, Lit, Ref, SeriesDomain, ValuesDomain
from dpproxy.tree.interval import Interval

MAX_SIZE = 2**40  # points of a grid (mechanisms.exponential.MAX_SIZE)
MAX_SECONDS = 2**32  # what an engine rounds to whole steps without error; a grid of seconds reaches the year 2106
MAX_MODES = 1_000  # declared values of a MODE: one CASE arm each


def selected(agg: Agg, label: str) -> tuple[SelectionSpec, str, str]:
    """Return the selection, the formula over one of its columns, `{0}`, and PostgreSQL's type, that of an array where several
    values are asked for. Raises Refusal."""
    if agg.distinct:
        agg = replace(agg, distinct=False) if agg.name in ("min", "max") else agg
    if agg.name == "mode":
        return _mode(agg, label)
    if agg.name in ("min", "max"):
        value, array = agg.args[0], False
        fractions: tuple[Fraction, ...] = (Fraction(agg.name == "max"),)
    else:
        value, fractions, array = _percentile(agg)
    spec, text = _grid(agg, value, fractions, label)
    type_ = "float8" if agg.name == "percentile_cont" and value.type in NUMBERS else value.type
    return spec, f"CAST({text.replace('#', '{0}')} AS {type_})", f"{type_}[]" if array else type_


def together(single: str, type_: str, numbers: Sequence[int]) -> str:
    """Write a selection's value over its columns `{0}`.., of the formula of one of them."""
    reads = [single.replace("{0}", f"{{{i}}}") for i in numbers]
    return f"ARRAY[{', '.join(reads)}]" if type_.endswith("[]") else reads[0]


def _percentile(agg: Agg) -> tuple[Expr, tuple[Fraction, ...], bool]:
    if len(agg.order) != 1 or not agg.fractions:
        raise unsupported(f"{agg.name}() of this form", f"Write {agg.name}(0.5) WITHIN GROUP (ORDER BY x).")
    value, descending, _ = agg.order[0]
    if any(not 0 <= f <= 1 for f in agg.fractions):
        raise Refusal(NUMERIC_VALUE_OUT_OF_RANGE, "percentile value is not between 0 and 1")
    fractions = tuple(1 - f if descending else f for f in agg.fractions)
    return value, fractions, bool(agg.args)


def _grid(agg: Agg, value: Expr, fractions: tuple[Fraction, ...], label: str) -> tuple[SelectionSpec, str]:
    """The grid of a value, and how grid index `#` reads."""
    if value.type in NUMBERS:
        bounded_argument(replace(agg, args=(value,), order=()))
        known = facts(value)
        lo, hi, grid = on_grid(*_candidates(known).ends, known.grid, GRID_STEPS[0])
        spec = SelectionSpec(value, agg.where, label, lo, hi, grid, fractions, sure=known.sure)
        return spec, f"(# + ({lo})) * {decimal(grid)}"
    if durations.is_duration(value):
        spec, text = _grid(agg, durations.seconds(value, agg.name), fractions, label)
        return spec, durations.read(text)
    if value.type not in TIMES:
        raise Refusal(
            INSUFFICIENT_PRIVILEGE,
            f"{agg.name}() of {value.type} over private rows would reveal a single value",
            hint="Group by it instead: values that enough people share become rows.",
        )
    bound = _candidates(facts(value))
    if not bound.closed:
        bounded_argument(replace(agg, args=(Ref("int8", value.column),) if isinstance(value, Ref) else (value,), order=()))
        raise unsupported(
            f"{agg.name}() of a time without a declared range", "Ask the policy's author for a `range` of the column."
        )
    spec, text = _time_grid(agg, value, bound, fractions, label)
    return replace(spec, sure=facts(value).sure), text


def _candidates(known: Facts) -> Interval:
    """Where a value is chosen from: its bound. Where only contribution bounds end it, as far beyond these as classes of counts
    and sums reach: more candidates cost a selection the logarithm of their number."""
    reach = known.reach
    if known.limited is None or not reach.closed:
        return reach
    (lo, hi), more = reach.ends, (1 << CONTRIBUTION_STEPS - 1) - 1
    beyond = (hi - lo) * more
    return Interval(lo if known.sure[0] else lo - beyond, hi if known.sure[1] else hi + beyond)


def _time_grid(agg: Agg, value: Expr, bound: Interval, fractions: tuple[Fraction, ...], label: str) -> tuple[SelectionSpec, str]:
    lo, hi = (x.__floor__() for x in bound.ends)
    if value.type == "date":
        days = minus(value, Lit("date", "1970-01-01"))
        return SelectionSpec(
            days, agg.where, label, lo, hi, Fraction(1), fractions
        ), f"DATE '1970-01-01' + CAST(# + ({lo}) AS int4)"
    seconds, step = extract("epoch", value, result="float8"), _seconds_step(expanded(value))
    while max(abs(lo), abs(hi)) // step > MAX_SECONDS:
        step *= 60  # ranges of centuries are chosen from by the minute or hour
    lo, hi = lo // step, -(-hi // step)
    spec = SelectionSpec(seconds, agg.where, label, lo, hi, Fraction(step), fractions)
    text = f"TIMESTAMP '1970-01-01' + (# + ({lo})) * INTERVAL '{step} second'"
    whole = expanded(value)
    unit = unit_cut_to(whole)
    return spec, f"date_trunc('{unit}', {text})" if unit is not None and _skips_days(unit) else text


def _skips_days(unit: str) -> bool:
    """Whether a unit begins with days, but not with each day: what is chosen is one of them."""
    known = UNITS.get(unit)
    return known is not None and known.cut and known.days[0] > 1


def _seconds_of(unit: str) -> int:
    """The whole seconds that beginnings of a unit are multiples of."""
    known = UNITS.get(unit)
    return 1 if known is None else DAY if known.of_days else max(int(known.seconds[0]), 1)


def _seconds_step(value: Expr) -> int:
    """Return the seconds that times are whole multiples of: a day has no time of day."""
    if value.type == "date":
        return 86_400
    match value:
        case Cast(arg=arg):
            return _seconds_step(arg) if arg.type in TIMES else 1
        case Call() if (unit := unit_cut_to(value)) is not None:
            return _seconds_of(unit)
        case Call(op=op, args=args) if operation(op).chooses:
            return math.gcd(*map(_seconds_step, args))
        case Case(whens=whens, default=default):
            results = [r for _, r in whens] + ([default] if default is not None else [])
            return math.gcd(*map(_seconds_step, results))
        case Lit(text=None):
            return 86_400
        case _ if (stamp := stamp_of(value)) is not None:
            return math.gcd(86_400, (stamp.hour * 60 + stamp.minute) * 60 + stamp.second) if not stamp.microsecond else 1
        case _:
            return 1


def _mode(agg: Agg, label: str) -> tuple[SelectionSpec, str, str]:
    if len(agg.order) != 1 or agg.args:
        raise unsupported("mode() of this form", "Write mode() WITHIN GROUP (ORDER BY x).")
    value = agg.order[0][0]
    domain = value.column.domain if isinstance(value, Ref) else None
    values: tuple[str | None, ...] = ()
    if isinstance(domain, ValuesDomain):
        values = tuple(v for v in domain.values if v is not None)
    elif isinstance(domain, SeriesDomain) and domain.kind == "int" and value.type in INTEGERS:
        values = tuple(str(v) for v in range(domain.lo, domain.hi + 1)) if domain.size <= MAX_MODES else ()
    if not 0 < len(values) <= MAX_MODES:
        raise unsupported("mode() of a column without declared values", "Use GROUP BY x ORDER BY count(*) DESC LIMIT 1.")
    spec = SelectionSpec(value, agg.where, label, 0, len(values) - 1, Fraction(1), (), values)
    items = ", ".join("'" + (v or "").replace("'", "''") + "'" for v in values)
    formula = f"(CAST(ARRAY[{items}] AS {value.type}[]))[{{0}} + 1]"
    if isinstance(value.type, Enumeration):
        formula = f"CAST({formula} AS {spelled_type(value.type)})"
    formula = formula.replace("{", "{{").replace("}", "}}")
    return spec, formula.replace("{{0}}", "{0}"), value.type

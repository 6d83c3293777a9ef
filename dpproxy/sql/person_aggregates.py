"""GoogleSQL's differentially private aggregates, in plain SQL: of each person's rows in a group first, then of all persons.

Knows: trees. Must not know: policies, plans, clauses of text. `SUM(x, contribution_bounds_per_group => (0, 10))` clamps each
person's sum in a group, and AVG averages the persons' averages: both are taken of each person and group in a subquery, and
clamped by LEAST and GREATEST, which the planner knows to bound. PERCENTILE_CONT, VAR_POP and STDDEV_POP are of rows, whose
values are clamped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

import sqlglot
from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, GROUPING_ERROR, Refusal
from dpproxy.sql.dialect import FaithfulPostgres, copied, ident
from dpproxy.sql.group_keys import group_keys, regrouped

GROUP_BOUNDS, ROW_BOUNDS = "contribution_bounds_per_group", "contribution_bounds_per_row"
_UNITS = "dpproxy_units"
_OF_A_PERSON = {"count", "sum", "avg"}
_OF_ROWS = {"percentile_cont", "quantiles", "var_pop", "stddev_pop"}


Units = frozenset[tuple[str, str]]
"""Tables, and the column of each that holds its unit ids."""


def unit_names(units: Units) -> str:
    return " or ".join(sorted({column for _, column in units})) or "the unit id"


def refused(what: str, instead: str) -> Refusal:
    return Refusal(FEATURE_NOT_SUPPORTED, what, hint=instead)


def _bounds(call: exp.Anonymous) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """The arguments of a call, and its two bounds, or none."""
    arguments = [a for a in call.expressions if not isinstance(a, exp.Kwarg)]
    for named in (a for a in call.expressions if isinstance(a, exp.Kwarg)):
        pair = named.expression
        if named.this.name.lower() not in (GROUP_BOUNDS, ROW_BOUNDS) or not isinstance(pair, exp.Tuple):
            raise refused(f"the argument {named.this.name} of {call.name}()", f"Arguments: {GROUP_BOUNDS} => (low, high).")
        return arguments, list(pair.expressions)
    return arguments, []


def _held(value: exp.Expr, bounds: Sequence[exp.Expr]) -> exp.Expr:
    """The value moved into its bounds; NULL stays NULL, which GREATEST would ignore."""
    if not bounds:
        return value
    low, high = (copied(b) for b in bounds)
    most = exp.Anonymous(this="greatest", expressions=[copied(value), low])
    known = exp.Is(this=copied(value), expression=exp.Null(), negate=True)
    return exp.Case(ifs=[exp.If(this=known, true=exp.Anonymous(this="least", expressions=[most, high]))])


def is_anonymous(node: exp.Expr) -> bool:
    """Tell whether a node is an aggregate that plain SQL lacks: `ANON_SUM(x)`, or one with bounds of contributions."""
    if not isinstance(node, exp.Anonymous):
        return False
    bounded = any(isinstance(a, exp.Kwarg) and a.this.name.lower() in (GROUP_BOUNDS, ROW_BOUNDS) for a in node.expressions)
    return bounded or node.name.lower().startswith("anon_")


def own_calls(select: exp.Select, test: Callable[[exp.Expr], bool]) -> list[exp.Anonymous]:
    """Calls of this SELECT itself that pass a test."""
    return [n for n in select.find_all(exp.Anonymous) if test(n) and n.find_ancestor(exp.Select) is select]


def _kind(call: exp.Expr) -> str:
    name = call.name.lower().removeprefix("anon_") if isinstance(call, exp.Anonymous) else ""
    name = "quantiles" if name == "approx_quantiles" else name
    return name if name in _OF_A_PERSON | _OF_ROWS else ""


def aggregated(select: exp.Select, unit: str, units: Units, given: bool) -> None:
    """Write the aggregates of a SELECT with a clause, or, unless `given`, those that only such a SELECT has. `unit`: the column
    that its clause names; `units`: those that it may be."""
    calls = own_calls(
        select, lambda n: bool(_kind(n)) and (given or is_anonymous(n)) and not isinstance(n.parent, exp.WithinGroup)
    )
    unknown = own_calls(select, lambda n: is_anonymous(n) and not _kind(n))
    if unknown:
        raise refused(
            f"{unknown[0].name.lower()}() is not supported", "Use count, sum, avg, percentile_cont, var_pop or stddev_pop."
        )
    by_person = [c for c in calls if _kind(c) in _OF_A_PERSON and (_kind(c) == "avg" or _bounds(c)[1])]
    if by_person:
        of_rows = next((c for c in calls if _kind(c) in _OF_ROWS), None)
        if of_rows is not None:
            raise refused(
                f"{of_rows.name.lower()}() is of rows, {by_person[0].name.lower()}() of each person's rows together",
                "Ask for them in statements of their own.",
            )
        _of_persons(select, calls, _unit_column(select, unit, units))
        return
    for call in calls:
        call.replace(_of_rows(call))


def _of_rows(call: exp.Anonymous) -> exp.Expr:
    (first, *rest), bounds = _bounds(call)
    name, value = _kind(call), _held(first, bounds)
    if name in ("percentile_cont", "quantiles"):
        if len(rest) != 1:
            raise refused(f"{call.name.lower()}() of this form", "Write percentile_cont(0.5) WITHIN GROUP (ORDER BY x).")
        fraction = rest[0] if name == "percentile_cont" else _boundaries(rest[0])
        order = exp.Order(expressions=[exp.Ordered(this=value)])
        return exp.WithinGroup(this=exp.Anonymous(this="percentile_cont", expressions=[fraction]), expression=order)
    return exp.Anonymous(this=name, expressions=[value, *rest])


def _boundaries(number: exp.Expr) -> exp.Expr:
    """The shares at which a number of quantiles meet, both ends included."""
    parts = int(number.name) if isinstance(number, exp.Literal) and number.name.isdigit() else 0
    if not 1 <= parts <= 100:
        raise refused("quantiles of this number", "Give a whole number from 1 to 100.")
    return exp.Array(expressions=[exp.Literal.number(f"{Decimal(i) / parts:.6f}") for i in range(parts + 1)])


def _unit_column(select: exp.Select, unit: str, units: Units) -> exp.Expr:
    if unit:
        return sqlglot.parse_one(unit, read=FaithfulPostgres)
    clause, columns = select.args.get("from_"), {column for _, column in units}
    table = clause.this if clause is not None else None
    own = dict(units).get(ident(table.this)) if isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier) else None
    column = own or (next(iter(columns)) if len(columns) == 1 else None)
    if select.args.get("joins") or column is None:
        raise refused(
            "bounds of a person's contribution want a privacy_unit_column here",
            f"Name it in the clause: OPTIONS(privacy_unit_column = {unit_names(units)}).",
        )
    return exp.column(exp.to_identifier(column, quoted=True))


def _of_persons(select: exp.Select, calls: Sequence[exp.Anonymous], unit: exp.Expr) -> None:
    """The aggregates of each person and group, and those of all persons over them."""
    keys = group_keys(select)
    if keys is None:
        raise refused("ROLLUP, CUBE and GROUPING SETS beside bounds of a person's contribution", "Group by columns.")
    inner = exp.Select(expressions=[exp.alias_(unit, "u"), *(exp.alias_(copied(key), f"k{i}") for i, key in enumerate(keys))])
    for part in ("from_", "joins", "where"):
        inner.set(part, select.args.get(part))
        select.set(part, None)
    for number, call in enumerate(calls):
        arguments, bounds = _bounds(call)
        if any(isinstance(a, exp.Distinct) for a in arguments):
            raise refused("DISTINCT beside bounds of a person's contribution", "Ask for it in a statement of its own.")
        place: exp.Expr = call.parent if isinstance(call.parent, exp.Filter) else call
        of_one = exp.Anonymous(this=_kind(call), expressions=[copied(a) for a in arguments])
        filtered = exp.Filter(this=of_one, expression=copied(place.expression)) if place is not call else of_one
        inner.append("expressions", exp.alias_(filtered, f"a{number}"))
        whole: exp.Expr = exp.Anonymous(
            this="avg" if _kind(call) == "avg" else "sum", expressions=[_held(exp.column(f"a{number}", table=_UNITS), bounds)]
        )
        if _kind(call) == "count":
            whole = exp.cast(whole, "bigint", dialect=FaithfulPostgres)
        place.replace(whole)
    inner.set("group", exp.Group(expressions=[exp.Literal.number(i + 1) for i in range(len(keys) + 1)]))
    regrouped(select, keys, inner, _UNITS)
    _check_grouped(select)


def _check_grouped(select: exp.Select) -> None:
    """What is left of the columns of the rows is neither a key nor in an aggregate."""
    columns = [c for item in select.expressions for c in item.find_all(exp.Column) if ident(c.args.get("table")) != _UNITS]
    left = next((c for c in columns if c.find_ancestor(exp.Select) is select), None)
    if left is not None:
        raise Refusal(
            GROUPING_ERROR,
            f'column "{left.name}" must appear in the GROUP BY clause or be used in an aggregate function',
            hint="Group by it, or leave it out.",
        )

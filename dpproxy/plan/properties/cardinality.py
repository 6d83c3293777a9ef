"""How many values a key can take over the values that a domain's query enumerates: an upper bound, NULL included.

Knows: expressions, facts, what stands for a column in the query of `domains`. Must not know: data, engines, what a policy's
`range` or a WHERE says of rows. That many groups a unit may reach without any being picked, and rows may hold whatever they
like: what drops their other groups is the join with the groups enumerated, so these are what is counted here. A column is
therefore taken with the bounds of its enumerated values alone, met with the conditions that the query tries on them.
A form of key without a rule has no count (None); there are then as many values as there are combinations to be tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.units import UNITS
from dpproxy.plan.properties import cells
from dpproxy.plan.properties.facts import as_type, facts, literal_number
from dpproxy.plan.properties.narrowing import narrowed_bound
from dpproxy.tree import interval as iv
from dpproxy.tree.expr import (
    Call,
    Case,
    Cast,
    Column,
    Domain,
    Expr,
    InList,
    Lit,
    Ref,
    SeriesDomain,
    ValuesDomain,
    has_subquery,
    rebuilt,
    references,
)
from dpproxy.tree.interval import OPEN, Interval

_DAY = Fraction(86400)
_TIMES = ("timestamp", "timestamptz")


def most_values(key: Expr, domains: Sequence[tuple[Column, Domain]], conditions: Sequence[Expr]) -> int | None:
    """Say how many values `key` takes at most where each column takes the values of its domain that satisfy the conditions."""
    standing = {column.id: enumerated_column(column, domain, conditions) for column, domain in domains}
    return _outputs(_over(key, standing))


def most_distinct(value: Expr) -> int | None:
    """Say how many values, NULL aside, are declared of an expression; None where some column of it has no declared values."""
    domains = [(c, c.domain) for c in references(value)]
    declared = [(c, d) for c, d in domains if isinstance(d, ValuesDomain | SeriesDomain)]
    instants = any(isinstance(d, SeriesDomain) and c.type in _TIMES for c, d in declared)
    if not declared or len(declared) < len(domains) or has_subquery(value):
        return 2 if value.type == "bool" else None
    tried = None if instants else prod(_declared(d, alone=isinstance(value, Ref)) for _, d in declared)
    known = [n for n in (tried, most_values(value, declared, ()), 2 if value.type == "bool" else None) if n is not None]
    return min(known, default=None)


def _declared(domain: ValuesDomain | SeriesDomain, *, alone: bool) -> int:
    """How many values a domain has; NULL is not counted where it stays NULL."""
    if isinstance(domain, SeriesDomain):
        return domain.size - (domain.nulls and alone)
    return len(domain.values) - (None in domain.values and alone)


def enumerated_column(column: Column, domain: Domain, conditions: Sequence[Expr]) -> Column:
    """Return the column with what is true of its enumerated values, whatever the policy says of it."""
    bound, grid = _values(column.type, domain) if isinstance(domain, ValuesDomain) else _series(column, domain)
    said = narrowed_bound(Ref(column.type, column), [_over(c, {column.id: column}) for c in conditions])
    month = isinstance(domain, SeriesDomain) and domain.kind == "month"
    if said.lo is not None and (column.type in _TIMES or month):  # what stands for instants is tried as a whole
        said = replace(said, lo=said.lo - (31 if month else 1) * (_DAY if column.type in _TIMES else 1))
    return replace(column, bound=iv.meet(bound, said), grid=grid)


def _series(column: Column, domain: Domain) -> tuple[Interval, Fraction | None]:
    if not isinstance(domain, SeriesDomain):
        return OPEN, None
    if domain.kind == "month":
        lo, hi = map(Fraction, cells.days(domain))
        return (Interval(lo, hi), Fraction(1)) if column.type == "date" else (Interval(lo * _DAY, hi * _DAY), None)
    if column.type not in _TIMES:
        return Interval(Fraction(domain.lo), Fraction(domain.hi)), Fraction(1)
    size = UNITS[domain.kind].seconds[0]
    return Interval(domain.lo * size, domain.hi * size), None


def _values(type_: str, domain: ValuesDomain) -> tuple[Interval, Fraction | None]:
    numbers = [literal_number(type_, v) for v in domain.values if v is not None]
    known = [n for n in numbers if n is not None]
    if not known or len(known) < len(numbers):
        return OPEN, None
    whole = type_ not in _TIMES and all(n.denominator == 1 for n in known)
    return Interval(min(known), max(known)), Fraction(1) if whole else None


def _over(expr: Expr, standing: Mapping[int, Column]) -> Expr:
    if isinstance(expr, Ref):
        return Ref(expr.type, standing.get(expr.column.id, expr.column))
    return rebuilt(expr, lambda e: _over(e, standing))


def _outputs(key: Expr) -> int | None:
    """By the key's form, and by its bounds where it is a whole number."""
    if isinstance(key, Ref):
        return None  # as many as are declared
    known = facts(key)
    if key.type == "bool" and isinstance(key, Call | InList):  # of a test every result is a group, whatever it tests
        return 3 if known.nullable else 2
    whole = _whole(known.bound) + 1 if known.grid == 1 and known.bound.closed else None
    counts = [3 if key.type == "bool" else None, whole, _form_outputs(key)]
    return min((n for n in counts if n is not None), default=None)


def _whole(bound: Interval) -> int:
    """How many whole numbers are within a closed bound."""
    lo, hi = bound.ends
    return max(hi.__floor__() - lo.__ceil__() + 1, 0)


def _form_outputs(key: Expr) -> int | None:
    """A function has no more results than its arguments have values."""
    if isinstance(key, Case):
        return _case_outputs(key)
    if isinstance(key, Cast):
        return _outputs(key.arg)
    return _call_outputs(key) if isinstance(key, Call) else None


def _case_outputs(key: Case) -> int | None:
    """Its constants, and what else its arms have."""
    arms: list[tuple[Expr | None, Expr]] = [*key.whens, (None, key.default or Lit(key.type, None))]
    others = [_arm_outputs(test, result) for test, result in arms if not isinstance(result, Lit)]
    known = [n for n in others if n is not None]
    constants = {result for _, result in arms if isinstance(result, Lit)}
    return len(constants) + sum(known) if len(known) == len(others) else None


def _arm_outputs(test: Expr | None, result: Expr) -> int | None:
    """What is tested to be one of some constants has no other values."""
    match test:
        case InList(arg=arg, items=items, negated=False) if arg == result and all(isinstance(item, Lit) for item in items):
            return len(items)
        case _:
            return _outputs(result)


def _call_outputs(key: Call) -> int | None:
    row = operation(key.op)
    if row.count is not None:
        found = row.count(key.args, lambda moment: as_type("timestamp", moment).bound)
        return None if found is None else found + 1
    known = [_outputs(a) for a in key.args if references(a)]
    return prod(k for k in known if k is not None) if known and None not in known else None

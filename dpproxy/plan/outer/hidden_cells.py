"""Grouping sets whose cells hold every row: values that no group is for are cells as well, measured and not shown.

Knows: keys as expressions, what is declared of their columns. Must not know: trees, engines, noise. Rows whose region is NULL, or
not one of its declared values, are in every total and in no group of `ROLLUP (region)`: so totals cannot be added up from
groups, nor be made to agree with them. With `CASE WHEN region IN (<declared values>) THEN region END` as the key they can: its
NULL is one group for all other values, which there is whatever the data are (`properties.stray_values`), and it is left out of
what is shown (`released_source`). Where NULL is a declared value, a text that is none of them stands for the others.

So a row is in one cell of each grouping set, as it is in one total. What a unit can change is derived of the new keys like of any
others; a unit of one row is in one group of each still.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from sqlglot import exp

from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.properties.stray_values import values_beyond
from dpproxy.sql.dialect import to_sql
from dpproxy.sql.types import INTEGERS, TEXTS
from dpproxy.tree.expr import Call, Case, Cast, Column, Expr, InList, Lit, Ref, SeriesDomain, ValuesDomain, conjunction

OTHERS = "(not declared)"


@dataclass(frozen=True)
class Hidden:
    """A key one of whose values, `value`, stands for all that are not declared."""

    key: Expr
    value: str | None


def with_rest(key: Expr) -> Hidden | None:
    """Return the key with one value for all that its column does not declare; None where there are none, or where no value is
    known that could stand for them."""
    column = _only_column(key)
    if column is None or column.domain is None or not any(values_beyond(column, column.domain)):
        return None
    if isinstance(column.domain, ValuesDomain) and None in column.domain.values:
        return _beside_null(column, column.domain) if isinstance(key, Ref) and column.type in TEXTS else None
    declared = _declared(column)
    return Hidden(Case(key.type, ((declared, key),), None), None) if declared is not None else None


def shown_test(name: str, value: str | None) -> str:
    """Write the test that a released key, a column of that name, is not the value that stands for others."""
    return f"{name} IS NOT NULL" if value is None else f"{name} IS DISTINCT FROM {to_sql(exp.Literal.string(value))}"


def _only_column(key: Expr) -> Column | None:
    """The column that a key is, or that it is the month of, or the like; NULL only where the column is."""
    match key:
        case Ref(column=column):
            return column
        case Cast(arg=arg, type="timestamp" | "timestamptz" | "date"):
            return _of_day(arg)
        case Call(op=op, args=(*units, arg)) if all(isinstance(unit, Lit) for unit in units):
            row = operation(op)
            return _of_day(arg) if row.step is not None and row.moment == len(units) else None
        case _:
            return None


def _of_day(arg: Expr) -> Column | None:
    column = _only_column(arg)
    return column if column is not None and column.type == "date" else None


def _beside_null(column: Column, domain: ValuesDomain) -> Hidden:
    """Of a text, with NULL as one of its declared values."""
    ref, other = Ref(column.type, column), OTHERS
    while other in domain.values:
        other += " "
    none, some = Call("bool", "is_null", (ref,)), tuple(value for value in domain.values if value is not None)
    arms = ((none, Lit(column.type, None)), (_one_of(ref, some), ref))
    return Hidden(Case(column.type, arms, Lit(column.type, other)), other)


def _declared(column: Column) -> Expr | None:
    """The condition that a column has a declared value, of which NULL is none; None where it cannot be written."""
    domain, ref = column.domain, Ref(column.type, column)
    if isinstance(domain, ValuesDomain):
        return _one_of(ref, tuple(value for value in domain.values if value is not None))
    if not isinstance(domain, SeriesDomain) or domain.nulls:
        return None
    lo, hi = (_literal(column.type, number) for number in (domain.lo, domain.hi))
    if lo is None or hi is None:
        return None
    return conjunction((Call("bool", ">=", (ref, lo)), Call("bool", "<=", (ref, hi))))


def _one_of(ref: Ref, values: tuple[str, ...]) -> Expr:
    return InList("bool", ref, tuple(Lit(ref.type, value) for value in values))


def _literal(type_: str, number: int) -> Lit | None:
    if type_ in INTEGERS:
        return Lit(type_, str(number))
    return Lit(type_, (date(1970, 1, 1) + timedelta(days=number)).isoformat()) if type_ == "date" else None

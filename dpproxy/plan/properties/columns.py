"""Columns made of other columns: those that hold the value of an expression, and those an outer join may leave without one.

Knows: expressions and what is known of them. Must not know: relations, SQL text, engines. What is said of a column here is
true of the rows it is in; `Column.constant` decides privacy, so a column that is made anew is constant only where its
expression is.
"""

from __future__ import annotations

from dataclasses import replace

from dpproxy.plan.context import Counter
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.text_length import longest_text
from dpproxy.sql.types import TEXTS
from dpproxy.tree.expr import Column, Expr, SeriesDomain, ValuesDomain, Win, references


def computed_column(counter: Counter, name: str, expr: Expr) -> Column:
    """Return a column for the value of an expression, with all that is known of it."""
    known = facts(expr)
    column = Column(
        counter.column(),
        name,
        expr.type,
        known.bound,
        known.grid,
        known.taint,
        constant=known.constant,
        nullable=known.nullable,
        nulls=known.nullable,
        declared=not _counts(expr) and any(c.declared for c in references(expr)),
        limited=known.limited,
    )
    return replace(column, length=longest_text(expr)) if expr.type in TEXTS else column


def _counts(expr: Expr) -> bool:
    """Whether it counts rows, whatever they hold."""
    return isinstance(expr, Win) and expr.name in ("count", "row_number", "rank", "dense_rank", "ntile")


def nulled_column(column: Column) -> Column:
    """Return a column on the optional side of an outer join: NULL in the rows that ON did not match, so not constant either."""
    domain = column.domain
    if isinstance(domain, ValuesDomain):
        domain = domain if None in domain.values else ValuesDomain((*domain.values, None))
    elif isinstance(domain, SeriesDomain):
        domain = replace(domain, nulls=True)
    else:
        domain = None
    return replace(column, nullable=True, nulls=True, domain=domain, constant=False, optional=True, made=None)

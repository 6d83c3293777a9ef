"""Which expressions say nothing about the padded rows of an outer join.

Knows: expressions, which columns keep their values in a padded row. Must not know: engines, measurements. `public LEFT JOIN
private` is measured as an inner join: the rows that SQL pads with NULLs are left out. An aggregate means the same only
when those rows add nothing to it: when its argument is NULL, or its FILTER not true, as soon as all private columns are.
"""

from __future__ import annotations

from dataclasses import replace

from dpproxy.plan.context import Counter
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.narrowing import not_true, vanishes
from dpproxy.plan.properties.text_growth import longest_text
from dpproxy.sql.types import TEXTS
from dpproxy.tree.expr import Agg, Call, Case, Cast, Column, Expr, Lit, SeriesDomain, ValuesDomain, Win, references


def ignores_padding(agg: Agg, kept: frozenset[int]) -> bool:
    """Tell whether padded rows add nothing; `kept`: ids of the columns that are not NULL in them."""
    if agg.where is not None and not_true(agg.where, kept):
        return True
    if agg.name == "sum":
        return _nothing(agg.args[0], kept)
    return any(vanishes(a, kept) for a in (*agg.args, *(o[0] for o in agg.order)))


def _nothing(expr: Expr, kept: frozenset[int]) -> bool:
    """Whether it is NULL or 0 in padded rows."""
    match expr:
        case Lit(text=text):
            return text is None or text.strip("+-0.") == ""
        case Cast(arg=arg):
            return _nothing(arg, kept)
        case Case(whens=whens, default=default):
            results = all(not_true(test, kept) or _nothing(result, kept) for test, result in whens)
            return results and (default is None or _nothing(default, kept))
        case Call(op="coalesce", args=args):
            return all(_nothing(a, kept) for a in args)
        case _:
            return vanishes(expr, kept)


# Columns made of other columns: those that hold the value of an expression, and those an outer join may leave without one.
#
# Knows: expressions and what is known of them. Must not know: relations, SQL text, engines. What is said of a column here is
# true of the rows it is in; `Column.constant` decides privacy, so a column that is made anew is constant only where its
# expression is.


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

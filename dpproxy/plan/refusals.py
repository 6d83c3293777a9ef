"""Refusals that more than one room of the planner makes, in one wording.

Knows: where a tree's node stands in the statement, what the policy calls its units. Must not know: what was tried before it was
refused. Each says what is not possible, and what to write instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, INSUFFICIENT_PRIVILEGE, Refusal
from dpproxy.policy.names import plural
from dpproxy.sql.dialect import position


@dataclass(unsafe_hash=True)
class FormRefusal(Refusal):
    """A refusal of the form in which a query is written, not of what it asks: a rule of `plan.rewrite` may know another."""


class NoMember(Exception):
    """Carries a refusal of `x IN (query)` itself, not of what is in the query: whether some row has x may be told all the same.
    It is no Refusal, so that nothing but the binding of IN takes it for one."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


AROUND: Final = (
    "Compute it around the aggregate, over what is released: SELECT f(n) FROM (SELECT k, count(*) AS n ... GROUP BY k) t."
)
OTHER_TYPE: Final = "Cast it to a type that may stand there: x::int, x::numeric, x::text, x::date, x::timestamp."
OTHER_ARGUMENTS: Final = "Write it with the arguments that PostgreSQL's own function has, without further options."
CONSTANT: Final = "Write a constant there; where it differs from row to row: CASE WHEN a THEN f(x, 1) ELSE f(x, 2) END."
"""What helps, where the place of a refusal knows nothing that helps better."""


def unsupported(what: str, hint: str = AROUND) -> Refusal:
    """Refuse what no engine could do, or not for each person by itself, below a measurement. `hint`: what to write instead."""
    return Refusal(FEATURE_NOT_SUPPORTED, f"{what} is not supported below an aggregate over private rows", hint=hint)


def unsupported_form(what: str, hint: str) -> FormRefusal:
    """Refuse a form of query that a rule of `plan.rewrite` may write otherwise."""
    return FormRefusal(FEATURE_NOT_SUPPORTED, f"{what} is not supported below an aggregate over private rows", hint=hint)


def positioned(refusal: Refusal, at: int | None) -> Refusal:
    """Return the refusal with a position, where it has none of its own."""
    return refusal if refusal.position is not None else replace(refusal, position=at)


def rows_of_people(node: exp.Expr, unit: str) -> Refusal:
    """Refuse a query whose answer would be rows of single people."""
    return Refusal(
        INSUFFICIENT_PRIVILEGE,
        f"answers are aggregates over many {plural(unit)}; this query returns rows of single {plural(unit)}",
        position(node),
        hint=_over_it(node),
    )


def mixed_rows(node: exp.Expr, unit: str) -> Refusal:
    """Refuse a set operation of private and public rows."""
    return FormRefusal(
        FEATURE_NOT_SUPPORTED,
        f"{type(node).__name__.upper()} of private and public rows: the public ones belong to no {unit}",
        position(node),
        hint="Aggregate each side by itself, and put the results together: SELECT k, count(*) FROM private GROUP BY k UNION ALL "
        "SELECT k, count(*) FROM public GROUP BY k.",
    )


def _over_it(node: exp.Expr) -> str:
    """Say how to aggregate: rows of people that are aggregates already want another one around them."""
    if isinstance(node, exp.Select) and node.args.get("group") is not None:
        return "Aggregate over it, without ORDER BY and LIMIT: SELECT avg(x) FROM (SELECT ..., sum(...) AS x ... GROUP BY 1) t."
    if isinstance(node, exp.SetOperation):
        return "Release each side that reads private rows: SELECT DISTINCT x ..., or SELECT x, count(*) ... GROUP BY x."
    return "Aggregate: SELECT count(*), sum(...), avg(...) ... GROUP BY ..."


def recursion(node: exp.Expr, unit: str) -> Refusal:
    """Refuse WITH RECURSIVE over private rows without a stated depth: nothing bounds what it makes of one person's."""
    return FormRefusal(
        FEATURE_NOT_SUPPORTED,
        f"a recursive query over private rows is not supported without a stated depth: how often it repeats would depend on "
        f"the rows of a {unit}",
        position(node),
        hint="State it, of at most 10 steps: WITH RECURSIVE r AS (SELECT ..., 1 AS depth FROM ... UNION ALL SELECT ..., "
        "r.depth + 1 FROM r JOIN ... WHERE r.depth < 5); or aggregate first, and recurse over the released result.",
    )


def limit_below(node: exp.Expr) -> Refusal:
    """Refuse LIMIT and OFFSET over private rows that are then aggregated."""
    return Refusal(
        FEATURE_NOT_SUPPORTED,
        "LIMIT and OFFSET below an aggregate over private rows choose single rows",
        position(node),
        hint="Aggregate first and put LIMIT on the released rows, or drop it; to keep some rows of each person, number them by "
        "row_number() OVER (PARTITION BY the person's id ORDER BY ...) and filter by that.",
    )


def private_correlation(node: exp.Expr, unit: str) -> Refusal:
    """Refuse a subquery over private rows that looks at the query around it in a way that cannot be measured once."""
    return Refusal(
        FEATURE_NOT_SUPPORTED,
        f"a subquery over private rows that refers to the query around it must be one aggregate of many {plural(unit)}",
        position(node),
        hint="Let it refer only by `inner column = outer column` in its WHERE, or measure it in a CTE and join that.",
    )


def private_in_public(node: exp.Expr, unit: str) -> Refusal:
    """Refuse a subquery over private rows by which public rows would be chosen."""
    return FormRefusal(
        FEATURE_NOT_SUPPORTED,
        "a subquery over private rows would decide exactly which rows are returned",
        position(node),
        hint="Aggregate inside the subquery: it may return counts, sums or averages of many "
        f"{plural(unit)}; or count by key, SELECT p.key, count(i.key) FROM public p LEFT JOIN private i "
        "ON ... GROUP BY 1, and compare these.",
    )

"""What the analysis of a query yields, and the refusals every room of it shares.

Knows: rows, trees. Must not know: how queries are analysed. A query is either rows (of units, or public ones that were
asked for as rows) or something the facade may run as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.context import Context
from dpproxy.plan.logical.expr import Column
from dpproxy.plan.logical.relation import Rows
from dpproxy.plan.refusals import FormRefusal
from dpproxy.sql.dialect import ident, position


@dataclass(frozen=True)
class RowsResult:
    """Rows and their output columns, in order."""

    rows: Rows
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class ReleasedResult:
    """A query the facade can run as it now stands. `measured`: it contains a measurement."""

    tree: exp.Expr
    measured: bool


Result = RowsResult | ReleasedResult


@dataclass(frozen=True)
class Item:
    """One item of FROM: rows (private or public) or something only the facade can produce."""

    alias: str
    rows: Rows | None
    columns: tuple[Column, ...]
    node: exp.Expr

    @property
    def private(self) -> bool:
        return self.rows is not None and self.rows.private


def renamed(item: Item, names: Sequence[str]) -> Item:
    """The item under the column names of its alias, as far as they go."""
    if not names:
        return item
    first = [replace(c, name=n) for c, n in zip(item.columns, names, strict=False)]
    return replace(item, columns=(*first, *item.columns[len(first) :]))


def alias_columns(node: exp.Expr) -> tuple[str, ...]:
    """The column names in `AS alias(a, b)`."""
    alias = node.args.get("alias")
    return tuple(ident(c) for c in alias.args.get("columns") or ()) if alias is not None else ()


def located(refusal: Refusal, at: int | None) -> Refusal:
    """The refusal with a position where it has none of its own."""
    return refusal if refusal.position is not None else replace(refusal, position=at)


def row_level(node: exp.Expr, context: Context) -> Refusal:
    unit = context.policy.unit_name
    return Refusal(
        FEATURE_NOT_SUPPORTED,
        f"answers are aggregates over many {unit}s; this query returns rows of single {unit}s",
        position(node),
        hint=_over_it(node),
    )


def mixed(node: exp.Expr, context: Context) -> Refusal:
    return FormRefusal(
        FEATURE_NOT_SUPPORTED,
        f"{type(node).__name__.upper()} of private and public rows: the public ones belong to no {context.policy.unit_name}",
        position(node),
        hint="Aggregate each side by itself, and put the results together: SELECT k, count(*) FROM private GROUP BY k UNION ALL "
        "SELECT k, count(*) FROM public GROUP BY k.",
    )


def _over_it(node: exp.Expr) -> str:
    """Rows of single units that are aggregates already want another one around them."""
    if isinstance(node, exp.Select) and node.args.get("group") is not None:
        return "Aggregate over it, without ORDER BY and LIMIT: SELECT avg(x) FROM (SELECT ..., sum(...) AS x ... GROUP BY 1) t."
    return "Aggregate: SELECT count(*), sum(...), avg(...) ... GROUP BY ..."


def limited(node: exp.Expr) -> Refusal:
    return Refusal(
        FEATURE_NOT_SUPPORTED,
        "LIMIT and OFFSET below an aggregate over private rows choose single rows",
        position(node),
        hint="Aggregate first and put LIMIT on the released rows, or drop it; to keep some rows of each person, number them by "
        "row_number() OVER (PARTITION BY the person's id ORDER BY ...) and filter by that.",
    )


def private_correlation(node: exp.Expr, context: Context) -> Refusal:
    unit = context.policy.unit_name
    return Refusal(
        FEATURE_NOT_SUPPORTED,
        f"a subquery over private rows that refers to the query around it must be one aggregate of many {unit}s",
        position(node),
        hint="Let it refer only by `inner column = outer column` in its WHERE, or measure it in a CTE and join that.",
    )


def private_in_public(node: exp.Expr, context: Context) -> Refusal:
    return FormRefusal(
        FEATURE_NOT_SUPPORTED,
        "a subquery over private rows would decide exactly which rows are returned",
        position(node),
        hint=f"Aggregate inside the subquery: it may return counts, sums or averages of many {context.policy.unit_name}s; or "
        "count by key, SELECT p.key, count(i.key) FROM public p LEFT JOIN private i ON ... GROUP BY 1, and compare these.",
    )

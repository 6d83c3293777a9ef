"""Tables of reports in FROM: their columns, and where a column that devices randomised may not stand.

Knows: what the policy says of reports, rows. Must not know: SQL text, how estimates are made. Such a column stands for the true
value of a device, which nobody has. It may be grouped by alone, and compared with constants: then what a group holds is estimated
over many reports (`plan.outer.reports`). Whatever else would look at a single report is refused here, by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.local.claims import Binary, Direct
from dpproxy.policy.model import Randomised
from dpproxy.sql.dialect import ident, position
from dpproxy.sql.nodes import every
from dpproxy.sql.types import INTEGERS, TEXTS
from dpproxy.tree.expr import Coin, Column, Expr, references
from dpproxy.tree.relation import Rows

OUTSIDE = "Group by it, and compute around: SELECT f(x) FROM (SELECT x, count(*) AS n FROM ... GROUP BY x) t."


def check_plain(rows: Rows, exprs: Iterable[Expr], use: str, hint: str = OUTSIDE) -> None:
    """Raise Refusal where an expression looks at a randomised column of single reports."""
    for expr in exprs if rows.reports is not None else ():
        assert rows.reports is not None
        for column in rows.reports.named(expr):
            raise randomised(column.shown.name, use, hint)


def randomised(name: str, use: str, hint: str = OUTSIDE, at: int | None = None) -> Refusal:
    """Refuse a use of a randomised column."""
    return Refusal(FEATURE_NOT_SUPPORTED, f"`{name}` was randomised on devices: {use}", at, hint=hint)


def coin(how: Randomised | None, type_: str) -> Coin | None:
    """Return how reports of a unit's table are estimated: those of yes or no and of few values, by one version of the claim."""
    claims = how.claims if how is not None else ()
    if how is None or len(claims) != 1:
        return None
    claim, listed = claims[0][1], how.values
    if isinstance(claim, Binary):
        return Coin(claim, ("false", "true"))
    if not isinstance(claim, Direct) or not isinstance(listed, tuple) or type_ not in (*TEXTS, *INTEGERS):
        return None
    return Coin(claim, tuple(map(str, listed)))


def unestimated(how: Randomised, type_: str) -> str:
    """Say why a column of a unit's table cannot be used as it is."""
    if coin(how, type_) is not None:
        return "randomised on devices"
    by = how.claims[-1][1].name if len(how.claims) == 1 else "several claims"
    return f"randomised on devices by {by}, of which no estimate is made in a table with a unit"


def coins(*exprs: Expr | None) -> tuple[Column, ...]:
    """Return the columns in expressions that are reports of yes or no, in a table with a unit."""
    found = (c for expr in exprs if expr is not None for c in references(expr) if c.coin is not None)
    return tuple(dict.fromkeys(found))


WEIGHED = "Put it into an aggregate: count(*) FILTER (WHERE x), sum(CASE WHEN x THEN 1 ELSE 0 END), avg(x::int); or into WHERE."


def check_weighed(rows: Rows, select: exp.Expr) -> None:
    """Raise Refusal where rows would be chosen by what devices randomised: aggregates alone are estimated."""
    for column in coins(*rows.weighed):
        use = "a condition on it is of a query that counts, or adds up"
        hint = "Aggregate in the same query: SELECT count(*) FROM ... WHERE x."
        raise randomised(column.name, use, hint, place(select, column.name))


def place(node: exp.Expr, name: str) -> int | None:
    """Return the position of the first mention of a column."""
    found = (position(column) for column in every(node, exp.Column) if ident(column.this) == name)
    return next((at for at in found if at is not None), None)


def check_joined(parts: Sequence[Rows], conditions: Sequence[Expr]) -> None:
    """Raise Refusal where reports meet rows that are not public, or are joined by what devices randomised."""
    private = [part for part in parts if part.private]
    reported = [part.reports for part in parts if part.reports is not None]
    if not reported:
        return
    if len(private) > 1:
        raise beside_private(reported[0].table.name)
    for condition in conditions:
        check_plain(private[0], [condition], "rows cannot be joined by it", JOINED)


JOINED = "Join in a query around: SELECT ... FROM (SELECT x, count(*) AS n FROM ... GROUP BY x) t JOIN ...; or x IN ('a', 'b')."


def beside_private(name: str, at: int | None = None) -> Refusal:
    """Refuse rows of reports together with rows of units, or with other reports."""
    return Refusal(
        FEATURE_NOT_SUPPORTED,
        f"`{name}` holds reports of devices: they cannot be put together with other private rows",
        at,
        hint="Ask of each by itself, and put the answers together in a query around: each is an aggregate then.",
    )


def check_inside(rows: Rows, query: exp.Expr) -> None:
    """Raise Refusal where a subquery in a condition would look at single reports."""
    if rows.reports is not None:
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            f"`{rows.reports.table.name}` holds reports of devices: a condition cannot look at single ones",
            position(query),
            hint="Aggregate in it: x IN (SELECT x FROM (SELECT x, count(*) AS n FROM reports GROUP BY x) t WHERE n > 1000).",
        )


def outer_join(name: str) -> Refusal:
    """Refuse an outer join that would keep public rows for want of a report."""
    return Refusal(
        FEATURE_NOT_SUPPORTED,
        f"`{name}` holds reports of devices: an outer join cannot add rows of another table that no report matches",
        hint="Put the reports first: FROM reports LEFT JOIN public ON ...; or join a subquery that counts them by group.",
    )


def repeats(name: str, at: int | None) -> Refusal:
    """Refuse a join that has a report several times: few would be shown as many, and errors taken for smaller than they are."""
    return Refusal(
        FEATURE_NOT_SUPPORTED,
        f"`{name}` holds reports of devices: joined so, one report may be there several times",
        at,
        hint="Join a public table by columns that name one of its rows, or group by such; or aggregate first, and join around.",
    )


def rows_of_reports(node: exp.Expr, name: str) -> Refusal:
    """Refuse a query whose answer would be single reports."""
    return Refusal(
        FEATURE_NOT_SUPPORTED,
        f"`{name}` holds reports of devices: answers are estimates over many reports",
        position(node.selects[0] if isinstance(node, exp.Query) and node.selects else node),
        hint="Aggregate: SELECT x, count(*) FROM ... GROUP BY x.",
    )

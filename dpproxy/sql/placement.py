"""Where aggregates and window functions may stand in a SELECT, refused elsewhere in PostgreSQL's words.

Knows: sqlglot's trees. Must not know: scopes, policies, engines. The facade's PostgreSQL parses every statement first, and says
the same. A plan does not rest on that: what an engine makes of an aggregate of aggregates may fail after the charge, or
mean something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from dpproxy.errors import GROUPING_ERROR, WINDOWING_ERROR, Refusal
from dpproxy.sql.dialect import position
from dpproxy.sql.trees import is_aggregate

Test = Callable[[exp.Expr], bool]


def check_placement(select: exp.Select) -> None:
    """Raise Refusal 42803 or 42P20 for a call in a clause or in another call where PostgreSQL allows none."""
    clauses = [("WHERE", select.args.get("where")), ("GROUP BY", select.args.get("group"))]
    clauses += [("JOIN conditions", join.args.get("on")) for join in select.args.get("joins") or ()]
    for name, clause in clauses:
        _none(clause, f"aggregate functions are not allowed in {name}", _is_aggregate, GROUPING_ERROR)
        _none(clause, f"window functions are not allowed in {name}", _is_window, WINDOWING_ERROR)
    having = select.args.get("having")
    _none(having, "window functions are not allowed in HAVING", _is_window, WINDOWING_ERROR)
    order = select.args.get("order")
    for part in (*select.expressions, having, order):
        for call in _calls(part, lambda node: _is_aggregate(node) or _is_window(node)):
            _check_call(call)


def check_group_key(item: exp.Expr) -> None:
    """Check a key that GROUP BY names by its number or alias. Raises Refusal 42803 or 42P20."""
    _none(item, "aggregate functions are not allowed in GROUP BY", _is_aggregate, GROUPING_ERROR)
    _none(item, "window functions are not allowed in GROUP BY", _is_window, WINDOWING_ERROR)


def _check_call(call: exp.Expr) -> None:
    """The arguments of one call, those of the calls in them included."""
    inner, window = call, isinstance(call, exp.Window)
    inner = inner.this if window else inner
    if isinstance(inner, exp.Filter):
        _none(inner.expression, "aggregate functions are not allowed in FILTER", _is_aggregate, GROUPING_ERROR)
        _none(inner.expression, "window functions are not allowed in FILTER", _is_window, WINDOWING_ERROR)
        inner = inner.this
    parts = list(_arguments(inner))
    if window:
        parts += [*(call.args.get("partition_by") or ()), *([call.args["order"]] if call.args.get("order") else [])]
    for part in parts:
        if window:
            _none(part, "window function calls cannot be nested", _is_window, WINDOWING_ERROR)
            for nested in _calls(part, _is_aggregate):
                _check_call(nested)
        else:
            _none(part, "aggregate function calls cannot contain window function calls", _is_window, GROUPING_ERROR)
            _none(part, "aggregate function calls cannot be nested", _is_aggregate, GROUPING_ERROR)


def _arguments(call: exp.Expr) -> Iterator[exp.Expr]:
    """What a call is of, the ORDER BY of WITHIN GROUP included."""
    if isinstance(call, exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls | exp.Dot):
        yield from _arguments(call.expression if isinstance(call, exp.Dot) else call.this)
        if isinstance(call, exp.WithinGroup):
            yield call.expression
    else:
        yield from call.iter_expressions()


def _is_window(node: exp.Expr) -> bool:
    return isinstance(node, exp.Window)


def _is_aggregate(node: exp.Expr) -> bool:
    return is_aggregate(node)


def _none(node: exp.Expr | None, message: str, test: Test, sqlstate: str) -> None:
    for call in _calls(node, test):
        raise Refusal(sqlstate, message, position(call))


def _calls(node: exp.Expr | None, test: Test) -> Iterator[exp.Expr]:
    """The outermost nodes that pass the test, subqueries excluded; a window's own function is no aggregate."""
    if node is None or isinstance(node, exp.Select | exp.SetOperation):
        return
    if test(node):
        yield node
        return
    if isinstance(node, exp.Window):
        inner = node.this.this if isinstance(node.this, exp.Filter) else node.this
        if isinstance(node.this, exp.Filter):
            yield from _calls(node.this.expression, test)
        for part in _arguments(inner):
            yield from _calls(part, test)
        for part in (*(node.args.get("partition_by") or ()), node.args.get("order")):
            yield from _calls(part, test)
        return
    for child in node.iter_expressions():
        yield from _calls(child, test)

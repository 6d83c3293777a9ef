"""Statements that end what another session does: `SELECT pg_cancel_backend(1234)`, as tools' Cancel buttons send it.

Knows: how such a statement may look. Must not know: sessions, whose they are. A measurement runs in the proxy, so that
PostgreSQL's own function would find nothing to cancel: the session answers each call (`answers.answer_parts`), and its results
are arrays of the outer query. The number is an input, evaluated by the facade: a constant, a parameter, `pg_backend_pid()`.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.context import Context
from dpproxy.plan.model import Array, Input, Plan
from dpproxy.plan.report.explain import explain_rows, plan_account
from dpproxy.privacy.loss import ZERO
from dpproxy.sql.dialect import position, to_sql
from dpproxy.sql.skeleton import parsed
from dpproxy.sql.statements import SIGNALS, Statement, parse, signal_calls
from dpproxy.sql.trees import function_name

_HINT = "Write SELECT {name}(1234), without FROM: the number that a client was given for its session, or its pg_backend_pid()."


def signals(statement: Statement, context: Context) -> Plan | None:
    """Return the plan of such a statement; None for another one. Raises Refusal."""
    text = statement.query.lower()
    if not any(name in text for name in SIGNALS):
        return None
    tree = parse(statement.query)
    calls = signal_calls(tree)
    if not calls:
        return None
    inputs, arrays = [], []
    for i, call in enumerate(calls):
        name = function_name(call)
        inputs.append(Input(to_sql(_number(tree, call, name)), "int4"))
        arrays.append(Array("bool", None, i, signal=SIGNALS[name]))
        _put(call, name, len(context.parameters) + 1 + i)
    outer = to_sql(tree)
    explain = explain_rows(plan_account((), (), ZERO, context, outer), statement.options)
    return Plan((), outer, len(context.parameters), tuple(arrays), tuple(inputs), ZERO, explain)


def _number(tree: exp.Expr, call: exp.Anonymous, name: str) -> exp.Expr:
    """The number that a call is of. Raises Refusal where it is not one and the same."""
    arguments = call.expressions
    if tree.find(exp.Table) is not None or len(arguments) not in (1, 2) or call.find(exp.Column, exp.Select) is not None:
        told = f"{name}() takes one number, and stands in no query over rows"
        raise Refusal(FEATURE_NOT_SUPPORTED, told, position(call) or position(tree), hint=_HINT.format(name=name))
    first = arguments[0]
    assert isinstance(first, exp.Expr)
    return first


def _put(call: exp.Anonymous, name: str, parameter: int) -> None:
    """Put the result into a call's place."""
    place = call.parent if isinstance(call.parent, exp.Dot) else call
    result = parsed(f"(SELECT v FROM unnest(${parameter}::bool[]) AS dpproxy_s(v))")
    if isinstance(place.parent, exp.Select) and place.arg_key == "expressions":
        place.replace(exp.Alias(this=result, alias=exp.to_identifier(name, quoted=True)))
    else:
        place.replace(result)

"""Window functions over the rows of one unit: their partitions, frames, and orders that leave no ties.

Knows: which window functions there are, how many arguments and which frames they take. Must not know: engines, noise. A window
over private rows is partitioned by the unit, so that it is a function of one unit's rows. Where it tells rows of equal rank
apart, it is by all of their columns, never by the order in which an engine reads them.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, INVALID_ARGUMENT_FOR_NTH_VALUE, INVALID_ARGUMENT_FOR_NTILE, Refusal
from dpproxy.plan.bind.calls import Terms, bind_order, by_label, check_summed, count_arguments
from dpproxy.plan.bind.expressions import ExprBinder
from dpproxy.plan.bind.group_facts import equal_ids
from dpproxy.plan.bind.scope import Scope
from dpproxy.plan.context import Context
from dpproxy.plan.functions import operators
from dpproxy.plan.measure.aggregates import per_unit_type
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.fanout import contribution, most_rows
from dpproxy.plan.refusals import FormRefusal, unsupported
from dpproxy.plan.rewrite.lateral_lookups import LIMITED
from dpproxy.sql.dialect import position
from dpproxy.sql.trees import AGGREGATES
from dpproxy.tree.expr import Call, Case, Cast, Expr, Lit, Ref, Win, rebuilt
from dpproxy.tree.relation import Rows

_RANKS = {"row_number", "rank", "dense_rank", "ntile", "percent_rank", "cume_dist"}
_PERCENTILES = "Or compare with percentiles: x <= (SELECT percentile_disc(0.25) WITHIN GROUP (ORDER BY x) FROM ...)."
_FUNCTIONS = {"row_number", "rank", "dense_rank", "ntile", "lag", "lead", "first_value", "last_value", "nth_value"}
_AGGREGATES = {"count", "sum", "avg", "min", "max"}
_FRAMES = {
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
}
_NEAR = r"[0-9]{1,6}"
_SLIDING = re.compile(
    rf"ROWS BETWEEN (?:(?:UNBOUNDED|{_NEAR}) PRECEDING|CURRENT ROW) AND (?:CURRENT ROW|(?:UNBOUNDED|{_NEAR}) FOLLOWING)"
    rf"|ROWS BETWEEN (?:UNBOUNDED|{_NEAR}) PRECEDING AND {_NEAR} PRECEDING"
    rf"|ROWS BETWEEN {_NEAR} FOLLOWING AND (?:UNBOUNDED|{_NEAR}) FOLLOWING"
)
_BY_PLACE = {"row_number", "ntile", "lag", "lead", "first_value", "last_value", "nth_value"}
"""Functions that tell rows of equal rank apart."""
_ARGUMENTS = {"row_number": (0, 0), "rank": (0, 0), "dense_rank": (0, 0), "ntile": (1, 1), "lag": (1, 3), "lead": (1, 3),
                     "first_value": (1, 1), "last_value": (1, 1), "nth_value": (2, 2), "count": (0, 1)} | dict.fromkeys(
    ("sum", "avg", "min", "max"), (1, 1))  # fmt: skip
"""How many arguments a call may have, at least and at most."""


def total_order(order: Terms, rows: Rows) -> Terms:
    """Return the order with ties broken by all columns: which of two rows is first must not depend on how an engine reads them.

    Then what is made of one unit's rows is a function of these rows, whoever else's rows are there. Columns of tables decide
    before what is computed of them (ids tell): a window over what another window numbered has its rows in the same order. Ids
    that are moments are read by no zone's clocks (`column_in_zone`), and yet tell rows apart.
    """
    first = {term[0] for term in order}
    columns = sorted((c for c in rows.node.columns if c.usable or c.type == "timestamptz"), key=lambda c: c.id)
    refs = (Ref(c.type, c) for c in columns)
    more = (e for ref in refs for e in (ref, *_fields(ref)) if e not in first)
    return (*order, *((e, False, False) for e in more))


def _fields(ref: Ref) -> tuple[Expr, ...]:
    """What tells equal intervals apart: 30 days come with a month."""
    return tuple(Call("int8", unit, (ref,)) for unit in ("year", "month", "day")) if ref.type == "interval" else ()


def order_free(expr: Expr, rows: Rows) -> Expr:
    """Return an expression over rows whose windows do not depend on the order of equal rows."""
    if isinstance(expr, Win):
        by_place = expr.name in _BY_PLACE or (
            expr.frame.startswith("ROWS") and "UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING" not in expr.frame
        )
        return replace(expr, order=total_order(expr.order, rows)) if by_place else expr
    return rebuilt(expr, lambda child: order_free(child, rows))


def bind_window(context: Context, binder: ExprBinder, node: exp.Window, scope: Scope, rows: Rows | None) -> Expr:
    """Bind a call with OVER, over `rows`. Raises Refusal unless it is partitioned by the unit."""
    call = node.this.this if isinstance(node.this, exp.Filter) else node.this
    name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
    if name not in _FUNCTIONS | _AGGREGATES or rows is None or rows.unit is None:
        aggregated = name in AGGREGATES and name not in _RANKS
        instead = "Take it by the unit in a subquery, with GROUP BY, and join that." if aggregated else _PERCENTILES
        raise unsupported(f"window function {name or type(call).__name__}", instead)
    args = tuple(binder.bind(a, scope) for a in call.expressions if not isinstance(a, exp.Star))
    count_arguments(name, args, _ARGUMENTS, node)
    if isinstance(node.this, exp.Filter) and name in _AGGREGATES:  # of other rows there is nothing
        value = args[0] if args else Lit("int4", "1")
        args = (Case(value.type, ((binder.condition(node.this.expression.this, scope), value),), None),)
    check_summed(name, args)
    if name == "nth_value":
        args = (args[0], _place(args[1]))
    if name in ("lag", "lead") and len(args) > 2:
        args = (args[0], args[1], operators.coerce(args[2], args[0].type))
        type_ = operators.common_type(f"{name}()", [args[0].type, args[2].type])
        args = (_as(type_, args[0]), args[1], _as(type_, args[2]))
    if name == "ntile" and (most := facts(args[0]).bound.hi) is not None and most < 1:
        raise Refusal(INVALID_ARGUMENT_FOR_NTILE, "argument of ntile must be greater than zero")
    if name in ("min", "max") and args and args[0].type == "interval":
        raise unsupported(f"{name}() of intervals in a window", "Take it of a number: extract(epoch FROM x).")
    partition = _partition(context, binder, node, scope, rows, name in _RANKS)
    order, frame = _order(binder, node.args.get("order"), scope), _frame(node.args.get("spec"))
    limits, there = contribution(rows, partition), most_rows(rows, partition)
    window = Win(per_unit_type(name, args), name, args, partition, order, frame, limits.rows, there, limits.by)
    return _nth_value(window) if name == "nth_value" else by_label(window)


def _as(type_: str, value: Expr) -> Expr:
    """A value as one of a type: a row and what stands for one that is not there are of one."""
    return value if value.type == type_ else Cast(type_, value)


_WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
_TO_PEERS = ("", "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW")


def _nth_value(window: Win) -> Expr:
    """A frame that ends with the peers of a row has an nth value when it has n rows: then it is that of the partition."""
    if window.frame not in _TO_PEERS:
        return window
    frame = replace(window, type="int8", name="count", args=(), frame="")
    return Case(window.type, ((Call("bool", ">=", (frame, window.args[1])), replace(window, frame=_WHOLE)),), None)


def _place(value: Expr) -> Expr:
    """Which row of the frame nth_value is of: one from 1 on. Raises Refusal."""
    number = operators.literal_text(operators.coerce(value, "int4"), "the place of nth_value")
    if not number.isdigit() or number == "0":
        raise Refusal(INVALID_ARGUMENT_FOR_NTH_VALUE, "argument of nth_value must be greater than zero")
    return value


def _partition(context: Context, binder: ExprBinder, node: exp.Window, scope: Scope, rows: Rows, ranks: bool) -> tuple[Expr, ...]:
    """PARTITION BY, and the unit, which it must fix. Raises Refusal where it does not."""
    assert rows.unit is not None
    partition = tuple(binder.bind(p, scope) for p in node.args.get("partition_by") or ())
    keys = rows.determinants | equal_ids(rows) | {rows.unit.id}
    if not any(isinstance(p, Ref) and p.column.id in keys and not p.column.optional for p in partition):
        if node.meta.get(LIMITED):
            raise unsupported("LIMIT in LATERAL over rows of many", "Aggregate them there: count(*), avg(x), ...")
        raise FormRefusal(
            FEATURE_NOT_SUPPORTED,
            f"a window over private rows must be PARTITION BY the {context.policy.unit_name} id",
            position(node),
            hint=f"Add PARTITION BY {context.policy.unit_column}, or aggregate first." + (f" {_PERCENTILES}" if ranks else ""),
        )
    unit = Ref(rows.unit.type, rows.unit)
    return partition if unit in partition else (*partition, unit)


def _order(binder: ExprBinder, order: exp.Expr | None, scope: Scope) -> tuple[tuple[Expr, bool, bool], ...]:
    if order is None:
        return ()
    return tuple(bind_order(binder, o, scope) for o in order.expressions)


def _frame(spec: exp.Expr | None) -> str:
    """The frame of a window as the engines have it. EXCLUDE GROUP and TIES look at peers, which `total_order` leaves none of."""
    if spec is None:
        return ""
    kind = str(spec.args.get("kind") or "ROWS").upper()
    end = _frame_end(spec, "end") if spec.args.get("end") else "CURRENT ROW"
    frame = f"{kind} BETWEEN {_frame_end(spec, 'start')} AND {end}"
    excluded = spec.args.get("exclude")
    without = str(excluded.name if isinstance(excluded, exp.Expr) else excluded or "NO OTHERS").upper()
    if (frame not in _FRAMES and not _SLIDING.fullmatch(frame)) or without not in ("NO OTHERS", "CURRENT ROW"):
        named = frame if without == "NO OTHERS" else f"{frame} EXCLUDE {without}"
        raise unsupported(
            f"the window frame {named}", "Use ROWS BETWEEN n PRECEDING AND n FOLLOWING, or join the rows that are meant."
        )
    return frame if without == "NO OTHERS" else f"{frame} EXCLUDE CURRENT ROW"


def _frame_end(spec: exp.Expr, end: str) -> str:
    value, side = spec.args.get(end), spec.args.get(f"{end}_side") or ""
    number = isinstance(value, exp.Literal) and not value.is_string
    if isinstance(value, exp.Expr) and not number:
        raise unsupported("a window frame that is not of constants", "Write numbers: ROWS BETWEEN 3 PRECEDING AND CURRENT ROW.")
    text = str(value.name if isinstance(value, exp.Expr) else value or "CURRENT ROW").upper()
    return f"{text} {side}".strip().upper()

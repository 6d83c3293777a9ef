"""The PostgreSQL type of a released scalar subquery, from the casts its formulas carry.

Knows: sqlglot trees made by `outer`. Must not know: data. Only enough types to enter a predicate: numbers, text, times.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.plan.functions import unsupported
from dpproxy.sql.types import NUMBERS, arithmetic, common, type_name


def scalar_type(tree: exp.Expr) -> str:
    """The type of the only column of a query."""
    select = tree.unnest() if isinstance(tree, exp.Subquery) else tree
    if not isinstance(select, exp.Select) or len(select.expressions) != 1:
        raise unsupported("a scalar subquery of this form")
    return _type(select.expressions[0].unalias())


def _type(node: exp.Expr) -> str:
    if isinstance(node, exp.Cast):
        found = type_name(node.to)
        if found is not None:
            return found
    if isinstance(node, exp.Paren | exp.Neg):
        return _type(node.this)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod):
        a, b = _type(node.this), _type(node.expression)
        if a in NUMBERS and b in NUMBERS:
            return arithmetic(a, b)
    if isinstance(node, exp.Literal):
        return "unknown" if node.is_string else ("int4" if node.this.isdigit() else "numeric")
    if isinstance(node, exp.Anonymous):
        return _function(node)
    if isinstance(node, exp.Column) and node.name.startswith("b") and node.table.startswith("dpproxy_m"):
        return "int8"
    raise unsupported("a scalar subquery of this form", "Cast its result: (SELECT ...)::numeric.")


def _function(node: exp.Anonymous) -> str:
    name = str(node.this).lower()
    if name in ("greatest", "least", "coalesce"):
        return common([_type(a) for a in node.expressions])
    if name in ("round", "trunc", "floor", "ceil", "abs"):
        inner = _type(node.expressions[0])
        return "numeric" if len(node.expressions) > 1 else inner
    raise unsupported("a scalar subquery of this form", "Cast its result: (SELECT ...)::numeric.")

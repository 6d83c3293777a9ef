"""The name PostgreSQL gives an unnamed output column (its FigureColname), so that rewriting does not rename anything.

Knows: sqlglot's nodes. Must not know: policies.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.sql.dialect import ident
from dpproxy.sql.types import type_name

_FORMS: dict[type[exp.Expr], str] = {
    exp.Extract: "extract", exp.Case: "case", exp.Substring: "substring", exp.Trim: "btrim", exp.StrPosition: "position",
    exp.Exists: "exists", exp.CurrentDate: "current_date", exp.CurrentTimestamp: "current_timestamp",
    exp.Localtimestamp: "localtimestamp", exp.Array: "array", exp.Interval: "interval", exp.GroupConcat: "string_agg",
    exp.Overlay: "overlay", exp.AtTimeZone: "timezone",
}  # fmt: skip


def output_name(node: exp.Expr) -> str:
    """The column name of one item of a SELECT list."""
    if isinstance(node, exp.Alias):
        return ident(node.args["alias"])
    return _figure(node) or "?column?"


def _figure(node: exp.Expr) -> str:
    if isinstance(node, exp.Column):
        return ident(node.this)
    if isinstance(node, exp.Anonymous):
        name = str(node.this)
        return name.lower()
    if isinstance(node, exp.Paren | exp.Filter | exp.WithinGroup | exp.Window):
        return _figure(node.this)
    if isinstance(node, exp.Dot):
        return _figure(node.expression)
    if isinstance(node, exp.Cast):
        inner = _figure(node.this)
        if inner:
            return inner
        return type_name(node.to) or ""
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        return (_figure(default) if default is not None else "") or "case"
    if isinstance(node, exp.Subquery):
        inner_select = node.this
        while isinstance(inner_select, exp.Subquery):
            inner_select = inner_select.this
        if isinstance(inner_select, exp.Select) and inner_select.expressions:
            first = inner_select.expressions[0]
            return ident(first.args["alias"]) if isinstance(first, exp.Alias) else _figure(first)
        return ""
    if isinstance(node, exp.Trim):
        return {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "btrim")
    if isinstance(node, exp.Boolean):
        return "bool"
    return _FORMS.get(type(node), "")

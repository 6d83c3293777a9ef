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
    exp.Overlay: "overlay", exp.AtTimeZone: "timezone", exp.Overlaps: "overlaps",
}  # fmt: skip


def output_name(node: exp.Expr) -> str:
    """Return the column name of one item of a SELECT list."""
    if isinstance(node, exp.Alias):
        return ident(node.args["alias"])
    return _figure(node)[0] or "?column?"


_STRONG, _WEAK = True, False
"""A weak name gives way to that of a cast or CASE around it."""


def _figure(node: exp.Expr) -> tuple[str, bool]:
    """The name and whether it is a strong one; empty for none."""
    if isinstance(node, exp.Column):
        return ident(node.this), _STRONG
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower(), _STRONG
    if isinstance(node, exp.Paren | exp.Filter | exp.WithinGroup | exp.Window | exp.Bracket):
        return _figure(node.this)
    if isinstance(node, exp.Dot):
        return _figure(node.expression)
    if isinstance(node, exp.Cast):
        name, strong = _figure(node.this)
        return (name, strong) if strong else (type_name(node.to) or name, _WEAK)
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        name, strong = _figure(default) if default is not None else ("", _WEAK)
        return (name, strong) if strong else ("case", _WEAK)
    if isinstance(node, exp.Subquery):
        return _of_query(node.this)
    if isinstance(node, exp.Trim):
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "btrim")
        return name, _STRONG
    name = _FORMS.get(type(node), "")
    return name, bool(name) and not isinstance(node, exp.Interval)


def _of_query(query: exp.Expr) -> tuple[str, bool]:
    """A scalar subquery has the name of its column."""
    while isinstance(query, exp.Subquery):
        query = query.this
    if isinstance(query, exp.Select) and query.expressions:
        first = query.expressions[0]
        return (ident(first.args["alias"]), _STRONG) if isinstance(first, exp.Alias) else _figure(first)
    return "", _WEAK

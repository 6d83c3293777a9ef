"""VALUES lists as public rows that can be joined with private ones.

Knows: constants. Must not know: private data.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.plan.bind.protocols import Queries
from dpproxy.plan.bind.results import Item
from dpproxy.plan.bind.scope import Scope
from dpproxy.plan.functions.operators import coerce, common_type
from dpproxy.plan.properties.fanout import beside_values
from dpproxy.plan.refusals import CONSTANT, unsupported
from dpproxy.sql.dialect import ident
from dpproxy.tree.expr import Column, Lit
from dpproxy.tree.relation import Contribution, Rows, Values

MAX_ROWS = 10_000


def values_item(queries: Queries, node: exp.Values) -> Item:
    """Bind a VALUES list of constants as an item of FROM. Raises Refusal for rows that are not constants."""
    binder = queries.expressions({}, None)
    rows = [[binder.bind(e, Scope(())) for e in row.expressions] for row in node.expressions]
    if len(rows) > MAX_ROWS or not rows or any(len(r) != len(rows[0]) for r in rows):
        raise unsupported("this VALUES list", "List rows of the same length: VALUES (1, 'a'), (2, 'b').")
    types = [common_type("VALUES", [row[i].type for row in rows]) for i in range(len(rows[0]))]
    if not all(isinstance(e, Lit) for row in rows for e in row):
        raise unsupported("a VALUES list that is not constant", CONSTANT)
    alias = node.args.get("alias")
    names = [ident(c) for c in alias.args.get("columns") or ()] if alias is not None else []
    columns = tuple(
        Column(queries.counter.column(), names[i] if i < len(names) else f"column{i + 1}", t) for i, t in enumerate(types)
    )
    bound = tuple(tuple(coerce(e, t) for e, t in zip(row, types, strict=True)) for row in rows)
    values = Values(columns, bound)
    rows_of = Rows(node=values, contribution=Contribution(beside=(beside_values(values),)))
    return Item(ident(alias.this) if alias is not None else "", rows_of, columns, node)

"""A rule: ids that a tool casts, compared, grouped and parted by without their casts.

Knows: sqlglot's trees, types of columns in the catalog. Must not know: policies, engines. Drivers and tools write
`a.id::text = b.id::text` where one side's type is not known to them, and group by what they show. A cast that gives different
values different results changes neither which rows are equal nor which are one group: integers as text, as wider integers or as
numeric, UUIDs as text. What is shown keeps its cast.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from dpproxy.plan.known_tables import KnownTables
from dpproxy.plan.rewrite.from_items import shown_at
from dpproxy.sql.capture import may_have
from dpproxy.sql.dialect import copied, ident
from dpproxy.sql.nodes import every
from dpproxy.sql.trees import sources_of
from dpproxy.sql.types import INTEGERS

_TEXTS: Final = (exp.DType.TEXT, exp.DType.VARCHAR)
_NUMBERS: Final = (exp.DType.BIGINT, exp.DType.DECIMAL)


def apply(tree: exp.Expr, tables: KnownTables) -> bool:
    """Take such casts off columns of tables; whether there were any.

    Before: `SELECT count(*) FROM customers c JOIN orders o ON o.customer_id::text = c.customer_id::text`
    After: `SELECT count(*) FROM customers c JOIN orders o ON o.customer_id = c.customer_id`
    """
    found = [_equated(test, tables) for test in every(tree, exp.EQ)]
    found += [_contained(test, tables) for test in every(tree, exp.In)]
    found += [_grouped(select, tables) for select in every(tree, exp.Select)]
    found += [_parted(window, tables) for window in every(tree, exp.Window)]
    return any(found)


def _equated(test: exp.EQ, tables: KnownTables) -> bool:
    left, right = _of_cast(test.this, tables), _of_cast(test.expression, tables)
    if not _alike(left, right):
        return False
    assert left is not None
    assert right is not None
    test.set("this", copied(left[0]))
    test.set("expression", copied(right[0]))
    return True


def _contained(test: exp.In, tables: KnownTables) -> bool:
    """`id::text IN (SELECT id::text FROM ...)`"""
    query = test.args.get("query")
    inner = query.unnest() if isinstance(query, exp.Subquery) else query
    if not isinstance(inner, exp.Select) or len(inner.expressions) != 1 or inner.args.get("group") is not None:
        return False
    shown = inner.expressions[0]
    left, right = _of_cast(test.this, tables), _of_cast(shown.unalias(), tables)
    if not _alike(left, right):
        return False
    assert left is not None
    assert right is not None
    test.set("this", copied(left[0]))
    inner.set("expressions", [copied(right[0])])
    return True


def _grouped(select: exp.Select, tables: KnownTables) -> bool:
    """Terms of GROUP BY, or outputs that it names by their places."""
    group, changed = select.args.get("group"), False
    for term in list(group.expressions) if group is not None else ():
        shown = shown_at(term, select)
        found = _of_cast(term if shown is None else shown.unalias(), tables)
        if found is not None and found[1]:
            term.replace(copied(found[0]))
            changed = True
    return changed


def _parted(window: exp.Window, tables: KnownTables) -> bool:
    terms = window.args.get("partition_by") or []
    found = [_of_cast(term, tables) for term in terms]
    if not any(each is not None and each[1] for each in found):
        return False
    window.set("partition_by", [copied(e[0]) if e is not None and e[1] else t for e, t in zip(found, terms, strict=True)])
    return True


_Cast = tuple[exp.Column, str, str]
"""A column, what it is cast to (a number or a text; nothing where it stands as it is), and of which family its type is."""


def _alike(left: _Cast | None, right: _Cast | None) -> bool:
    """Tell whether both are of one family, and equal as cast where they are equal as they are."""
    if left is None or right is None or left[2] != right[2]:
        return False
    as_texts = [each[1] == "text" for each in (left, right)]
    return any(each[1] for each in (left, right)) and as_texts[0] == as_texts[1]


def _of_cast(node: exp.Expr, tables: KnownTables) -> _Cast | None:
    """The column of a table below a cast that gives different values different results."""
    node, to = node.unnest(), ""
    if type(node) is exp.Cast:
        target, node = node.to, node.this.unnest()
        if target.expressions or target.this not in (*_TEXTS, *_NUMBERS):
            return None
        to = "text" if target.this in _TEXTS else "number"
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return None
    type_ = _type(node, tables)
    family = "integer" if type_ in INTEGERS else "uuid" if type_ == "uuid" and to != "number" else None
    return None if family is None else (node, to, family)


def _type(column: exp.Column, tables: KnownTables) -> str | None:
    """The type of a column of a table that the nearest query around it reads."""
    table, name = ident(column.args.get("table")), ident(column.this)
    select = column.find_ancestor(exp.Select)
    while select is not None:
        owners = [s for s in sources_of(select) if may_have(s, table, name, tables.columns_of)]
        if owners:
            (first, *more) = owners
            return tables.type_of(first, name) if isinstance(first, exp.Table) and not more else None
        select = select.find_ancestor(exp.Select)
    return None

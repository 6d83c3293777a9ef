"""Output names in HAVING and in expressions of ORDER BY, where PostgreSQL knows none and other engines do.

Knows: trees. Must not know: policies, plans. `SELECT a, count(*) AS n FROM t GROUP BY a HAVING n > 10` is an error in PostgreSQL
and plain in MySQL, SQLite and DuckDB, which analysts come from. The name is replaced by what it stands for, where PostgreSQL
would only say that it does not exist: no table has a column of that name, and no other output is called so.
"""

from __future__ import annotations

import re
from collections import Counter

from sqlglot import exp

from dpproxy.sql import translation
from dpproxy.sql.dialect import copied, ident, to_sql
from dpproxy.sql.nodes import every
from dpproxy.sql.statements import keep, parse

MAX_NODES = 10_000  # that may take the place of names
FOREIGN = (*translation.WORDS, "having")
"""What a text that reads public tables alone must hold, in lower case, to be looked at."""
_CLAUSE = re.compile(r"(?i)\bhaving\b|\border\s+by\b")


def spelled_out(query: str, columns: frozenset[str], tables: frozenset[str] | None = None) -> str:
    """Return the query with such names replaced, or as it is. What other engines call otherwise is replaced as well
    (`translation`).

    `columns`: names of all columns of all tables. `tables`: where given, a query that reads others is left alone. Raises Refusal.
    """
    borrows = translation.hinted(query)
    if not borrows and not _CLAUSE.search(query):
        return query
    tree = parse(query)
    if tables is not None and not _reads_only(tree, tables):
        return query
    written = borrows and translation.translated(query, tree)
    outputs = Counter(ident(a.args["alias"]) for a in every(tree, exp.Alias))
    names = {n for n, count in outputs.items() if count == 1 and n not in columns}
    changed = [_replaced(select, names) for select in every(tree, exp.Select)] if names else []
    if written or any(changed):
        return to_sql(tree)
    keep(query, tree)
    return query


def _reads_only(tree: exp.Expr, tables: frozenset[str]) -> bool:
    known = tables | {ident(cte.args["alias"].this) for cte in every(tree, exp.CTE)}
    found = every(tree, exp.Table)
    return bool(found) and all(isinstance(t.this, exp.Identifier) and ident(t.this) in known for t in found)


def _replaced(select: exp.Select, names: set[str]) -> bool:
    meant = {ident(e.args["alias"]): e.this for e in select.expressions if isinstance(e, exp.Alias)}
    meant = {name: value for name, value in meant.items() if name in names}
    places = [select.args["having"].this] if select.args.get("having") is not None else []
    order = select.args.get("order")
    terms = [o.this if isinstance(o, exp.Ordered) else o for o in (order.expressions if order is not None else ())]
    places += [t for t in terms if not isinstance(t, exp.Column)]
    found = [c for place in places for c in _columns(place) if ident(c.this) in meant]
    sizes = {name: sum(1 for _ in value.walk()) for name, value in meant.items()} if found else {}
    if sum(sizes[ident(column.this)] for column in found) > MAX_NODES:
        return False
    for column in found:
        column.replace(exp.Paren(this=copied(meant[ident(column.this)])))
    return bool(found)


def _columns(node: exp.Expr) -> list[exp.Column]:
    """Names without a table in an expression; not those of subqueries in it."""
    if isinstance(node, exp.Query):
        return []
    if isinstance(node, exp.Column):
        return [node] if not node.args.get("table") and not isinstance(node.this, exp.Star) else []
    return [c for child in node.iter_expressions() for c in _columns(child)]

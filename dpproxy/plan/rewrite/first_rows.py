"""A rule: one row of several by an order, as a scalar subquery or as an element of an ordered array, written by `row_number()`.

Knows: sqlglot's trees, before they are analysed. Must not know: policies, engines. `(SELECT s.x FROM s WHERE s.k = t.k ORDER BY
s.y LIMIT 1)` is a column of a LATERAL item that has a row or none, which `lateral_lookups` writes as a join.
`(array_agg(x ORDER BY y))[1]` of a group is the greatest `x` of the one row that is first: of one row it is its `x`.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from dpproxy.plan.known_tables import KnownTables
from dpproxy.plan.rewrite.from_items import put, rows_at_most, shown_at, whole_number
from dpproxy.sql.capture import outer_columns
from dpproxy.sql.dialect import copied, ident, to_sql
from dpproxy.sql.nodes import every
from dpproxy.sql.output_names import output_name
from dpproxy.sql.trees import contains_aggregate, function_name, is_aggregate, sources_of, table_alias

ROW, VALUE, PLACE = "dpproxy_t", "dpproxy_v", "dpproxy_o"
_ELSEWHERE: Final = ("joins", "from_", "with_", "having", "order", "distinct", "windows")
"""Parts of a SELECT that see other rows than its FROM has, or that are before it."""


def apply(tree: exp.Expr, tables: KnownTables) -> bool:
    """Write such values by other means; whether there were any.

    Before: `SELECT x, count(*) FROM (SELECT k, (array_agg(x ORDER BY y))[1] AS x FROM t GROUP BY k) s GROUP BY x`
    After: `SELECT x, count(*) FROM (SELECT k, max(x) FILTER (WHERE t.dpproxy_o0 = 1) AS x FROM (SELECT t.*, row_number() OVER
    (PARTITION BY k ORDER BY y) AS dpproxy_o0 FROM t) t GROUP BY k) s GROUP BY x`
    """
    found = [_looked_up(select, tables) for select in every(tree, exp.Select)]
    found += [_elements(select, tables) for select in every(tree, exp.Select)]
    return any(found)


# --- scalar subqueries


def _looked_up(select: exp.Select, tables: KnownTables) -> bool:
    """Each such subquery of a SELECT becomes an item of its FROM."""
    if select.args.get("from_") is None or any(
        (j.side or "").upper() in ("RIGHT", "FULL") for j in select.args.get("joins") or ()
    ):
        return False
    names = dict[str, str]()
    for node in [n for n in every(select, exp.Subquery) if n.find_ancestor(exp.Select) is select]:
        if not _is_row(node, tables) or not _among_rows(node, select):
            continue
        text = to_sql(node)
        if text not in names:
            names[text] = f"{ROW}{len(names)}"
            select.append("joins", _item(node.this, names[text]))
        put(node, exp.column(VALUE, table=names[text], quoted=True))
    return bool(names)


def _is_row(node: exp.Subquery, tables: KnownTables) -> bool:
    """Whether it is one value of one private row that something outside chooses."""
    query = node.this
    if not isinstance(query, exp.Select) or len(query.expressions) != 1 or node.args.get("alias") is not None:
        return False
    if isinstance(node.parent, exp.From | exp.Join | exp.Lateral | exp.In | exp.Exists | exp.Any | exp.All | exp.CTE):
        return False
    shown, limit = query.expressions[0].unalias(), query.args.get("limit")
    one = limit is not None and rows_at_most(limit) == 1
    whole = query.args.get("group") is not None or contains_aggregate(shown) or isinstance(shown, exp.Star)
    return one and not whole and tables.reads_private(query) and bool(outer_columns(query, tables.columns_of))


def _among_rows(node: exp.Expr, select: exp.Select) -> bool:
    """Whether a value is computed for each row of FROM: not of groups that are made of them."""
    grouped = select.args.get("group") is not None or any(contains_aggregate(e.unalias()) for e in select.expressions)
    below, inside = node, False
    while below.parent is not None and below.parent is not select:
        below = below.parent
        inside = inside or is_aggregate(below)
    if below.arg_key in ("where", "group"):
        return True
    if below.arg_key in _ELSEWHERE:
        return False
    return inside or not grouped or _is_key(below, select)


def _is_key(shown: exp.Expr, select: exp.Select) -> bool:
    """Whether an output is what the SELECT groups by, named by its place."""
    group = select.args.get("group")
    return group is not None and any(shown_at(term, select) is shown for term in group.expressions)


def _item(query: exp.Expr, name: str) -> exp.Join:
    made = copied(query)
    made.set("expressions", [exp.alias_(made.expressions[0].unalias(), VALUE, quoted=True)])
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    return exp.Join(this=exp.Lateral(this=exp.Subquery(this=made), alias=alias), side="LEFT", on=exp.true())


# --- elements of arrays


def _elements(select: exp.Select, tables: KnownTables) -> bool:
    """`(array_agg(x ORDER BY y))[1]` of the groups of one item of FROM."""
    nodes = [n for n in every(select, exp.Bracket) if n.find_ancestor(exp.Select) is select]
    found = [(node, element) for node in nodes if (element := _Element.of(node)) is not None]
    group, sources = select.args.get("group"), sources_of(select)
    if not found or group is None or len(sources) != 1 or select.args.get("joins"):
        return False
    (source,) = sources
    keys = [_key(term, select) for term in group.expressions]
    named = isinstance(source, exp.Table | exp.Subquery) and isinstance(source.this, exp.Identifier | exp.Query)
    if not named or not keys or any(k is None for k in keys) or any(v for n, v in group.args.items() if n != "expressions"):
        return False
    if any(c.args.get("db") for c in select.find_all(exp.Column)) or not tables.reads_private(source) or not table_alias(source):
        return False
    name, places = table_alias(source), dict[str, exp.Expr]()
    for node, element in found:
        place = element.place(keys)
        text = to_sql(place)
        places.setdefault(text, place)
        put(node, element.value(exp.column(f"{PLACE}{list(places).index(text)}", table=name, quoted=True)))
    _number(select, source, name, list(places.values()))
    return True


def _key(term: exp.Expr, select: exp.Select) -> exp.Expr | None:
    """A term of GROUP BY as it reads rows; None of names that may be outputs'."""
    if (named := shown_at(term, select)) is not None:
        shown: exp.Expr = named.unalias()
        return shown
    outputs = [output_name(e) for e in select.expressions if isinstance(e, exp.Alias)]
    unclear = isinstance(term, exp.Column) and not term.args.get("table") and ident(term.this) in outputs
    return None if unclear or isinstance(term, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple) else term


def _number(select: exp.Select, source: exp.Expr, name: str, places: list[exp.Expr]) -> None:
    """Put the item of FROM, with the places of its rows, where it stands; conditions are of rows before they have places."""
    whole = exp.Column(this=exp.Star(), table=exp.to_identifier(name, quoted=True))
    numbered = [exp.alias_(place, f"{PLACE}{i}", quoted=True) for i, place in enumerate(places)]
    where = select.args.get("where")
    inner = exp.Select(expressions=[whole, *numbered], from_=exp.From(this=copied(source)))
    inner.set("where", copied(where) if where is not None else None)
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    select.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))
    select.set("where", None)


class _Element:
    """An element of an ordered array of a group's values."""

    def __init__(self, value: exp.Expr, order: exp.Order, where: exp.Expr | None, number: int) -> None:
        self._value, self._order, self._where, self._number = value, order, where, number

    @staticmethod
    def of(node: exp.Bracket) -> _Element | None:
        """Return the element that a subscript takes; None for other subscripts. sqlglot counts elements from 0."""
        call, (index, *more) = node.this.unnest(), node.expressions
        where = call.expression.this if isinstance(call, exp.Filter) else None
        call = call.this if isinstance(call, exp.Filter) else call
        arguments = call.expressions if isinstance(call, exp.Anonymous) and function_name(call) == "array_agg" else ()
        number, ordered = None if more else whole_number(index), arguments[0] if len(arguments) == 1 else None
        if number is None or not isinstance(ordered, exp.Order) or isinstance(ordered.this, exp.Distinct):
            return None
        order = exp.Order(expressions=[copied(e) for e in ordered.expressions])
        return None if contains_aggregate(ordered.this) else _Element(ordered.this, order, where, number + 1)

    def place(self, keys: list[exp.Expr | None]) -> exp.Expr:
        """Return the number of a row among those of its group that the array has."""
        parts = [copied(k) for k in keys if k is not None]
        if self._where is not None:
            parts.append(exp.Is(this=exp.Paren(this=copied(self._where)), expression=exp.true()))
        row = exp.Anonymous(this="row_number")
        return exp.Window(this=row, partition_by=parts, order=copied(self._order), over="OVER")

    def value(self, place: exp.Expr) -> exp.Expr:
        """Return the value of the row at its place."""
        test = exp.EQ(this=place, expression=exp.Literal.number(self._number))
        where = test if self._where is None else exp.and_(test, copied(self._where), copy=False)
        return exp.Filter(this=exp.Anonymous(this="max", expressions=[copied(self._value)]), expression=exp.Where(this=where))

"""A rule: one row of several by an order, as a scalar subquery or as an element of an ordered array, written by `row_number()`.

Knows: sqlglot's trees, before they are analysed. Must not know: policies, engines. `(SELECT s.x FROM s WHERE s.k = t.k ORDER BY
s.y LIMIT 1)` is a column of a LATERAL item that has a row or none, which `lateral_lookups` writes as a join.
`(array_agg(x ORDER BY y))[1]` of a group is the greatest `x` of the one row that is first: of one row it is its `x`.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from dpproxy.plan.known_tables import KnownTables
from dpproxy.sql.capture import outer_columns
from dpproxy.sql.dialect import copied, ident, to_sql
from dpproxy.sql.nodes import every
from dpproxy.sql.output_names import output_name
from dpproxy.sql.trees import contains_aggregate, function_name, is_aggregate, sources_of, table_alias

ROW, VALUE, PLACE = "dpproxy_t", "dpproxy_v", "dpproxy_o"
_OF_GROUPS: Final = ("having", "order", "distinct", "windows", "qualify")
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
        _put(node, exp.column(VALUE, table=names[text], quoted=True))
    return bool(names)


def _is_row(node: exp.Subquery, tables: KnownTables) -> bool:
    """Whether it is one value of one private row that something outside chooses."""
    query = node.this
    if not isinstance(query, exp.Select) or len(query.expressions) != 1 or node.args.get("alias") is not None:
        return False
    if isinstance(node.parent, exp.From | exp.Join | exp.Lateral | exp.In | exp.Exists | exp.Any | exp.All | exp.CTE):
        return False
    shown, limit = query.expressions[0].unalias(), query.args.get("limit")
    number = limit.args.get("count" if isinstance(limit, exp.Fetch) else "expression") if limit is not None else None
    options = limit.args.get("limit_options") if limit is not None else None
    odd = options is not None and (options.args.get("with_ties") or options.args.get("percent"))
    one = isinstance(number, exp.Literal) and number.this == "1" and not odd
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
    places = [t.this for t in (group.expressions if group is not None else ()) if isinstance(t, exp.Literal) and not t.is_string]
    return str(1 + next(i for i, e in enumerate(select.expressions) if e is shown)) in places


def _item(query: exp.Expr, name: str) -> exp.Join:
    made = copied(query)
    made.set("expressions", [exp.alias_(made.expressions[0].unalias(), VALUE, quoted=True)])
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    return exp.Join(this=exp.Lateral(this=exp.Subquery(this=made), alias=alias), side="LEFT", on=exp.true())


def _put(node: exp.Expr, value: exp.Expr) -> None:
    """Put a value where a node stands; an output keeps its name."""
    if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
        value = exp.alias_(value, output_name(node), quoted=True)
    node.replace(value)


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
    name, places = table_alias(source), list[exp.Expr]()
    for node, element in found:
        order = to_sql(element.place(keys))
        texts = [to_sql(p) for p in places]
        if order not in texts:
            places.append(element.place(keys))
            texts.append(order)
        at = exp.column(f"{PLACE}{texts.index(order)}", table=name, quoted=True)
        _put(node, element.value(at))
    _number(select, source, name, places)
    return True


def _key(term: exp.Expr, select: exp.Select) -> exp.Expr | None:
    """A term of GROUP BY as it reads rows; None of names that may be outputs'."""
    place = int(term.this) if isinstance(term, exp.Literal) and not term.is_string and term.this.isdigit() else 0
    if 0 < place <= len(select.expressions):
        shown: exp.Expr = select.expressions[place - 1].unalias()
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
        plain = not more and isinstance(index, exp.Literal) and not index.is_string and index.this.isdigit()
        if not plain or len(arguments) != 1 or not isinstance(arguments[0], exp.Order) or contains_aggregate(arguments[0].this):
            return None
        order = exp.Order(expressions=[copied(e) for e in arguments[0].expressions])
        return (
            None
            if isinstance(arguments[0].this, exp.Distinct)
            else _Element(arguments[0].this, order, where, int(index.this) + 1)
        )

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

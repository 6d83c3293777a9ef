"""A rule: LATERAL subqueries that look up rows by equal columns, written as joins.

Knows: sqlglot's trees, before they are analysed. Must not know: policies, engines. `LATERAL (SELECT i.x FROM i WHERE i.k = o.k)
l` is a join of `SELECT i.x, i.k FROM i` on `l.k = o.k`. Of `... ORDER BY i.x LIMIT 2` it is those rows that `row_number()` within
each `i.k` leaves; of an aggregate, which is one row whatever there is, a LEFT JOIN of the aggregates by `i.k`, where a count of
nothing is 0.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.plan.known_tables import KnownTables
from dpproxy.plan.rewrite.from_items import meets_each_row, put_columns, rows_at_most
from dpproxy.sql.capture import outer_columns
from dpproxy.sql.dialect import copied, ident
from dpproxy.sql.nodes import every
from dpproxy.sql.output_names import output_name
from dpproxy.sql.trees import contains_aggregate, joins_before, only_counts

KEY, NUMBER = "dpproxy_k", "dpproxy_n"
LIMITED = "dpproxy_limited"
"""Marks the window that a LIMIT was written as."""
_KNOWN = {"expressions", "from_", "joins", "where", "group", "having", "order", "limit", "distinct", "kind", "hint"}
_NAMED_GROUPS = ("rollup", "cube", "grouping_sets", "all", "totals")


def apply(tree: exp.Expr, tables: KnownTables) -> bool:
    """Write such items over private tables as joins; whether there were any.

    Before: `SELECT sum(l.n) FROM customers c CROSS JOIN LATERAL (SELECT count(*) AS n FROM orders o WHERE o.customer_id =
    c.customer_id) l`
    After: `SELECT sum(coalesce(l.n, 0)) FROM customers c LEFT JOIN (SELECT count(*) AS n, o.customer_id AS dpproxy_k0
    FROM orders o GROUP BY o.customer_id) l ON l.dpproxy_k0 = c.customer_id`
    """
    found = [
        _rewritten(select, join, tables)
        for select in every(tree, exp.Select)
        for join in list(select.args.get("joins") or ())
        if isinstance(join.this, exp.Lateral) and tables.reads_private(join.this)
    ]
    return any(found)


def _rewritten(select: exp.Select, join: exp.Join, tables: KnownTables) -> bool:
    item = join.this
    alias, inner = item.args.get("alias"), item.this.this if isinstance(item.this, exp.Subquery) else None
    starred = any(e.is_star for e in select.expressions)
    if not isinstance(inner, exp.Select) or alias is None or alias.this is None or starred or not _kind(join):
        return False
    names = [ident(c) for c in alias.args.get("columns") or ()] or [output_name(e) for e in inner.expressions]
    if len(names) != len(inner.expressions) or not _joined_inwardly(joins_before(select, join)):
        return False
    whole = _aggregated(inner)
    nothing = [_of_nothing(e) for e in inner.expressions] if whole else []
    if None in nothing or (whole and not meets_each_row(join)):
        return False
    name = ident(alias.this)
    made = _Made(inner, name, whole, tables)
    values = [(n, v) for n, v in zip(names, nothing, strict=False) if v is not None and not isinstance(v, exp.Null)]
    if not made.build():
        return False
    if whole and not put_columns(select, join, name, {n: _or_else(name, n, v) for n, v in values}, tables):
        return False
    _cross_joined(joins_before(select, join))
    added = [exp.to_identifier(c, quoted=True) for c in made.names]
    columns = [*alias.args["columns"], *added] if alias.args.get("columns") else None
    join.set("this", exp.Subquery(this=made.query, alias=exp.TableAlias(this=alias.this, columns=columns)))
    given = join.args.get("on")
    plain = given is None or (isinstance(given, exp.Boolean) and given.this)
    join.set("on", exp.and_(*([] if plain else [given]), *made.conditions, copy=False))
    join.set("kind", None)
    if whole:
        join.set("side", "LEFT")
    return True


_UNKNOWN = ("count", "coalesce", "regr_count", "concat", "concat_ws", "num_nulls", "num_nonnulls", "grouping")


def _of_nothing(projection: exp.Expr) -> exp.Expr | None:
    """What aggregates of no rows make of a projection: 0 of a count, NULL of others, a constant of `coalesce(..., 0)`. None where
    that is not known."""
    value = projection.unalias()
    if only_counts(exp.Select(expressions=[copied(value)])):
        return exp.Literal.number(0)
    given = value.expressions if isinstance(value, exp.Anonymous) and value.name.lower() == "coalesce" else ()
    if len(given) == 2 and isinstance(given[1], exp.Literal) and isinstance(_of_nothing(given[0]), exp.Null):
        return copied(given[1])
    calls = [c for c in value.find_all(exp.Anonymous) if c.name.lower() in _UNKNOWN]
    return None if calls or value.find(exp.Case, exp.Coalesce, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ) else exp.Null()


def _or_else(table: str, name: str, value: exp.Expr) -> exp.Expr:
    column = exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))
    return exp.Anonymous(this="coalesce", expressions=[column, value])


def _kind(join: exp.Join) -> bool:
    known = (join.side or "").upper() in ("", "LEFT") and (join.kind or "").upper() in ("", "CROSS", "INNER", "OUTER")
    return known and not join.args.get("using") and not join.method


def _joined_inwardly(before: list[exp.Join]) -> bool:
    """Whether all items before the LATERAL one are there in each row: else its condition, as a join's, would see others."""
    return not any((j.side or "").upper() in ("RIGHT", "FULL") for j in before)


def _cross_joined(before: list[exp.Join]) -> None:
    """Lists of FROM become CROSS JOINs, so that the condition of a join behind them sees them all."""
    for j in before:
        if not any(j.args.get(key) for key in ("side", "kind", "on", "using", "method")):
            j.set("kind", "CROSS")


def _aggregated(inner: exp.Select) -> bool:
    return inner.args.get("group") is None and any(contains_aggregate(e.unalias()) for e in inner.expressions)


class _Made:
    """The subquery with its keys, and the conditions on which it is joined as `name`."""

    def __init__(self, inner: exp.Select, name: str, whole: bool, tables: KnownTables) -> None:
        self.inner, self.name, self.whole = inner, name, whole
        self.query, self.keys, self.names = copied(inner), list[exp.Expr](), list[str]()
        self.conditions: list[exp.Expr] = []
        self._around = {id(c) for c in outer_columns(inner, tables.columns_of)}

    def build(self) -> bool:
        """False for a subquery of another form."""
        args = self.inner.args
        distinct, limit = args.get("distinct"), args.get("limit")
        fixed = bool(self.whole or limit or args.get("group") or distinct)
        unknown = any(value for key, value in args.items() if key not in _KNOWN) or self.inner.find(exp.Window) is not None
        if unknown or (distinct is not None and distinct.args.get("on") is not None) or args.get("where") is None:
            return False
        where = args["where"].this
        parts = [p.unnest() for p in (where.flatten() if isinstance(where, exp.And) else [where])]
        ties = [p for p in parts if self._outer(p)]
        rest = [copied(p) for p in parts if not self._outer(p)]
        self.query.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)
        elsewhere = self._around - {id(c) for tie in ties for c in tie.find_all(exp.Column)}
        if not ties or elsewhere or not all(self._tied(tie, fixed) for tie in ties):
            return False
        return self._limited(limit) and self._grouped()

    def _outer(self, node: exp.Expr) -> bool:
        """Whether a name in it is one of the items before."""
        return any(id(c) in self._around for c in node.find_all(exp.Column))

    def _tied(self, tie: exp.Expr, fixed: bool) -> bool:
        """An equality becomes a key; where rows are joined as they are, so does each column of another condition."""
        sides = ((tie.this, tie.expression), (tie.expression, tie.this)) if isinstance(tie, exp.EQ) else ()
        for own, other in sides:
            columns = list(other.find_all(exp.Column))
            inner = [c for c in columns if not self._outer(c)]
            if own.find(exp.Column) is not None and columns and not inner and not self._outer(own) and not tie.find(exp.Query):
                self.conditions.append(exp.EQ(this=self._key(own), expression=copied(other)))
                return True
        if fixed or tie.find(exp.Query):
            return False
        made = copied(tie)
        both = list(zip(tie.find_all(exp.Column), made.find_all(exp.Column), strict=True))
        for column in [twin for given, twin in both if not self._outer(given)]:
            column.replace(self._key(column))
        self.conditions.append(exp.Paren(this=made))
        return True

    def _key(self, own: exp.Expr) -> exp.Expr:
        self.keys.append(copied(own))
        return self._column(f"{KEY}{len(self.keys) - 1}", self.keys[-1])

    def _column(self, name: str, value: exp.Expr) -> exp.Expr:
        self.names.append(name)
        self.query.set("expressions", [*self.query.expressions, exp.alias_(copied(value), name, quoted=True)])
        return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(self.name, quoted=True))

    def _limited(self, limit: exp.Expr | None) -> bool:
        order = self.query.args.get("order")
        self.query.set("order", None)
        self.query.set("limit", None)
        if limit is None:
            return True
        most = rows_at_most(limit)
        if most is None or most < 1:
            return False
        if self.whole:
            return True  # one row is no more than that
        if self.inner.args.get("group") or self.inner.args.get("distinct"):
            return False
        row = exp.Window(
            this=exp.Anonymous(this="row_number"),
            partition_by=[copied(k) for k in self.keys],
            order=self._order(order),
            over="OVER",
        )
        row.meta[LIMITED] = True
        self.conditions.append(exp.LTE(this=self._column(NUMBER, row), expression=exp.Literal.number(most)))
        return True

    def _order(self, order: exp.Expr | None) -> exp.Expr | None:
        """ORDER BY with names and numbers of outputs as what they stand for."""
        if order is None:
            return None
        made = copied(order)
        outputs = {output_name(e): e.unalias() for e in self.inner.expressions if isinstance(e, exp.Alias)}
        for term in made.expressions:
            value = term.this if isinstance(term, exp.Ordered) else term
            if isinstance(value, exp.Literal) and not value.is_string and 0 < int(value.this) <= len(self.inner.expressions):
                value.replace(copied(self.inner.expressions[int(value.this) - 1].unalias()))
            elif isinstance(value, exp.Column) and not value.args.get("table") and ident(value.this) in outputs:
                value.replace(copied(outputs[ident(value.this)]))
        return made

    def _grouped(self) -> bool:
        group = self.query.args.get("group")
        if group is not None:
            if any(group.args.get(k) for k in _NAMED_GROUPS) or any(
                isinstance(e, exp.Rollup | exp.Cube | exp.GroupingSets) for e in group.expressions
            ):
                return False
            group.set("expressions", [*group.expressions, *map(copied, self.keys)])
        elif self.whole:
            if self.query.args.get("having") is not None:
                return False
            self.query.set("group", exp.Group(expressions=[copied(k) for k in self.keys]))
        return True

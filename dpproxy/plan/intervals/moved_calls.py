"""`dpproxy.low(n)` of a column of a subquery or CTE: moved to where the column is made, so that binding meets an aggregate.

Knows: sqlglot's trees, before they are analysed; which tables have which columns. Must not know: privacy types, intervals.
`WITH t AS (SELECT region, count(*) AS n FROM orders GROUP BY region) SELECT n, dpproxy.low(n) FROM t` becomes `WITH t AS (SELECT
region, count(*) AS n, dpproxy.low(count(*)) AS dpproxy_low_1 FROM ...) SELECT n, t.dpproxy_low_1 FROM t`: the inner query has one
column more, in each of its SELECTs where it is a UNION ALL, and so on down to an aggregate. No row changes, and no measurement.

This is no rule (`rewrite.rules`): it runs before a statement is bound at all, so that rules meet what they would meet without the
call. Where a column more would be seen - a whole row, NATURAL JOIN, a star that cannot be written out - or would change rows -
DISTINCT, GROUP BY over released rows - the call stays where it is, and binding says that it must stand around an aggregate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from sqlglot import exp

from dpproxy.plan.intervals.calls import interval_call
from dpproxy.plan.known_tables import KnownTables
from dpproxy.sql.capture import names_of
from dpproxy.sql.dialect import copied, ident, to_sql
from dpproxy.sql.effort import step
from dpproxy.sql.nodes import every
from dpproxy.sql.output_names import output_name
from dpproxy.sql.trees import aggregate_calls, contains_aggregate, is_aggregate, sources_of

MAX_NODES = 1_000
"""Of what a call stands around: a column that stands twice in another, and so on, would double it with each level."""

OF_MOVE = 20
"""Steps of moving a call one level down (`sql.effort`)."""

Columns = dict[str, int]
"""Names of columns and their places; -1 of names that several have."""

Meaning = tuple[exp.Select, dict[str, exp.Expr]]
"""A SELECT, and what the columns of a query that it is of are in it."""


def push(tree: exp.Expr, tables: KnownTables) -> None:
    """Move the calls in a tree down to aggregates, as far as that changes nothing else."""
    waiting: list[exp.Expr] = [node for node in every(tree, exp.Dot) if _movable(node)]
    if not waiting:
        return
    queries = _Queries(tree, tables.of_tree(tree))
    while waiting:
        step(OF_MOVE)
        waiting += [call for call in queries.moved(waiting.pop()) if _movable(call)]


def _movable(node: exp.Expr) -> bool:
    """Whether a node is a call around something that is no aggregate, and whose columns are all that it needs."""
    if interval_call(node) is None or len(node.expression.expressions) != 1:
        return False
    (around,) = node.expression.expressions
    named = any(window.args.get("alias") for window in around.find_all(exp.Window))
    return not any(aggregate_calls(around)) and around.find(exp.Query) is None and not named


@dataclass
class _Queries:
    """The queries of one statement that FROM can name, and who reads them. What is kept by the id of a node is of the node as it
    was written: columns that are added later have names of their own, and nobody else asks for them."""

    tree: exp.Expr
    tables: KnownTables
    readers: dict[int, list[exp.Expr]] = field(default_factory=dict)  # by CTE, the items of FROM that name it
    named: dict[int, exp.CTE] = field(default_factory=dict)  # by item
    added: dict[tuple[int, str], str] = field(default_factory=dict)  # columns, by their query and what they stand for
    _columns: dict[int, Columns | None] = field(default_factory=dict)  # by item
    _meanings: dict[int, list[Meaning] | None] = field(default_factory=dict)  # by item
    _wider: dict[int, bool] = field(default_factory=dict)  # by CTE or subquery, whether it may have a column more
    _grouped: dict[int, bool] = field(default_factory=dict)  # by SELECT

    def __post_init__(self) -> None:
        for table in self.tree.find_all(exp.Table):
            cte = _cte_of(table)
            if cte is not None:
                self.named[id(table)] = cte
                self.readers.setdefault(id(cte), []).append(table)

    def moved(self, call: exp.Expr) -> list[exp.Expr]:
        """Move a call one level down, and return those that then stand there; none where it stays."""
        select, around = call.find_ancestor(exp.Select), call.expression.expressions[0]
        if select is None or not self._of_each_row(call, select):
            return []
        item = self._item(select, around)
        if item is None or not self._may_widen(self._holder(item)):
            return []
        found = self._below(item, select, around)
        if found is None:
            return []
        name, calls = self._column(self._holder(item), call, found)
        _keep_name(call, select)
        call.replace(exp.column(exp.to_identifier(name, quoted=True)))
        return calls

    def _column(
        self, holder: exp.Expr, call: exp.Expr, found: Sequence[tuple[exp.Select, exp.Expr]]
    ) -> tuple[str, list[exp.Expr]]:
        """The column of a query that a call becomes, and the calls it is made of where it is new."""
        kind = interval_call(call)
        told = (id(holder), f"{kind} {[to_sql(expr) for _, expr in found]}")
        if told in self.added:
            return self.added[told], []
        name = self.added[told] = f"dpproxy_{kind}_{len(self.added) + 1}"
        for item in self._items(holder):
            self._write_out(item)
        calls = [_placed(call, expr) for _, expr in found]
        for (select, _), made in zip(found, calls, strict=True):
            select.append("expressions", exp.Alias(this=made, alias=exp.to_identifier(name, quoted=True)))
        return name, calls

    def _of_each_row(self, call: exp.Expr, select: exp.Select) -> bool:
        """Whether a call is computed once for each row that FROM gives: not of groups, but in what is aggregated, or filtered."""
        below = call
        while below.parent is not None and below.parent is not select:
            below = below.parent
            if is_aggregate(below):
                return True
        if below.arg_key in ("where", "joins"):
            return True
        if id(select) not in self._grouped:
            parts = (*select.expressions, select.args.get("having"), select.args.get("order"))
            some = any(contains_aggregate(part) for part in parts if part is not None)
            self._grouped[id(select)] = some or bool(select.args.get("group"))
        return not self._grouped[id(select)]

    # --- what FROM names

    def _holder(self, item: exp.Expr) -> exp.Expr:
        """The CTE that an item of FROM names, or the item."""
        return self.named.get(id(item), item)

    def _items(self, holder: exp.Expr) -> list[exp.Expr]:
        return self.readers.get(id(holder), []) if isinstance(holder, exp.CTE) else [holder]

    def _item(self, select: exp.Select, around: exp.Expr) -> exp.Expr | None:
        """The subquery or CTE of FROM that all columns of an expression are of; None where there are several, or none."""
        owners = [self._owner(select, column) for column in around.find_all(exp.Column)]
        found = {id(owner): owner for owner in owners}
        item = owners[0] if len(found) == 1 else None
        return item if item is not None and isinstance(self._holder(item), exp.CTE | exp.Subquery) else None

    def _owner(self, select: exp.Select, column: exp.Column) -> exp.Expr | None:
        table, name = ident(column.args.get("table")), ident(column.this)
        items = [item for item in sources_of(select) if not table or table in names_of(item)]
        known = [self._names(item) for item in items]
        owners = [item for item, names in zip(items, known, strict=True) if names is not None and name in names]
        return owners[0] if len(owners) == 1 and None not in known else None

    def _names(self, item: exp.Expr) -> Columns | None:
        """The columns of an item of FROM by name, with their places; None where they are not known."""
        if id(item) not in self._columns:
            self._columns[id(item)] = None  # of one that reads itself
            names = self._listed(item)
            twice = {name for name, times in Counter(names or ()).items() if times > 1}
            found = {name: -1 if name in twice else n for n, name in enumerate(names or ())}
            self._columns[id(item)] = found if names is not None else None
        return self._columns[id(item)]

    def _listed(self, item: exp.Expr) -> Sequence[str] | None:
        holder = self._holder(item)
        if item.args.get("joins"):
            return None
        if isinstance(item, exp.Values):
            return _aliases(item) or None
        if not isinstance(holder, exp.CTE | exp.Subquery):
            plain = isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier) and not _aliases(item)
            known = self.tables.columns_of(item) if plain and isinstance(item, exp.Table) else None
            return None if known is None else tuple(known)
        first = _first(holder.this)
        own = self._outputs(first) if first is not None else None
        if own is None:
            return None
        names = [output_name(e) for e in own]
        for aliased in (holder, item) if holder is not item else (item,):
            names = [*_aliases(aliased), *names[len(_aliases(aliased)) :]]
        return names

    def _outputs(self, select: exp.Select) -> list[exp.Expr] | None:
        """What a SELECT shows, stars written out; None where one cannot be."""
        found: list[exp.Expr] = []
        for node in select.expressions:
            columns = self._starred(node, select) if _is_star(node) else [node]
            if columns is None:
                return None
            found += columns
        return found

    def _starred(self, star: exp.Expr, select: exp.Select) -> list[exp.Expr] | None:
        table = ident(star.args.get("table")) if isinstance(star, exp.Column) else ""
        items = [item for item in sources_of(select) if not table or table in names_of(item)]
        joined = any(join.args.get("using") for join in select.args.get("joins") or ())
        if (joined and not table) or (isinstance(star, exp.Star) and any(star.args.values())):
            return None
        found: list[exp.Expr] = []
        for item in items:
            names = self._names(item) if isinstance(self._holder(item), exp.CTE | exp.Subquery) else None
            if names is None or -1 in names.values():
                return None
            whose = [exp.to_identifier(name, quoted=True) for name in names_of(item)[:1]]
            found += [exp.column(exp.to_identifier(name, quoted=True), *map(copied, whose)) for name in names]
        return found

    # --- whether a query may have a column more

    def _may_widen(self, holder: exp.Expr) -> bool:
        """Whether nothing that reads a query would see a column more of it."""
        if id(holder) not in self._wider:
            recursive = isinstance(holder, exp.CTE) and _recursive(holder)
            self._wider[id(holder)] = not recursive and all(map(self._blind, self._items(holder)))
        return self._wider[id(holder)]

    def _blind(self, item: exp.Expr) -> bool:
        """Whether columns of an item are named one by one, or by stars that can be written out."""
        select, names, columns = item.find_ancestor(exp.Select), names_of(item), self._names(item)
        if select is None or columns is None or not isinstance(item.parent, exp.From | exp.Join):
            return False
        if any(join.args.get("method") for join in select.args.get("joins") or ()) or self._outputs(select) is None:
            return False
        for column in select.find_all(exp.Column):
            table, name = ident(column.args.get("table")), ident(column.this)
            star = isinstance(column.this, exp.Star) and table in names and column.parent is not select
            if star or (not table and name in names and name not in columns):
                return False  # a whole row
        return True

    def _write_out(self, item: exp.Expr) -> None:
        """Write out the stars of the SELECT that reads an item."""
        select = item.find_ancestor(exp.Select)
        if select is not None and any(map(_is_star, select.expressions)):
            select.set("expressions", self._outputs(select))

    # --- what is put there

    def _below(self, item: exp.Expr, select: exp.Select, around: exp.Expr) -> list[tuple[exp.Select, exp.Expr]] | None:
        """Each SELECT of an item's query, and what an expression over its columns is there; None where it cannot be put there."""
        meanings = self._meanings_of(item)
        if meanings is None:
            return None
        several = len(meanings) > 1 and not isinstance(_without_casts(around), exp.Column)
        if several or (around.find(exp.Window) is not None and not (_alone(select) and _whole(self._holder(item)))):
            return None
        put = [(branch, _put(around, known)) for branch, known in meanings]
        found = [(branch, expr) for branch, expr in put if expr is not None]
        return found if len(found) == len(put) else None

    def _meanings_of(self, item: exp.Expr) -> list[Meaning] | None:
        """What the columns of an item are in each SELECT of its query; None where these have no rows of their own."""
        if id(item) not in self._meanings:
            names, found = self._names(item) or {}, list[Meaning]()
            branches = _branches(self._holder(item).this)
            for branch in branches:
                outputs, distinct = self._outputs(branch), branch.args.get("distinct")
                if outputs is not None and (distinct is None or distinct.args.get("on") is not None):
                    columns = {name: outputs[n].unalias() for name, n in names.items() if 0 <= n < len(outputs)}
                    found.append((branch, columns))
            self._meanings[id(item)] = found if branches and len(found) == len(branches) else None
        return self._meanings[id(item)]


def _cte_of(table: exp.Table) -> exp.CTE | None:
    """The query of WITH that a table's name means where it stands; None for a table of the database."""
    if table.args.get("db") or not isinstance(table.this, exp.Identifier):
        return None
    name, below = ident(table.this), table.parent
    inside: exp.Expr = table
    while below is not None:
        clause = below.args.get("with_") if isinstance(below, exp.Query) else None
        for cte in clause.expressions if clause is not None and clause is not inside else ():
            if ident(cte.args["alias"].this) == name:
                return cte if isinstance(cte, exp.CTE) else None
        if isinstance(below, exp.With):
            before = below.expressions[: next(i for i, c in enumerate(below.expressions) if c is inside)]
            seen = below.expressions if below.args.get("recursive") else before
            for cte in reversed(seen):
                if ident(cte.args["alias"].this) == name:
                    return cte if isinstance(cte, exp.CTE) else None
        inside, below = below, below.parent
    return None


def _recursive(cte: exp.CTE) -> bool:
    clause = cte.parent
    return clause is not None and bool(clause.args.get("recursive")) and any(_cte_of(t) is cte for t in cte.find_all(exp.Table))


def _first(query: exp.Expr) -> exp.Select | None:
    """The SELECT that names a query's columns."""
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    return query if isinstance(query, exp.Select) else None


def _branches(query: exp.Expr) -> list[exp.Select]:
    """The SELECTs whose rows are a query's rows; none where others decide which."""
    if isinstance(query, exp.Select):
        return [query]
    if isinstance(query, exp.Subquery):
        return _branches(query.this)
    if not isinstance(query, exp.Union) or query.args.get("distinct"):
        return []
    left, right = _branches(query.this), _branches(query.expression)
    return [*left, *right] if left and right else []


def _alone(select: exp.Select) -> bool:
    """Whether the rows of a SELECT, of which its windows are, are those of the one item of its FROM."""
    return not any(select.args.get(key) for key in ("joins", "where", "group", "having", "laterals"))


def _whole(holder: exp.Expr) -> bool:
    """Whether all rows that windows of a query's SELECT would see are rows of the query."""
    query = holder.this
    while not any(query.args.get(key) for key in ("limit", "offset", "fetch", "distinct")):
        if isinstance(query, exp.Select):
            return True
        query = query.this
    return False


def _without_casts(around: exp.Expr) -> exp.Expr:
    """Casts of a column mean the same in each SELECT of a UNION; arithmetic does not where the column has several types."""
    while isinstance(around, exp.Cast | exp.Paren):
        around = around.this
    return around


def _put(around: exp.Expr, meanings: Mapping[str, exp.Expr]) -> exp.Expr | None:
    """An expression with what its columns are in their places; None where that is too much, or holds a query."""
    made = exp.Paren(this=copied(around))
    columns = list(made.find_all(exp.Column))
    found = [meaning for column in columns if (meaning := meanings.get(ident(column.this))) is not None]
    nodes = sum(1 for meaning in found for _ in islice(meaning.walk(), MAX_NODES + 1))
    if len(found) < len(columns) or nodes > MAX_NODES or any(meaning.find(exp.Query) is not None for meaning in found):
        return None
    for column, meaning in zip(columns, found, strict=True):
        plain = isinstance(meaning, exp.Column | exp.Anonymous | exp.Literal | exp.Paren) or column.parent is made
        column.replace(copied(meaning) if plain else exp.Paren(this=copied(meaning)))
    inner: exp.Expr = made.this
    return inner.pop()


def _placed(call: exp.Expr, around: exp.Expr) -> exp.Expr:
    """The call around an expression; the ends of a constant are itself."""
    if all(isinstance(node, _CONSTANT) for node in around.walk()):
        if interval_call(call) != "stderr":
            return around
        return exp.Cast(this=exp.Literal.number(0), to=exp.DataType.build("double"))
    made = copied(call)
    made.expression.set("expressions", [around])
    return made


_CONSTANT = (exp.Literal, exp.Null, exp.Boolean, exp.Neg, exp.Paren, exp.Cast, exp.DataType, exp.DataTypeParam)


def _keep_name(call: exp.Expr, select: exp.Select) -> None:
    """Give the column of the answer that a call is in the name PostgreSQL gives it."""
    top = call
    while top.parent is not None and top.parent is not select:
        top = top.parent
    if top.arg_key == "expressions" and not isinstance(top, exp.Alias):
        name = exp.to_identifier(output_name(top), quoted=True)
        alias = exp.Alias(alias=name)
        top.replace(alias)
        alias.set("this", top)


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _aliases(holder: exp.Expr) -> list[str]:
    alias = holder.args.get("alias")
    return [ident(c) for c in alias.args.get("columns") or ()] if alias is not None else []

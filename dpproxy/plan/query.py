"""Queries analysed bottom-up by privacy type: which are rows of units, which are released (PRIVACY.md section 2).

Knows: sqlglot's query nodes, scopes, the rules of the table of section 2. Must not know: noise, engines' spelling. `analyse`
returns either `Rows` with its visible columns (rows that belong to units, or public rows that were asked for as
rows) or the rewritten tree of a released query, which the facade may run. The default branch is a refusal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan import joins
from dpproxy.plan.accuracy import refuse_misplaced
from dpproxy.plan.bind_expr import ExprBinder
from dpproxy.plan.expr import Call, Column, Expr, Lit, Ref, SeriesDomain, ValuesDomain, conjuncts
from dpproxy.plan.functions import AGGREGATES, coerce, unsupported
from dpproxy.plan.names import output_name
from dpproxy.plan.relation import Distinct, Limits, Project, Rows, Union, Values
from dpproxy.plan.scope import Cte, Env, Scope, Source
from dpproxy.plan.tables import reach_unit, scan_table
from dpproxy.sql.dialect import ident, position
from dpproxy.sql.statements import VIRTUAL_SCHEMA, parse
from dpproxy.sql.types import common

if TYPE_CHECKING:
    from dpproxy.plan.planner import Planner


@dataclass(frozen=True)
class RowsResult:
    """Rows and their output columns, in order."""

    rows: Rows
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class ReleasedResult:
    """A query the facade can run as it now stands. `measured`: it contains a measurement."""

    tree: exp.Expr
    measured: bool


Result = RowsResult | ReleasedResult


@dataclass(frozen=True)
class Item:
    """One item of FROM: rows (private or public) or something only the facade can produce."""

    alias: str
    rows: Rows | None
    columns: tuple[Column, ...]
    node: exp.Expr


class Analyser:
    """Analyses the queries of one statement; what is measured is registered with the planner."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.context = planner.context
        self.counter = planner.counter

    # --- queries

    def analyse(self, node: exp.Expr, env: Env, outer: Scope | None = None, want_rows: bool = False) -> Result:
        """The privacy type of a query. `want_rows`: a public query shall come back as rows, not as SQL for the facade."""
        try:
            return self._analyse(node, env, outer, want_rows)
        except Refusal as refusal:
            raise located(refusal, node) from None

    def _analyse(self, node: exp.Expr, env: Env, outer: Scope | None, want_rows: bool) -> Result:
        if isinstance(node, exp.Subquery):
            return self._parenthesised(node, env, outer, want_rows)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, env, outer, want_rows)
        if isinstance(node, exp.Select):
            return self._select(node, env, outer, want_rows)
        if isinstance(node, exp.Values) and want_rows:
            item = self._values(node)
            assert item.rows is not None
            return RowsResult(item.rows, item.columns)
        if isinstance(node, exp.Values | exp.Table):
            if self._names_private(node, env):
                raise self._row_level(node)
            return ReleasedResult(node, False)
        raise unsupported(f"{type(node).__name__.upper()}")

    def _parenthesised(self, node: exp.Subquery, env: Env, outer: Scope | None, want_rows: bool) -> Result:
        env = self._with(node, env, outer)
        result = self.analyse(node.this, env, outer, want_rows)
        if isinstance(result, ReleasedResult):
            node.set("this", result.tree)
            return ReleasedResult(node, result.measured)
        if any(node.args.get(k) for k in ("limit", "offset", "fetch")):
            raise self._limit(node)
        return result

    def _names_private(self, node: exp.Expr, env: Env) -> bool:
        return any(self._private_table(t, env) for t in node.find_all(exp.Table))

    def _private_table(self, table: exp.Table, env: Env) -> bool:
        schema, name = ident(table.args.get("db")), ident(table.this)
        if not schema and name in env:
            return env[name].per_unit
        if self.context.view(schema, name) is not None:
            return True  # whatever it reads: a view is analysed where it stands in FROM, and nowhere else
        policy = self.context.find(schema, name)
        return policy is not None and not policy.public

    def _row_level(self, node: exp.Expr) -> Refusal:
        unit = self.context.policy.unit_name
        return Refusal(
            FEATURE_NOT_SUPPORTED,
            f"answers are aggregates over many {unit}s; this query returns rows of single {unit}s",
            position(node),
            hint="Aggregate: SELECT count(*), sum(...), avg(...) ... GROUP BY ...",
        )

    @staticmethod
    def _limit(node: exp.Expr) -> Refusal:
        return Refusal(
            FEATURE_NOT_SUPPORTED,
            "LIMIT and OFFSET below an aggregate over private rows choose single rows",
            position(node),
            hint="Aggregate first and put LIMIT on the released rows, or drop it.",
        )

    # --- WITH

    def _with(self, node: exp.Expr, env: Env, outer: Scope | None) -> Env:
        """The environment inside a query with CTEs; per-unit CTEs leave the tree, released ones are rewritten in it."""
        clause = node.args.get("with_")
        if clause is None:
            return env
        new = dict(env)
        kept = []
        for cte in clause.expressions:
            name = ident(cte.args["alias"].this)
            columns = tuple(ident(c) for c in cte.args["alias"].args.get("columns") or ())
            if clause.args.get("recursive") and self._mentions(cte.this, name):
                self._recursive(cte, name, columns, new)
                kept.append(cte)
                continue
            original = cte.this.copy()
            result = self.analyse(cte.this, new, outer)
            per_unit = isinstance(result, RowsResult)
            new[name] = Cte(name, original, columns, dict(new), per_unit)
            if isinstance(result, ReleasedResult):
                cte.set("this", result.tree)
                kept.append(cte)
                self.planner.released_ctes[id(original)] = result
        if kept:
            clause.set("expressions", kept)
        else:
            node.set("with_", None)
        return new

    @staticmethod
    def _mentions(node: exp.Expr, name: str) -> bool:
        return any(ident(t.this) == name for t in node.find_all(exp.Table))

    def _recursive(self, cte: exp.Expr, name: str, columns: tuple[str, ...], env: dict[str, Cte]) -> None:
        env[name] = Cte(name, cte.this, columns, dict(env), False)
        result = self.analyse(cte.this, env)
        if isinstance(result, RowsResult):
            raise unsupported("a recursive query over private rows")
        cte.set("this", result.tree)

    # --- set operations

    def _set_operation(self, node: exp.SetOperation, env: Env, outer: Scope | None, want_rows: bool) -> Result:
        env = self._with(node, env, outer)
        left = self.analyse(node.this, env, outer, want_rows)
        right = self.analyse(node.expression, env, outer, want_rows)
        if isinstance(left, ReleasedResult) and isinstance(right, ReleasedResult):
            node.set("this", left.tree)
            node.set("expression", right.tree)
            return ReleasedResult(node, left.measured or right.measured)
        if isinstance(left, ReleasedResult) or isinstance(right, ReleasedResult):
            raise self._row_level(node)
        if node.args.get("limit") or node.args.get("offset"):
            raise self._limit(node)
        return self._union(node, left, right)

    def _union(self, node: exp.SetOperation, left: RowsResult, right: RowsResult) -> RowsResult:
        if len(left.columns) != len(right.columns):
            raise Refusal("42601", "each UNION query must have the same number of columns", position(node))
        if left.rows.private != right.rows.private:
            raise self._row_level(node)
        distinct = bool(node.args.get("distinct"))
        if not isinstance(node, exp.Union) and left.rows.private:
            return self._intersect(node, left, right, distinct)
        sides = [self._finish_unit(left), self._finish_unit(right)]
        outputs = tuple(self._merged(a, b) for a, b in zip(left.columns, right.columns, strict=True))
        constants = [_constant_rows(left), _constant_rows(right)]
        if isinstance(node, exp.Union) and constants[0] is not None and constants[1] is not None:
            return self._constants(outputs, [*constants[0], *constants[1]], distinct)
        if not isinstance(node, exp.Union):
            word = "intersect" if isinstance(node, exp.Intersect) else "except"
            return self._public_set(outputs, sides, (left, right), word if distinct else f"{word} all")
        unit = self._unit_column(sides) if left.rows.private else None
        extra = (unit,) if unit is not None else ()
        children = []
        for side, result in zip(sides, (left, right), strict=True):
            columns = [*result.columns, *([side.unit] if side.unit is not None else [])]
            children.append(_projected(side.node, columns, self.counter))
        rows_node = Union((*outputs, *extra), tuple(children))
        limits = _add_limits(sides[0].limits, sides[1].limits)
        rows = Rows(rows_node, unit, None, False, limits, _unit_ids(outputs, left, right))
        if distinct and unit is not None and not any(c.taint for c in outputs):
            raise self._distinct_unit(node)
        if distinct:
            rows = replace(rows, node=Distinct(rows_node.columns, rows_node))
        return RowsResult(rows, outputs)

    def _constants(self, outputs: tuple[Column, ...], rows: list[tuple[Expr, ...]], distinct: bool) -> RowsResult:
        """`SELECT 1, 'a' UNION ALL SELECT 2, 'b' ...`: a list of values, however long."""
        typed = [tuple(coerce(e, c.type) for e, c in zip(row, outputs, strict=True)) for row in rows]
        if distinct:
            typed = list(dict.fromkeys(typed))
        return RowsResult(Rows(Values(outputs, tuple(typed))), outputs)

    def _public_set(
        self, outputs: tuple[Column, ...], sides: list[Rows], results: tuple[RowsResult, RowsResult], op: str
    ) -> RowsResult:
        children = tuple(_projected(side.node, result.columns, self.counter) for side, result in zip(sides, results, strict=True))
        return RowsResult(Rows(Union(outputs, children, op)), outputs)

    def _intersect(self, node: exp.SetOperation, left: RowsResult, right: RowsResult, distinct: bool) -> RowsResult:
        raise unsupported(f"{type(node).__name__.upper()} of private rows", "Use [NOT] EXISTS correlated on the unit id.")

    def _distinct_unit(self, node: exp.Expr) -> Refusal:
        return Refusal(
            FEATURE_NOT_SUPPORTED,
            f"UNION removes duplicates across {self.context.policy.unit_name}s",
            position(node),
            hint=f"Use UNION ALL, or select {self.context.policy.unit_column} too.",
        )

    def _merged(self, a: Column, b: Column) -> Column:
        from dpproxy.plan import interval as iv

        domain = a.domain if a.domain == b.domain else None
        if isinstance(a.domain, ValuesDomain) and isinstance(b.domain, ValuesDomain):
            domain = ValuesDomain(tuple(dict.fromkeys((*a.domain.values, *b.domain.values))))
        return Column(
            self.counter.column(), a.name, common([a.type, b.type]), iv.hull([a.bound, b.bound]),
            a.grid if a.grid == b.grid else None, max(a.taint, b.taint), False, True, True, domain,
        )  # fmt: skip

    def _unit_column(self, sides: Sequence[Rows]) -> Column:
        units = [s.unit for s in sides if s.unit is not None]
        return replace(units[0], id=self.counter.column(), nullable=any(u.nullable for u in units))

    def _finish_unit(self, result: RowsResult) -> Rows:
        return reach_unit(result.rows, self.context, self.counter)

    # --- SELECT

    def _select(self, select: exp.Select, env: Env, outer: Scope | None, want_rows: bool) -> Result:
        env = self._with(select, env, outer)
        items = self._from_items(select, env, outer)
        if not any(i.rows is not None and i.rows.private for i in items) and not want_rows:
            return self._released(select, env, items)
        rows, scope = self._joined(select, items, env, outer)
        binder = self._binder(env, rows)
        where = select.args.get("where")
        if where is not None:
            rows = joins.filtered(rows, binder.bind(where.this, scope))
        return self.planner.finish_select(self, select, rows, scope, env)

    def _binder(self, env: Env, rows: Rows | None) -> ExprBinder:
        return ExprBinder(self.planner.hooks(self, env, rows))

    def _released(self, select: exp.Select, env: Env, items: list[Item]) -> ReleasedResult:
        """A SELECT over public and released sources: only nested subqueries may still need rewriting."""
        refuse_misplaced(select)
        measured = any(self._item_measured(i.node) for i in items)
        for nested in _nested_queries(select):
            result = self.analyse(nested, env)
            if isinstance(result, RowsResult):
                raise self._private_in_public(nested)
            measured = measured or result.measured
            if result.tree is not nested:
                nested.replace(result.tree)
        return ReleasedResult(select, measured)

    def _item_measured(self, node: exp.Expr) -> bool:
        return bool(node.meta.get("dpproxy_measured"))

    def _private_in_public(self, node: exp.Expr) -> Refusal:
        return Refusal(
            FEATURE_NOT_SUPPORTED,
            "a subquery over private rows would decide exactly which rows are returned",
            position(node),
            hint="Aggregate inside the subquery: it may return counts, sums or averages of many "
            f"{self.context.policy.unit_name}s.",
        )

    # --- FROM

    def _from_items(self, select: exp.Select, env: Env, outer: Scope | None) -> list[Item]:
        clause = select.args.get("from_")
        nodes = [clause.this] if clause is not None else []
        nodes += [join.this for join in select.args.get("joins") or ()]
        return [self._item(node, env, outer) for node in nodes]

    def _item(self, node: exp.Expr, env: Env, outer: Scope | None) -> Item:
        alias = ident(node.args["alias"].this) if node.args.get("alias") is not None else ""
        names = tuple(ident(c) for c in node.args["alias"].args.get("columns") or ()) if alias else ()
        if isinstance(node, exp.Table):
            return self._table(node, alias, names, env)
        if isinstance(node, exp.Subquery):
            inner = node.copy()
            result = self.analyse(node.this, self._with(node, env, outer), outer)
            if isinstance(result, RowsResult):
                return self._renamed(Item(alias, result.rows, result.columns, node), names)
            node.set("this", result.tree)
            node.meta["dpproxy_measured"] = result.measured
            node.meta["dpproxy_original"] = inner.this
            return Item(alias, None, (), node)
        if isinstance(node, exp.Lateral):
            inner_node = node.this
            if self._names_private(inner_node, env):
                raise unsupported("LATERAL over private rows", "Join on the unit id instead.")
            return Item(alias, None, (), node)
        if isinstance(node, exp.Values):
            return Item(alias, None, (), node)
        return Item(alias, None, (), node)

    def _table(self, node: exp.Table, alias: str, names: tuple[str, ...], env: Env) -> Item:
        if node.args.get("sample"):
            if self._private_table(node, env):
                raise unsupported("TABLESAMPLE of private rows")
            return Item(alias, None, (), node)
        if not isinstance(node.this, exp.Identifier):
            if self._names_private(node.this, env):
                raise self._private_in_public(node)
            for nested in _outermost_queries(node.this):
                if self.analyse(nested, env).__class__ is RowsResult:
                    raise self._private_in_public(nested)
            return Item(alias, None, (), node)
        schema, name = ident(node.args.get("db")), ident(node.this)
        if not schema and name in env:
            return self._cte(env[name], alias or name, names, node)
        if schema == VIRTUAL_SCHEMA:
            self.planner.virtual(node, name)
            return Item(alias or name, None, (), node)
        view = self.context.view(schema, name)
        if view is not None:
            return self._view(node, view, alias or name, names)
        policy = self.context.find(schema, name)
        if policy is None or policy.public:
            return Item(alias or name, None, (), node)
        rows, columns = scan_table(policy, self.context, self.counter)
        return self._renamed(Item(alias or name, rows, columns, node), names)

    def _view(self, node: exp.Table, view: str, alias: str, names: tuple[str, ...]) -> Item:
        """A view of the policy is the query it stands for, outside the statement's own CTEs."""
        identifiers = [exp.to_identifier(n, quoted=True) for n in names] or None
        wrapped = exp.Subquery(
            this=parse(view), alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True), columns=identifiers)
        )
        node.replace(wrapped)
        return self._item(wrapped, {}, None)

    def _cte(self, cte: Cte, alias: str, names: tuple[str, ...], node: exp.Table) -> Item:
        if not cte.per_unit:
            released = self.planner.released_ctes.get(id(cte.query))
            node.meta["dpproxy_measured"] = released is not None and released.measured
            return Item(alias, None, (), node)
        result = self.analyse(cte.query.copy(), cte.env)
        assert isinstance(result, RowsResult)
        item = self._renamed(Item(alias, result.rows, result.columns, node), cte.columns)
        return self._renamed(item, names)

    @staticmethod
    def _renamed(item: Item, names: Sequence[str]) -> Item:
        if not names:
            return item
        renamed = [replace(c, name=n) for c, n in zip(item.columns, names, strict=False)]
        return replace(item, columns=(*renamed, *item.columns[len(renamed) :]))

    def _as_rows(self, item: Item, env: Env) -> Item:
        """A public or released item as rows the backend can join with private ones."""
        if item.rows is not None:
            return item
        node = item.node
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            schema, name = ident(node.args.get("db")), ident(node.this)
            if not schema and name in env:
                cte = env[name]
                measured = self.planner.released_ctes.get(id(cte.query))
                if measured is not None and measured.measured:
                    return self.planner.released_rows(self, item, exp.select("*").from_(name), env)
                return self._public_query(replace(item, node=cte.query.copy()), cte.env, cte.columns, node)
            policy = self.context.find(schema, name)
            if policy is not None:
                rows, columns = scan_table(policy, self.context, self.counter)
                names = tuple(ident(c) for c in node.args["alias"].args.get("columns") or ()) if node.args.get("alias") else ()
                return self._renamed(replace(item, rows=rows, columns=columns), names)
        if isinstance(node, exp.Subquery):
            if node.meta.get("dpproxy_measured"):
                return self.planner.released_rows(self, item, node.this, env)
            return self._public_query(replace(item, node=node.meta["dpproxy_original"]), env, (), node)
        if isinstance(node, exp.Values):
            return replace(self._values(node), alias=item.alias)
        raise unsupported("joining this with private rows", "Join it with the released result, in an outer query.")

    def _public_query(self, item: Item, env: Env, columns: tuple[str, ...], original: exp.Expr) -> Item:
        result = self.analyse(item.node.copy(), env, None, True)
        if not isinstance(result, RowsResult):
            raise unsupported("joining this with private rows", "Join it with the released result, in an outer query.")
        alias = original.args.get("alias")
        names = tuple(ident(c) for c in alias.args.get("columns") or ()) if alias is not None else ()
        item = self._renamed(Item(item.alias, result.rows, result.columns, original), columns)
        return self._renamed(item, names)

    def _values(self, node: exp.Values) -> Item:
        return self.planner.values_item(self, node)

    def _joined(self, select: exp.Select, items: list[Item], env: Env, outer: Scope | None) -> tuple[Rows, Scope]:
        """FROM and its joins as one relation. WHERE's conjuncts help to relate private tables of comma joins."""
        if not items:
            return self.planner.one_row(), Scope((), outer=outer)
        items = [self._as_rows(i, env) for i in items]
        join_nodes = [None, *(select.args.get("joins") or ())]
        state = _JoinState(self, env, outer, self._where_equalities(select, items, env, outer))
        last = items[0].node
        try:
            for item, join in zip(items, join_nodes, strict=True):
                last = item.node if item.rows is not None and item.rows.private else last
                state.add(item, join)
            return state.finish()
        except Refusal as refusal:
            raise located(refusal, last) from None

    def _where_equalities(self, select: exp.Select, items: list[Item], env: Env, outer: Scope | None) -> list[Expr]:
        """Top-level `a = b` conjuncts of WHERE between plain columns, bound early."""
        where = select.args.get("where")
        if where is None:
            return []
        scope = Scope(tuple(Source(i.alias, i.columns) for i in items), outer=outer)
        binder = self._binder(env, None)
        found = []
        parts = where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
        for part in parts:
            part = part.unnest()
            if isinstance(part, exp.EQ) and isinstance(part.this, exp.Column) and isinstance(part.expression, exp.Column):
                try:
                    found.append(binder.bind(part, scope))
                except Refusal:
                    continue
        return found


class _JoinState:
    """Joins accumulated from left to right: inner ones are gathered, an outer one closes what was gathered."""

    def __init__(self, analyser: Analyser, env: Env, outer: Scope | None, hints: list[Expr]) -> None:
        self.analyser, self.env, self.outer, self.hints = analyser, env, outer, hints
        self.parts: list[Rows] = []
        self.conditions: list[Expr] = []
        self.sources: list[Source] = []
        self.merged: dict[str, Column] = {}

    def scope(self) -> Scope:
        return Scope(tuple(self.sources), dict(self.merged), self.outer)

    def add(self, item: Item, join: exp.Join | None) -> None:
        assert item.rows is not None
        side = (join.side or "").upper() if join is not None else ""
        before = list(self.sources)
        self.sources.append(Source(item.alias, item.columns))
        on = self._on(item, join, before) if join is not None else []
        if side not in ("LEFT", "RIGHT", "FULL"):
            if join is not None and (join.kind or "").upper() not in ("", "INNER", "CROSS"):
                raise unsupported(f"{join.kind} JOIN")
            self.parts.append(item.rows)
            self.conditions += on
            return
        left = self._close()
        if side == "LEFT":
            self._left(left, item.rows, on, item.alias)
        elif side == "RIGHT":
            self._right(left, item.rows, on)
        else:
            self._full(left, item.rows, on, item.alias)

    def _close(self) -> Rows:
        known = {c.id for p in self.parts for c in p.node.columns}
        hints = [h for h in self.hints if all(c.id in known for c in _columns(h))]
        # a hint is only a condition of WHERE: using it here is sound because WHERE is applied to all rows anyway
        rows = joins.join_inner(self.parts, [*self.conditions, *hints], self.analyser.context, self.analyser.counter)
        self.conditions = []
        return rows

    def _left(self, left: Rows, right: Rows, on: list[Expr], alias: str) -> None:
        padded = not left.private and right.private
        self.parts = [joins.join_left(left, right, on, self.analyser.context, self.analyser.counter)]
        if not padded:
            self._null_out([alias])

    def _right(self, left: Rows, right: Rows, on: list[Expr]) -> None:
        self.parts = [joins.join_left(right, left, on, self.analyser.context, self.analyser.counter)]
        if right.private or not left.private:
            self._null_out([s.alias for s in self.sources[:-1]])

    def _full(self, left: Rows, right: Rows, on: list[Expr], alias: str) -> None:
        if left.private and right.private:
            self.parts = [joins.join_full(left, right, on, self.analyser.context, self.analyser.counter)]
            self._null_out([s.alias for s in self.sources])
            return
        if left.private:
            joined = joins.join_left(left, right, on, self.analyser.context, self.analyser.counter)
            self.parts = [replace(joined, padded=True, kept=joined.kept | _ids(right))]
            self._null_out([alias])
        elif right.private:
            joined = joins.join_left(right, left, on, self.analyser.context, self.analyser.counter)
            self.parts = [replace(joined, padded=True, kept=joined.kept | _ids(left))]
            self._null_out([s.alias for s in self.sources[:-1]])
        else:
            raise unsupported("FULL JOIN of public tables below private rows", "Join them in an outer query.")

    def _null_out(self, aliases: list[str]) -> None:
        """Columns of the optional side may be NULL: so may their declared keys."""
        self.sources = [
            replace(s, columns=tuple(nulled(c) for c in s.columns)) if s.alias in aliases else s for s in self.sources
        ]

    def _on(self, item: Item, join: exp.Join, before: list[Source]) -> list[Expr]:
        left = Scope(tuple(before), dict(self.merged), self.outer)
        right = Scope((Source(item.alias, item.columns),))
        names = [ident(c) for c in join.args.get("using") or ()]
        if (join.method or "").upper() == "NATURAL":
            mine = {c.name for c in left.visible()}
            names = [c.name for c in item.columns if c.name in mine]
        if names:
            conditions: list[Expr] = []
            for name in names:
                a, b = left.resolve("", name), right.resolve("", name)
                conditions.append(Call("bool", "=", (Ref(a.type, a), Ref(b.type, b))))
                self.merged[name] = b if (join.side or "").upper() == "RIGHT" else a
            return conditions
        on = join.args.get("on")
        if on is None:
            return []
        binder = self.analyser._binder(self.env, None)
        return list(conjuncts(binder.bind(on, self.scope())))

    def finish(self) -> tuple[Rows, Scope]:
        rows = self._close()
        rows = reach_unit(rows, self.analyser.context, self.analyser.counter)
        return rows, self.scope()


def located(refusal: Refusal, node: exp.Expr) -> Refusal:
    """The refusal with the position of `node` where it has none of its own."""
    if refusal.position is not None:
        return refusal
    return Refusal(refusal.sqlstate, refusal.message, position(node), refusal.detail, refusal.hint)


def nulled(column: Column) -> Column:
    """A column on the optional side of an outer join: NULL in the rows that ON did not match, so not constant either."""
    domain = column.domain
    if isinstance(domain, ValuesDomain):
        domain = domain if None in domain.values else ValuesDomain((*domain.values, None))
    elif isinstance(domain, SeriesDomain):
        domain = replace(domain, nulls=True)
    else:
        domain = None
    return replace(column, nullable=True, domain=domain, constant=False, optional=True)


def _ids(rows: Rows) -> frozenset[int]:
    return frozenset(c.id for c in rows.node.columns)


def _columns(expr: Expr) -> tuple[Column, ...]:
    from dpproxy.plan.expr import references

    return references(expr)


def _projected(node: object, columns: Sequence[Column], counter: object) -> Project:
    from dpproxy.plan.relation import Relation
    from dpproxy.plan.scope import Counter

    assert isinstance(node, Relation)
    assert isinstance(counter, Counter)
    fresh = tuple(replace(c, id=counter.column()) for c in columns)
    return Project(fresh, node, tuple(Ref(c.type, c) for c in columns))


def _constant_rows(result: RowsResult) -> list[tuple[Expr, ...]] | None:
    """The rows of a query of constants; None for other queries."""
    node = result.rows.node
    if isinstance(node, Values) and node.columns and tuple(c.id for c in node.columns) == tuple(c.id for c in result.columns):
        return list(node.rows)
    if not isinstance(node, Project) or not isinstance(node.child, Values) or node.child.columns:
        return None
    whole = len(node.items) == len(result.columns) and all(isinstance(i, Lit) for i in node.items)
    return [node.items] if whole else None


def _add_limits(a: Limits, b: Limits) -> Limits:
    groups = None if a.groups is None or b.groups is None else a.groups + b.groups
    return Limits(a.rows + b.rows, groups)


def _unit_ids(outputs: Sequence[Column], left: RowsResult, right: RowsResult) -> frozenset[int]:
    """Output columns that fix the unit on both sides."""
    found = set()
    for output, a, b in zip(outputs, left.columns, right.columns, strict=True):
        sides = ((a, left.rows), (b, right.rows))
        if all(c.id in r.determinants or (r.unit is not None and c.id == r.unit.id) for c, r in sides):
            found.add(output.id)
    return frozenset(found)


def _nested_queries(select: exp.Select) -> list[exp.Expr]:
    """Queries nested in the expressions of a SELECT (not in FROM, not in WITH), outermost ones only."""
    found: list[exp.Expr] = []
    for key, value in select.args.items():
        if key in ("from_", "with_"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, exp.Join):
                on = part.args.get("on")
                found += _outermost_queries(on) if on is not None else []
            elif isinstance(part, exp.Expr):
                found += _outermost_queries(part)
    return found


def _outermost_queries(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Select | exp.SetOperation):
        return [node]
    found = []
    for child in node.iter_expressions():
        found += _outermost_queries(child)
    return found


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is an aggregate call by itself (a window function is not)."""
    if isinstance(node, exp.Filter | exp.WithinGroup):
        return True
    if isinstance(node, exp.GroupConcat):
        return True
    if isinstance(node, exp.Dot) and ident(node.this) == "pg_catalog":
        return is_aggregate(node.expression)
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in (*AGGREGATES, "grouping")


def contains_aggregate(node: exp.Expr | None) -> bool:
    """Whether an aggregate (not a window function) stands in an expression, subqueries excluded."""
    if node is None or isinstance(node, exp.Select | exp.SetOperation):
        return False
    if isinstance(node, exp.Window):
        inner = node.this
        parts = [
            *inner.iter_expressions(),
            *(c for k, c in node.args.items() if k != "this" and isinstance(c, exp.Expr)),
        ]
        parts += list(node.args.get("partition_by") or ())
        return any(contains_aggregate(p) for p in parts)
    if is_aggregate(node):
        return True
    return any(contains_aggregate(child) for child in node.iter_expressions())


__all__ = [
    "Analyser",
    "Item",
    "ReleasedResult",
    "Result",
    "RowsResult",
    "contains_aggregate",
    "is_aggregate",
    "nulled",
    "output_name",
]

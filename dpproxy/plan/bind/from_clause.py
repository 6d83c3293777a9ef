"""The items of FROM joined from left to right into one relation.

Knows: join nodes, scopes, the rules of `joins`. Must not know: what the items are made of. Inner joins are gathered, an
outer one closes what was gathered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from dpproxy.errors import Refusal
from dpproxy.plan.bind import joins, reported
from dpproxy.plan.bind.protocols import Queries
from dpproxy.plan.bind.results import Item
from dpproxy.plan.bind.scope import Merged, Scope, Source, reading
from dpproxy.plan.bind.tables import reach_unit
from dpproxy.plan.functions import operators, scalars
from dpproxy.plan.known_tables import Env
from dpproxy.plan.properties.null_padding import computed_column, nulled_column
from dpproxy.plan.refusals import positioned, unsupported
from dpproxy.sql.dialect import ident, position
from dpproxy.tree.expr import Column, Expr, Ref, conjuncts, references
from dpproxy.tree.relation import Rows


def bind_from(queries: Queries, select: exp.Select, items: list[Item], env: Env, outer: Scope | None) -> tuple[Rows, Scope]:
    """FROM and its joins. WHERE's conjuncts help to relate private tables of comma joins. `items` are rows, at least one."""
    join_nodes = [None, *(select.args.get("joins") or ())]
    state = _Joining(queries, env, outer, _where_equalities(queries, select, items, env, outer))
    last = items[0].node
    try:
        for item, join in zip(items, join_nodes, strict=True):
            last = item.node if item.private else last
            state.add(item, join)
        return state.finish()
    except Refusal as refusal:
        raise positioned(refusal, position(last)) from None


def _where_equalities(queries: Queries, select: exp.Select, items: list[Item], env: Env, outer: Scope | None) -> list[Expr]:
    """Top-level `a = b` conjuncts of WHERE between plain columns, bound early."""
    where = select.args.get("where")
    if where is None:
        return []
    scope = Scope(tuple(Source(i.alias, i.columns) for i in items), outer=outer)
    binder = queries.expressions(env, None)
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


@dataclass(frozen=True)
class _Pair:
    """Columns of one name on both sides of USING or NATURAL."""

    name: str
    left: Column
    right: Column

    @property
    def condition(self) -> Expr:
        return operators.compare("=", reading(self.left), reading(self.right))


class _Joining:
    """Joins accumulated from left to right. What an outer join does to columns is read from its relation: which of them may
    be without a value is said there (`joins`), in one place, and holds for names made one as for all others."""

    def __init__(self, queries: Queries, env: Env, outer: Scope | None, hints: list[Expr]) -> None:
        self.queries, self.env, self.outer, self.hints = queries, env, outer, hints
        self.context, self.counter = queries.context, queries.counter
        self.parts: list[Rows] = []
        self.conditions: list[Expr] = []
        self.sources: list[Source] = []
        self.merged: tuple[Merged, ...] = ()

    def scope(self) -> Scope:
        return Scope(tuple(self.sources), self.merged, self.outer)

    def add(self, item: Item, join: exp.Join | None) -> None:
        assert item.rows is not None
        side = (join.side or "").upper() if join is not None else ""
        pairs = self._pairs(item, join) if join is not None else []
        self.sources.append(Source(item.alias, item.columns))
        on = [p.condition for p in pairs] if pairs or join is None else self._on(join)
        if side not in ("LEFT", "RIGHT", "FULL"):
            if join is not None and (join.kind or "").upper() not in ("", "INNER", "CROSS"):
                raise unsupported(f"{join.kind} JOIN", "Use JOIN or LEFT JOIN, ON equal columns.")
            self.parts.append(item.rows)
            self.conditions += on
            self._merge(pairs, [p.left for p in pairs])
            return
        left = self._close()
        if side == "LEFT":
            self.parts = [joins.join_left(left, item.rows, on, self.context, self.counter)]
        elif side == "RIGHT":
            self.parts = [joins.join_left(item.rows, left, on, self.context, self.counter)]
        else:
            self.parts = [self._full(left, item.rows, on)]
        self._adopt()
        if side == "FULL":
            self._merge(pairs, [self._either(p, left, item.rows) for p in pairs])
        else:
            self._merge(pairs, [p.left if side == "LEFT" else p.right for p in pairs])

    def _close(self) -> Rows:
        known = {c.id for p in self.parts for c in p.node.columns}
        hints = [h for h in self.hints if all(c.id in known for c in references(h))]
        # a hint is only a condition of WHERE: using it here is sound because WHERE is applied to all rows anyway
        rows = joins.join_inner(self.parts, [*self.conditions, *hints], self.context, self.counter)
        self.conditions = []
        return rows

    def _full(self, left: Rows, right: Rows, on: list[Expr]) -> Rows:
        reported.check_joined([left, right], on)
        for rows in (left, right):
            if rows.reports is not None:
                raise reported.outer_join(rows.reports.table.name)
        if left.private and right.private:
            return joins.join_full(left, right, on, self.context, self.counter)
        if not left.private and not right.private:
            raise unsupported("FULL JOIN of public tables below private rows", "Join them in an outer query.")
        private, public = (left, right) if left.private else (right, left)
        found = joins.join_left(private, public, on, self.context, self.counter)
        return found.padding_of(replace(found.padding, padded=True, kept=found.kept | _ids(public)))

    def _adopt(self) -> None:
        """Columns may be without a value unless the join of all sources so far vouches for them."""
        certain = {c.id for p in self.parts for c in p.node.columns if not c.optional}
        self.sources = [
            replace(s, columns=tuple(c if c.optional or c.id in certain else nulled_column(c) for c in s.columns))
            for s in self.sources
        ]

    def _either(self, pair: _Pair, left: Rows, right: Rows) -> Column:
        """The value of whichever side of FULL JOIN has one: a column of its own, of the rows of that join."""
        (rows,) = self.parts
        units = [r.unit.id for r in (left, right) if r.unit is not None]
        if rows.unit is not None and [pair.left.id, pair.right.id] == units:
            return self._computed(replace(rows.unit, name=pair.name))  # which is how the unit is found
        sides = [next(c for s in self.sources for c in s.columns if c.id == side.id) for side in (pair.left, pair.right)]
        value = scalars.FUNCTIONS["coalesce"]([Ref(c.type, c) for c in sides])
        column = computed_column(self.counter, pair.name, value)
        kept = rows.kept | {column.id} if rows.padded else rows.kept
        self.parts = [rows.wider((column,), (value,)).padding_of(replace(rows.padding, kept=kept))]
        return self._computed(column)

    def _computed(self, column: Column) -> Column:
        self.sources.append(Source("", (column,)))
        return column

    def _merge(self, pairs: list[_Pair], columns: list[Column]) -> None:
        """Each pair has one name from now on, which is the name of its column in `columns`."""
        found = []
        for pair, column in zip(pairs, columns, strict=True):
            ids = {pair.left.id, pair.right.id, column.id}
            before = [m.of for m in self.merged if m.column in ids]
            found.append(Merged(pair.name, column.id, frozenset(ids).union(*before)))
        gone = {p.left.id for p in pairs}
        self.merged = (*found, *(m for m in self.merged if m.column not in gone))

    def _pairs(self, item: Item, join: exp.Join) -> list[_Pair]:
        left, right = self.scope(), Scope((Source(item.alias, item.columns),))
        names = [ident(c) for c in join.args.get("using") or ()]
        if (join.method or "").upper() == "NATURAL":
            mine = {c.name for _, c in left.visible()}
            names = [c.name for c in item.columns if c.name in mine]
        return [_Pair(name, Scope(left.sources, left.merged).resolve("", name), right.resolve("", name)) for name in names]

    def _on(self, join: exp.Join) -> list[Expr]:
        on = join.args.get("on")
        if on is None:
            return []
        return list(conjuncts(self.queries.expressions(self.env, None).condition(on, self.scope())))

    def finish(self) -> tuple[Rows, Scope]:
        return reach_unit(self._close(), self.context, self.counter), self.scope()


def _ids(rows: Rows) -> frozenset[int]:
    return frozenset(c.id for c in rows.node.columns)

"""The items of FROM joined from left to right into one relation.

Knows: join nodes, scopes, the rules of `joins`. Must not know: what the items are made of. Inner joins are gathered, an
outer one closes what was gathered.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dpproxy.errors import Refusal
from dpproxy.plan import functions as fn
from dpproxy.plan import joins
from dpproxy.plan.expr import Column, Expr, Ref, SeriesDomain, ValuesDomain, conjuncts, references
from dpproxy.plan.functions import unsupported
from dpproxy.plan.relation import Rows
from dpproxy.plan.results import Item, located
from dpproxy.plan.scope import Env, Scope, Source
from dpproxy.plan.tables import reach_unit
from dpproxy.sql.dialect import ident, position

if TYPE_CHECKING:
    from dpproxy.plan.query import Analyser


def joined(analyser: Analyser, select: exp.Select, items: list[Item], env: Env, outer: Scope | None) -> tuple[Rows, Scope]:
    """FROM and its joins. WHERE's conjuncts help to relate private tables of comma joins. `items` are rows, at least one."""
    join_nodes = [None, *(select.args.get("joins") or ())]
    state = _Joining(analyser, env, outer, _where_equalities(analyser, select, items, env, outer))
    last = items[0].node
    try:
        for item, join in zip(items, join_nodes, strict=True):
            last = item.node if item.private else last
            state.add(item, join)
        return state.finish()
    except Refusal as refusal:
        raise located(refusal, position(last)) from None


def _where_equalities(analyser: Analyser, select: exp.Select, items: list[Item], env: Env, outer: Scope | None) -> list[Expr]:
    """Top-level `a = b` conjuncts of WHERE between plain columns, bound early."""
    where = select.args.get("where")
    if where is None:
        return []
    scope = Scope(tuple(Source(i.alias, i.columns) for i in items), outer=outer)
    binder = analyser.binder(env, None)
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


class _Joining:
    """Joins accumulated from left to right."""

    def __init__(self, analyser: Analyser, env: Env, outer: Scope | None, hints: list[Expr]) -> None:
        self.analyser, self.env, self.outer, self.hints = analyser, env, outer, hints
        self.context, self.counter = analyser.context, analyser.counter
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
        hints = [h for h in self.hints if all(c.id in known for c in references(h))]
        # a hint is only a condition of WHERE: using it here is sound because WHERE is applied to all rows anyway
        rows = joins.join_inner(self.parts, [*self.conditions, *hints], self.context, self.counter)
        self.conditions = []
        return rows

    def _left(self, left: Rows, right: Rows, on: list[Expr], alias: str) -> None:
        padded = not left.private and right.private
        self.parts = [joins.join_left(left, right, on, self.context, self.counter)]
        if not padded:
            self._null_out([alias])

    def _right(self, left: Rows, right: Rows, on: list[Expr]) -> None:
        self.parts = [joins.join_left(right, left, on, self.context, self.counter)]
        if right.private or not left.private:
            self._null_out([s.alias for s in self.sources[:-1]])

    def _full(self, left: Rows, right: Rows, on: list[Expr], alias: str) -> None:
        if left.private and right.private:
            self.parts = [joins.join_full(left, right, on, self.context, self.counter)]
            self._null_out([s.alias for s in self.sources])
            return
        if left.private:
            found = joins.join_left(left, right, on, self.context, self.counter)
            self.parts = [replace(found, padded=True, kept=found.kept | _ids(right))]
            self._null_out([alias])
        elif right.private:
            found = joins.join_left(right, left, on, self.context, self.counter)
            self.parts = [replace(found, padded=True, kept=found.kept | _ids(left))]
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
                conditions.append(fn.compare("=", Ref(a.type, a), Ref(b.type, b)))
                self.merged[name] = b if (join.side or "").upper() == "RIGHT" else a
            return conditions
        on = join.args.get("on")
        if on is None:
            return []
        return list(conjuncts(self.analyser.binder(self.env, None).condition(on, self.scope())))

    def finish(self) -> tuple[Rows, Scope]:
        return reach_unit(self._close(), self.context, self.counter), self.scope()


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

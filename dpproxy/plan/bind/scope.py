"""Names in scope, as PostgreSQL resolves them.

Knows: aliases, columns, CTEs, the items of a SELECT list. Must not know: how expressions are bound, engines. An unqualified name
that fits two sources is ambiguous; a name found nowhere inside is looked up in the enclosing query (a correlated reference).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dpproxy.errors import AMBIGUOUS_COLUMN, INVALID_COLUMN_REFERENCE, UNDEFINED_COLUMN, Refusal
from dpproxy.plan.bind import reported
from dpproxy.plan.properties.narrowing import compared_columns, narrowed_column
from dpproxy.plan.refusals import unsupported
from dpproxy.sql.dialect import ident, position
from dpproxy.sql.output_names import output_name
from dpproxy.tree.expr import Column, Expr, Ref


def reading(column: Column) -> Ref:
    """Return the expression that is a column's value. Raises Refusal for a column of a type that nothing can be made of."""
    if column.coin is not None:
        raise reported.randomised(column.name, "a single answer says little, and is not computed with", reported.WEIGHED)
    if not column.usable:
        raise unsupported(
            f'column "{column.name}" ({column.reason or "its type on the backend"})',
            "Use another column: SELECT * FROM dpproxy.policy lists those there are.",
        )
    return Ref(column.type, column)


@dataclass(frozen=True)
class Source:
    """One item of FROM: its alias and visible columns."""

    alias: str
    columns: tuple[Column, ...]
    schema: str = ""

    def find(self, name: str) -> Column | None:
        return next((c for c in self.columns if c.name == name), None)


@dataclass(frozen=True)
class Merged:
    """USING or NATURAL made several columns one name: column `column` stands for all those of `of`, itself among them. What is
    known of that column is in its source alone."""

    name: str
    column: int
    of: frozenset[int]


@dataclass(frozen=True)
class Scope:
    """A scope holds the sources whose names can be used. `merged`: names made one, the last join's first. Columns computed for
    them are in a source without an alias."""

    sources: tuple[Source, ...]
    merged: tuple[Merged, ...] = ()
    outer: Scope | None = None

    def resolve(self, table: str, name: str, position: int | None = None) -> Column:
        """Return the column a reference means. Raises Refusal 42703 or 42702."""
        scope: Scope | None = self
        while scope is not None:
            found = scope._local(table, name, position)
            if found is not None:
                return found
            scope = scope.outer
        label = f"{table}.{name}" if table else name
        raise Refusal(
            UNDEFINED_COLUMN,
            f'column "{label}" is not available here',
            position,
            hint="Hidden columns and whole rows cannot be used; see `SELECT * FROM dpproxy.policy`.",
        )

    def _local(self, table: str, name: str, position: int | None) -> Column | None:
        if table:
            found = [c for s in self.sources if s.alias == table if (c := s.find(name)) is not None]
        else:
            found = [c for _, c in self.visible() if c.name == name]
        if len(found) > 1 and len({c.id for c in found}) > 1:
            raise Refusal(AMBIGUOUS_COLUMN, f'column reference "{name}" is ambiguous', position)
        return found[0] if found else None

    def visible(self, table: str = "") -> tuple[tuple[str, Column], ...]:
        """The columns `*` or `table.*` stands for (merged ones once, first), each with its source's alias."""
        named = [(s.alias, c) for s in self.sources if not table or s.alias == table for c in s.columns]
        if table or not self.merged:
            return tuple(named)
        by_id = {c.id: (alias, c) for alias, c in named}
        once = [(by_id[m.column][0], replace(by_id[m.column][1], name=m.name)) for m in self.merged]
        absorbed = frozenset().union(*(m.of for m in self.merged))
        return (*once, *((alias, c) for alias, c in named if c.id not in absorbed))


def narrowed_scope(scope: Scope, conditions: Sequence[Expr]) -> Scope:
    """Return the scope whose columns have the bounds WHERE leaves them."""
    said: dict[int, list[Expr]] = {}
    for condition in conditions:
        for id_ in compared_columns(condition):
            said.setdefault(id_, []).append(condition)
    if not said:
        return scope

    def column(c: Column) -> Column:
        return narrowed_column(c, Ref(c.type, c), said[c.id]) if c.id in said else c

    sources = tuple(replace(s, columns=tuple(map(column, s.columns))) for s in scope.sources)
    return replace(scope, sources=sources)


def unaliased(node: exp.Expr) -> exp.Expr:
    inner = node.this if isinstance(node, exp.Alias) else node
    assert isinstance(inner, exp.Expr)
    return inner


def resolve_group_item(item: exp.Expr, select: exp.Select, scope: Scope) -> exp.Expr:
    """Resolve GROUP BY 1 and GROUP BY alias: PostgreSQL prefers a column of the input over an output alias."""
    item = item.unnest() if isinstance(item, exp.Paren) else item
    if isinstance(item, exp.Literal) and not item.is_string:
        index = int(item.this) if item.this.isdigit() else 0
        if not 1 <= index <= len(select.expressions):
            raise Refusal(INVALID_COLUMN_REFERENCE, f"GROUP BY position {item.this} is not in select list", position(item))
        return unaliased(select.expressions[index - 1])
    if isinstance(item, exp.Column) and not item.args.get("table"):
        name = ident(item.this)
        try:
            scope.resolve("", name)
        except Refusal as refusal:
            if refusal.sqlstate != UNDEFINED_COLUMN:
                raise
            for node in select.expressions:
                if isinstance(node, exp.Alias) and output_name(node) == name:
                    return unaliased(node)
            raise
    return item


def resolve_sort_item(item: exp.Expr, select: exp.Select, scope: Scope) -> exp.Expr:
    """Resolve a term of ORDER BY or DISTINCT ON: there PostgreSQL prefers an output alias over a column of the input."""
    item = item.unnest() if isinstance(item, exp.Paren) else item
    if isinstance(item, exp.Column) and not item.args.get("table"):
        for node in select.expressions:
            if isinstance(node, exp.Alias) and output_name(node) == ident(item.this):
                return unaliased(node)
    return resolve_group_item(item, select, scope)

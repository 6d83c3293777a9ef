"""The items of FROM: tables, views, CTEs, derived tables, VALUES, functions.

Knows: names and what the policy says of them. Must not know: joins, expressions. An item is rows when it has private rows
below it; else it stays a tree for the facade, until something private is joined with it and it is made rows too.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, INSUFFICIENT_PRIVILEGE, UNDEFINED_FUNCTION, Refusal
from dpproxy.plan.bind.protocols import Queries
from dpproxy.plan.bind.results import Item, RowsResult, alias_columns, renamed
from dpproxy.plan.bind.scope import Scope
from dpproxy.plan.bind.tables import scan_table
from dpproxy.plan.bind.values import values_item
from dpproxy.plan.known_tables import Cte, Env
from dpproxy.plan.refusals import positioned, private_in_public, unsupported, unsupported_form
from dpproxy.sql.dialect import copied, ident, position
from dpproxy.sql.statements import VIRTUAL_SCHEMA, parse
from dpproxy.sql.trees import outermost_queries, sources_of
from dpproxy.tree.expr import TableDomain
from dpproxy.tree.relation import Public


class Sources:
    """The sources are the FROM of one SELECT."""

    def __init__(self, queries: Queries, env: Env, outer: Scope | None) -> None:
        self.queries, self.env, self.outer = queries, env, outer
        self.context, self.counter = queries.context, queries.counter

    def items(self, select: exp.Select) -> list[Item]:
        return [self.item(node) for node in sources_of(select)]

    def item(self, node: exp.Expr) -> Item:
        if node.args.get("joins") and self.queries.tables.names_private(node, self.env):
            raise _parenthesised(node)
        alias = ident(node.args["alias"].this) if node.args.get("alias") is not None else ""
        if isinstance(node, exp.Table):
            return self._table(node, alias, alias_columns(node))
        if isinstance(node, exp.Subquery):
            return self._derived(node, alias)
        if isinstance(node, exp.Lateral):
            return self._lateral(node, alias)
        if isinstance(node, exp.Values | exp.Unnest):
            return Item(alias, None, (), node)
        raise Refusal(
            FEATURE_NOT_SUPPORTED, "an item of FROM has a form that is not known",
            hint="Write a table, a subquery, a function or VALUES there.",
        )  # fmt: skip

    def _lateral(self, node: exp.Lateral, alias: str) -> Item:
        """LATERAL that refers to no other item is a derived table, or a function, like any other."""
        if _refers_outside(node):
            if self.queries.tables.names_private(node.this, self.env):
                raise unsupported_form(
                    "LATERAL over private rows",
                    "Let it refer to other tables by `inner column = outer column` alone, or join.",
                )
            return Item(alias, None, (), node)
        inner = node.this.this if isinstance(node.this, exp.Subquery) else node.this
        name = node.args.get("alias")
        if isinstance(inner, exp.Values):
            plain: exp.Expr = inner.copy()
            plain.set("alias", name)
        elif isinstance(inner, exp.Anonymous):
            plain = exp.Table(this=inner.copy(), alias=name)
        else:
            plain = exp.Subquery(this=inner.copy(), alias=name)
        node.replace(plain)
        return self.item(plain)

    def _derived(self, node: exp.Subquery, alias: str) -> Item:
        if isinstance(node.this, exp.Table) and self.queries.tables.names_private(node, self.env):
            raise _parenthesised(node)
        inner = copied(node)
        result = self.queries.bind(node.this, self.queries.with_ctes(node, self.env, self.outer), self.outer)
        if isinstance(result, RowsResult):
            return renamed(Item(alias, result.rows, result.columns, node), alias_columns(node))
        node.set("this", result.tree)
        node.meta["dpproxy_measured"] = result.measured
        node.meta["dpproxy_original"] = inner.this
        return Item(alias, None, (), node)

    def _table(self, node: exp.Table, alias: str, names: tuple[str, ...]) -> Item:
        if node.args.get("sample"):
            if self.queries.tables.private_table(node, self.env):
                raise unsupported("TABLESAMPLE of private rows", "Leave it out: a question of all rows costs no more.")
            return Item(alias, None, (), node)
        if not isinstance(node.this, exp.Identifier):
            return self._function(node, alias)
        schema, name = ident(node.args.get("db")), ident(node.this)
        if not schema and name in self.env:
            return self._cte(self.env[name], alias or name, names, node)
        if schema == VIRTUAL_SCHEMA:
            self.queries.measurer.virtual(node, name)
            return Item(alias or name, None, (), node)
        view = self.context.view(schema, name)
        if view is not None:
            return self._view(node, view, alias or name, names)
        policy = self.context.find(schema, name)
        if policy is None or policy.kind.shown:
            return Item(alias or name, None, (), node)
        self.counter.tables[policy.name] = None
        rows, columns = scan_table(policy, self.context, self.counter)
        return renamed(Item(alias or name, rows, columns, node), names)

    def _function(self, node: exp.Table, alias: str) -> Item:
        if self.queries.tables.names_private(node.this, self.env):
            raise private_in_public(node, self.context.policy.unit_name)
        for nested in outermost_queries(node.this):
            if isinstance(self.queries.bind(nested, self.env), RowsResult):
                raise private_in_public(nested, self.context.policy.unit_name)
        return Item(alias, None, (), node)

    def _view(self, node: exp.Table, view: str, alias: str, names: tuple[str, ...]) -> Item:
        """A view of the policy is the query it stands for, outside the statement's own CTEs."""
        identifiers = [exp.to_identifier(n, quoted=True) for n in names] or None
        wrapped = exp.Subquery(
            this=parse(view), alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True), columns=identifiers)
        )
        node.replace(wrapped)
        return Sources(self.queries, {}, None).item(wrapped)

    def _cte(self, cte: Cte, alias: str, names: tuple[str, ...], node: exp.Table) -> Item:
        if not cte.per_unit:
            released = self.queries.measurer.released_ctes.get(id(cte.query))
            node.meta["dpproxy_measured"] = released is not None and released.measured
            return Item(alias, None, (), node)
        result = self.queries.bind(copied(cte.query), cte.env)
        assert isinstance(result, RowsResult)
        return renamed(renamed(Item(alias, result.rows, result.columns, node), cte.columns), names)

    # --- public and released items beside private ones

    def as_rows(self, item: Item) -> Item:
        """Return a public or released item as rows the backend can join with private ones. Raises Refusal."""
        if item.rows is not None:
            return item
        node = item.node
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            found = self._named_rows(item, node)
            if found is not None:
                return found
        if isinstance(node, exp.Subquery):
            if node.meta.get("dpproxy_measured"):
                return self.queries.measurer.rows(item, node.this, self.env)
            return self._public_query(replace(item, node=node.meta["dpproxy_original"]), self.env, (), node)
        if isinstance(node, exp.Values) and not node.find(exp.Column):
            return self._sourced(replace(values_item(self.queries, node), alias=item.alias))
        return self._computed(item)

    def _computed(self, item: Item) -> Item:
        """What only the facade can compute of public data (generate_series, unnest, ...): its rows, as constants."""
        node = item.node
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and ident(node.this) not in self.env:
            raise unsupported("joining this with private rows", "Join it with the released result, in an outer query.")
        if _refers_outside(node):
            found = unsupported_form(
                "LATERAL that refers to other items of FROM", "Compute it in a subquery, or join on a condition."
            )
            raise positioned(found, position(node))
        query = exp.select("*").from_(item.node.copy())
        return self._sourced(self.queries.measurer.rows(item, query, self.env))

    def _sourced(self, item: Item) -> Item:
        """Public rows whose values are declared groups: they come with the answer also where nobody has them."""
        assert item.rows is not None
        number = self.counter.scan()
        node = Public(item.rows.node.columns, number, item.rows.node)
        columns = tuple(replace(c, domain=TableDomain(number), constant=False) for c in item.columns)
        return replace(item, rows=item.rows.fewer(node).padding_of(replace(item.rows.padding, publics=(node,))), columns=columns)

    def _named_rows(self, item: Item, node: exp.Table) -> Item | None:
        """A CTE or a public table; None for what the policy does not know."""
        schema, name = ident(node.args.get("db")), ident(node.this)
        if not schema and name in self.env:
            cte = self.env[name]
            measured = self.queries.measurer.released_ctes.get(id(cte.query))
            if measured is not None and measured.measured:
                return self.queries.measurer.rows(item, exp.select("*").from_(name), self.env)
            return self._public_query(replace(item, node=copied(cte.query)), cte.env, cte.columns, node)
        policy = self.context.find(schema, name)
        if policy is None:
            return None
        rows, columns = scan_table(policy, self.context, self.counter)
        return renamed(replace(item, rows=rows, columns=columns), alias_columns(node))

    def _public_query(self, item: Item, env: Env, columns: tuple[str, ...], original: exp.Expr) -> Item:
        try:
            result = self.queries.bind(copied(item.node), env, None, True)
        except Refusal as refusal:
            if refusal.sqlstate not in (FEATURE_NOT_SUPPORTED, INSUFFICIENT_PRIVILEGE, UNDEFINED_FUNCTION):
                raise
            return self._computed(replace(item, node=original))
        if not isinstance(result, RowsResult):
            return self._computed(replace(item, node=original))
        found = renamed(Item(item.alias, result.rows, result.columns, original), columns)
        return self._sourced(renamed(found, alias_columns(original)))


def _refers_outside(node: exp.Expr) -> bool:
    """Whether LATERAL or a function refers to other items of FROM: a name of a source that is not its own."""
    if isinstance(node, exp.Subquery):
        return False
    inside = {ident(t.this) for t in node.find_all(exp.Table)}
    inside |= {ident(a.this) for a in node.find_all(exp.TableAlias) if a.this is not None}
    columns = list(node.find_all(exp.Column))
    if not isinstance(node, exp.Lateral):
        return bool(columns)
    return any(ident(c.args.get("table")) not in inside for c in columns) if node.find(exp.From) else bool(columns)


def _parenthesised(node: exp.Expr) -> Refusal:
    """A join in parentheses that `parentheses` could not write without."""
    found = unsupported_form("a join in parentheses of this form", "Write the joins without parentheses, from left to right.")
    return positioned(found, position(node))

"""Previews: a query for rows of people without a filter, as tools ask to show what a table looks like. No row of data is read.

Knows: the shape of such a query, where it names private tables. Must not know: rows, engines, who invents them. The pipeline asks
only when a statement was refused, so that whatever is answered otherwise stays so. What the role's policy says of previews
becomes of it: nothing, no rows (the facade's own tables are empty), or invented ones in the tables' place.

A preview is a SELECT from one private table, from a view of the policy, or from a subquery or a query of WITH that is itself a
preview; of its columns and of expressions over them; with ORDER BY, LIMIT and OFFSET or without. Whatever would make an answer
out of rows is none: joins, and WHERE unless it is plainly true (no rows back would be a false "there are none"), aggregates,
GROUP BY, DISTINCT, window functions, subqueries in expressions, set operations, TABLESAMPLE. CREATE TABLE AS is none: of a table
that it makes nobody could tell that its rows are invented.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from dpproxy.plan.bind.tables import scan_table
from dpproxy.plan.context import Context, Counter
from dpproxy.plan.model import Array, Plan
from dpproxy.plan.report.explain import explain_rows, plan_account
from dpproxy.policy.model import TableKind, TablePolicy
from dpproxy.policy.names import plural, quote_name
from dpproxy.privacy.loss import ZERO
from dpproxy.sql.dialect import copied, ident, to_sql
from dpproxy.sql.nodes import every
from dpproxy.sql.skeleton import parsed
from dpproxy.sql.statements import Statement, parse
from dpproxy.sql.trees import contains_aggregate, nested_queries, table_alias
from dpproxy.sql.types import shown_type
from dpproxy.table_terms import TableName

KINDS = ("select", "explain", "copy", "cursor", "prepare")
_PARTS = {"expressions", "from_", "where", "limit", "offset", "order", "with_"}
_OF_TABLE = {"this", "db", "catalog", "alias"}

Queries = Mapping[str, exp.Expr]
"""Queries of WITH by name."""


def preview(statement: Statement, context: Context) -> Plan | None:
    """Return the plan of a preview; None where the statement is none, or the role has none. Raises Refusal."""
    mode = context.role.previews
    if mode == "refuse" or statement.kind not in KINDS:
        return None
    tree = parse(statement.query)
    if not _shows_rows(tree, {}, context):
        return None
    unit = context.policy.unit_name
    if mode == "empty":
        told = f"preview: rows of single {plural(unit)} are not shown, so there are none here, whatever the data hold"
        return _plan(statement, context, statement.query, (), told)
    told = f"preview: these rows are invented from the policy's declared values, ranges and types; no {unit} is in them"
    invented = _Invented(context)
    invented.put_into(tree)
    return _plan(statement, context, to_sql(tree), tuple(invented.arrays), told)


def _plan(statement: Statement, context: Context, outer: str, arrays: tuple[Array, ...], told: str) -> Plan:
    account = {"Preview": told, **plan_account((), (), ZERO, context, outer)}
    explain = explain_rows(account, statement.options)
    return Plan((), outer, len(context.parameters), arrays, (), ZERO, explain, preview=told)


# what is a preview


def _shows_rows(query: exp.Expr, queries: Queries, context: Context) -> bool:
    query = query.unnest() if isinstance(query, exp.Subquery) and not _more(query, {"this", "alias"}) else query
    if not isinstance(query, exp.Select) or _more(query, _PARTS) or query.args.get("from_") is None:
        return False
    if query.args.get("where") is not None and not _plainly_true(query.args["where"].this):
        return False
    with_ = query.args.get("with_")
    if with_ is not None:
        if with_.args.get("recursive") or any(cte.args["alias"].args.get("columns") for cte in with_.expressions):
            return False
        queries = {**queries, **{ident(cte.args["alias"].this): cte.this for cte in with_.expressions}}
    items = list(_items(query))
    if nested_queries(query) or any(contains_aggregate(item) or item.find(exp.Window) for item in items):
        return False
    return _is_source(query.args["from_"].this, query, queries, context)


def _plainly_true(condition: exp.Expr) -> bool:
    """TRUE, 1 = 1, and these joined by AND, as tools write where they have no condition."""
    if isinstance(condition, exp.Paren):
        return _plainly_true(condition.this)
    if isinstance(condition, exp.And):
        return all(_plainly_true(part) for part in condition.flatten())
    if isinstance(condition, exp.EQ):
        return isinstance(condition.this, exp.Literal) and condition.this == condition.expression
    return isinstance(condition, exp.Boolean) and bool(condition.this)


def _more(node: exp.Expr, known: set[str]) -> bool:
    return any(value for key, value in node.args.items() if key not in known)


def _items(query: exp.Select) -> Iterator[exp.Expr]:
    yield from query.expressions
    yield from (query.args[part] for part in ("order", "limit", "offset") if query.args.get(part) is not None)


def _is_source(source: exp.Expr, query: exp.Select, queries: Queries, context: Context) -> bool:
    if isinstance(source, exp.Subquery):
        alias = source.args.get("alias")
        renamed = alias is not None and alias.args.get("columns")
        return not renamed and _shows_rows(source.this, queries, context)
    if not isinstance(source, exp.Table) or _more(source, _OF_TABLE) or not isinstance(source.this, exp.Identifier):
        return False
    alias = source.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return False
    schema, name = ident(source.args.get("db")), ident(source.this)
    if not schema and name in queries:
        others = {n: q for n, q in queries.items() if n != name}
        return _shows_rows(queries[name], others, context)
    if _whole(query, table_alias(source)):
        return False
    if context.view(schema, name) is not None:
        return True
    table = context.find(schema, name)
    return table is not None and table.kind is TableKind.PEOPLE and _names_known(query, table, context)


def _whole(query: exp.Select, alias: str) -> bool:
    """Whether a whole row is named as a value: a type of the facade's table, which no row of ours has."""
    return any(ident(c.this) == alias and not c.args.get("table") for item in _items(query) for c in item.find_all(exp.Column))


def _names_known(query: exp.Select, table: TablePolicy, context: Context) -> bool:
    """Whether it names columns of the policy alone: PostgreSQL's own, such as ctid, are none of ours."""
    known = {column.name for column in scan_table(table, context, Counter())[1]}
    known |= {ident(item.args["alias"]) for item in query.expressions if isinstance(item, exp.Alias)}
    found = [column for item in _items(query) for column in item.find_all(exp.Column)]
    return all(isinstance(column.this, exp.Star) or ident(column.this) in known for column in found)


# invented rows


@dataclass
class _Invented:
    """Puts invented rows into the place of private tables. `first`: the number of a table's first array."""

    context: Context
    arrays: list[Array] = field(default_factory=list)
    first: dict[TableName, int] = field(default_factory=dict)

    def put_into(self, tree: exp.Expr) -> None:
        for table in every(tree, exp.Table):
            if isinstance(table.this, exp.Identifier) and (table.args.get("db") or not _is_query(ident(table.this), table)):
                self._replace(table)

    def _replace(self, table: exp.Table) -> None:
        schema, name = ident(table.args.get("db")), ident(table.this)
        text = self.context.view(schema, name)
        policy = self.context.find(schema, name)
        if text is not None:
            inner = parse(text)
            self.put_into(inner)
            source: exp.Expr = exp.Subquery(this=inner)
        elif policy is not None and policy.kind is TableKind.PEOPLE:
            source = self._rows(policy)
        else:
            return
        alias = table.args.get("alias")
        named = copied(alias) if alias is not None else exp.TableAlias(this=exp.to_identifier(name, quoted=True))
        source.set("alias", named)
        table.replace(source)

    def _rows(self, policy: TablePolicy) -> exp.Expr:
        shape = self.context.catalog.tables[policy.name]
        names = [column.name for column in scan_table(policy, self.context, Counter())[1]]
        if policy.name not in self.first:
            self.first[policy.name] = len(self.arrays)
            self.arrays += [Array("text", None, i, invented=(policy.name, name)) for i, name in enumerate(names)]
        at = len(self.context.parameters) + 1 + self.first[policy.name]
        types = {column.name: shown_type(column.type) for column in shape.columns}
        items = ", ".join(f"c{i}::{types[name]} AS {quote_name(name)}" for i, name in enumerate(names))
        arrays = ", ".join(f"${at + i}::text[]" for i in range(len(names)))
        columns = ", ".join(f"c{i}" for i in range(len(names)))
        text = f"SELECT 1 FROM (SELECT {items} FROM unnest({arrays}) AS dpproxy_i({columns})) AS dpproxy_j"
        found = parsed(text).args["from_"].this
        assert isinstance(found, exp.Expr)
        return found


def _is_query(name: str, node: exp.Expr | None) -> bool:
    """Whether a name means a query of WITH where `node` stands; in a query of WITH its own name means a table."""
    while node is not None:
        with_ = node.args.get("with_")
        inside = isinstance(node, exp.CTE) and ident(node.args["alias"].this) == name
        if inside and isinstance(node.parent, exp.With):
            node = node.parent.parent  # a WITH around this one may have the name as well
        elif with_ is not None and any(ident(cte.args["alias"].this) == name for cte in with_.expressions):
            return True
        node = node.parent if node is not None else None
    return False

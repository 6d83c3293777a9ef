"""What the rules share that take an item out of FROM, put another in its place, or a value where an expression stands.

Knows: sqlglot's trees. Must not know: engines, which rule asks. This is no rule: rules call it.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.plan.known_tables import KnownTables
from dpproxy.sql.capture import at_spot, has, may_have, queries_between
from dpproxy.sql.dialect import ident
from dpproxy.sql.output_names import output_name
from dpproxy.sql.trees import joins_before, sources_of

Meanings = dict[str, exp.Expr]
"""What a column of the item is, by its name."""


def meets_each_row(join: exp.Join) -> bool:
    """Whether every row meets all other items: a comma, CROSS JOIN, or JOIN ... ON TRUE."""
    on = join.args.get("on")
    true = on is None or (isinstance(on, exp.Boolean) and bool(on.this))
    return true and not join.args.get("using") and (join.side or "").upper() in ("", "LEFT") and not join.method


def whole_number(node: exp.Expr | None) -> int | None:
    """Return a number that is written out in digits; None for anything else."""
    return int(node.this) if isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit() else None


def rows_at_most(limit: exp.Expr) -> int | None:
    """Return how many rows a LIMIT or FETCH leaves; None where that is not written out, or ties and shares count."""
    options = limit.args.get("limit_options")
    odd = options is not None and (options.args.get("with_ties") or options.args.get("percent"))
    number = limit.args.get("count" if isinstance(limit, exp.Fetch) else "expression")
    return int(number.this) if not odd and isinstance(number, exp.Literal) and number.this.isdigit() else None


def shown_at(term: exp.Expr, select: exp.Select) -> exp.Expr | None:
    """Return the output that a term of GROUP BY names by its place; None where it names none so."""
    place = whole_number(term) or 0
    return select.expressions[place - 1] if 0 < place <= len(select.expressions) else None


def put(node: exp.Expr, value: exp.Expr) -> None:
    """Put a value where a node stands; an output keeps its name."""
    if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
        value = exp.alias_(value, output_name(node), quoted=True)
    node.replace(value)


def put_columns(select: exp.Select, item: exp.Join, alias: str, meanings: Meanings, tables: KnownTables) -> bool:
    """Put what columns of the item are in place of their names; False, and nothing is changed, where they would mean others.

    A meaning is of the items of FROM up to `item`. What stands below a nested query is put there by `sql.capture`.
    """
    found = _places(select, item, alias, meanings, tables)
    if found is None:
        return False
    named = [
        e if isinstance(e, exp.Alias) or not isinstance(e, exp.Column) else exp.alias_(e, output_name(e), quoted=True, copy=False)
        for e in select.expressions
    ]
    select.set("expressions", named)
    for column, meaning in found:
        column.replace(meaning)
    return True


def _places(
    select: exp.Select, item: exp.Join, alias: str, meanings: Meanings, tables: KnownTables
) -> list[tuple[exp.Column, exp.Expr]] | None:
    """The names of the item's columns and what takes their place; None where one cannot."""
    joins: list[exp.Join] = select.args["joins"]
    behind = joins[len(joins_before(select, item)) + 1 :]
    if any((j.side or "").upper() in ("RIGHT", "FULL") or j.method for j in behind):
        return None  # the item's columns are NULL in rows of others, or are joined by their names
    if any(ident(name) in meanings for j in behind for name in j.args.get("using") or ()):
        return None
    beside = sources_of(select)[: len(joins) - len(behind)]
    found = []
    for column in [c for c in select.find_all(exp.Column) if not _within(c, item)]:
        table, name = ident(column.args.get("table")), ident(column.this)
        whole = (table == alias and isinstance(column.this, exp.Star)) or (not table and name == alias and name not in meanings)
        if table not in ("", alias) or not (whole or name in meanings):
            continue
        named = _named(column, select, alias, tables)
        if not named and named is not None:
            continue
        items = beside, [j.this for j in joins[len(beside) - 1 :]]
        known = named and not whole
        meaning = at_spot(meanings[name], select, items, column, tables.columns_of) if known else None
        if meaning is None:
            return None
        found.append((column, meaning))
    return found


def _named(column: exp.Column, select: exp.Select, alias: str, tables: KnownTables) -> bool | None:
    """Whether a column called like one of the item's is that one; None where that is not known."""
    table, name = ident(column.args.get("table")), ident(column.this)
    between = list(queries_between(column, select))
    others = [source for query in between for source in sources_of(query)]
    owners = [source for source in others if may_have(source, table, name, tables.columns_of)]
    if owners:
        return False if any(has(source, name, tables.columns_of) for source in owners) else None
    if between and not _sees(column, select):
        return None
    return bool(table) or not (_sorts(column) and any(output_name(e) == name for e in (between or [select])[0].expressions))


def _sees(column: exp.Column, select: exp.Select) -> bool:
    """Whether a column below a nested query may be of the items of `select`: not from WITH, nor from FROM without LATERAL."""
    node: exp.Expr | None = column
    while node is not None and node.parent is not select:
        node = node.parent
        if isinstance(node, exp.With):
            return False
    if not isinstance(node, exp.Join | exp.From):
        return node is not None
    on = node.args.get("on")
    return isinstance(node.this, exp.Lateral) or (on is not None and _within(column, on))


def _within(node: exp.Expr, item: exp.Expr) -> bool:
    parent: exp.Expr | None = node
    while parent is not None and parent is not item:
        parent = parent.parent
    return parent is item


def _sorts(column: exp.Column) -> bool:
    return isinstance(column.parent, exp.Ordered) and column.parent.this is column

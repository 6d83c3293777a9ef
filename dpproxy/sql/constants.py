"""Expressions of a statement that depend on no private row: which they are, and the statement with their values in their places.

Knows: trees, names of public tables, which functions of PostgreSQL compute from their arguments alone. Must not know: sessions,
plans, types of columns. Drivers and tools write constants in many ways: cast twice, put together of texts, as a column of a
one-row CTE, as a scalar subquery over a public table. A planner that has to know a constant looks for a literal. So whoever plans
has the facade evaluate what is listed here, and plans the statement with literals.

The facade has no private row: whatever is evaluated there can carry none. What reads the clock, draws random numbers or depends
on the session's state is not listed, nor is anything that reads a column of the rows around it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from dpproxy.sql.dialect import FaithfulPostgres, copied, ident, to_sql
from dpproxy.sql.effort import step
from dpproxy.sql.guard import MAX_LENGTH, too_long
from dpproxy.sql.nodes import every, nodes
from dpproxy.sql.statements import parse
from dpproxy.sql.trees import AGGREGATES, sources_of, table_alias

MOST: Final = 200
"""Constants of one statement that are evaluated."""

_FUNCTIONS: Final = frozenset((
    "abs", "array_append", "array_cat", "array_length", "array_position", "array_prepend", "array_to_string", "ascii",
    "btrim", "cardinality", "cbrt", "ceil", "ceiling", "char_length", "character_length", "chr", "coalesce", "concat",
    "concat_ws", "date", "date_bin", "date_part", "date_trunc", "div", "exp", "factorial", "floor", "format", "gcd",
    "greatest", "initcap", "justify_days", "justify_hours", "justify_interval", "lcm", "least", "left", "length", "ln",
    "log", "log10", "lower", "lpad", "ltrim", "make_date", "make_interval", "make_time", "make_timestamp", "md5", "mod",
    "nullif", "num_nonnulls", "num_nulls", "octet_length", "overlay", "pi", "position", "power", "quote_literal",
    "regexp_replace", "replace", "reverse", "right", "round", "rpad", "rtrim", "sign", "split_part", "sqrt", "starts_with",
    "string_to_array", "strpos", "substr", "substring", "to_char", "to_date", "to_number", "translate", "trim",
    "trim_array", "trunc", "upper", "width_bucket",
))  # fmt: skip
_IN_QUERIES: Final = _FUNCTIONS | AGGREGATES
_FORMS: Final = (
    exp.Literal, exp.Null, exp.Boolean, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Interval, exp.IntervalSpan, exp.Var,
    exp.Paren, exp.Neg, exp.Not, exp.Case, exp.If, exp.Array, exp.Between, exp.Is, exp.In, exp.Extract, exp.Trim, exp.Substring,
    exp.StrPosition, exp.Overlay, exp.Kwarg,
)  # fmt: skip
_OPERATORS: Final = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Pow, exp.DPipe, exp.And, exp.Or, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT,
    exp.GTE, exp.Like, exp.ILike,
)  # fmt: skip
_CLOCK: Final = re.compile(r"(?i)\b(now|today|tomorrow|yesterday)\b")
_PLACES: Final = (exp.Select, exp.Alias, exp.Group, exp.Ordered, exp.Distinct, exp.Tuple, exp.Values, exp.Kwarg, exp.Interval)
"""Where a text without a cast would mean something else, or is one already."""
_ROWS: Final = (exp.From, exp.Join, exp.Lateral, exp.CTE, exp.SetOperation, exp.Exists, exp.Any, exp.All, exp.In, exp.Unnest)
"""Where a query in parentheses is rows, not a value."""
_TEXTS: Final = ("text", "varchar")
_EXACT: Final = ("int4", "int8", "numeric")
_AS_TEXT: Final = (*_TEXTS, *_EXACT, "int2", "float4", "float8", "bool", "date", "timestamp", "interval", "time", "uuid")


@dataclass(frozen=True)
class Constants:
    """The constants of a query, as texts of their own: `names` are common table expressions that they read, `reads` says whether
    any reads a table, `columns` whether columns of common table expressions are constants."""

    names: str
    texts: tuple[str, ...]
    reads: bool
    columns: bool = False


def constants(query: str, tables: Collection[str]) -> Constants:
    """Return the constants of a query that are more than literals. `tables`: bare names of the public tables. Raises Refusal."""
    tree = parse(query)
    tables = _not_hidden(tree, tables)
    common = _common(tree, tables)
    columns = _columns_of_constants(tree)
    found = _found(tree, tables, common)
    texts = tuple(dict.fromkeys(to_sql(node) for node in found))[:MOST]
    reads = any(node.find(exp.Subquery) is not None for node in found)
    written = ", ".join(to_sql(cte) for cte in common.values())
    return Constants(f"WITH {written} " if written and reads else "", texts, reads, columns)


def replaced(query: str, tables: Collection[str], values: dict[str, tuple[str, str | None]]) -> str:
    """Return the query with values, each a type and a text, in the places of its constants. Raises Refusal before it
    gets too long to be planned."""
    tree = parse(query)
    tables = _not_hidden(tree, tables)
    common = _common(tree, tables)
    _columns_of_constants(tree)
    room = _Room()
    for node in _found(tree, tables, common):
        known = values.get(to_sql(node))
        if known is not None:
            room.take(len(known[1] or ""))
            value = _literal(*known, bare=not isinstance(node.parent, _PLACES))
            if isinstance(node.parent, exp.Any | exp.All):
                value = exp.Paren(this=value)  # brackets that are part of the operator
            node.replace(value)
    return to_sql(tree)


def _literal(type_: str, text: str | None, bare: bool) -> exp.Expr:
    if text is None:
        return _cast(exp.Null(), type_)
    if type_ == "bool":
        return exp.Boolean(this=text in ("t", "true"))
    if type_ in _TEXTS:
        return exp.Literal.string(text) if bare else _cast(exp.Literal.string(text), "text")
    if type_ in _EXACT and bare and _type_of_number(text) == type_:
        number = exp.Literal.number(text.removeprefix("-"))
        return exp.Paren(this=exp.Neg(this=number)) if text.startswith("-") else number
    return _cast(exp.Literal.string(text), type_)


def _type_of_number(text: str) -> str | None:
    """The type of a number that is written so, None for what is no plain number."""
    if re.fullmatch(r"-?\d+", text):
        size = abs(int(text)) if len(text) < 40 else 2**63
        return "int4" if size < 2**31 else "int8" if size < 2**63 else "numeric"
    return "numeric" if re.fullmatch(r"-?\d+\.\d+", text) else None


def _cast(value: exp.Expr, type_: str) -> exp.Expr:
    return exp.cast(value, type_, dialect=FaithfulPostgres)


def evaluable(type_: str) -> bool:
    """Tell whether a value of this type can stand in a statement as a literal that means the same."""
    return type_.removesuffix("[]") in _AS_TEXT


# --- which they are


def _found(tree: exp.Expr, tables: Collection[str], common: dict[str, exp.Expr]) -> list[exp.Expr]:
    """The largest expressions that are constants, but what is a literal or a column of the result by itself."""
    found: list[exp.Expr] = []
    left = [tree]
    while left:
        node = left.pop()
        if _constant(node, tables, common):
            if not _plain(node) and not _stands_alone(node):
                found.append(node)
            continue
        left += list(node.iter_expressions())
    return found


def _constant(node: exp.Expr, tables: Collection[str], common: dict[str, exp.Expr]) -> bool:
    step()
    if isinstance(node, exp.Subquery):
        return _scalar(node) and _public(node, tables, common)
    if isinstance(node, exp.Anonymous):
        name = str(node.this).lower() if isinstance(node.this, str) else ident(node.this)
        if name not in _FUNCTIONS:
            return False
    elif isinstance(node, exp.Dot):
        return ident(node.this) == "pg_catalog" and _constant(node.expression, tables, common)
    elif isinstance(node, exp.Literal):
        return not (node.is_string and _CLOCK.search(node.this))
    elif isinstance(node, exp.Kwarg):
        return _constant(node.expression, tables, common)
    elif not isinstance(node, (*_FORMS, *_OPERATORS)) or type(node) is exp.TryCast:
        return False
    return all(_constant(child, tables, common) for child in node.iter_expressions())


def _plain(node: exp.Expr) -> bool:
    """A literal, or one as a type that the planner reads by itself."""
    if isinstance(node, exp.Paren | exp.Neg):
        return _plain(node.this)
    if isinstance(node, exp.Cast):
        of_text = str(node.to.this).rpartition(".")[2].lower() in ("text", "varchar", "char", "bpchar")
        return not of_text and isinstance(node.this, exp.Literal) and not node.to.expressions
    if isinstance(node, exp.Array):
        return all(map(_plain, node.expressions))
    return isinstance(
        node, exp.Literal | exp.Null | exp.Boolean | exp.Interval | exp.Var | exp.DataType | exp.DataTypeParam | exp.Kwarg
    )


def _stands_alone(node: exp.Expr) -> bool:
    """Whether it is a column of a result, or a term of GROUP BY or ORDER BY, where a number would mean a place."""
    parent = node.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    if isinstance(parent, exp.Group | exp.Ordered | exp.Distinct) or parent is None:
        return True
    return isinstance(parent, exp.Alias | exp.Select)


def _scalar(node: exp.Subquery) -> bool:
    query = node.this
    if isinstance(node.parent, _ROWS) or node.args.get("alias") or not isinstance(query, exp.Select):
        return False
    return len(query.expressions) == 1 and not isinstance(query.expressions[0], exp.Star)


def _public(query: exp.Expr, tables: Collection[str], common: dict[str, exp.Expr]) -> bool:
    """Whether a query reads public tables alone, and nothing that changes or that is around it."""
    sources = every(query, exp.Table)
    inner = {ident(cte.args["alias"].this) for cte in every(query, exp.CTE)}
    names = {ident(t.this) for t in sources if isinstance(t.this, exp.Identifier)}
    if any(not isinstance(t.this, exp.Identifier) for t in sources):
        return False
    if not all(name in tables or name in common or name in inner for name in names):
        return False
    aliases = {ident(t.args["alias"].this) for t in every(query, exp.Table, exp.Subquery) if t.args.get("alias")} | names
    for node in nodes(query):
        if isinstance(node, exp.Column):
            qualifier = ident(node.args.get("table"))
            if (qualifier and qualifier not in aliases) or (not qualifier and not sources):
                return False
        elif isinstance(node, exp.Literal):
            if node.is_string and _CLOCK.search(node.this):
                return False
        elif isinstance(node, exp.Anonymous):
            name = str(node.this).lower() if isinstance(node.this, str) else ident(node.this)
            if name not in _IN_QUERIES:
                return False
        elif isinstance(node, exp.Parameter | exp.Placeholder | exp.TableSample | exp.Into | exp.Lock | exp.Window):
            return False
        elif isinstance(node, exp.Dot):
            if ident(node.this) != "pg_catalog":
                return False
        elif isinstance(node, exp.Func) and not isinstance(node, (*_FORMS, *_OPERATORS, exp.Exists, exp.GroupConcat)):
            return False
    return True


class _Room:
    """Characters that values may still add to a statement: one may stand in it often."""

    left = MAX_LENGTH

    def take(self, characters: int) -> None:
        """Count what a value adds. Raises Refusal."""
        step(characters // 8)
        self.left -= characters
        if self.left < 0:
            raise too_long()


# --- common table expressions


def _not_hidden(tree: exp.Expr, tables: Collection[str]) -> frozenset[str]:
    """The tables whose names mean them everywhere in a statement."""
    return frozenset(tables) - {ident(cte.args["alias"].this) for cte in every(tree, exp.CTE)}


def _common(tree: exp.Expr, tables: Collection[str]) -> dict[str, exp.Expr]:
    """The statement's own common table expressions that read public tables alone, by name."""
    with_ = tree.args.get("with_")
    known: dict[str, exp.Expr] = {}
    for cte in with_.expressions if with_ is not None and not with_.args.get("recursive") else ():
        name = ident(cte.args["alias"].this)
        if _public(cte.this, tables, known):
            known[name] = cte
    others = {ident(c.args["alias"].this) for c in every(tree, exp.CTE)} - known.keys()
    return {} if others & known.keys() else known


def _columns_of_constants(tree: exp.Expr) -> bool:
    """Put in place of `p.unit` what it is in `WITH p AS (SELECT 'month' AS unit) ... FROM t, p`; tell whether there is one.
    Raises Refusal before the statement gets too long to be planned."""
    changed, room, written = False, _Room(), dict[int, int]()
    with_ = tree.args.get("with_")
    rows = {ident(c.args["alias"].this): c for c in (with_.expressions if with_ is not None else ())}
    named = [ident(c.args["alias"].this) for c in every(tree, exp.CTE)]
    for column in every(tree, exp.Column):
        qualifier = ident(column.args.get("table"))
        source = _source(column, qualifier) if qualifier else None
        if source is None or named.count(source) != 1 or source not in rows or column.args.get("db"):
            continue
        value = _field(rows[source], ident(column.this))
        if value is not None and not _stands_alone(column):
            if id(value) not in written:
                written[id(value)] = len(to_sql(value))
            room.take(written[id(value)])
            column.replace(exp.Paren(this=copied(value)) if not isinstance(value, exp.Literal) else copied(value))
            changed = True
    return changed


def _source(column: exp.Expr, qualifier: str) -> str | None:
    """The table that the nearest SELECT around a column reads under a name; None where it reads it by an outer join."""
    select = column.find_ancestor(exp.Select)
    if select is None or any(join.args.get("side") for join in select.args.get("joins") or ()):
        return None
    for table in sources_of(select):
        if isinstance(table, exp.Table) and not table.args.get("db") and table_alias(table) == qualifier:
            return ident(table.this)
    return None


def _field(cte: exp.Expr, name: str) -> exp.Expr | None:
    """The constant that a one-row common table expression has in a column."""
    query, columns = cte.this, cte.args["alias"].args.get("columns") or ()
    plain = isinstance(query, exp.Select) and not any(
        query.args.get(k) for k in ("from_", "where", "group", "having", "limit", "offset", "joins", "distinct")
    )
    if not plain:
        return None
    step(1 + len(query.expressions) // 16)
    for place, item in enumerate(query.expressions):
        alias = columns[place] if place < len(columns) else item.args.get("alias")
        own = ident(alias) if isinstance(alias, exp.Expr) else ""
        if own == name:
            value = item.this if isinstance(item, exp.Alias) else item
            return value if _constant(value, (), {}) else None
    return None

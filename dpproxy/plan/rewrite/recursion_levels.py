"""A rule: a recursive query of stated depth, written as its levels.

Knows: sqlglot's trees, before they are analysed. Must not know: policies, engines, noise. `WITH RECURSIVE r AS (SELECT ..., 1 AS
depth ... UNION ALL SELECT ..., r.depth + 1 ... JOIN r ... WHERE r.depth < 5)` repeats its second part until that makes no rows.
Each row of the n-th level has the same depth, and behind the depth that the condition states there are no rows: so the query is
`UNION ALL` of its levels, each of which is the second part over the level before. Levels are queries like any others, and
nothing has to be known of recursion where they are bound and measured.

UNION without ALL leaves out a row that any level had before. Rows of two levels differ in their depth, so each level without its
own duplicates is the same. That is written where the first part selects the id of a person, who then has each row once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from dpproxy.plan.known_tables import KnownTables
from dpproxy.sql.dialect import copied, ident
from dpproxy.sql.nodes import every
from dpproxy.sql.output_names import output_name
from dpproxy.sql.trees import contains_aggregate, mentions, sources_of, table_alias

MOST_STEPS = 10
"""How often the second part is repeated at most. Levels are written one inside the other, so text grows with the square of it."""

MOST_NODES = 20_000  # of a statement's second parts, all their copies together: what is read and planned stays small
MOST = 10**6  # of the numbers that say a depth: they stay what they are in each engine
_PLAIN = ("with_", "group", "having", "order", "limit", "offset", "fetch", "qualify", "laterals", "windows")
_WIDTHS = ("INT", "BIGINT")


@dataclass(frozen=True)
class Recursion:
    """A recursive query, in parts. `read`: what the second part calls the level before. `names`: of columns, None for a star."""

    name: str
    first: exp.Select
    second: exp.Select
    read: str
    names: tuple[str | None, ...]


@dataclass(frozen=True)
class Depth:
    """A column that counts levels. `column`: where it stands; `values`: what it is in each level; `limit`: its condition."""

    column: int
    values: tuple[int, ...]
    limit: exp.Expr


def apply(tree: exp.Expr, tables: KnownTables) -> bool:
    """Write such queries as their levels; whether there were any. Those without a stated depth stay as they are.

    Before: `WITH RECURSIVE r AS (SELECT customer_id, qty, 1 AS depth FROM orders UNION ALL SELECT r.customer_id, r.qty / 2,
    r.depth + 1 FROM r WHERE r.depth < 2) SELECT count(*) FROM r`
    After: `WITH dpproxy_level1_1 AS (SELECT customer_id, qty, 1 AS depth FROM orders), dpproxy_level1_2 AS (SELECT
    r.customer_id AS "customer_id", r.qty / 2 AS "qty", 2 AS "depth" FROM dpproxy_level1_1 AS r), r AS (SELECT *
    FROM dpproxy_level1_1 UNION ALL SELECT * FROM dpproxy_level1_2) SELECT count(*) FROM r`
    """
    number, room = 0, MOST_NODES
    inner_first = reversed(every(tree, exp.With))
    for clause in [c for c in inner_first if c.args.get("recursive") and not c.args.get("search")]:
        written: list[exp.Expr] = []
        for cte in clause.expressions:
            levels = _levels(cte, tables, f"dpproxy_level{number + 1}", room)
            number += bool(levels)
            room -= sum(1 for level in levels for _ in level.walk())
            written += [*levels, cte]
        clause.set("expressions", written)
        clause.set("recursive", any(mentions(c.this, ident(c.args["alias"].this)) for c in written))
    return number > 0


def _levels(cte: exp.Expr, tables: KnownTables, prefix: str, room: int) -> list[exp.Expr]:
    """The levels of a recursive query, which then reads them; none, and nothing changed, where it has another form, or levels
    have more nodes than there is room for."""
    found = _recursion(cte)
    if found is None or not tables.reads_private(cte.this):
        return []
    depth = _depth(found)
    distinct = bool(cte.this.args.get("distinct"))
    if depth is None or (distinct and not _fixes_person(found, tables)):
        return []
    if sum(1 for _ in found.second.walk()) * (len(depth.values) - 1) > room:
        return []
    called = [f"{prefix}_{i}" for i in range(1, len(depth.values) + 1)]
    bodies: list[exp.Expr] = [copied(found.first)]
    bodies += [_next(found, depth, value, before) for value, before in zip(depth.values[1:], called[:-1], strict=True)]
    if distinct:
        for body in bodies:
            body.set("distinct", exp.Distinct())
    columns = cte.args["alias"].args.get("columns")
    made: list[exp.Expr] = []
    for name, body in zip(called, bodies, strict=True):
        alias = exp.TableAlias(this=exp.to_identifier(name), columns=[copied(c) for c in columns or ()] or None)
        made.append(exp.CTE(this=body, alias=alias))
    cte.set("this", _together(called))
    return made


def _together(called: list[str]) -> exp.Expr:
    """All rows of these queries."""
    whole: exp.Expr | None = None
    for name in called:
        rows = exp.select("*").from_(exp.Table(this=exp.to_identifier(name)))
        whole = rows if whole is None else exp.Union(this=whole, expression=rows, distinct=False)
    assert whole is not None
    return whole


def _next(found: Recursion, depth: Depth, value: int, before: str) -> exp.Expr:
    """The second part over the level before: its depth is a constant, and the condition that states it holds."""
    level = copied(found.second)
    (read,) = [s for s in sources_of(level) if _is_reference(s, found.name)]
    read.set("alias", exp.TableAlias(this=exp.to_identifier(found.read, quoted=True)))
    read.set("this", exp.to_identifier(before))
    kept = [copied(c) for c in _conjuncts(found.second.args["where"].this) if c is not depth.limit]
    level.set("where", exp.Where(this=exp.and_(*kept, wrap=False)) if kept else None)
    begins = found.first.expressions[depth.column].unalias()
    number = exp.Literal.number(value)
    counted = exp.cast(number, copied(begins.args["to"])) if isinstance(begins, exp.Cast) else number
    outputs = [counted if i == depth.column else e.unalias() for i, e in enumerate(level.expressions)]
    named = zip(outputs, found.names, strict=True)
    level.set("expressions", [e if name is None else exp.alias_(e, name, quoted=True) for e, name in named])
    return level


# --- of which form it is


def _recursion(cte: exp.Expr) -> Recursion | None:
    name, union = ident(cte.args["alias"].this), cte.this
    if not isinstance(union, exp.Union) or any(union.args.get(k) for k in ("with_", "order", "limit", "offset", "by_name", "on")):
        return None
    first, second = union.this, union.expression
    if not isinstance(first, exp.Select) or not isinstance(second, exp.Select) or mentions(first, name):
        return None
    if isinstance(first.args.get("distinct"), exp.Distinct) and first.args["distinct"].args.get("on"):
        return None
    reads = [t for t in second.find_all(exp.Table) if ident(t.this) == name]
    plain = not any(second.args.get(k) for k in (*_PLAIN, "distinct")) and second.find(exp.With) is None
    if not plain or len(reads) != 1 or not any(s is reads[0] and _is_reference(s, name) for s in sources_of(second)):
        return None
    columns = [ident(c) for c in cte.args["alias"].args.get("columns") or ()]
    names = _names(first, second, columns)
    return None if names is None else Recursion(name, first, second, table_alias(reads[0]), names)


def _is_reference(source: exp.Expr, name: str) -> bool:
    """Whether an item of FROM is the recursive query, by itself."""
    if not isinstance(source, exp.Table) or ident(source.this) != name:
        return False
    alias = source.args.get("alias")
    renamed = alias is not None and alias.args.get("columns")
    return not renamed and not any(value for key, value in source.args.items() if key not in ("this", "alias"))


def _names(first: exp.Select, second: exp.Select, columns: list[str]) -> tuple[str | None, ...] | None:
    """The columns' names; None where they are not known. `x.*` may stand in both parts, where both times it is of one table."""
    if len(first.expressions) != len(second.expressions) or any(map(contains_aggregate, second.expressions)):
        return None
    names: list[str | None] = []
    for i, (a, b) in enumerate(zip(first.expressions, second.expressions, strict=True)):
        if not a.is_star and not b.is_star:
            names.append(columns[i] if i < len(columns) else output_name(a))
            continue
        table = _star_of(first, a)
        if columns or table is None or table != _star_of(second, b):
            return None
        names.append(None)
    return tuple(names) if len(set(names)) == len(names) else None


def _star_of(select: exp.Select, star: exp.Expr) -> tuple[str, str] | None:
    """The table of which `*` or `x.*` is all columns; None where it is of anything else."""
    sources = sources_of(select)
    if isinstance(star, exp.Column):
        sources = [s for s in sources if table_alias(s) == ident(star.args.get("table"))]
    elif not isinstance(star, exp.Star):
        return None
    if len(sources) != 1 or not isinstance(sources[0], exp.Table) or any(star.args.values()) != isinstance(star, exp.Column):
        return None
    renamed = (sources[0].args.get("alias") or exp.TableAlias()).args.get("columns")
    return None if renamed else (ident(sources[0].args.get("db")), ident(sources[0].this))


def _fixes_person(found: Recursion, tables: KnownTables) -> bool:
    """Whether the first part selects a column that holds the ids of people, and the second one a column in its place."""
    units = {tables.unit_column(s) for s in sources_of(found.first) if isinstance(s, exp.Table)} - {None}
    pairs = zip(found.first.expressions, found.second.expressions, strict=True)
    return any(isinstance(a.unalias(), exp.Column) and ident(a.unalias().this) in units and _is_column(b) for a, b in pairs)


def _is_column(output: exp.Expr) -> bool:
    return isinstance(output.unalias(), exp.Column) and not output.is_star


# --- its depth


def _depth(found: Recursion) -> Depth | None:
    """The column that counts levels, which the second part limits; of several, that which comes to its end first."""
    depths = [depth for i in range(len(found.names)) for depth in _depths(found, i)]
    return min(depths, key=lambda d: len(d.values), default=None)


def _depths(found: Recursion, i: int) -> Iterator[Depth]:
    name, where = found.names[i], found.second.args.get("where")
    begins, step = _constant(found.first.expressions[i].unalias()), None
    if name is None or begins is None or where is None:
        return
    step = _added(found.second.expressions[i].unalias(), found, name)
    if not step or step < 0:
        return
    for condition in _conjuncts(where.this):
        last = _last(condition, found, name)
        steps = None if last is None else max((last - begins) // step + 1, 0)
        if steps is not None and steps <= MOST_STEPS:
            yield Depth(i, tuple(begins + n * step for n in range(steps + 1)), condition)


def _last(condition: exp.Expr, found: Recursion, name: str) -> int | None:
    """The greatest depth that a condition lets pass; None where it is no limit of the depth."""
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if isinstance(condition, exp.GT | exp.GTE):
        less, more, open_ = condition.expression, condition.this, isinstance(condition, exp.GT)
    elif isinstance(condition, exp.LT | exp.LTE):
        less, more, open_ = condition.this, condition.expression, isinstance(condition, exp.LT)
    else:
        return None
    limit, added = _integer(more), _added(less, found, name)
    return None if limit is None or added is None else limit - added - int(open_)


def _added(node: exp.Expr, found: Recursion, name: str) -> int | None:
    """What is added to the depth of the level before; None for anything else."""
    while isinstance(node, exp.Paren):
        node = node.this
    if _is_depth(node, found, name):
        return 0
    if not isinstance(node, exp.Add):
        return None
    sides = (node.this, node.expression)
    return next((_integer(b) for a, b in (sides, sides[::-1]) if _is_depth(a, found, name)), None)


def _is_depth(node: exp.Expr, found: Recursion, name: str) -> bool:
    if not isinstance(node, exp.Column) or ident(node.this) != name or node.args.get("db"):
        return False
    if node.args.get("table"):
        return ident(node.args["table"]) == found.read
    joins = found.second.args.get("joins") or ()
    return not any(j.args.get("using") or j.args.get("method") for j in joins)  # these have columns of two tables


def _constant(node: exp.Expr) -> int | None:
    """An integer, or one that is cast to a type of integers."""
    if isinstance(node, exp.Cast) and node.args["to"].this.name in _WIDTHS:
        node = node.this
    return _integer(node)


def _integer(node: exp.Expr) -> int | None:
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdigit():
        return None
    return int(node.name) if int(node.name) <= MOST else None


def _conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    if isinstance(condition, exp.Paren) and isinstance(condition.this, exp.And | exp.Paren):
        return _conjuncts(condition.this)
    if isinstance(condition, exp.And):
        return [*_conjuncts(condition.this), *_conjuncts(condition.expression)]
    return [condition]

"""Relations as SQL text.

Knows: relations and an engine's spelling. Must not know: policies, noise. A relation renders to a `Block`: a FROM item,
conditions, and the text of every column in scope; blocks nest as derived tables only where SQL demands it
(aggregates, windows, outer joins of filtered inputs, DISTINCT, set operations), so engines see flat joins.
Aliases are numbered in order of appearance: equal plans render to equal text, which names them for reuse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from dpproxy.engines.base import Engine
from dpproxy.policy.data_claims import QUOTE
from dpproxy.policy.joined_keys import spelled
from dpproxy.sql.template import hole
from dpproxy.tree.expr import Column, Expr, Ref, Relation
from dpproxy.tree.relation import Aggregate, Distinct, Filter, Join, Project, Public, Scan, Staged, Union, Values

_ALONE = (Aggregate, Distinct, Union, Values, Staged)
"""Relations that become one FROM item with plain columns."""

MAX_INLINE = 2_000  # characters of a projected expression before it gets its own derived table
_WINDOW = " OVER ("  # of a window function, and of one in a subquery


@dataclass(frozen=True)
class Block:
    """`source` is the FROM text (`joined`: of more than one item); `names` maps column ids in scope to SQL text."""

    source: str
    names: dict[int, str]
    where: tuple[str, ...] = ()
    joined: bool = False

    @property
    def where_text(self) -> str:
        return f" WHERE {' AND '.join(self.where)}" if self.where else ""


@dataclass
class Renderer:
    """Renders one generated statement; aliases are unique within it."""

    engine: Engine
    outer: dict[int, str] = field(default_factory=dict)
    _aliases: int = 0
    _texts: dict[tuple[str, int, int], tuple[str, Expr, dict[int, str]]] = field(default_factory=dict)
    """Of expressions that stand in many statements of one measurement; they and the names are kept so that ids stay theirs."""
    _wholes: dict[int, tuple[str, object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.engine.subquery = self._subquery

    def resumed(self) -> Renderer:
        """Return a renderer that goes on from here, as often as wanted."""
        return Renderer(self.engine, dict(self.outer), self._aliases, self._texts, self._wholes)

    def alias(self) -> str:
        self._aliases += 1
        return f"t{self._aliases}"

    def expr(self, expr: Expr, names: dict[int, str]) -> str:
        return self.engine.expr(expr, {**self.outer, **names})

    def output(self, expr: Expr, names: dict[int, str]) -> str:
        """Spell an expression that becomes a column."""
        return self._once("output", self.engine.output, expr, names)

    def summand(self, expr: Expr, names: dict[int, str]) -> str:
        """Spell an expression that becomes a column and is held within bounds next."""
        return self._once("summand", self.engine.summand, expr, names)

    def key(self, expr: Expr, names: dict[int, str]) -> str:
        """Spell an expression that rows are grouped by, and groups are shown by."""
        return self._once("key", self.engine.key, expr, names)

    def whole(self, of: object, spell: Callable[[Renderer], str]) -> str:
        """Spell a query that stands by itself, once for all statements of one measurement."""
        if id(of) not in self._wholes:
            self._wholes[id(of)] = spell(Renderer(self.engine)), of
        return self._wholes[id(of)][0]

    def _once(self, what: str, spell: Callable[[Expr, dict[int, str]], str], expr: Expr, names: dict[int, str]) -> str:
        """Spelled once, where the text depends on nothing else: not on names around it, nor on aliases given so far."""
        if self.outer:
            return spell(expr, {**self.outer, **names})
        known = self._texts.get((what, id(expr), id(names)))
        if known is not None:
            return known[0]
        before = self._aliases
        text = spell(expr, names)
        if self._aliases == before:
            self._texts[what, id(expr), id(names)] = text, expr, names
        return text

    def select(self, block: Block, items: list[str]) -> str:
        return f"SELECT {', '.join(items)} FROM {block.source}{block.where_text}"

    def _subquery(self, relation: Relation, exprs: tuple[Expr, ...], names: object) -> str:
        """A subquery inside an expression; it sees the columns around it."""
        saved = self.outer
        assert isinstance(names, dict)
        self.outer = {**saved, **names}
        try:
            block = self.block(relation)
            return self.select(block, [self.expr(e, block.names) for e in exprs])
        finally:
            self.outer = saved

    def block(self, relation: Relation) -> Block:
        match relation:
            case Scan():
                return self._scan(relation)
            case Values():
                return self._values(relation)
            case Staged(columns=columns, index=index):
                alias = self.alias()
                types = ",".join(c.type for c in columns)
                names = [f"c{i}" for i in range(len(columns))]
                source = f"{hole(index, f'rows({types})')} AS {alias}({', '.join(names)})"
                return Block(source, {c.id: f"{alias}.{n}" for c, n in zip(columns, names, strict=True)})
            case Join():
                return self._join(relation)
            case Public(child=child):
                block = self.block(child)
                return block if isinstance(child, _ALONE) else self._wrap(block, child)
            case Filter(child=child, condition=condition):
                block = self.block(child)
                return replace(block, where=(*block.where, self.expr(condition, block.names)))
            case Project():
                return self._project(relation)
            case Aggregate():
                return self._aggregate(relation)
            case Distinct(child=child):
                block = self.block(child)
                items = [block.names[c.id] for c in child.columns]
                more = self._apart([_ref(c) for c in child.columns], block)
                tail = f" GROUP BY {', '.join([*items, *more])}" if more else ""
                return self._derived("" if more else "DISTINCT ", block, items, [c.id for c in relation.columns], tail)
            case Union():
                return self._union(relation)
        raise TypeError(f"unknown relation {type(relation).__name__}")

    def _scan(self, scan: Scan) -> Block:
        alias = self.alias()
        schema, table = map(self.engine.identifier, scan.source)
        names = {
            column.id: self.engine.column(column, spelled(name, QUOTE[self.engine.dialect], alias))
            for column, name in zip(scan.columns, scan.names, strict=True)
        }
        return Block(f"{schema}.{table} AS {alias}", names)

    def _values(self, values: Values) -> Block:
        alias = self.alias()
        if not values.columns:
            return Block(f"(SELECT 1 AS one) AS {alias}", {})  # FROM nothing: one row
        columns = [f"c{i}" for i in range(len(values.columns))]
        rows = [
            tuple(self.engine.as_type(e, c.type, self.outer) for e, c in zip(row, values.columns, strict=True))
            for row in values.rows
        ]
        source = self.engine.values(rows, alias, columns)
        return Block(source, {c.id: f"{alias}.{n}" for c, n in zip(values.columns, columns, strict=True)})

    def _join(self, join: Join) -> Block:
        left, right = self.block(join.left), self.block(join.right)
        plain = (Scan, Public, *_ALONE)
        if join.kind in ("left", "full") and not isinstance(join.right, plain):
            right = self._wrap(right, join.right)  # NULLs of unmatched rows must reach computed columns too
        elif right.joined:
            right = Block(f"({right.source})", right.names, right.where)
        if join.kind == "full" and not isinstance(join.left, plain):
            left = self._wrap(left, join.left)
        names = {**left.names, **right.names}
        if join.kind == "cross":
            return Block(f"{left.source} CROSS JOIN {right.source}", names, (*left.where, *right.where), True)
        word = {"left": "LEFT JOIN", "full": "FULL JOIN"}.get(join.kind, "JOIN")
        on = self.expr(join.on, names) if join.on is not None else "TRUE"
        return Block(f"{left.source} {word} {right.source} ON {on}", names, (*left.where, *right.where), True)

    def _wrap(self, block: Block, relation: Relation) -> Block:
        return self._derived("", block, list(block.names.values()), list(block.names))

    def _derived(self, distinct: str, block: Block, items: list[str], ids: list[int], tail: str = "") -> Block:
        """`(SELECT items FROM block tail) AS t`, column i named c{i}."""
        alias = self.alias()
        body = ", ".join(f"{item} AS c{i}" for i, item in enumerate(items)) or "1 AS c0"
        text = f"(SELECT {distinct}{body} FROM {block.source}{block.where_text}{tail}) AS {alias}"
        return Block(text, {id_: f"{alias}.c{i}" for i, id_ in enumerate(ids)})

    def _project(self, project: Project) -> Block:
        block = self.block(project.child)
        texts = [self.output(item, block.names) for item in project.items]
        ids = [c.id for c in project.columns[: len(texts)]]  # columns beyond the items are the child's own
        if any(_WINDOW in text or len(text) > MAX_INLINE for text in texts):  # no engine takes windows in windows
            kept = {i: t for i, t in block.names.items() if i not in ids}
            return self._derived("", block, [*texts, *kept.values()], [*ids, *kept])
        return replace(block, names={**block.names, **dict(zip(ids, texts, strict=True))})

    def _aggregate(self, aggregate: Aggregate) -> Block:
        block = self.block(aggregate.child)
        keys = [self.output(k, block.names) for k in aggregate.keys]
        aggs = [self.output(a, block.names) for a in aggregate.aggs]
        apart = self._apart(aggregate.keys, block)
        tail = f" GROUP BY {', '.join([*keys, *apart])}" if keys else ""
        return self._derived("", block, [*keys, *aggs], [c.id for c in aggregate.columns], tail)

    def _apart(self, keys: Sequence[Expr], block: Block) -> list[str]:
        """What tells equal intervals apart: of a month and 30 days no engine is to choose one."""
        return [self.key(k, block.names) for k in keys if k.type == "interval"]

    def _union(self, union: Union) -> Block:
        alias = self.alias()
        branches = []
        for child in union.children:
            block = self.block(child)
            items = [
                f"{self._branch(c, o, block)} AS c{i}" for i, (c, o) in enumerate(zip(child.columns, union.columns, strict=True))
            ]
            branches.append(self.select(block, items))
        text = f" {union.op.upper()} ".join(branches)
        return Block(f"({text}) AS {alias}", {c.id: f"{alias}.c{i}" for i, c in enumerate(union.columns)})

    def _branch(self, column: Column, output: Column, block: Block) -> str:
        """Numbers of one kind are put together as they are."""
        as_it_is = output.exact and (column.exact, column.type) == (output.exact, output.type)
        return self.expr(_ref(column), block.names) if as_it_is else self.engine.as_type(_ref(column), output.type, block.names)


def _ref(column: Column) -> Expr:
    return Ref(column.type, column)

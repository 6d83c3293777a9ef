"""Which rows of a measured SELECT are shown, or not, by queries that read it: by what was released of them, or by keys alone.

Knows: sqlglot's trees, names of outputs. Must not know: measurements, noise. The highest of many noisy numbers is one whose noise
was high, whoever picks it: HAVING in the SELECT itself (`query_shapes.chosen_by_values`), or WHERE, a join, ORDER BY with LIMIT,
min and max in a query around it, or in one that reads the CTE it stands in. Outputs without an aggregate are *plain*: what
chooses by these alone chooses nothing by noise. Nothing here decides privacy; a doubtful case is a choice, and widens intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpproxy.plan.intervals.calls import interval_call
from dpproxy.sql.dialect import ident
from dpproxy.sql.nodes import nodes
from dpproxy.sql.output_names import output_name
from dpproxy.sql.trees import aggregate_calls, function_name

Outputs = tuple[tuple[str, bool], ...]
"""Names of the columns of a query, and whether each is plain."""


@dataclass(frozen=True)
class _Source:
    """What a query reads: columns by the name they have there."""

    alias: str
    outputs: Outputs

    def noisy(self, node: exp.Expr) -> bool:
        """Tell whether an expression holds a column of this source that is not plain."""
        names = {name for name, plain in self.outputs if not plain}
        columns = (c for c in node.find_all(exp.Column) if ident(c.args.get("table")) in ("", self.alias))
        return any(isinstance(c.this, exp.Star) or ident(c.this) in names for c in columns)


def chosen_above(select: exp.Select) -> bool:
    """Tell whether queries around a measured SELECT choose among its rows by released values; of one that asks for no intervals
    it does not matter."""
    if not any(interval_call(node) for node in nodes(select)):
        return False
    outputs = tuple((output_name(e), not any(True for _ in aggregate_calls(e))) for e in select.expressions)
    return _chosen(select, outputs, set())


def _chosen(query: exp.Expr, outputs: Outputs, seen: set[int]) -> bool:
    """Whether what reads a query with these outputs chooses, at any distance."""
    parent = query.parent
    if isinstance(parent, exp.SetOperation):
        return _of_sides(parent, outputs, seen)
    if isinstance(parent, exp.Subquery):
        if isinstance(parent.parent, exp.From | exp.Join):
            return _by_reader(parent, outputs, seen)
        return _cut(parent, _Source("", outputs), outputs) or _chosen(parent, outputs, seen)
    if isinstance(parent, exp.CTE):
        name = ident(parent.args["alias"].this)
        readers = (t for t in parent.root().find_all(exp.Table) if ident(t.this) == name and not t.args.get("db"))
        return any(_by_reader(table, _renamed(outputs, parent), seen) for table in readers)
    return False


def _of_sides(operation: exp.SetOperation, outputs: Outputs, seen: set[int]) -> bool:
    """UNION puts rows together, under the names of its first side; EXCEPT and INTERSECT choose by all columns."""
    if not isinstance(operation, exp.Union) and not all(plain for _, plain in outputs):
        return True
    first: exp.Expr = operation
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    names = [output_name(e) for e in first.expressions] if isinstance(first, exp.Select) else []
    if len(names) == len(outputs):
        outputs = tuple((name, plain) for name, (_, plain) in zip(names, outputs, strict=True))
    return _cut(operation, _Source("", outputs), outputs) or _chosen(operation, outputs, seen)


def _by_reader(item: exp.Expr, outputs: Outputs, seen: set[int]) -> bool:
    """Whether the SELECT that has an item in its FROM chooses, or what reads that one."""
    reader = item.find_ancestor(exp.Select)
    if reader is None or id(reader) in seen:
        return False
    seen.add(id(reader))
    alias = item.args.get("alias")
    name = ident(alias.this) if alias is not None else ident(item.this) if isinstance(item, exp.Table) else ""
    source = _Source(name, _renamed(outputs, item))
    own = tuple(_read(reader, source))
    conditions = [reader.args.get("where"), reader.args.get("having"), *(join.args.get("on") for join in _joins(reader))]
    if any(source.noisy(node) for node in conditions if node is not None) or _matched(reader, source):
        return True
    extremes = (call for e in reader.expressions for call in aggregate_calls(e) if function_name(call) in ("min", "max"))
    return any(map(source.noisy, extremes)) or _cut(reader, source, own) or _chosen(reader, own, seen)


def _joins(reader: exp.Select) -> list[exp.Expr]:
    return list(reader.args.get("joins") or ())


def _matched(reader: exp.Select, source: _Source) -> bool:
    """NATURAL and USING compare columns by their names."""
    noisy = {name for name, plain in source.outputs if not plain}
    used = {ident(c) for join in _joins(reader) for c in join.args.get("using") or ()}
    return bool(used & noisy) or (bool(noisy) and any(join.args.get("method") == "NATURAL" for join in _joins(reader)))


def _read(reader: exp.Select, source: _Source) -> Iterator[tuple[str, bool]]:
    for node in reader.expressions:
        if node.is_star:
            yield from source.outputs
        else:
            yield output_name(node), not source.noisy(node)


def _cut(query: exp.Expr, source: _Source, own: Sequence[tuple[str, bool]]) -> bool:
    """Whether the first rows by a noisy column are all that is left of a query."""
    order, distinct = query.args.get("order"), query.args.get("distinct")
    first = isinstance(distinct, exp.Distinct) and distinct.args.get("on") is not None
    if order is None or not (first or any(query.args.get(key) for key in ("limit", "offset", "fetch"))):
        return False
    terms = [term.this if isinstance(term, exp.Ordered) else term for term in order.expressions]
    return any(_by_number(term, own) or source.noisy(term) or _Source("", tuple(own)).noisy(term) for term in terms)


def _by_number(term: exp.Expr, own: Sequence[tuple[str, bool]]) -> bool:
    if not isinstance(term, exp.Literal) or not term.this.isdigit() or not 1 <= int(term.this) <= len(own):
        return False
    return not own[int(term.this) - 1][1]


def _renamed(outputs: Outputs, item: exp.Expr) -> Outputs:
    """`AS t(a, b)` gives the first columns other names."""
    alias = item.args.get("alias")
    names = [ident(c) for c in alias.args.get("columns") or ()] if alias is not None else []
    return tuple((names[i] if i < len(names) else name, plain) for i, (name, plain) in enumerate(outputs))

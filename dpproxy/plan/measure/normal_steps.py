"""The normal form of a relation as steps: each exchanges a relation for another with the same rows and columns.

Knows: relations, conditions. Must not know: how columns are named while sorting, engines. Each step keeps the meaning on every
database, NULLs included: an inner join is a set of sources under a set of conditions, wherever these were written. After each
step it is checked that the relation has the columns it had (`check_step`): what stands above reads these by their ids and types,
and whose rows they are is told by one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from dpproxy.plan.properties.equivalence import equalities
from dpproxy.tree.expr import Column, Expr, Relation, conjunction, conjuncts, references
from dpproxy.tree.relation import Aggregate, Distinct, Filter, Join, Project, Public, Rows, Union


class Form(Protocol):
    """What steps ask of the form they are steps to."""

    def relation(self, node: Relation) -> Relation:
        """Return a relation in its normal form."""
        ...

    def expr(self, expr: Expr) -> Expr:
        """Return an expression in its normal form."""
        ...

    def sorted(self, conditions: Iterable[Expr]) -> tuple[Expr, ...]:
        """Return the normal forms of conditions that hold together, each once, in order."""
        ...

    def text(self, value: object) -> str:
        """Return what to sort by, equal for equal meanings."""
        ...


@dataclass(frozen=True)
class Block(Relation):
    """A block is an inner join of any number of sources under a set of conditions; it is there between steps alone."""

    sources: tuple[Relation, ...]
    conditions: tuple[Expr, ...]


def one_block(node: Relation, form: Form) -> Relation:
    """Gather inner joins and filters: `(a JOIN b ON a.x = b.x) WHERE a.y > 1` is a block of two sources under two conditions."""
    if not isinstance(node, Filter) and not (isinstance(node, Join) and node.kind in ("inner", "cross")):
        return node
    sources: list[Relation] = []
    conditions: list[Expr] = []
    gathered(node, sources, conditions)
    return Block(node.columns, tuple(sources), tuple(conditions))


def normal_sources(node: Relation, form: Form) -> Relation:
    """Put what the relation reads into its normal form."""
    match node:
        case Block(sources=sources):
            return replace(node, sources=tuple(map(form.relation, sources)))
        case Join(left=left, right=right):
            return replace(node, left=form.relation(left), right=form.relation(right))
        case Project(child=child) | Aggregate(child=child) | Distinct(child=child) | Public(child=child):
            return replace(node, child=form.relation(child))
        case Union(children=children):
            return replace(node, children=tuple(map(form.relation, children)))
        case _:
            return node


def normal_expressions(node: Relation, form: Form) -> Relation:
    """Put the relation's own expressions into their normal form; conditions that hold together are a set."""
    match node:
        case Block(conditions=conditions):
            return replace(node, conditions=form.sorted(conditions))
        case Join(on=on):
            return replace(node, on=conjunction(form.sorted(conjuncts(on))))
        case Project(items=items):
            return replace(node, items=tuple(map(form.expr, items)))
        case Aggregate(keys=keys, aggs=aggs):
            return replace(node, keys=tuple(map(form.expr, keys)), aggs=tuple(map(form.expr, aggs)))
        case _:
            return node


def ordered_sources(node: Relation, form: Form) -> Relation:
    """Order a block's sources by name, each next to one it is joined with if there is any. Sources of one name keep the order
    they came in."""
    if not isinstance(node, Block):
        return node
    rest = sorted(node.sources, key=lambda source: (form.text(source), _role(source, node.conditions, form)))
    ordered = rest[:1]
    rest = rest[1:]
    while rest:
        known = {c.id for source in ordered for c in source.columns}
        following = next((source for source in rest if linked(source, known, node.conditions)), rest[0])
        rest = [source for source in rest if source is not following]
        ordered.append(following)
    return replace(node, sources=tuple(ordered))


def left_deep(node: Relation, form: Form) -> Relation:
    """Write a block as joins from left to right: equalities of columns where both are known, other conditions on top."""
    if not isinstance(node, Block):
        return node
    made, rest = chain(node.sources, node.conditions)
    condition = conjunction(rest)
    if condition is not None:
        return Filter(node.columns, made, condition)
    if len(node.sources) == 1:
        return made  # an outer join, say, under conditions that are always true: it is no join that was made here
    return replace(made, columns=node.columns) if isinstance(made, Join) else made


Step = Callable[[Relation, Form], Relation]
"""A relation for another with the same rows and columns."""

STEPS: Final[tuple[Step, ...]] = (
    one_block,  # first: which sources belong together is seen before each is looked at by itself
    normal_sources,  # their columns have names then, by which all that follows is sorted
    normal_expressions,  # before sources are ordered, since conditions tell two sources of one table apart
    ordered_sources,  # before joins are written, which is done in this order
    left_deep,  # last: a block is no relation that anybody else knows
)


def check_step(step: Step, before: Relation, after: Relation) -> None:
    """Raise AssertionError where a step changed what relations above rely on: a step that did would change answers."""
    if after is before:
        return
    if tuple(map(_kept, after.columns)) != tuple(map(_kept, before.columns)):
        raise AssertionError(f"{step.__name__} changed the columns of {type(before).__name__}")
    sources = _sources(before)
    if len(sources) == 1 and sources[0] is after:
        return  # a block of one source under no condition is that source
    if _ids(sources) != _ids(_sources(after)):
        raise AssertionError(f"{step.__name__} reads other sources than {type(before).__name__}")
    if not _read(after) <= _read(before):
        raise AssertionError(f"{step.__name__} reads other columns than {type(before).__name__}")
    if tuple(e.type for e in _outputs(after)) != tuple(e.type for e in _outputs(before)):
        raise AssertionError(f"{step.__name__} changed the types of {type(before).__name__}")


def check_rows(before: Rows, after: Rows) -> None:
    """Raise AssertionError where the normal form of rows no longer says whose they are: its unit is a column of theirs like the
    one before, and what holds in every row reads nothing else."""
    if (before.unit is None) != (after.unit is None):
        raise AssertionError("the normal form lost the unit")
    if before.unit is not None and after.unit is not None:
        if (after.unit.type, after.unit.taint, after.unit.optional) != (
            before.unit.type,
            before.unit.taint,
            before.unit.optional,
        ):
            raise AssertionError("the normal form has a unit of another kind")
        if after.unit.id not in {c.id for c in after.node.columns}:
            raise AssertionError("the normal form has a unit that is no column of its rows")
    known = {c.id for e in before.conditions for c in references(e)}
    if not {c.id for e in after.conditions for c in references(e)} <= known:
        raise AssertionError("the conditions of the normal form read other columns")


def _kept(column: Column) -> tuple[object, ...]:
    """What is relied on of a column: its id, its type, and whose values it has."""
    return column.id, column.type, column.taint, column.optional, column.constant


def _ids(sources: tuple[Relation, ...]) -> list[int]:
    return sorted(c.id for source in sources for c in source.columns)


def _read(node: Relation) -> set[int]:
    return {c.id for e in _expressions(node) for c in references(e)}


def _sources(node: Relation) -> tuple[Relation, ...]:
    """What the relation reads, inner joins and filters seen through, as `one_block` does."""
    match node:
        case Block(sources=sources):
            return sources
        case Filter() | Join(kind="inner" | "cross"):
            found: list[Relation] = []
            gathered(node, found, [])
            return tuple(found)
        case Join(left=left, right=right):
            return left, right
        case Project(child=child) | Aggregate(child=child) | Distinct(child=child) | Public(child=child):
            return (child,)
        case Union(children=children):
            return children
        case _:
            return (node,)


def _expressions(node: Relation) -> tuple[Expr, ...]:
    """The relation's own expressions, those of inner joins and filters below it included."""
    match node:
        case Block(conditions=conditions):
            return conditions
        case Filter() | Join(kind="inner" | "cross"):
            found: list[Expr] = []
            gathered(node, [], found)
            return tuple(found)
        case Join(on=on):
            return conjuncts(on)
        case _:
            return _outputs(node)


def _outputs(node: Relation) -> tuple[Expr, ...]:
    """The expressions that make the relation's columns, in order."""
    match node:
        case Project(items=items):
            return items
        case Aggregate(keys=keys, aggs=aggs):
            return (*keys, *aggs)
        case _:
            return ()


def gathered(node: Relation, leaves: list[Relation], conditions: list[Expr]) -> None:
    match node:
        case Filter(child=child, condition=condition):
            gathered(child, leaves, conditions)
            conditions += conjuncts(condition)
        case Join(kind="inner" | "cross", left=left, right=right, on=on):
            gathered(left, leaves, conditions)
            gathered(right, leaves, conditions)
            conditions += conjuncts(on)
        case _:
            leaves.append(node)


def chain(leaves: Sequence[Relation], conditions: Sequence[Expr]) -> tuple[Relation, tuple[Expr, ...]]:
    """A left-deep chain, equalities of columns where both are known, and the conditions that are left."""
    made, rest = leaves[0], list(conditions)
    for leaf in leaves[1:]:
        columns = (*made.columns, *leaf.columns)
        known = {c.id for c in columns}
        mine = [c for c in rest if equalities([c]) and all(r.id in known for r in references(c))]
        rest = [c for c in rest if c not in mine]
        made = Join(columns, "inner" if mine else "cross", made, leaf, conjunction(tuple(mine)))
    return made, tuple(rest)


def linked(leaf: Relation, known: set[int], conditions: Sequence[Expr]) -> bool:
    mine = {c.id for c in leaf.columns}
    return any((a.id in mine and b.id in known) or (b.id in mine and a.id in known) for a, b in equalities(conditions))


def _role(source: Relation, conditions: Sequence[Expr], form: Form) -> str:
    """What is asked of one of several sources of the same table."""
    mine = {c.id for c in source.columns}
    return ", ".join(sorted(form.text(c) for c in conditions if {r.id for r in references(c)} <= mine))

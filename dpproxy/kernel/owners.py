"""Whose row each row is: one rule for each kind of relation, from the leaves up.

Knows: relations, leaves. Must not know: the planner's claims (`Column.constant`, `Rows`), engines, SQL text. A relation it does
not know is refused.

What is derived is an `Owned`. This is the privacy-unit tracking of Wilson et al. 2019 (section 3, "ownership") and of Tumult
Core's transformations on tables with an ID column; a relation with an owner is a 1-stable transformation
under adding or removing a unit, grouped by unit: what is removed with v is exactly the rows where u = v. Each rule says why
that stays true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from dpproxy.kernel.allowed import SET_OPERATIONS
from dpproxy.kernel.classes import NONE, Classes, Ids, compared, ids, present
from dpproxy.kernel.columns import named
from dpproxy.kernel.expressions import Expressions
from dpproxy.kernel.kinds import becomes, kind
from dpproxy.kernel.leaves import Leaves, Unproven
from dpproxy.kernel.owned import Owned
from dpproxy.table_terms import same_kind
from dpproxy.tree.expr import Call, Column, Expr, Lit, Ref, Relation, Win, conjuncts
from dpproxy.tree.relation import Aggregate, Distinct, Filter, Join, Project, Public, Scan, Staged, Union, Values


def refuse(why: str) -> NoReturn:
    raise Unproven(why)


class Owners:
    """Derives `Owned` of relations. `outer`: the columns that hold the unit of the row around a subquery."""

    def __init__(self, leaves: Leaves) -> None:
        self._leaves = leaves
        self.expressions = Expressions(self)
        self.columns = self.expressions.columns

    def of(self, node: Relation, outer: Ids = NONE) -> Owned:
        match node:
            case Scan():
                return self._scan(node)
            case Values(columns=columns, rows=rows):
                for column, expr in ((c, e) for row in rows for c, e in zip(columns, row, strict=True)):
                    self.expressions.check(expr, Owned(), outer)
                    if not becomes(expr.type, column.type):
                        refuse("constants of another kind than their column")
                self.columns.given(columns, rows)
                return Owned()
            case Staged(columns=columns, index=index):
                self.columns.given(columns, index)
                return Owned()
            case Public(child=child):
                return self._public(self.of(child, outer), "a public relation")
            case Filter() | Join(kind="inner") | Join(kind="cross", on=None):
                return self._block(node, outer)
            case Join(kind="left"):
                return self._left(node, outer)
            case Join(kind="full"):
                return self._full(node, outer)
            case Project():
                return self._project(node, outer)
            case Aggregate():
                return self._aggregate(node, outer)
            case Distinct():
                return self._distinct(node, outer)
            case Union():
                return self._union(node, outer)
            case _:
                refuse(f"no rule for {type(node).__name__}")

    # --- leaves

    def _scan(self, scan: Scan) -> Owned:
        """A table with a unit column: the rows of v are, by definition of neighbours, those where it is v. One with a way:
        those that lead to v."""
        leaf = self._leaves.get(scan.source)
        if leaf is None:
            refuse("a table that the policy does not know")
        self.columns.scanned(scan, leaf)
        named = {name: column.id for column, name in zip(scan.columns, scan.names, strict=True)}
        there = frozenset(i for name, i in named.items() if name in leaf.present)
        if not leaf.private:
            return Owned(present=there)
        origins = frozenset((i, scan.source, name) for name, i in named.items() if name in leaf.reached)
        constant = ids(scan.columns) if leaf.one else NONE
        if leaf.way is not None:
            way = (
                (named[leaf.way.column], leaf.way) if leaf.way.column in named else refuse("a table without its way to the unit")
            )
            return Owned(True, NONE, leaf.one, constant, way, origins, (), there)
        if leaf.unit not in named:
            refuse("a table without its unit column")
        owner = frozenset((named[leaf.unit],))
        return Owned(True, owner, leaf.one, constant, None, origins, (), there)

    @staticmethod
    def _public(found: Owned, what: str) -> Owned:
        return found if not found.private else refuse(f"{what} reads private rows")

    # --- joins

    def _block(self, node: Relation, outer: Ids) -> Owned:
        """Inner joins and filters: sources under conditions, all of which hold in every row.

        A row is made of one row of each source. With the owners of all private ones equal, all its parts are of one unit v, so
        the rows of v follow from v's rows and public ones; a filter looks at one row. Where a source has a way, the row it
        leads to is among the others: it belongs to whom that row belongs to. A unit has one row where it has one in each
        source, and there is no public one to repeat it."""
        sources, conditions = gathered(node)
        _apart(sources, outer)
        firsts = frozenset().union(*map(_first, conditions))
        parts = [_alone(self.of(source, outer), source, firsts) for source in sources]
        classes = _classes(parts, conditions)
        private = _resolved([p for p in parts if p.private], classes)
        there = frozenset().union(*(p.present for p in parts), *map(present, conditions))
        found = Owned(equal=classes.all(), present=there)
        if private:
            found = replace(
                found,
                private=True,
                owner=_common(private, classes),
                one=all(p.one for p in private) and len(private) == len(parts),
                constant=frozenset().union(*(p.constant for p in private)),
                way=private[0].way,
                origins=frozenset().union(*(p.origins for p in private)),
            )
            found = replace(found, fixed=any(p.fixed for p in private) or bool(found.owner & outer))
        for condition in conditions:
            self.expressions.condition(condition, found, outer)
        return found

    def _left(self, node: Join, outer: Ids) -> Owned:
        """Each left row of v meets right rows of v, or public ones, or none: what it meets follows from v's rows. Right columns
        may be NULL: nothing that is claimed of them survives but where they come from. A left row that meets several is there
        several times, with one number."""
        _apart((node.left, node.right), outer)
        left, right = self.of(node.left, outer), self.of(node.right, outer)
        on = conjuncts(node.on)
        classes = _classes([left, right], on)
        if right.private and not left.private:
            refuse("a public row is kept for want of a private one")
        both = left
        if right.private:
            left, right = _resolved([left, right], classes)
            owner = _common([left, right], classes)
            one = left.one and right.one
            constant = left.constant | (named(node) if one else NONE)
            numbers = left.numbers if right.one else NONE
            both = replace(left, one=one, constant=constant, numbers=numbers, origins=left.origins | right.origins)
            during = replace(both, owner=owner)
        else:
            both = replace(left, one=False, numbers=NONE)
            during = replace(both, owner=frozenset().union(*(classes.members(i) for i in left.owner)))
        for condition in on:
            self.expressions.condition(condition, during, outer)
        return both

    def _full(self, node: Join, outer: Ids) -> Owned:
        """Each row is a pair of rows of v, or one of v's rows alone; its unit is that of whichever side it has."""
        _apart((node.left, node.right), outer)
        left, right = self.of(node.left, outer), self.of(node.right, outer)
        if not left.private or not right.private:
            refuse("FULL JOIN of private and public rows")
        on = conjuncts(node.on)
        classes = _classes([left, right], on)
        left, right = _resolved([left, right], classes)
        owner = _common([left, right], classes)
        for condition in on:
            self.expressions.condition(condition, Owned(True, owner), outer)
        fixed = left.fixed and right.fixed
        return Owned(True, origins=left.origins | right.origins, fixed=fixed, either=(left.owner, right.owner))

    # --- rows made of rows

    def _project(self, node: Project, outer: Ids) -> Owned:
        """Row by row; windows look at rows of one unit alone (`kernel.expressions`)."""
        child = self.of(node.child, outer)
        self.columns.made(node.columns, node.items)
        owner, constant, there, numbers = set(child.owner), set(child.constant), set(child.present), set(child.numbers)
        classes = Classes()
        for same in child.equal:
            classes.unite(same)
        renamed = False
        for column, item in zip(node.columns, node.items, strict=False):
            if self.expressions.check(item, child, outer, node.child) or child.one:
                constant.add(column.id)
            if isinstance(item, Ref) and item.column.id != column.id:
                classes.unite((item.column.id, column.id))
                renamed = True
                if item.column.id in owner:
                    owner.add(column.id)
                if item.column.id in there:
                    there.add(column.id)
            elif isinstance(item, Win) and item.name == "row_number" and self._of_units(item, child, outer):
                numbers.add(column.id)
            elif child.either is not None and _is_either(item, column, child.either):
                owner.add(column.id)
        equal = classes.all() if renamed else child.equal
        either = None if owner else child.either
        return replace(
            child, owner=frozenset(owner), constant=frozenset(constant), present=frozenset(there), equal=equal,
            numbers=frozenset(numbers), either=either,
        )  # fmt: skip

    def _of_units(self, win: Win, rows: Owned, outer: Ids) -> bool:
        """Whether each partition holds all rows of a unit."""
        return bool(rows.owner) and all(self.expressions.check(p, rows, outer) for p in win.partition)

    def _aggregate(self, node: Aggregate, outer: Ids) -> Owned:
        """Groups with the owner among their keys hold rows of one unit each, and so do those of rows that all are one unit's. A
        unit has one group where the keys have one value in all its rows."""
        child = self.of(node.child, outer)
        constant = [self.expressions.check(key, child, outer) for key in node.keys]
        for agg in node.aggs:
            self.expressions.aggregate(agg, child, outer)
        self.columns.made(node.columns, (*node.keys, *node.aggs))
        keys = node.columns[: len(node.keys)]
        if not child.private:
            return Owned(present=_kept(node.keys, keys, child.present))
        owner = _kept(node.keys, keys, child.owner)
        if not owner and (node.keys or not child.fixed):
            refuse("groups of rows of several units")
        owned = [isinstance(key, Ref) and key.column.id in child.owner for key in node.keys]
        one = bool(owner) and all(map(any, zip(owned, constant, strict=True)))
        same = frozenset(c.id for c, fixed in zip(keys, constant, strict=True) if fixed)
        found = child.holding(ids(keys))
        there = _kept(node.keys, keys, child.present)
        return replace(found, owner=owner, one=one, constant=ids(node.columns) if one else same, present=there)

    def _distinct(self, node: Distinct, outer: Ids) -> Owned:
        """GROUP BY all columns."""
        child = self.of(node.child, outer)
        if [c.id for c in node.columns] != [c.id for c in node.child.columns]:
            refuse("DISTINCT under other columns")
        self.columns.read(node.columns)
        return self._once(child, ids(node.columns))

    @staticmethod
    def _once(child: Owned, columns: Ids) -> Owned:
        if not child.private:
            return Owned(present=child.present & columns)
        found = child.holding(columns)
        if not found.owner:
            refuse("distinct rows of several units")
        one = columns <= found.owner | found.constant
        return replace(found, one=one, constant=columns if one else found.constant)

    def _union(self, node: Union, outer: Ids) -> Owned:
        """The rows of v are put together from those of each side. INTERSECT and EXCEPT compare rows with their owner among the
        columns: those of v with those of v."""
        if node.op not in SET_OPERATIONS:
            refuse(f"no rule for {node.op}")
        sides = [self.of(child, outer) for child in node.children]
        if any(len(child.columns) != len(node.columns) for child in node.children):
            refuse("a set operation of relations of different widths")
        if node.op != "union all" and any(kind(column.type) == "v" for column in node.columns):
            refuse("a set operation keeps one of equal intervals: a month, or 30 days")
        self.columns.put_together(node.columns, [child.columns for child in node.children])
        if not any(s.private for s in sides):
            return Owned()
        if not all(s.private for s in sides):
            refuse("a set operation of private and public rows")
        places = range(len(node.columns))

        def all_in(place: int, which: str) -> bool:
            return all(child.columns[place].id in getattr(s, which) for child, s in zip(node.children, sides, strict=True))

        below = list(zip(*(child.columns for child in node.children), strict=True))
        owner = frozenset(c.id for i, c in enumerate(node.columns) if all_in(i, "owner") and _lossless(below[i], c))
        if not owner:
            refuse("a set operation of rows of several units")
        there = frozenset(node.columns[i].id for i in places if all_in(i, "present"))
        found = Owned(True, owner, constant=owner, equal=(owner,), present=there, fixed=all(s.fixed for s in sides))
        return self._once(found, ids(node.columns)) if node.op in ("intersect", "except") else found


def gathered(node: Relation) -> tuple[list[Relation], list[Expr]]:
    """Return the sources of inner joins and filters, and the conditions that hold in every row."""
    match node:
        case Filter(child=child, condition=condition):
            sources, conditions = gathered(child)
            return sources, [*conditions, *conjuncts(condition)]
        case Join(kind="inner", left=left, right=right, on=on) | Join(kind="cross", left=left, right=right, on=None as on):
            (mine, above), (theirs, beside) = gathered(left), gathered(right)
            return [*mine, *theirs], [*above, *beside, *conjuncts(on)]
        case _:
            return [node], []


def _first(condition: Expr) -> Ids:
    """The columns that are 1 where a condition is true."""
    match condition:
        case Call(op="=", args=(Ref(column=a), Lit(text="1")) | (Lit(text="1"), Ref(column=a))):
            return frozenset((a.id,))
        case _:
            return NONE


def _alone(part: Owned, source: Relation, firsts: Ids) -> Owned:
    """A source of which the conditions leave each unit's first row."""
    return replace(part, one=True, constant=part.constant | named(source)) if part.numbers & firsts else part


def _apart(sources: Sequence[Relation], outer: Ids) -> None:
    """Two sources with a column of one number would be taken for each other, or one for rows around it."""
    every = [named(source) for source in sources]
    if len(outer.union(*every)) < len(outer) + sum(map(len, every)):
        refuse("two relations share a column")


def _classes(parts: Sequence[Owned], conditions: Sequence[Expr]) -> Classes:
    classes = Classes()
    for part in parts:
        classes.unite(part.owner)
        for same in part.equal:
            classes.unite(same)
    for condition in conditions:
        pair = compared(condition)
        if pair is not None:
            classes.unite((pair[0].id, pair[1].id))
    return classes


def _resolved(private: list[Owned], classes: Classes) -> list[Owned]:
    """The private sources, each with an owner: one with a way is owned by whoever owns the row its way leads to."""
    found = list(private)
    changed = len(found) > 1
    while changed:
        changed = False
        for i, part in enumerate(found):
            parent = _parent(part, found, classes) if part.way is not None else None
            if parent is not None:
                found[i] = replace(part, way=None, owner=parent.owner)
                changed = True
    if len(found) > 1 and any(part.way is not None for part in found):
        refuse("a table is joined without its way to the unit")
    if any(part.either is not None for part in found):
        refuse("rows of FULL JOIN without their unit")
    return found


def _parent(part: Owned, others: Sequence[Owned], classes: Classes) -> Owned | None:
    assert part.way is not None
    column, way = part.way
    for other in others:
        if other is not part and other.way is None:
            keys = (i for i, table, name in other.origins if (table, name) == (way.target, way.key))
            if any(classes.find(key) == classes.find(column) for key in keys):
                return other
    return None


def _common(private: Sequence[Owned], classes: Classes) -> Ids:
    """The columns that hold the unit; all private sources' owners must be among them."""
    if private[0].way is not None:
        return NONE
    if any(not part.owner for part in private):
        refuse("rows whose unit is no column of theirs")
    roots = {classes.find(i) for part in private for i in part.owner}
    if len(roots) > 1:
        refuse("rows of different units are joined")
    return classes.members(roots.pop())


def _is_either(item: Expr, column: Column, sides: tuple[Ids, Ids]) -> bool:
    """Whether it is the coalesce of both sides' units, of one kind."""
    match item:
        case Call(op="coalesce", args=(Ref(column=a), Ref(column=b))):
            apart = (a.id in sides[0] and b.id in sides[1]) or (a.id in sides[1] and b.id in sides[0])
            return apart and _lossless((a, b), column)
        case _:
            return False


def _lossless(sides: Sequence[Column], column: Column) -> bool:
    """Whether different values of any of the sides are different in the column that they are cast to (or are NULL there)."""
    kinds = {_FAMILY.get(c.type, c.type) for c in (*sides, column)}
    return len(kinds) == 1 and all(same_kind(side, column) for side in sides)


_FAMILY = {"int2": "int8", "int4": "int8", "varchar": "text", "bpchar": "text"}
"""Types between which a cast loses nothing."""


def _kept(exprs: Sequence[Expr], columns: Sequence[Column], which: Ids) -> Ids:
    """Of columns that hold expressions, those that are one of `which`."""
    pairs = zip(exprs, columns, strict=True)
    return frozenset(column.id for expr, column in pairs if isinstance(expr, Ref) and expr.column.id in which)

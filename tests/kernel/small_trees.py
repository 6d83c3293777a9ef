"""Generated relations over the small dataset, and its data: for each unit a database of its own.

A tree is grown from the leaves; of what is tried at each step, the first is taken that the kernel derives something of. Joins and
conditions are drawn so that rules apply often: by units, by keys, by the number of a row.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import duckdb
from small_expressions import call, column, lit, ref

from dpproxy.kernel.leaves import Unproven
from dpproxy.kernel.owned import Owned
from dpproxy.kernel.owners import Owners
from dpproxy.tree.expr import Agg, Call, Case, Column, Exists, Expr, InQuery, Relation, Scalar, Win
from dpproxy.tree.relation import Aggregate, Distinct, Filter, Join, Project, Scan, Union
from tests.kernel.small_tables import ITEMS, LEAVES, ONE, ORDERS, PEOPLE, REGIONS, equal, joined, there, where

UNITS = (1, 2, 3, 4)
NUMBERS = {source: replace(leaf, kinds=dict.fromkeys(leaf.kinds, ("int4", ""))) for source, leaf in LEAVES.items()}
"""The tables as `World` has them."""
TRIES = 12
"""Of a step; then the child alone."""


class Trees:
    """Grows relations. `grow` returns one of which the kernel derives something, and what it derives."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._ids = count(100)
        self._owners = Owners(NUMBERS)

    def grow(self, depth: int) -> tuple[Relation, Owned]:
        if depth == 0:
            tree: Relation = self._scan()
            return tree, self._owners.of(tree)
        step = self._rng.choice(
            [self._filtered, self._filtered, self._computed, self._numbered, self._numbered, self._joined, self._joined,
             self._joined, self._grouped, self._distinct, self._both]
        )  # fmt: skip
        for _ in range(TRIES):
            try:
                tree = step(depth - 1)
                return tree, self._owners.of(tree)
            except Unproven:
                continue
        return self.grow(depth - 1)

    def _new(self, type_: str = "int4") -> Column:
        return column(next(self._ids), type_)

    def _scan(self) -> Scan:
        known = self._rng.choice([PEOPLE, ORDERS, ORDERS, ORDERS, ITEMS, REGIONS])
        return replace(known, columns=tuple(self._new() for _ in known.columns))

    def _any(self, tree: Relation) -> Column:
        return self._rng.choice(tree.columns)

    def _unit(self, tree: Relation, found: Owned) -> Column:
        """One that holds the unit, most often."""
        owners = [c for c in tree.columns if c.id in found.owner]
        return self._rng.choice(owners) if owners and self._rng.random() < 0.85 else self._any(tree)

    # --- steps

    def _filtered(self, depth: int) -> Relation:
        child, found = self.grow(depth)
        return where(child, *(self._condition(child, found) for _ in range(self._rng.choice((1, 1, 2)))))

    def _condition(self, rows: Relation, found: Owned) -> Expr:
        a = self._any(rows)
        numbers = [c for c in rows.columns if c.id in found.numbers]
        if numbers and self._rng.random() < 0.7:
            return call("=", ref(self._rng.choice(numbers)), ONE)
        kinds: list[Callable[[], Expr]] = [
            lambda: call(self._rng.choice(("=", "<", "<>", "is_not_distinct")), ref(a), ref(self._any(rows))),
            lambda: call(self._rng.choice(("=", "<", ">=")), ref(a), lit(str(self._rng.choice(UNITS)))),
            lambda: there(self._unit(rows, found)),
            lambda: call("is_null", ref(a)),
            lambda: self._exists(rows, found),
            lambda: self._member(rows, found),
        ]
        return self._rng.choice(kinds)()

    def _inner(self, rows: Relation, found: Owned) -> tuple[Relation, Owned]:
        """Rows of a subquery, most often those of the unit of the row around it."""
        inner, own = self.grow(self._rng.choice((0, 0, 1)))
        if self._rng.random() < 0.8:
            inner = where(inner, equal(self._unit(inner, own), self._unit(rows, found)))
        return inner, own

    def _exists(self, rows: Relation, found: Owned) -> Expr:
        return Exists("bool", self._inner(rows, found)[0], self._rng.random() < 0.4)

    def _member(self, rows: Relation, found: Owned) -> Expr:
        inner, own = self.grow(self._rng.choice((0, 1)))
        if self._rng.random() < 0.7:
            inner = where(inner, there(self._unit(inner, own)))
        pairs = [(self._any(rows), self._any(inner)), (self._unit(rows, found), self._unit(inner, own))]
        mine, theirs = zip(*pairs[self._rng.choice((0, 0, 1)) :], strict=True)
        return InQuery("bool", tuple(map(ref, mine)), inner, tuple(map(ref, theirs)), self._rng.random() < 0.5)

    def _computed(self, depth: int) -> Relation:
        child, found = self.grow(depth)
        a, b = self._any(child), self._unit(child, found)
        items: list[Expr] = [
            ref(b),
            call("+", ref(a), ref(self._any(child)), type_="int4"),
            Call("int4", "coalesce", (ref(a), ref(b))),
            Case("int4", ((call(">", ref(a), ONE), ref(b)),), None),
        ]
        if found.either is not None:
            sides = [next((c for c in child.columns if c.id in side), a) for side in found.either]
            items = [Call("int4", "coalesce", tuple(map(ref, sides)))]
        elif self._rng.random() < 0.3:
            new, (inner, _) = self._new("int8"), self._inner(child, found)
            aggregate = Aggregate((new,), inner, (), (Agg("int8", "count", ()),))
            items = [Scalar("int8", aggregate, ref(new))]
        item = self._rng.choice(items)
        return Project((self._new(item.type), *child.columns), child, (item,))

    def _numbered(self, depth: int) -> Relation:
        child, found = self.grow(depth)
        order = tuple((ref(c), self._rng.random() < 0.5, False) for c in child.columns)
        partition = [self._unit(child, found), *([self._any(child)] if self._rng.random() < 0.3 else [])]
        window = Win("int8", "row_number", (), tuple(map(ref, partition)), order)
        return Project((self._new("int8"), *child.columns), child, (window,))

    def _joined(self, depth: int) -> Relation:
        (left, mine), (right, theirs) = self.grow(depth), self.grow(self._rng.choice((0, depth)))
        on = [equal(self._unit(left, mine), self._unit(right, theirs))]
        ways = [(way[0], i) for a, b in ((mine, theirs), (theirs, mine)) for way in ([a.way] if a.way else [])
                for i, source, name in b.origins if (source, name) == (way[1].target, way[1].key)]  # fmt: skip
        if ways:
            known = {c.id: c for c in (*left.columns, *right.columns)}
            on = [equal(known[a], known[b]) for a, b in ways[:1] if a in known and b in known] or on
        if self._rng.random() < 0.4:
            on.append(equal(self._any(left), self._any(right)))
        if self._rng.random() < 0.2:
            on.append(call(">", ref(self._any(right)), ONE))
        kind = self._rng.choice(("inner", "inner", "left", "left", "left", "full"))
        return joined(kind, left, right, *on)

    def _keys(self, child: Relation, found: Owned) -> list[Column]:
        return list(dict.fromkeys([self._unit(child, found), *(self._any(child) for _ in range(self._rng.choice((0, 0, 1, 2))))]))

    def _grouped(self, depth: int) -> Relation:
        child, found = self.grow(depth)
        keys = self._keys(child, found)
        agg = self._rng.choice([Agg("int8", "count", ()), Agg("int4", "min", (ref(self._any(child)),))])
        return Aggregate((*(self._new(k.type) for k in keys), self._new(agg.type)), child, tuple(map(ref, keys)), (agg,))

    def _alone(self, child: Relation, keys: list[Column]) -> Project:
        return Project(tuple(self._new(k.type) for k in keys), child, tuple(map(ref, keys)))

    def _distinct(self, depth: int) -> Relation:
        child, found = self.grow(depth)
        rows = self._alone(child, self._keys(child, found))
        return Distinct(rows.columns, rows)

    def _both(self, depth: int) -> Relation:
        (left, mine), (right, theirs) = self.grow(depth), self.grow(depth)
        sides = tuple(self._alone(t, [self._unit(t, f), self._any(t)]) for t, f in ((left, mine), (right, theirs)))
        columns = (self._new("int8"), self._new("int8"))
        return Union(columns, sides, self._rng.choice(("union all", "union all", "intersect", "except", "except all")))


def relations(node: Relation) -> Iterator[Relation]:
    """Yield a relation and those it is made of, subqueries left out."""
    yield node
    match node:
        case Filter(child=child) | Project(child=child) | Aggregate(child=child) | Distinct(child=child):
            yield from relations(child)
        case Join(left=left, right=right):
            yield from relations(left)
            yield from relations(right)
        case Union(children=children):
            for child in children:
                yield from relations(child)


class World:
    """Holds data at random, with NULLs and rows of nobody: all of it (unit None), and of each unit what is its own; `most`: rows
    of that in any table."""

    def __init__(self, rng: random.Random) -> None:
        def some() -> int | None:
            return rng.choice((None, 1, 1, 2, 3, 4))

        people = [(unit, some(), some()) for unit in UNITS if rng.random() < 0.8]
        orders = [(i if rng.random() < 0.9 else None, some(), some()) for i in range(1, rng.randint(3, 9))]
        items = [(rng.choice((None, *range(1, 9))), some()) for _ in range(rng.randint(0, 9))]
        regions = [(some(), i if i < 3 else None) for i in range(rng.randint(0, 4))]
        sales = rng.choice((1, 2, 3))
        regions = [(id_, None if sold is None else sold // sales) for id_, sold in regions]
        self.orders = {unit: {id_ for id_, person, _ in orders if person == unit} - {None} for unit in UNITS}
        self.of: dict[int | None, duckdb.DuckDBPyConnection] = {}
        self.most: dict[int | None, int] = {}
        for unit in (None, *UNITS):
            mine = [unit] if unit is not None else [*UNITS, None]
            own = {id_ for id_, person, _ in orders if person in mine} - {None}
            self.of[unit] = connection = duckdb.connect(config={"threads": 1})
            private: list[tuple[str, str, list[tuple[Any, ...]]]] = [
                ("people", "id, nick, home", [p for p in people if p[0] in mine]),
                ("orders", "id, person, size", [o for o in orders if o[1] in mine]),
                ("items", "order_id, item", [i for i in items if unit is None or i[0] in own]),
            ]
            self.most[unit] = max(1, *(len(rows) for _, _, rows in private))
            for table, columns, rows in (*private, ("regions", "id, sales", regions)):
                connection.execute(f"CREATE TABLE {table} ({columns.replace(',', ' INT,')} INT)")
                if rows:
                    marks = ", ".join("?" * len(rows[0]))
                    connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)

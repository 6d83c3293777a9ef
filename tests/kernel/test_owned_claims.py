"""What the kernel derives of a relation is true of data: of generated relations, each claim is held against their rows.

The rows of a unit are those that its own database gives; one row a unit, constants, equal columns, numbers, columns without NULL
and columns that name a table's row are looked up; rows are counted.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from dpproxy.engines import engine
from dpproxy.engines.relations import Renderer
from dpproxy.kernel.growth import Growth
from dpproxy.kernel.leaves import Unproven
from dpproxy.kernel.owned import Owned
from dpproxy.kernel.shares import Size
from dpproxy.tree.expr import Relation
from tests.kernel.small_tables import LEAVES
from tests.kernel.small_trees import UNITS, Trees, World, relations

Rows = list[tuple[object, ...]]


def sql(tree: Relation) -> str:
    renderer = Renderer(engine("duckdb"))
    block = renderer.block(tree)
    return renderer.select(block, [block.names[c.id] for c in tree.columns])


def grown(tree: Relation) -> Size | None:
    """How far a relation's share of a unit grows; None for one that grows too far."""
    try:
        return Growth(LEAVES, {}).of(tree).size
    except Unproven:
        return None


def wrong(tree: Relation, found: Owned, growth: Size | None, world: World, text: str) -> str | None:
    """Return the claim that the data contradict."""
    rows: Rows = world.of[None].execute(text).fetchall()
    place = {c.id: i for i, c in enumerate(tree.columns)}

    def at(ids: frozenset[int]) -> list[int]:
        return [place[i] for i in ids if i in place]

    if any(row[i] is None for row in rows for i in at(found.present)):
        return "present"
    if any(len({row[i] for i in at(same)}) > 1 for row in rows for same in found.equal):
        return "equal"
    for unit in UNITS:
        alone: Rows = world.of[unit].execute(text).fetchall()
        if growth is not None and len(alone) > growth.times * world.most[unit] ** growth.power:
            return "growth"
        for owner in at(found.owner):
            mine = [row for row in rows if row[owner] == unit]
            if Counter(mine) != Counter(row for row in alone if row[owner] == unit):
                return "owner"
            if found.one and len(mine) > 1:
                return "one"
            if any(len({row[i] for row in mine}) > 1 for i in at(found.constant)):
                return "constant"
            if any(len({row[i] for row in mine}) < len(mine) for i in at(found.numbers)):
                return "numbers"
            named = {(source, name): place[i] for i, source, name in found.origins if i in place}
            orders = named.get((("main", "orders"), "id"))
            if orders is not None and {row[orders] for row in mine} - {None} - world.orders[unit]:
                return "origins"
    return None


def held(seed: int, trees: int, worlds: int) -> Counter[str]:
    """Hold the claims of so many trees against data. Return how often each claim was made, and each relation was in a tree."""
    rng = random.Random(seed)
    grow, data = Trees(rng), [World(rng) for _ in range(worlds)]
    made: Counter[str] = Counter()
    for _ in range(trees):
        tree, found = grow.grow(rng.randint(1, 4))
        if not found.private or not found.owner & {c.id for c in tree.columns}:
            continue
        text = sql(tree)
        made.update(type(node).__name__ for node in relations(tree))
        made.update(name for name in ("one", "constant", "present", "equal", "numbers", "origins") if getattr(found, name))
        growth = grown(tree)
        made.update([f"power {growth.power}" if growth is not None else "too large"])
        claim = wrong(tree, found, growth, rng.choice(data), text)
        assert claim is None, f"{claim}: {found} of {text}"
    return made


def test_what_is_derived_is_true() -> None:
    made = held(1, 250, 6)
    assert (
        min(
            made[n]
            for n in (
                "Join",
                "Filter",
                "Project",
                "Aggregate",
                "Distinct",
                "Union",
                "one",
                "numbers",
                "origins",
                "power 1",
                "power 2",
            )
        )
        > 9
    )


@pytest.mark.long
def test_what_is_derived_is_true_of_many() -> None:
    for seed in range(2, 42):
        held(seed, 1000, 20)

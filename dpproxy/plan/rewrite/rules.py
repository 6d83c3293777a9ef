"""The rules that write a refused statement another way, in the order in which they are tried.

Knows: the rules. Must not know: binding, engines, what was refused. A statement that is refused as it stands may mean the same as
one that is not: each rule knows one such way of writing, and changes the tree in place where it meets it, to one with the same
rows. A rule runs behind the first refusal only, since it may change what a statement costs, or the words it is refused with. A
new rule: a file with one function `apply`, a line in `RULES`, and before/after cases in `tests/plan/fixtures/rewrite`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from dpproxy.plan.known_tables import KnownTables
from dpproxy.plan.rewrite import (
    anti_join_counts,
    cast_keys,
    first_rows,
    grouped_exists,
    lateral_expressions,
    lateral_lookups,
    mixed_unions,
    named_windows,
    parenthesised_joins,
    parts_of_texts,
    percentile_by_rank,
    recursion_levels,
    shared_conditions,
    symmetric_aggregates,
    void_offsets,
)
from dpproxy.sql.effort import step

Rule = Callable[[exp.Expr, KnownTables], bool]
"""Rewrites a tree in place, and says whether it did."""

RULES: Final[tuple[tuple[str, Rule], ...]] = (
    # Anywhere: it changes no row, and no other rule reads OFFSET. First, so that others see plain subqueries.
    ("void_offsets", void_offsets.apply),
    # Before all others: what a window is partitioned by is then where they look for it.
    ("named_windows", named_windows.apply),
    # Before all that look for equal columns, or for what is grouped and parted by.
    ("cast_keys", cast_keys.apply),
    # Before what reads conditions: those that every row satisfies then stand by themselves.
    ("shared_conditions", shared_conditions.apply),
    # While the items of FROM have the names that it looks for; what it moves into a subquery is rewritten there.
    ("symmetric_aggregates", symmetric_aggregates.apply),
    # Before what moves conditions: it reads a condition where it stands, and puts another one there.
    ("grouped_exists", grouped_exists.apply),
    # First of those that change FROM: all others look at the items of FROM one after the other, and see none inside parentheses.
    ("parenthesised_joins", parenthesised_joins.apply),
    # Before the rules of LATERAL, which do not know what has a row for each part.
    ("parts_of_texts", parts_of_texts.apply),
    # Before `lateral_lookups`, which writes the items that it makes.
    ("first_rows", first_rows.apply),
    # Before `lateral_lookups`: what can be put where its name stands needs no join.
    ("lateral_expressions", lateral_expressions.apply),
    # It reads a form that no other rule makes or takes: it stands among those that change items of FROM.
    ("percentile_by_rank", percentile_by_rank.apply),
    # Behind the other kind of LATERAL.
    ("lateral_lookups", lateral_lookups.apply),
    # Behind what changes items of FROM: it copies whole branches of a union, which are in their last form then.
    ("mixed_unions", mixed_unions.apply),
    # Behind what looks for forms: it copies a query's joins and conditions into counts of its own, which others need not see.
    ("anti_join_counts", anti_join_counts.apply),
    # Last: it copies a part of a query many times, which is in its last form then, and others would not know what levels read.
    ("recursion_levels", recursion_levels.apply),
)

OF_RULE: Final = 10
"""Steps of a rule that goes through a statement's tree (`sql.effort`)."""


def rewritten(tree: exp.Expr, tables: KnownTables) -> tuple[str, ...]:
    """Apply each rule once, in order, and return the names of those that changed the tree."""
    changed = []
    for name, rule in RULES:
        step(OF_RULE)
        if rule(tree, tables):
            changed.append(name)
    return tuple(changed)

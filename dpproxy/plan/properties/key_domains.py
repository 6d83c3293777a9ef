"""Declared domains of group keys: which groups can exist, from policy and public tables alone.

Knows: declared values, ranges, public scans, the conditions every row satisfies. Must not know: private data, engines. If every
key is a function of declared columns, the possible groups are enumerated by the engine from constants and public tables;
all of them are returned, so that existence of a group says nothing (PRIVACY.md section 3, Keys).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.properties import cardinality
from dpproxy.plan.properties.domain_count import groups_of
from dpproxy.plan.properties.domain_parts import Part, Parts, is_declared, values
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.key_origins import constants_in, expanded, local_days, over_computed, standing
from dpproxy.plan.properties.narrowing import may_be_null, outcomes, present, results
from dpproxy.sql.types import INTEGERS, NUMBERS
from dpproxy.tree.expr import (
    Call,
    Case,
    Cast,
    Column,
    Expr,
    Lit,
    Ref,
    SeriesDomain,
    ValuesDomain,
    has_subquery,
    rebuilt,
    references,
)
from dpproxy.tree.measured import Declared
from dpproxy.tree.relation import Public, Rows, Scan

MAX_CELLS = 200_000  # groups of an answer that is returned whole, empty ones included
MAX_INPUTS = 2_000_000  # declared values an engine enumerates to find the groups there can be: well under a second
MAX_WHOLE = 1_000  # values of a computed key beyond which most groups would be empty
MAX_BESIDE_TABLE = 1_000  # declared values beside the keys of a public table, whose size the plan does not know


@dataclass(frozen=True)
class Dense:
    """The possible groups: the product of the parts. `sizes`: upper bounds of how many there are of each, None if not known;
    `fixed`: whether they hold whatever public tables become. `computed`: columns of the parts that are no columns of a table, by
    the expressions they stand for. `untried`: a condition would have to be tried on too many combinations."""

    parts: tuple[Part, ...]
    sizes: tuple[int | None, ...]
    fixed: bool
    width: int
    computed: tuple[tuple[Expr, Column], ...] = ()
    untried: bool = False

    @property
    def size(self) -> int | None:
        """Return an upper bound of the number of groups that the policy and the statement fix, None where they fix none."""
        return self.expected if self.fixed else None

    @property
    def expected(self) -> int | None:
        """Return the number of groups at most, with public tables as they were last seen; None where that is not known."""
        known = [size for size in self.sizes if size is not None]
        return prod(known) if len(known) == len(self.sizes) else None

    @cached_property
    def declared(self) -> Declared:
        """The groups as a node of the tree."""
        return Declared(tuple(part.declared for part in self.parts), self.width)


def dense_domain(keys: Sequence[Expr], rows: Rows) -> Dense | None:
    """The domain of a grouping, None when some key is not declared or there are too many groups."""
    found = _domain(keys, rows)
    return found if found is not None and _fits(found) else None


def too_many(keys: Sequence[Expr], rows: Rows) -> bool:
    """Tell whether all keys are declared, and their groups more than are listed."""
    found = _domain(keys, rows)
    return found is not None and not _fits(found)


def _domain(keys: Sequence[Expr], rows: Rows) -> Dense | None:
    scans = {s.number: s for s in rows.publics}
    conditions = tuple(dict.fromkeys(constants_in(expanded(c)) for c in rows.conditions))
    clocks: dict[Expr, Column] = {}
    keys = [_on_local_days(expanded(key), clocks, conditions) for key in keys]
    whole: dict[Expr, Column] = dict(clocks)
    computing = _Computing(scans, conditions, present(conditions), whole)
    keys = [computing.by_known_values(key) for key in keys]
    for key in keys:
        if has_subquery(key) or not all(is_declared(c, scans, key) for c in references(key)):
            return None
    conditions = tuple(dict.fromkeys((*conditions, *(over_computed(c, whole) for c in conditions)))) if whole else conditions
    making = Parts(replace(rows, conditions=conditions), scans)
    parts = making.of(keys)
    sizes, fixed = tuple(map(_size, parts)), all(part.stays for part in parts)
    return Dense(tuple(parts), sizes, fixed, len(keys), tuple(whole.items()), making.untried)


def _fits(dense: Dense) -> bool:
    """Whether there are no more groups than an answer may have: a product of public tables may be larger than any. Of one public
    table alone the plan need not know how many rows it has, nor how few of its values differ."""
    if any((part.tried or 0) > MAX_INPUTS for part in dense.parts):
        return False  # a key of two long ranges: the engine would try every pair
    if dense.expected is not None and dense.expected <= MAX_CELLS:
        return True
    declared = [size for part, size in zip(dense.parts, dense.sizes, strict=True) if size is not None and part.stays]
    return len(dense.parts) - len(declared) == 1 and prod(declared) <= MAX_BESIDE_TABLE


def _on_local_days(key: Expr, clocks: dict[Expr, Column], conditions: Sequence[Expr]) -> Expr:
    """The key with each time on another zone's clock replaced by a column of the days there are on it. `clocks`: those so far."""
    days = local_days(key, conditions)
    if days is not None:
        number = -1 - len(clocks)
        return Ref(key.type, clocks.setdefault(key, Column(number, "clock", key.type, nullable=days.nulls, domain=days)))
    return rebuilt(key, lambda e: _on_local_days(e, clocks, conditions))


@dataclass(frozen=True)
class _Computing:
    """Parts of keys that are computed of columns without usable declared values, in rows that satisfy the conditions; columns
    that are `present` are not NULL in them. `known`: columns of the values of such parts so far."""

    scans: dict[int, Scan | Public]
    conditions: Sequence[Expr]
    present: frozenset[int]
    known: dict[Expr, Column]

    def by_known_values(self, key: Expr) -> Expr:
        """The key with each FLOOR(amount / 100), CASE of constants and their like replaced by a column of the few values it can
        have: what is computed from it then has a domain."""
        column = self.known.get(key) or self._known_column(key, -1 - len(self.known))
        if column is not None:
            self.known[key] = column
            return standing(column, key.type)
        return rebuilt(key, self.by_known_values) if isinstance(key, Call | Cast | Case) else key

    def _can_be_tried(self, expr: Expr) -> bool:
        """Whether its values are found by trying those that its columns declare."""
        read = set(references(expr))
        declared = all(is_declared(c, self.scans, expr) for c in read)
        return declared and prod(values(c.domain) for c in read if c.domain is not None) <= MAX_INPUTS

    def _known_column(self, expr: Expr, number: int) -> Column | None:
        """A column of all values of `expr`, numbered below those of the query; None when they are many, or declared already."""
        if not references(expr) or has_subquery(expr) or self._can_be_tried(expr):
            return None
        if isinstance(expr, Case):
            can = [r if r is not None else Lit(expr.type, None) for r in results(expr, self.conditions)]
            if not all(isinstance(r, Lit) for r in (*(r for _, r in expr.whens), *can)):
                return None
            texts = tuple(dict.fromkeys(r.text for r in can if isinstance(r, Lit)))
            return Column(number, "case", expr.type, nullable=None in texts, domain=ValuesDomain(texts))
        if expr.type == "bool" and not isinstance(expr, Ref):
            can_be = outcomes(expr, self.conditions)
            texts = tuple(text for text, o in (("true", True), ("false", False), (None, None)) if o in can_be)
            return Column(number, "test", "bool", nullable=None in can_be, domain=ValuesDomain(texts))
        whole = isinstance(expr, Call) and operation(expr.op).dense
        if not (whole or (isinstance(expr, Cast) and expr.type in INTEGERS)) or expr.type not in NUMBERS:
            return None
        bound, grid = facts(expr).bound, facts(expr).grid
        if grid != 1 or not bound.closed:
            return None
        lo, hi = (x.__floor__() for x in bound.ends)
        if hi - lo >= MAX_WHOLE:
            return None
        domain = SeriesDomain(lo, hi, "int", may_be_null(expr, self.present, declared=True))
        return Column(
            number, "whole", "int8", bound, grid, nullable=may_be_null(expr, self.present), domain=domain, undeclared=True
        )


def _size(part: Part) -> int | None:
    """No more groups than combinations of what keys are made of, nor than keys have values by their forms (`cardinality`), nor
    than conditions on several sources leave."""
    outputs = [cardinality.most_values(key, part.columns, part.conditions) for _, key in part.keys]
    known = [n for n in outputs if n is not None]
    counted = groups_of(part.declared) if len(part.columns) + len(part.scans) > 1 and part.conditions else None
    bounds = [part.reached, prod(known) if len(known) == len(outputs) else None, counted]
    return min((max(n, 1) for n in bounds if n is not None), default=None)

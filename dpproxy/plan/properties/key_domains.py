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
from dpproxy.plan.operations.operation import Nulls
from dpproxy.plan.properties import cardinality
from dpproxy.plan.properties.domain_count import groups_of
from dpproxy.plan.properties.domain_parts import Part, Parts, is_declared
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.key_origins import constants_in, expanded, local_days, over_computed, standing
from dpproxy.sql.types import INTEGERS, NUMBERS
from dpproxy.tree.expr import (
    Call,
    Case,
    Cast,
    Column,
    Expr,
    InList,
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
    keys = [_by_known_values(key, whole, scans) for key in keys]
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


def _by_known_values(key: Expr, known: dict[Expr, Column], scans: dict[int, Scan | Public]) -> Expr:
    """The key with each FLOOR(amount / 100), CASE of constants and their like, over columns without usable declared values,
    replaced by a column of the few values it can have: what is computed from it then has a domain. `known`: those replaced
    so far."""
    column = known.get(key) or _known_column(key, -1 - len(known), scans)
    if column is not None:
        known[key] = column
        return standing(column, key.type)
    if isinstance(key, Call):
        return Call(key.type, key.op, tuple(_by_known_values(a, known, scans) for a in key.args))
    if isinstance(key, Cast):
        return Cast(key.type, _by_known_values(key.arg, known, scans), key.length)
    if isinstance(key, Case):
        whens = tuple((_by_known_values(t, known, scans), _by_known_values(r, known, scans)) for t, r in key.whens)
        return Case(key.type, whens, _by_known_values(key.default, known, scans) if key.default is not None else None)
    return key


def _known_column(expr: Expr, number: int, scans: dict[int, Scan | Public]) -> Column | None:
    """A column of all values of `expr`, numbered below those of the query; None when they are many, or declared already."""
    if not references(expr) or has_subquery(expr) or all(is_declared(c, scans, expr) for c in references(expr)):
        return None
    if isinstance(expr, Case):
        results = [r for _, r in expr.whens] + [expr.default if expr.default is not None else Lit(expr.type, None)]
        if not all(isinstance(r, Lit) for r in results):
            return None
        texts = tuple(dict.fromkeys(r.text for r in results if isinstance(r, Lit)))
        return Column(number, "case", expr.type, nullable=None in texts, domain=ValuesDomain(texts))
    if expr.type == "bool" and not isinstance(expr, Ref):
        nulls = (None,) if _may_be_null(expr) else ()
        return Column(number, "test", "bool", nullable=bool(nulls), domain=ValuesDomain(("true", "false", *nulls)))
    whole = isinstance(expr, Call) and operation(expr.op).dense
    if not (whole or (isinstance(expr, Cast) and expr.type in INTEGERS)) or expr.type not in NUMBERS:
        return None
    bound, grid = facts(expr).bound, facts(expr).grid
    if grid != 1 or not bound.closed:
        return None
    lo, hi = (x.__floor__() for x in bound.ends)
    if hi - lo >= MAX_WHOLE:
        return None
    domain = SeriesDomain(lo, hi, "int", _may_be_null(expr, declared=True))
    return Column(number, "whole", "int8", bound, grid, nullable=_may_be_null(expr), domain=domain, undeclared=True)


def _may_be_null(expr: Expr, declared: bool = False) -> bool:
    """Whether the value may be NULL; where it is `declared`, whether NULL is declared of it: not where it could only come from
    a column with a declared range, whose NULLs the policy has not declared."""
    match expr:
        case Ref(column=column):
            undeclared = declared and facts(expr).bound.closed and not column.nulls
            return column.nullable and not undeclared
        case Lit(text=text):
            return text is None
        case Call(op=op, args=args):
            return _call_may_be_null(operation(op).nulls, args, declared)
        case InList(arg=arg, items=items):
            return any(_may_be_null(e, declared) for e in (arg, *items))
        case _:
            return True


def _call_may_be_null(nulls: Nulls, args: Sequence[Expr], declared: bool) -> bool:
    match nulls:
        case Nulls.NEVER:
            return False
        case Nulls.ALL:
            return all(_may_be_null(a, declared) for a in args)
        case Nulls.DIVISOR if any(not isinstance(d, Lit) or d.text in (None, "0") for d in args[1:]):
            return True
        case Nulls.OTHERS | Nulls.FIRST_OR_OTHERS:
            return True
        case Nulls.FIRST:
            return _may_be_null(args[0], declared)
        case _:
            return any(_may_be_null(a, declared) for a in args)


def _size(part: Part) -> int | None:
    """No more groups than combinations of what keys are made of, nor than keys have values by their forms (`cardinality`), nor
    than conditions on several sources leave."""
    outputs = [cardinality.most_values(key, part.columns, part.conditions) for _, key in part.keys]
    known = [n for n in outputs if n is not None]
    counted = groups_of(part.declared) if len(part.columns) + len(part.scans) > 1 and part.conditions else None
    bounds = [part.reached, prod(known) if len(known) == len(outputs) else None, counted]
    return min((max(n, 1) for n in bounds if n is not None), default=None)

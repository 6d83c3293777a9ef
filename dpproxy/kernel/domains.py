"""Declared groups: made of constants and public tables alone, and how many there are at most.

Knows: what is enumerated. Must not know: data, the planner's counts, how many values a function has. There are no more groups
than combinations of the values that are tried. That is often far from how many there are (days for a key of months); then the
number that a plan claims is not proved but counted, by `mechanisms.release`, before noise is drawn: the groups are the same
whatever private data there are, so that the count says nothing of these.
"""

from __future__ import annotations

from math import prod

from dpproxy.kernel.leaves import Unproven
from dpproxy.kernel.owned import Owned
from dpproxy.kernel.owners import Owners
from dpproxy.tree.expr import Domain, SeriesDomain, ValuesDomain
from dpproxy.tree.measured import Declared, DeclaredPart


def combinations(groups: Declared, owners: Owners, varying: frozenset[int]) -> int | None:
    """Return how many declared groups agree in all keys but the `varying` ones (by number), at most; None where a public table
    decides. Raises Unproven where groups are not made of constants and public tables."""
    sizes = [_part(part, owners, varying) for part in groups.parts]
    return None if None in sizes else prod(s for s in sizes if s is not None)


def _part(part: DeclaredPart, owners: Owners, varying: frozenset[int]) -> int | None:
    if any(owners.of(scan).private for scan in part.scans):
        raise Unproven("declared groups are read from a private table")
    for column, domain in part.columns:
        owners.columns.declared(column, domain)
    for stray in part.strays:
        owners.columns.given((stray.stray, *stray.tests), stray.rows)
    for condition in part.conditions:
        owners.expressions.condition(condition, Owned())
    for _, key in part.keys:
        owners.expressions.check(key, Owned())
    if not any(number in varying for number, _ in part.keys):
        return 1
    if part.scans:
        return None
    beside = {s.column.id: len(s.rows) for s in part.strays}
    return prod(_size(domain) + beside.get(column.id, 0) for column, domain in part.columns)


def _size(domain: Domain) -> int:
    match domain:
        case ValuesDomain(values=values):
            return len(values)
        case SeriesDomain():
            return domain.size
        case _:
            raise Unproven("declared groups of a table that is not read")

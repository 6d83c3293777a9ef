"""Every function of PostgreSQL that may run below a measurement, by name.

Knows: the builders of the files beside it, rows of the catalogue that are a function and nothing more. Must not know: engines.
What is not here is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.plan.functions import instants, numbers, patterns, scalars, text_parts, texts, time_formats, times
from dpproxy.plan.functions.plain import Builder, plain
from dpproxy.plan.operations import catalogue
from dpproxy.tree.expr import Expr

BUILDERS: dict[str, Builder] = {
    **scalars.FUNCTIONS,
    **text_parts.FUNCTIONS,
    **texts.FUNCTIONS,
    **numbers.FUNCTIONS,
    **times.FUNCTIONS,
    **time_formats.FUNCTIONS,
    **instants.FUNCTIONS,
    **patterns.FUNCTIONS,
}
"""Functions that take more than a row of the catalogue to build."""


def builder(name: str) -> Builder | None:
    """Return what builds calls of a function; None for one that is not allowed."""
    row = catalogue.function(name)
    return BUILDERS.get(name) or (plain(name, row) if row is not None else None)


def called(name: str, args: Sequence[Expr]) -> Expr:
    """Return a call of a function that is allowed. Raises Refusal for other arguments than it takes."""
    build = builder(name)
    assert build is not None, name
    return build(args)


def names() -> frozenset[str]:
    """Return the names of all functions that are allowed."""
    return frozenset(BUILDERS) | {name for name, _ in catalogue.functions()}

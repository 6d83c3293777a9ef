"""Interval arithmetic in SQL text: a formula, and two more that enclose it when each basis may be off by its half-width.

Knows: PostgreSQL's arithmetic, LEAST and GREATEST (which skip NULLs). Must not know: aggregates, noise. A text has fields
`{0}`.. for the released bases and `{h0}`.. for the half-widths of their intervals. If every bounded true basis lies in
its interval, the bounded true result lies between `low` and `high` (Moore 1966): each operation below encloses the results
of its operands' intervals, so compositions do. NULL as an end means that nothing is known on that side.

`free` is the formula without the clamps to what is feasible: a standard error is the spread of what was drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Text = Callable[[str], str]


@dataclass(frozen=True)
class Range:
    """`partial`: an end may be NULL."""

    value: str
    low: str
    high: str
    free: str
    partial: bool = False


def basis(index: int) -> Range:
    """A released basis."""
    x, h = f"{{{index}}}", f"{{h{index}}}"
    return Range(x, f"({x} - {h})", f"({x} + {h})", x)


def constant(text: str) -> Range:
    return Range(text, text, text, text)


def rising(a: Range, f: Text) -> Range:
    """A function that never falls, and yields NULL for NULL."""
    return Range(f(a.value), f(a.low), f(a.high), f(a.free), a.partial)


def clamped(a: Range, low: str, high: str) -> Range:
    """Held within constants: an end of which nothing is known becomes the constant."""

    def held(x: str) -> str:
        return f"LEAST(GREATEST({x}, {low}), {high})"

    return Range(held(a.value), held(a.low), f"GREATEST(LEAST({a.high}, {high}), {low})", a.free)


def at_least(a: Range, low: str) -> Range:
    """Not below a constant, in `free` too: what follows is not defined there."""
    return rising(a, lambda x: f"GREATEST({x}, {low})")


def plus(a: Range, b: Range) -> Range:
    return Range(
        f"({a.value} + {b.value})",
        f"({a.low} + {b.low})",
        f"({a.high} + {b.high})",
        f"({a.free} + {b.free})",
        a.partial or b.partial,
    )


def minus(a: Range, b: Range) -> Range:
    return Range(
        f"({a.value} - {b.value})",
        f"({a.low} - {b.high})",
        f"({a.high} - {b.low})",
        f"({a.free} - {b.free})",
        a.partial or b.partial,
    )


def negated(a: Range) -> Range:
    return Range(f"(- {a.value})", f"(- {a.high})", f"(- {a.low})", f"(- {a.free})", a.partial)


def _known(text: str, *parts: Range) -> str:
    """NULL as soon as one end is: LEAST and GREATEST alone would pass over it."""
    ends = [end for p in parts if p.partial for end in (p.low, p.high)]
    return f"CASE WHEN {' AND '.join(f'{e} IS NOT NULL' for e in ends)} THEN {text} END" if ends else text


def times(a: Range, b: Range) -> Range:
    corners = ", ".join(f"{x} * {y}" for x in (a.low, a.high) for y in (b.low, b.high))
    low, high = _known(f"LEAST({corners})", a, b), _known(f"GREATEST({corners})", a, b)
    return Range(f"({a.value} * {b.value})", low, high, f"({a.free} * {b.free})", a.partial or b.partial)


def growing(a: Range, b: Range) -> Range:
    """The product of two that are not negative."""
    low, high = _known(f"{a.low} * {b.low}", a, b), _known(f"{a.high} * {b.high}", a, b)
    return Range(f"{a.value} * {b.value}", low, high, f"{a.free} * {b.free}", a.partial or b.partial)


def scaled(a: Range, factor: str) -> Range:
    """Times a positive constant."""
    return rising(a, lambda x: f"{x} * {factor}")


def squared(a: Range) -> Range:
    low = f"power(GREATEST({a.low}, - {a.high}, 0), 2)"
    high = _known(f"power(GREATEST(- {a.low}, {a.high}), 2)", a)
    return Range(f"power({a.value}, 2)", low, high, f"power({a.free}, 2)", a.partial)


def over(a: Range, n: Range) -> Range:
    """Divided by what is positive, its low end too."""
    low = _known(f"LEAST({a.low} / {n.low}, {a.low} / {n.high})", a, n)
    high = _known(f"GREATEST({a.high} / {n.low}, {a.high} / {n.high})", a, n)
    return Range(f"({a.value} / {n.value})", low, high, f"({a.free} / {n.free})", a.partial or n.partial)


def divided(a: Range, b: Range) -> Range:
    """Divided by anything: NULL when the divisor is 0, nothing known when its interval holds 0."""
    corners = ", ".join(f"{x} / NULLIF({y}, 0)" for x in (a.low, a.high) for y in (b.low, b.high))
    sure = f"{b.low} > 0 OR {b.high} < 0"
    low, high = (_known(f"CASE WHEN {sure} THEN {f}({corners}) END", a, b) for f in ("LEAST", "GREATEST"))
    return Range(f"({a.value} / NULLIF({b.value}, 0))", low, high, f"({a.free} / NULLIF({b.free}, 0))", True)

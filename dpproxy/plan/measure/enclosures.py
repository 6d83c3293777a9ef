"""Interval arithmetic in SQL text: a formula, and two more that enclose it when each basis may be off by its half-width.

Knows: PostgreSQL's arithmetic, LEAST and GREATEST (which skip NULLs). Must not know: aggregates, noise. A text has fields
`{0}`.. for the released bases and `{h0}`.. for the half-widths of their intervals. If every bounded true basis lies in
its interval, the bounded true result lies between `low` and `high` (Moore 1966): each operation below encloses the results
of its operands' intervals, so compositions do. NULL as an end means that nothing is known on that side.

`free` is the formula without the clamps to what is feasible: a standard error is the spread of what was drawn.

Enclosures repeat their operands; `named` gives one a name, so that a text grows with the number of operations and not
with its power; `end` writes what they stand for in front, a row of lateral columns each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal

Text = Callable[[str], str]
Step = tuple[str, str, str, str]  # name, low, high, free


@dataclass(frozen=True)
class Range:
    """A range holds formulas of a value and of its ends. `partial`: an end may be NULL. `steps`: names that `low`, `high` and
    `free` use; `value` uses none. A name has the field `{p}`, to tell two formulas in one expression apart."""

    value: str
    low: str
    high: str
    free: str
    partial: bool = False
    steps: tuple[Step, ...] = ()


def named(a: Range) -> Range:
    """Return the same range by a name of its own (of its text, so that equal ones have one name)."""
    name = f"r{{p}}_{sha256(repr((a.low, a.high, a.free)).encode()).hexdigest()[:8]}"
    step = (name, a.low, a.high, a.free)
    return Range(a.value, f"{name}.low", f"{name}.high", f"{name}.free", a.partial, (*a.steps, step))


def end(a: Range, which: Literal["low", "high", "free"]) -> str:
    """Write one end as an expression by itself. OFFSET 0 keeps PostgreSQL from writing the names out again."""
    found = {"low": a.low, "high": a.high, "free": a.free}[which]
    if not a.steps:
        return found
    rows = []
    for name, low, high, free in a.steps:
        items = f"{free} AS free" if which == "free" else f"{low} AS low, {high} AS high"
        rows.append(f"(SELECT {items} OFFSET 0) AS {name}")
    return f"(SELECT {found} FROM {' CROSS JOIN LATERAL '.join(rows)})"


def _joined(*parts: Range) -> tuple[Step, ...]:
    return tuple(dict.fromkeys(step for p in parts for step in p.steps))


def basis(index: int) -> Range:
    """Enclose a released basis."""
    x, h = f"{{{index}}}", f"{{h{index}}}"
    return Range(x, f"({x} - {h})", f"({x} + {h})", x)


def constant(text: str) -> Range:
    return Range(text, text, text, text)


def rising(a: Range, f: Text) -> Range:
    """Apply a function that never falls, and yields NULL for NULL."""
    return replace(a, value=f(a.value), low=f(a.low), high=f(a.high), free=f(a.free))


def clamped(a: Range, low: str, high: str) -> Range:
    """Hold a range within constants: an end of which nothing is known becomes the constant."""

    def held(x: str) -> str:
        return f"LEAST(GREATEST({x}, {low}), {high})"

    return Range(held(a.value), held(a.low), f"GREATEST(LEAST({a.high}, {high}), {low})", a.free, False, a.steps)


def at_least(a: Range, low: str) -> Range:
    """Keep a range from going below a constant, in `free` too: what follows is not defined there."""
    return rising(a, lambda x: f"GREATEST({x}, {low})")


def among(a: Range, count: Range, least: int) -> Range:
    """Write NULL among fewer than `least` values: SQL has no average of nothing, and no sample variance of one value."""
    return replace(a, value=f"CASE WHEN {count.value} >= {least} THEN {a.value} END")


def plus(a: Range, b: Range) -> Range:
    low, high = f"({a.low} + {b.low})", f"({a.high} + {b.high})"
    return Range(f"({a.value} + {b.value})", low, high, f"({a.free} + {b.free})", a.partial or b.partial, _joined(a, b))


def minus(a: Range, b: Range) -> Range:
    low, high = f"({a.low} - {b.high})", f"({a.high} - {b.low})"
    return Range(f"({a.value} - {b.value})", low, high, f"({a.free} - {b.free})", a.partial or b.partial, _joined(a, b))


def negated(a: Range) -> Range:
    return replace(a, value=f"(- {a.value})", low=f"(- {a.high})", high=f"(- {a.low})", free=f"(- {a.free})")


def _known(text: str, *parts: Range) -> str:
    """NULL as soon as one end is: LEAST and GREATEST alone would pass over it."""
    ends = [end for p in parts if p.partial for end in (p.low, p.high)]
    return f"CASE WHEN {' AND '.join(f'{e} IS NOT NULL' for e in ends)} THEN {text} END" if ends else text


def times(a: Range, b: Range) -> Range:
    corners = ", ".join(f"{x} * {y}" for x in (a.low, a.high) for y in (b.low, b.high))
    low, high = _known(f"LEAST({corners})", a, b), _known(f"GREATEST({corners})", a, b)
    return Range(f"({a.value} * {b.value})", low, high, f"({a.free} * {b.free})", a.partial or b.partial, _joined(a, b))


def growing(a: Range, b: Range) -> Range:
    """Multiply two ranges that are not negative."""
    low, high = _known(f"{a.low} * {b.low}", a, b), _known(f"{a.high} * {b.high}", a, b)
    return Range(f"{a.value} * {b.value}", low, high, f"{a.free} * {b.free}", a.partial or b.partial, _joined(a, b))


def scaled(a: Range, factor: str) -> Range:
    """Multiply a range by a positive constant."""
    return rising(a, lambda x: f"{x} * {factor}")


def squared(a: Range) -> Range:
    low = f"power(GREATEST({a.low}, - {a.high}, 0), 2)"
    high = _known(f"power(GREATEST(- {a.low}, {a.high}), 2)", a)
    return replace(a, value=f"power({a.value}, 2)", low=low, high=high, free=f"power({a.free}, 2)")


def over(a: Range, n: Range) -> Range:
    """Divided by what is positive, its low end too."""
    low = _known(f"LEAST({a.low} / {n.low}, {a.low} / {n.high})", a, n)
    high = _known(f"GREATEST({a.high} / {n.low}, {a.high} / {n.high})", a, n)
    return Range(f"({a.value} / {n.value})", low, high, f"({a.free} / {n.free})", a.partial or n.partial, _joined(a, n))


def divided(a: Range, b: Range) -> Range:
    """Divide a range by anything: NULL when the divisor is 0, nothing known when its interval holds 0."""
    corners = ", ".join(f"{x} / NULLIF({y}, 0)" for x in (a.low, a.high) for y in (b.low, b.high))
    sure = f"{b.low} > 0 OR {b.high} < 0"
    low, high = (_known(f"CASE WHEN {sure} THEN {f}({corners}) END", a, b) for f in ("LEAST", "GREATEST"))
    return Range(f"({a.value} / NULLIF({b.value}, 0))", low, high, f"({a.free} / NULLIF({b.free}, 0))", True, _joined(a, b))

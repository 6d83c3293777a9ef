"""Interval arithmetic in SQL text: a formula, and two more that enclose it when each basis may be off by some width.

Knows: PostgreSQL's arithmetic, LEAST and GREATEST (which skip NULLs). Must not know: aggregates, noise. A text has fields
`{0}`.. for the released bases, `{g0}`.. for how far the true basis may be below, `{h0}`.. for how far it may be above, and
`{n0}`.. for noise alone. A width is NULL where nothing is known, since bounds may have cut (`ends.column_ends`). If every
true basis lies in its interval, the true result lies between `low` and `high` (Moore 1966): each operation below encloses the
results of its operands' intervals, so compositions do. NULL as an end means that nothing is known on that side; no operation
may take such an end for a number, as LEAST and GREATEST do.

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
Needs = frozenset[str]
NONE: Needs = frozenset()


@dataclass(frozen=True)
class Range:
    """A range holds formulas of a value and of its ends. `partial`: an end may be NULL. `steps`: names that `low`, `high` and
    `free` use; `value` uses none. A name has the field `{p}`, to tell two formulas in one expression apart. `positive`: the
    true value is not negative, whatever is known of its low end. `low_needs`, `high_needs`: the widths (g0, h1) of which one
    that is NULL makes that end NULL."""

    value: str
    low: str
    high: str
    free: str
    partial: bool = False
    steps: tuple[Step, ...] = ()
    positive: bool = False
    low_needs: Needs = NONE
    high_needs: Needs = NONE

    @property
    def needs(self) -> Needs:
        """Return the widths that both ends together need."""
        return self.low_needs | self.high_needs


def named(a: Range) -> Range:
    """Return the same range by a name of its own (of its text, so that equal ones have one name)."""
    name = f"r{{p}}_{sha256(repr((a.low, a.high, a.free)).encode()).hexdigest()[:8]}"
    step = (name, a.low, a.high, a.free)
    return replace(a, low=f"{name}.low", high=f"{name}.high", free=f"{name}.free", steps=(*a.steps, step))


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
    x = f"{{{index}}}"
    needs = frozenset((f"g{index}",)), frozenset((f"h{index}",))
    return Range(x, f"({x} - {{g{index}}})", f"({x} + {{h{index}}})", x, True, (), False, *needs)


def noisy(index: int) -> Range:
    """Enclose what a released basis would be without noise, whatever bounds have cut."""
    x, n = f"{{{index}}}", f"{{n{index}}}"
    return Range(x, f"({x} - {n})", f"({x} + {n})", x)


def positive_part(a: Range) -> Range:
    """Show what is not negative as 0 where noise took it below. Its high end is as far above what is shown as it was above what
    was drawn: one that noise took far below 0 would be told as exactly 0 otherwise. `free` is as it was drawn."""
    value = f"GREATEST({a.value}, 0)"
    high = _known(f"({value} + ({a.high} - {a.value}))", a.high)
    return replace(a, value=value, low=f"GREATEST({a.low}, 0)", high=high, positive=True, low_needs=NONE)


def count(index: int) -> Range:
    """Enclose a released count: see `positive_part`."""
    x = basis(index)
    value = f"GREATEST({x.value}, 0)"
    return Range(value, f"GREATEST({x.low}, 0)", f"({value} + {{h{index}}})", x.free, True, (), True, NONE, x.high_needs)


def constant(text: str) -> Range:
    return Range(text, text, text, text)


def rising(a: Range, f: Text) -> Range:
    """Apply a function that never falls, and yields NULL for NULL."""
    return replace(a, value=f(a.value), low=f(a.low), high=f(a.high), free=f(a.free))


def clamped(a: Range, low: str, high: str, sure: tuple[bool, bool] = (True, True)) -> Range:
    """Hold a range within constants: an end of which nothing is known becomes the constant. A constant that is no fact of the
    true value (`sure`: of the low one, of the high one) holds nothing."""

    def held(x: str) -> str:
        return f"LEAST(GREATEST({x}, {low}), {high})"

    if not all(sure):
        found = at_least(a, low) if sure[0] else at_most(a, high) if sure[1] else a
        return replace(found, free=a.free)
    above = f"GREATEST(LEAST({a.high}, {high}), {low})"
    return Range(held(a.value), held(a.low), above, a.free, False, a.steps, a.positive)


def at_least(a: Range, low: str) -> Range:
    """Keep a range from going below a constant, in `free` too: what follows is not defined there."""
    found = replace(rising(a, lambda x: f"GREATEST({x}, {low})"), low_needs=NONE)
    return replace(found, high=_known(found.high, a.high)) if a.partial else found


def at_most(a: Range, high: str) -> Range:
    """Keep a range from going above a constant."""
    found = replace(rising(a, lambda x: f"LEAST({x}, {high})"), high_needs=NONE)
    return replace(found, low=_known(found.low, a.low)) if a.partial else found


def greatest(a: Range, b: Range) -> Range:
    """Take the greater of two ranges: it is not below either's low end, and not above both high ones."""
    high = _all_known(f"GREATEST({a.high}, {b.high})", a, b)
    found = _both(f"GREATEST({a.value}, {b.value})", f"GREATEST({a.low}, {b.low})", high, f"GREATEST({a.free}, {b.free})", a, b)
    return replace(found, low_needs=a.low_needs & b.low_needs)


def least(a: Range, b: Range) -> Range:
    """Take the less of two ranges."""
    low = _all_known(f"LEAST({a.low}, {b.low})", a, b)
    found = _both(f"LEAST({a.value}, {b.value})", low, f"LEAST({a.high}, {b.high})", f"LEAST({a.free}, {b.free})", a, b)
    return replace(found, high_needs=a.high_needs & b.high_needs)


def hull(a: Range, constant: str) -> Range:
    """Enclose what is either the range's value or a constant."""
    found = replace(a, low=f"LEAST({a.low}, {constant})", high=f"GREATEST({a.high}, {constant})")
    return replace(found, low=_known(found.low, a.low), high=_known(found.high, a.high)) if a.partial else found


def within(a: Range, low: str, high: str) -> Range:
    """Keep a range within what its type can say; of an end of which nothing is known, nothing is known after."""
    found = rising(a, lambda x: f"LEAST(GREATEST({x}, {low}), {high})")
    return replace(found, low=_known(found.low, a.low), high=_known(found.high, a.high)) if a.partial else found


def whichever(low: Range, high: Range) -> Range:
    """Take the low end of one range, and all else of another of the same value."""
    return replace(high, low=low.low, low_needs=low.low_needs, steps=_joined(low, high))


def among(a: Range, count: Range, least: int) -> Range:
    """Write NULL among fewer than `least` values: SQL has no average of nothing, and no sample variance of one value."""
    return replace(a, value=f"CASE WHEN {count.value} >= {least} THEN {a.value} END")


def _both(value: str, low: str, high: str, free: str, a: Range, b: Range) -> Range:
    """What is made of two ranges, and positive if both are; its ends need all of theirs."""
    needs = a.needs | b.needs
    return Range(value, low, high, free, a.partial or b.partial, _joined(a, b), a.positive and b.positive, needs, needs)


def plus(a: Range, b: Range) -> Range:
    low, high = f"({a.low} + {b.low})", f"({a.high} + {b.high})"
    found = _both(f"({a.value} + {b.value})", low, high, f"({a.free} + {b.free})", a, b)
    return replace(found, low_needs=a.low_needs | b.low_needs, high_needs=a.high_needs | b.high_needs)


def minus(a: Range, b: Range) -> Range:
    low, high = f"({a.low} - {b.high})", f"({a.high} - {b.low})"
    return replace(plus(a, negated(b)), value=f"({a.value} - {b.value})", low=low, high=high, free=f"({a.free} - {b.free})")


def negated(a: Range) -> Range:
    turned = replace(a, positive=False, low_needs=a.high_needs, high_needs=a.low_needs)
    return replace(turned, value=f"(- {a.value})", low=f"(- {a.high})", high=f"(- {a.low})", free=f"(- {a.free})")


def _known(text: str, *ends: str) -> str:
    """NULL as soon as one end is: LEAST and GREATEST alone would pass over it."""
    return f"CASE WHEN {' AND '.join(f'{e} IS NOT NULL' for e in ends)} THEN {text} END" if ends else text


def _all_known(text: str, *parts: Range) -> str:
    return _known(text, *(end for p in parts if p.partial for end in (p.low, p.high)))


def times(a: Range, b: Range) -> Range:
    corners = ", ".join(f"{x} * {y}" for x in (a.low, a.high) for y in (b.low, b.high))
    low, high = _all_known(f"LEAST({corners})", a, b), _all_known(f"GREATEST({corners})", a, b)
    return _both(f"({a.value} * {b.value})", low, high, f"({a.free} * {b.free})", a, b)


def growing(a: Range, b: Range) -> Range:
    """Multiply two ranges that are not negative: NULL times anything is NULL."""
    found = _both(f"{a.value} * {b.value}", f"{a.low} * {b.low}", f"{a.high} * {b.high}", f"{a.free} * {b.free}", a, b)
    return replace(found, low_needs=a.low_needs | b.low_needs, high_needs=a.high_needs | b.high_needs)


def scaled(a: Range, factor: str) -> Range:
    """Multiply a range by a positive constant."""
    return rising(a, lambda x: f"{x} * {factor}")


def squared(a: Range) -> Range:
    low = f"power(GREATEST({a.low}, - {a.high}, 0), 2)"
    high = _all_known(f"power(GREATEST(- {a.low}, {a.high}), 2)", a)
    found = replace(a, value=f"power({a.value}, 2)", low=low, high=high, free=f"power({a.free}, 2)")
    return replace(found, low_needs=NONE, high_needs=a.needs)


def over(a: Range, n: Range) -> Range:
    """Divided by what is positive, its low end too: each end needs the same one of what is divided."""
    around = (n.low, n.high) if n.partial else ()
    low = _known(f"LEAST({a.low} / {n.low}, {a.low} / {n.high})", *((a.low,) if a.partial else ()), *around)
    high = _known(f"GREATEST({a.high} / {n.low}, {a.high} / {n.high})", *((a.high,) if a.partial else ()), *around)
    found = _both(f"({a.value} / {n.value})", low, high, f"({a.free} / {n.free})", a, n)
    return replace(found, low_needs=a.low_needs | n.needs, high_needs=a.high_needs | n.needs)


def divided(a: Range, b: Range) -> Range:
    """Divide a range by anything: NULL when the divisor is 0, nothing known when its interval holds 0."""
    corners = ", ".join(f"{x} / NULLIF({y}, 0)" for x in (a.low, a.high) for y in (b.low, b.high))
    sure = f"{b.low} > 0 OR {b.high} < 0"
    low, high = (_all_known(f"CASE WHEN {sure} THEN {f}({corners}) END", a, b) for f in ("LEAST", "GREATEST"))
    found = _both(f"({a.value} / NULLIF({b.value}, 0))", low, high, f"({a.free} / NULLIF({b.free}, 0))", a, b)
    return replace(found, partial=True)

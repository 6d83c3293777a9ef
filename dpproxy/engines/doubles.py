"""Fractions that engines compute as DOUBLE: what is near a number of a few places is that number, and sums have no order.

Knows: doubles, facts of a summand, wide integers. Must not know: relations, policies.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpproxy.plan.properties.facts import facts
from dpproxy.sql.types import FLOATS, INTEGERS
from dpproxy.tree.expr import Expr, walk


def decimal_operation(op: str, a: str, b: str, grid: Fraction | None) -> str:
    """Spell an operation of NUMERICs, which compute as DOUBLE here. What is near a number of a few places is that number: 0.1 +
    0.2 must equal 0.3, and 4.51 % 3 be in one group with 1.51. `grid`: of the result, where it is known."""
    places = 9 if grid is None else min(max(len(str(grid.denominator)) + 3, 6), 12)
    match op:
        case "int/":
            return f"trunc(round({a} / NULLIF({b}, 0), 9))"
        case "%":
            return f"round({a} - {b} * trunc(round({a} / NULLIF({b}, 0), 9)), {places})"
        case "/":
            quotient = f"({a} / NULLIF({b}, 0))"
            return snapped(quotient) if grid is None else f"round({quotient}, {places})"
    return f"round({a} {op} {b}, {places})"


def snapped(number: str) -> str:
    """Spell a DOUBLE that is NUMERIC to PostgreSQL: 15 digits count, so that what is that near a number of nine places is that
    number. Tiny ones stay what they are."""
    places = f"round({number}, 9)"
    return f"(CASE WHEN abs({number} - {places}) <= abs({number}) * 5e-16 THEN {places} ELSE {number} END)"


# Sums and means of one unit's fractional values on DuckDB, whatever the order of rows.
#
# Knows: facts of the summand, DuckDB's wide integers. Must not know: relations, policies. Additions of doubles are not
# associative, and the order in which an engine reads rows depends on everybody's: a unit's own sum would then be a function of
# other units' rows as well. So values are rounded to whole multiples of a quantum that the plan fixes and added up as integers.
# The quantum of NUMERIC is its last place; that of doubles is 2**-85 of their range: nothing of the 53 bits of a double is lost
# unless it is 10**9 times smaller than the range. Values 500 times larger than it count as that much.


PLACES = 9  # of a NUMERIC whose last place is the quantum
BITS = 95  # of a summand: 2**95 each of 2**31 rows fit HUGEINT
BELOW = 85  # bits of a summand below its range
UNKNOWN = 41  # bits of the range of a value of which nothing is known: multiples of 2**-44 up to 2**51


@dataclass(frozen=True)
class Quantum:
    """Summands are integers of `type`: the value times `inverse`, no larger than 2**bits."""

    inverse: int | Fraction
    type: str
    bits: int


def quantum(value: Expr) -> Quantum:
    """Say what `value` is rounded to before it is added up."""
    known = facts(value)
    if value.type in INTEGERS:
        return Quantum(1, "HUGEINT", BITS)
    if value.type == "numeric" and known.grid is not None:
        for places in range(PLACES + 1):
            if (known.grid * 10**places).denominator == 1:
                return Quantum(10**places, "BIGINT", 62) if places <= 4 else Quantum(10**places, "HUGEINT", BITS)
    top = UNKNOWN
    if known.bound.closed:
        size = max(map(abs, known.bound.ends))
        top = _exponent(size) if size else UNKNOWN
    return Quantum(Fraction(2) ** (BELOW - top), "HUGEINT", BITS)


def _exponent(size: Fraction) -> int:
    """The least e with size <= 2**e, or the next, within what a double's exponent has room for."""
    e = size.numerator.bit_length() - size.denominator.bit_length() + 1
    return max(-800, min(e, 800))


def total(name: str, value: Expr, text: str, distinct: str, tail: str) -> str:
    """Spell `sum` or `avg` of a DOUBLE `text`, as DOUBLE; `tail` is FILTER or OVER. NaN and infinities act as in PostgreSQL."""
    q = quantum(value)
    inverse, most = (f"CAST('{float(x)!r}' AS DOUBLE)" for x in (q.inverse, 2**q.bits / q.inverse))
    units = f"CASE WHEN abs({text}) < {most} THEN TRY_CAST({text} * {inverse} AS {q.type}) "
    units += f"WHEN {text} > 0 THEN CAST({2**q.bits} AS {q.type}) WHEN {text} < 0 THEN CAST({-(2**q.bits)} AS {q.type}) END"
    made = f"(CAST(sum({distinct}{units}){tail} AS DOUBLE) / {inverse})"
    if name == "avg":
        made = f"({made} / count({distinct}{text}){tail})"
    if not any(e.type in FLOATS for e in walk(value)):
        return made
    return f"(CASE WHEN bool_and(isfinite({text})){tail} THEN {made} ELSE max({text}){tail} + min({text}){tail} END)"

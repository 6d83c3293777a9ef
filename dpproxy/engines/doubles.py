"""NUMERIC where an engine computes it as DOUBLE: what is near a number of a few places is that number.

Knows: doubles. Must not know: expressions, tables.
"""

from __future__ import annotations

from fractions import Fraction


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

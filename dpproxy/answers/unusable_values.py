"""What is told of a value that a measurement cannot be given: whose value it is decides what can be done about it.

Knows: holes of generated SQL, how many parameters a statement has. Must not know: engines, why a value has no literal. A hole is
a parameter of the client's, or what the facade computed before the measurement: a value of a subquery or a function, a list,
rows.
"""

from __future__ import annotations

from typing import Final

from dpproxy.errors import FEATURE_NOT_SUPPORTED, PROGRAM_LIMIT_EXCEEDED, Refusal
from dpproxy.sql.template import NoLiteral, TooManyRows
from dpproxy.sql.types import TEXTS

ROWS: Final = "The statement computes these rows from public or released ones: aggregate them before, or give them a LIMIT."
TEXT: Final = "The statement computes this text itself: shorten it there, as in left(x, 1000)."
VALUE: Final = "The statement computes this value itself: let it compute another one, or one of another type."


def no_literal(error: NoLiteral, parameters: int) -> Refusal:
    """Return the refusal of a value that the engine cannot take. `parameters`: of the client, whose holes come first."""
    if isinstance(error.__cause__, TooManyRows):
        return Refusal(PROGRAM_LIMIT_EXCEEDED, str(error), hint=ROWS)
    told, text = f"{error} over private tables", error.hole.type.removesuffix("[]") in TEXTS
    if error.hole.index >= parameters:
        return Refusal(FEATURE_NOT_SUPPORTED, told, hint=TEXT if text else VALUE)
    name = f"${error.hole.index + 1}"
    if text:
        return Refusal(FEATURE_NOT_SUPPORTED, told, hint=f"Give a shorter text for {name}.")
    return Refusal(FEATURE_NOT_SUPPORTED, told, hint=f"Give another value for {name}, or {name} another type.")

"""What a client may be told when a statement is not answered.

Knows: PostgreSQL's error fields. Must not know: data. Everything in a `Refusal` is a function of the SQL
text, the policy, the settings and the ledger; nothing here may be built from a backend's result or a
backend's error text. After the charge there is exactly one message, `AFTER_CHARGE`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(unsafe_hash=True)  # not frozen: `contextlib` sets `__traceback__` on what passes through it
class Refusal(Exception):
    """An ordinary PostgreSQL error, decided before any data is touched. A value all the same: never changed.

    `position` is 1-based, in characters of the statement text, as on the wire; None when unknown.
    `hint` says what to write instead.
    """

    sqlstate: str
    message: str
    position: int | None = None
    detail: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.sqlstate} {self.message}"


@dataclass(unsafe_hash=True)
class NoRoom(Refusal):
    """An aggregate and its noise do not fit 64 bits on this grid; they may on one coarser by `times`. `size`: grid units
    of the largest value, where known."""

    times: int = 2
    size: int | None = None


# SQLSTATEs in use (PostgreSQL, appendix A)
FEATURE_NOT_SUPPORTED = "0A000"
SYNTAX_ERROR = "42601"
INSUFFICIENT_PRIVILEGE = "42501"
UNDEFINED_TABLE = "42P01"
UNDEFINED_COLUMN = "42703"
UNDEFINED_FUNCTION = "42883"
UNDEFINED_OBJECT = "42704"
UNTRANSLATABLE_CHARACTER = "22P05"
AMBIGUOUS_COLUMN = "42702"
GROUPING_ERROR = "42803"
WINDOWING_ERROR = "42P20"
DATATYPE_MISMATCH = "42804"
PROGRAM_LIMIT_EXCEEDED = "54000"
STATEMENT_TOO_COMPLEX = "54001"
DISK_FULL = "53100"
CONFIGURATION_LIMIT_EXCEEDED = "53400"  # the budget is exhausted
TOO_MANY_CONNECTIONS = "53300"
CANNOT_CONNECT_NOW = "57P03"
INVALID_PARAMETER_VALUE = "22023"
READ_ONLY = "25006"
INTERNAL_ERROR = "XX000"
QUERY_CANCELED = "57014"

AFTER_CHARGE = Refusal(
    "58000",
    "the data backend could not answer; the charge stands",
    hint="Ask the operator: the reason is in the proxy's log only.",
)
"""The one message for every failure after a charge, the same whatever the data (PRIVACY.md section 6)."""

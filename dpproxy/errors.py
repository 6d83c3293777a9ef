"""What a client may be told when a statement is not answered.

Knows: PostgreSQL's error fields. Must not know: data. Everything in a `Refusal` is a function of the SQL
text, the policy, the settings and the ledger; nothing here may be built from a backend's result or a
backend's error text. After the charge there is exactly one message, `AFTER_CHARGE`.

What stops the operator's own commands is an `OperatorError`; it goes to the terminal and to the log, never to a client.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field


class OperatorError(Exception):
    """What keeps dpproxy from doing what its operator asks, and what to do about it. It is no word to a client."""


@dataclass(unsafe_hash=True)  # not frozen: `contextlib` sets `__traceback__` on what passes through it
class Refusal(Exception):
    """Carries an ordinary PostgreSQL error, decided before any data is touched. It is a value all the same: once made it never
    changes.

    `position` is 1-based, in characters of the statement text, as on the wire; None when unknown. `hint` says what to write
    instead. `site` is for the operator's log, where nothing of the statement may stand: the function that decided, as
    `plan.bind.joins.filtered`.
    """

    sqlstate: str
    message: str
    position: int | None = None
    detail: str | None = None
    hint: str | None = None
    site: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.site:
            maker = sys._getframe(2)  # above this function and the `__init__` that calls it
            self.site = f"{maker.f_globals['__name__']}.{maker.f_code.co_qualname}".removeprefix("dpproxy.").split(".<")[0]

    @property
    def told(self) -> str:
        """Return the message with what to write instead: tools that show no hint show this."""
        return self.message if self.hint is None else f"{self.message}. {self.hint}"

    def __str__(self) -> str:
        return f"{self.sqlstate} {self.message}"


@dataclass(unsafe_hash=True)
class NoRoom(Refusal):
    """An aggregate and its noise do not fit 64 bits on this grid; they may fit on a grid that is coarser by `times`.

    `size` is the largest value, in grid units, where it is known.
    """

    times: int = 2
    size: int | None = None


@dataclass(unsafe_hash=True)
class UnprovenPlan(Refusal):
    """A plan claims less than can be proved of it (`kernel`): a fault of dpproxy's, logged for the operator.

    `rule` and `plan` are for the operator's log, never for a client: what refused it, and the measurement with its trees.
    """

    rule: str = ""
    plan: str = ""


# SQLSTATEs in use, under the names that PostgreSQL gives them (its appendix A). They stand here and nowhere else.
SUCCESSFUL_COMPLETION = "00000"  # of notices
PROTOCOL_VIOLATION = "08P01"
FEATURE_NOT_SUPPORTED = "0A000"
NUMERIC_VALUE_OUT_OF_RANGE = "22003"
SUBSTRING_ERROR = "22011"
INVALID_REGULAR_EXPRESSION = "2201B"
INVALID_ARGUMENT_FOR_WIDTH_BUCKET = "2201G"
CHARACTER_NOT_IN_REPERTOIRE = "22021"
INVALID_ARGUMENT_FOR_NTILE = "22014"
INVALID_ARGUMENT_FOR_NTH_VALUE = "22016"
INVALID_PARAMETER_VALUE = "22023"
INVALID_ESCAPE_SEQUENCE = "22025"
INVALID_TEXT_REPRESENTATION = "22P02"
UNTRANSLATABLE_CHARACTER = "22P05"
READ_ONLY = "25006"
NO_ACTIVE_SQL_TRANSACTION = "25P01"
IDLE_IN_TRANSACTION_TIMEOUT = "25P03"
INVALID_AUTHORIZATION = "28000"
INVALID_PASSWORD = "28P01"
SERIALIZATION_FAILURE = "40001"  # clients know it as the error after which to ask again
DEADLOCK_DETECTED = "40P01"
INSUFFICIENT_PRIVILEGE = "42501"
SYNTAX_ERROR = "42601"
AMBIGUOUS_COLUMN = "42702"
AMBIGUOUS_FUNCTION = "42725"
UNDEFINED_COLUMN = "42703"
UNDEFINED_OBJECT = "42704"
GROUPING_ERROR = "42803"
DATATYPE_MISMATCH = "42804"
CANNOT_COERCE = "42846"
UNDEFINED_FUNCTION = "42883"
UNDEFINED_TABLE = "42P01"
UNDEFINED_PARAMETER = "42P02"
INVALID_COLUMN_REFERENCE = "42P10"
WINDOWING_ERROR = "42P20"
DISK_FULL = "53100"
OUT_OF_MEMORY = "53200"
TOO_MANY_CONNECTIONS = "53300"
CONFIGURATION_LIMIT_EXCEEDED = "53400"  # the budget is exhausted
PROGRAM_LIMIT_EXCEEDED = "54000"
STATEMENT_TOO_COMPLEX = "54001"
OBJECT_NOT_IN_PREREQUISITE_STATE = "55000"  # the operator has paused the role; tables are not what the policy describes
LOCK_NOT_AVAILABLE = "55P03"  # the data are being loaded
QUERY_CANCELED = "57014"
ADMIN_SHUTDOWN = "57P01"
CRASH_SHUTDOWN = "57P02"
CANNOT_CONNECT_NOW = "57P03"
IDLE_SESSION_TIMEOUT = "57P05"
SYSTEM_ERROR = "58000"  # the backend failed after the charge
INTERNAL_ERROR = "XX000"

AFTER_CHARGE = Refusal(
    SYSTEM_ERROR,
    "the data backend could not answer; the charge stands",
    hint="Ask the operator: the reason is in the proxy's log only.",
)
"""The one message for every failure after a charge, the same whatever the data (PRIVACY.md section 6)."""

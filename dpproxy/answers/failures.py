"""How a statement fails, beside a refusal of the proxy's own: by the facade's error, or by what must not happen.

Knows: errors, the log. Must not know: what was being done. A client hears the facade's error as it is (`StatementFailed`). Of
what must not happen the operator's log has the place, and a client a number by which to ask for it. The text of an exception may
hold a literal or a value of the data, so it is logged for those classes alone whose texts are made without (`PLAIN`).
"""

from __future__ import annotations

import uuid
from typing import Final

import structlog

from dpproxy.backends.base import BackendError
from dpproxy.errors import INTERNAL_ERROR, Refusal
from dpproxy.ledger.ledger import LedgerError, Suspended
from dpproxy.telemetry.log import places

LOG = structlog.get_logger()
PLAIN: Final = (BackendError, LedgerError, OSError)


class StatementFailed(Exception):
    """The facade refused: `raw` is its ErrorResponse, for the client as it is."""

    def __init__(self, raw: bytes) -> None:
        super().__init__("the facade refused the statement")
        self.raw = raw


def incident(error: BaseException, **context: object) -> str:
    """Log an unexpected error for the operator; returns the number by which a client may name it."""
    number = uuid.uuid4().hex[:12]
    text = {"text": str(error)} if isinstance(error, PLAIN) else {}
    LOG.error("incident", incident=number, **places(error), **text, **context)
    return number


def suspended_refusal(suspended: Suspended, dataset: str) -> Refusal:
    """Log why nothing is charged, and return what the client is told."""
    LOG.error("nothing is charged", dataset=dataset, text=str(suspended))
    return suspended.refusal()


def internal(error: BaseException, **context: object) -> Refusal:
    """Log an error, and return the one text a client gets for something that must not happen."""
    return Refusal(
        INTERNAL_ERROR,
        f"internal error, incident {incident(error, **context)}",
        hint="Tell the operator this number: the log has it.",
    )

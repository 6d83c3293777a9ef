"""What must not happen, and does: the operator's log has all of it, a client a number.

Knows: errors, the log. Must not know: what was being done.
"""

from __future__ import annotations

import traceback
import uuid

import structlog

from dpproxy.errors import INTERNAL_ERROR, Refusal

LOG = structlog.get_logger()


def incident(error: BaseException, **context: object) -> str:
    """Log an unexpected error for the operator; returns the number by which a client may name it."""
    number = uuid.uuid4().hex[:12]
    trace = "".join(traceback.format_exception(error))  # as text: a logger's own rendering might show variables
    LOG.error("incident", incident=number, error=type(error).__name__, trace=trace, **context)
    return number


def internal(error: BaseException, **context: object) -> Refusal:
    """The one text a client gets for something that must not happen."""
    return Refusal(INTERNAL_ERROR, f"internal error, incident {incident(error, **context)}")

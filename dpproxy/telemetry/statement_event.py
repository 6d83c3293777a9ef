"""What the operator is told of one statement over private tables: who asked, what became of it, what it cost.

Knows: names, hashes, amounts, SQLSTATEs. Must not know: texts, plans, answers. Nothing here may be built from a literal of the
statement or a value of the data: a statement is a hash, a refusal its SQLSTATE and the place in the code that decided it, and
what was released is counted, not told. How long a statement took is told on the policy's time grid where there is one, since the
time may depend on data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import structlog

from dpproxy import errors
from dpproxy.amounts import ATTO, MICRO

LOG = structlog.get_logger()

Verdict = Literal["answered", "reused", "explained", "preview", "refused", "failed"]
"""`preview`: rows that are invented; `refused`: at no charge; `failed`: after the charge, which stands."""

ReasonClass = Literal[
    "budget", "unsupported", "rights", "sql", "effort", "busy", "unavailable", "paused", "disk", "cancelled", "internal"
]

CLASSES: Final[dict[str, ReasonClass]] = {
    errors.CONFIGURATION_LIMIT_EXCEEDED: "budget",
    errors.FEATURE_NOT_SUPPORTED: "unsupported",
    errors.INSUFFICIENT_PRIVILEGE: "rights",
    errors.READ_ONLY: "rights",
    errors.PROGRAM_LIMIT_EXCEEDED: "effort",
    errors.STATEMENT_TOO_COMPLEX: "effort",
    errors.OUT_OF_MEMORY: "effort",
    errors.TOO_MANY_CONNECTIONS: "busy",
    errors.SERIALIZATION_FAILURE: "busy",
    errors.CANNOT_CONNECT_NOW: "unavailable",
    errors.OBJECT_NOT_IN_PREREQUISITE_STATE: "paused",
    errors.DISK_FULL: "disk",
    errors.QUERY_CANCELED: "cancelled",
    errors.SYSTEM_ERROR: "internal",
    errors.INTERNAL_ERROR: "internal",
}
"""What an operator sorts refusals by; all other SQLSTATEs are errors in the SQL (`sql`)."""

URGENT: Final = frozenset({"budget", "unavailable", "disk", "internal"})
"""Classes of refusals that the operator may have to do something about."""


def class_of(sqlstate: str) -> ReasonClass:
    return CLASSES.get(sqlstate, "sql")


@dataclass(frozen=True)
class StatementEvent:
    """Tells of one statement. `statement` is the hash that `dpproxy.answers` shows, too; `epsilon` (millionths), `delta`
    (10^-18) what was charged, `saved` the epsilon (millionths) of what was shown at no charge; `rows` those of all released
    measurements, before the statement's own ORDER BY, LIMIT or joins; `policy` the digest of the policy's text. `code`,
    `reason_class` and `reason` are of refusals and failures: the SQLSTATE, what it is sorted under, the function that decided
    it."""

    at: float
    dataset: str
    role: str
    user: str
    session: int
    statement: str
    kind: str
    verdict: Verdict
    policy: str
    epsilon: int = 0
    delta: int = 0
    saved: int = 0
    measurements: int = 0
    reused: int = 0
    rows: int = 0
    milliseconds: int = 0
    code: str = ""
    reason_class: str = ""
    reason: str = ""


def milliseconds(seconds: float, quantum_ms: int | None) -> int:
    """Return a time as it is shown: rounded up to the policy's time grid."""
    grid = quantum_ms or 1
    return math.ceil(seconds * 1000 / grid) * grid


def log(event: StatementEvent) -> None:
    """Write the event's line."""
    who = {
        "dataset": event.dataset,
        "role": event.role,
        "user": event.user,
        "session": event.session,
        "kind": event.kind,
        "statement": event.statement,
        "policy": event.policy,
        "milliseconds": event.milliseconds,
    }
    if event.verdict in ("refused", "failed"):
        urgent = event.verdict == "failed" or event.reason_class in URGENT
        write = LOG.error if event.reason_class == "internal" else LOG.warning if urgent else LOG.info
        why = {"code": event.code, "reason_class": event.reason_class, "reason": event.reason}
        paid = {"epsilon": event.epsilon / MICRO, "delta": event.delta / ATTO} if event.verdict == "failed" else {}
        write("statement", verdict=event.verdict, **who, **why, **paid)
        return
    write = LOG.debug if event.verdict == "explained" else LOG.info
    counts = {"measurements": event.measurements, "reused": event.reused, "rows": event.rows}
    amounts = {"epsilon": event.epsilon / MICRO, "delta": event.delta / ATTO, "saved": event.saved / MICRO}
    write("statement", verdict=event.verdict, **who, **counts, **amounts)

"""Sessions on Spark Connect: how one is opened, what it is given before it runs a statement, what its errors say.

Knows: Spark Connect's client, Spark's settings, the view that generated SQL reads. Must not know: policies, tasks, statements.
The key of a unit's order of groups (`engines.spark`) is in no statement, since servers keep statements where others read
them: it is sent as the bytes of a local relation, which neither plans nor event logs show, and is a temporary view, which no
other session sees. Sail has fewer settings: one that a server does not know is not one it could have set otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import quote

import grpc
import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client.retries import DefaultPolicy

from dpproxy.engines.spark import PICK
from dpproxy.policy.model import SparkBackend

SETTINGS = {
    "spark.sql.ansi.enabled": "true",  # what would wrap around raises: no statement relies on it, and none is to pass unseen
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    "spark.sql.variable.substitute": "false",  # else `${env:NAME}` in a statement is read from the server's environment
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.crossJoin.enabled": "true",
}
"""Spark's own defaults but for zone and variables: an administrator may have set others, and texts would mean something else."""

RETRIES = 2
"""Of a call that found nobody: with waits of 50 and 200 milliseconds. The client's own default waits ten minutes."""

LOST = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.CANCELLED)
LOST_NAMES = ("INVALID_HANDLE", "SESSION_CHANGED", "SESSION_CLOSED", "SESSION_NOT_FOUND")
"""What a server says of a session that it no longer has, or never had: it was restarted, or the session stood idle too long."""

CAUSES = {
    grpc.StatusCode.UNAVAILABLE: "nobody answers at the address, or one side speaks TLS and the other does not",
    grpc.StatusCode.UNAUTHENTICATED: "the server takes no token, or not this one",
    grpc.StatusCode.PERMISSION_DENIED: "the token's user has no right to this",
    grpc.StatusCode.UNIMPLEMENTED: "what answers speaks no Spark Connect, or an older one",
    grpc.StatusCode.DEADLINE_EXCEEDED: "the server was too slow",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "the server has no place, or a message is too large for it",
    grpc.StatusCode.NOT_FOUND: "what answers knows no such session or catalog",
}
"""What an operator hears of a status; gRPC's own text may quote data."""

CLOSED = "closed"
"""What gRPC says of a connection that this process has closed."""

SESSION = "session_id="
"""In an address: a session of the operator's own, with tables that end with it. It is used by all of ours, and not ended."""

LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect.client.logging")
"""The client writes errors to standard error, statements and quoted values with them."""

UNREADABLE = AnalysisException
"""What a server raises for a table that the user may not read, or that stands on something that is gone."""

T = TypeVar("T")


class Failed(Exception):
    """What kind of error a call ended with, and nothing of its text. `passing`: another session may well succeed."""

    def __init__(self, what: str, passing: bool) -> None:
        super().__init__(what)
        self.passing = passing


def opened(config: SparkBackend, key: int | None) -> Any:
    """Open a session and prepare it; `key`: of the picks, for sessions that measure."""
    for name in LOGGERS:
        logging.getLogger(name).disabled = True
    session = SparkSession.builder.remote(address(config)).create()
    session.release_session_on_close = SESSION not in config.url
    try:
        client = session.client
        client.set_retry_policies([DefaultPolicy(max_retries=RETRIES)])
        prepare(session)
        if config.catalog is not None:
            _enter(session, config.catalog)
        if key is not None:
            keyed(session, key)
    except BaseException:
        ended(session)
        raise
    return session


def _enter(session: Any, catalog: str) -> None:
    """Name tables in a catalog from here on. Raises Failed where the server has no such catalog."""
    try:
        session.catalog.setCurrentCatalog(catalog)
    except AnalysisException:
        raise Failed(f"the server has no catalog `{catalog}`", passing=False) from None


def address(config: SparkBackend) -> str:
    """Return the connection string of Spark Connect, with the token from the policy."""
    if config.token is None:
        return config.url
    return f"{config.url.rstrip('/')}{'' if '/;' in config.url else '/'};token={quote(config.token, safe='')}"


def prepare(session: Any) -> None:
    """Set what statements rely on."""
    for name, value in SETTINGS.items():
        session.conf.set(name, value)


def keyed(session: Any, key: int) -> None:
    """Make the view that holds the key."""
    view, column = PICK
    session.createDataFrame(pa.table({column: pa.array([key], pa.int64())})).createOrReplaceTempView(view)


def answers(session: Any) -> None:
    """Ask a session for its key. Raises where it has no more use: a server may have replaced one it forgot by an empty one."""
    session.sql(f"SELECT {PICK[1]} FROM {PICK[0]}").toArrow()


def tagged(session: Any, tag: str, work: Callable[[Any], T]) -> T:
    """Do `work` on a session under a tag by which it can be interrupted. Raises Failed."""
    try:
        if session is None:
            return work(session)
        session.addTag(tag)
        try:
            return work(session)
        finally:
            session.removeTag(tag)
    except Failed:
        raise
    except Exception as error:  # the client raises its own errors, gRPC's and Arrow's
        raise failed(error) from None


def failed(error: Exception) -> Failed:
    """Return what may be said of an error: its kind, and Spark's name of it. Texts may quote data."""
    kind = type(error).__name__
    if isinstance(error, grpc.RpcError):
        status = error.code() if hasattr(error, "code") else None
        return Failed(_named("gRPC", status) or f"gRPC {kind}", status in LOST)
    if isinstance(error, ValueError) and CLOSED in str(error).lower():
        return Failed("the connection is closed", True)
    name = error.getCondition() if isinstance(error, PySparkException) else None
    status = getattr(error, "_grpc_status_code", None)
    passing = status in LOST or (name or "").startswith(LOST_NAMES)
    return Failed(f"{kind} {name}" if name else _named(kind, status) or kind, passing)


def _named(kind: str, status: grpc.StatusCode | None) -> str:
    """Return what is said of a status; nothing without one."""
    if status is None:
        return ""
    return f"{kind} {status.name}" + (f": {CAUSES[status]}" if status in CAUSES else "")


def interrupted(session: Any, tag: str) -> None:
    """Ask the server to end what runs under a tag."""
    with suppress(Exception):
        session.interruptTag(tag)


def ended(session: Any) -> None:
    """End a session, whatever is left of it."""
    with suppress(Exception):
        session.stop()


def cut(session: Any) -> None:
    """Close a session's connection at once: whoever waits for an answer on it waits no more."""
    with suppress(Exception):
        session.client._channel.close()

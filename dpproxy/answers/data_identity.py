"""Which data a policy speaks of, as a name that is the same for every policy over them.

Knows: a policy's backend and unit. Must not know: ledgers, rows, passwords. Budgets hang on the name of the dataset; so that a
new name over the same data does not begin with a new budget, the ledger keeps what data each name has been charged for
(`ledger.entries.Named`). It is a digest: where the data are is nothing that a ledger has to tell. A file has a second name, that
of the file itself: so that it is known by a hard link, and where it was moved to. Data that were copied are others by both.
"""

from __future__ import annotations

import hashlib
import json
import os
from urllib.parse import parse_qs, unquote, urlsplit

from dpproxy.policy.model import Backend, DuckDBBackend, Policy, PostgresBackend

PORT = 5432
SPARK_PORT = 15002


def data_of(policy: Policy) -> str:
    """Return backend, whoever connects to it, and the column that names the units."""
    place = _place(policy.backend)
    unit = (str(policy.unit_table), policy.unit_column)
    return hashlib.sha256(json.dumps([*place, *unit]).encode()).hexdigest()


def file_of(policy: Policy) -> str:
    """Return what names the file itself that data are in, wherever it is; empty where there is none. A number that the system
    gives to another file later has another time of writing then."""
    if not isinstance(policy.backend, DuckDBBackend):
        return ""
    try:
        found = os.stat(policy.backend.path)
    except OSError:
        return ""
    itself = ("duckdb file", found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    return hashlib.sha256(json.dumps([*itself, str(policy.unit_table), policy.unit_column]).encode()).hexdigest()


def _place(backend: Backend) -> tuple[str, ...]:
    if isinstance(backend, DuckDBBackend):
        return "duckdb", os.path.realpath(backend.path)
    if isinstance(backend, PostgresBackend):
        return _server(backend.dsn)
    parts = urlsplit(backend.url)
    return "spark", (parts.hostname or "").lower(), str(parts.port or SPARK_PORT), backend.catalog or ""


def _server(dsn: str) -> tuple[str, ...]:
    """Host, port and database of a URI, without user and password."""
    parts = urlsplit(dsn)
    asked = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    host = asked.get("host") or parts.hostname or "localhost"
    port = asked.get("port") or str(parts.port or PORT)
    user = unquote(parts.username or "") or asked.get("user", "")
    return ("postgres", host.lower(), port, unquote(parts.path.lstrip("/")) or asked.get("dbname") or user)

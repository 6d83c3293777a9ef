"""Every event of the log: its name, its levels, its fields, what it says. The reference page is made of it.

Knows: names and sentences. Must not know: who writes an event. `tests/telemetry/test_events.py` holds the code against it: an
event or a field that is not here fails, so that nobody adds one without saying what it tells. What a field may hold is one rule
for all: names that the policy has, hashes, numbers, SQLSTATEs, addresses of clients; never a literal, a value of the data, or a
text of somebody's statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

COMMON: Final[Mapping[str, str]] = {
    "timestamp": "when, in UTC",
    "level": "debug, info, warning, error",
    "event": "the name",
    "process": "the number of the process, where several serve",
    "logger": "the library or file, of lines that are no event of this list",
}
"""Fields of every line."""

FIELDS: Final[Mapping[str, str]] = {
    "megabytes": "of the facade's disk",
    "sessions": "how many sessions of the role were ended",
    "action": "what was done: reload, drain, pause, resume, cancel, grant, clock, console login, console token",
    "after_charge": "true where a charge stands",
    "address": "the client's address, without its port; empty for a unix socket",
    "bytes": "of the disk",
    "by": "the account of this machine that asked, or the signal",
    "closed": "connections that were closed since the line before",
    "code": "the SQLSTATE that the client was told",
    "dataset": "the dataset; empty where none of the name is served",
    "delta": "delta that was charged",
    "details": "to whom or what, without the operator's reason, which is in the audit log",
    "ended": "whether the session was ended, or its statement alone",
    "epsilon": "epsilon that was charged",
    "error": "the class of an exception; or a text of the data's engine that holds no data",
    "exit_code": "with which the process ended",
    "file": "a policy file",
    "fix": "what to do about it",
    "incident": "the number that the client was told",
    "kind": "select, explain, copy, cursor, create_table_as, prepare; other for what could not be read",
    "measurements": "measurements of the statement",
    "milliseconds": "how long it took, rounded up to the policy's `timing.quantum`",
    "most": "bytes of the disk that it may take",
    "name": "of a role or user, or the dataset",
    "number": "of the process; of copies how many",
    "of": "the moment of an extract's snapshot, UTC",
    "outcome": "what became of it",
    "path": "what was asked for by HTTP: the path alone",
    "percent": "of the budget that is spent, as the policy's `warn` has it; of a copy how much of it is made",
    "policy": "the first 16 digits of the SHA-256 of the policy's text, as in the ledger",
    "problem": "what is doubtful in a policy, with its place; why there is no copy; why a table is closed",
    "reason": "the function of dpproxy that decided a refusal, `facade` for PostgreSQL's own errors; of other events why",
    "reason_class": "budget, unsupported, rights, sql, effort, busy, unavailable, paused, disk, cancelled, internal",
    "resource": "memory, disk or space",
    "reused": "measurements that were answered at no charge",
    "role": "the role",
    "rows": "rows of all released measurements, before the statement's own ORDER BY, LIMIT and joins",
    "saved": "epsilon of what was shown at no charge",
    "scope": "role, user or dataset",
    "seconds": "how long the session lasted, or the copy took",
    "session": "the session's number, which `dpproxy admin who` shows",
    "statement": "the first 16 digits of the SHA-256 of the statement's text, as `dpproxy.answers` and the ledger have it",
    "table": "a table of the policy",
    "tables": "names of public tables; of a copy how many it has",
    "text": "what an engine, the ledger or the system said, where that holds no data",
    "tls": "whether the connection is encrypted",
    "trace": "the lines of code that an exception passed through",
    "user": "the user; of failed logins only one that the policy has",
    "user_class": "known, or unknown: no user of this dataset has the name that was given",
    "verdict": "answered (charged), reused (at no charge), explained, preview (invented rows), refused (at no charge), "
    "failed (after the charge)",
}


@dataclass(frozen=True)
class Event:
    """One kind of line. `optional`: fields that only some of them have."""

    about: str
    fields: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


WHO: Final = ("dataset", "role", "user", "session")
STATEMENT: Final = (*WHO, "kind", "statement", "policy", "milliseconds", "verdict")
COUNTS: Final = ("measurements", "reused", "rows", "saved", "epsilon", "delta")

EVENTS: Final[Mapping[str, Event]] = {
    "statement": Event(
        "a statement over private tables has ended; explained ones are told at level debug",
        STATEMENT,
        (*COUNTS, "code", "reason_class", "reason"),
    ),
    "estimate": Event("reports of devices were read and estimated, which charges nothing", (*WHO, "statement", "table", "rows")),
    "login": Event("a client has logged in", (*WHO, "address", "tls")),
    "login failed": Event("a client has not logged in", ("address", "dataset", "user_class", "reason"), ("user",)),
    "connections without a login gave way": Event(
        "too many had not logged in: those of the address that had most were closed; told once a minute at most",
        ("address", "closed"),
    ),
    "session ended": Event("a client has gone", ("session", "seconds")),
    "operator": Event("an operator did something; the audit log has the reason", ("action", "by", "outcome", "details")),
    "budget level reached": Event(
        "a budget has reached a level of the policy's `warn`, once a window", ("dataset", "scope", "name", "percent")
    ),
    "paid and not told": Event(
        "a client did not wait for what was charged; kept: asking again is free",
        ("dataset", "role", "reason", "outcome", "statement"),
    ),
    "incident": Event(
        "something that must not happen; the client was told its number",
        ("incident", "error", "trace"),
        ("text", "statement", "code", "after_charge"),
    ),
    "nothing is charged": Event("until an operator has done what the text says", ("dataset", "text")),
    "the run before was not stopped": Event("it was killed, or the machine stopped: what ran then was charged and is lost"),
    "the audit log cannot be written": Event("what an operator did is in the log alone", ("error",)),
    "a session took too much": Event(
        "the facade's memory or disk was short, and this session took most", ("dataset", "role", "user", "resource", "ended")
    ),
    "a role's server took too much": Event(
        "what its sessions left on the facade's disk: all its sessions were ended, and the server's files are made anew",
        ("dataset", "role", "resource", "megabytes", "sessions"),
    ),
    "the facade ended a session without a word": Event("its server died, or was ended", ("dataset", "role")),
    "no TLS": Event("a handshake failed", ("reason",)),
    "policy": Event("a policy is served that is doubtful", ("problem",)),
    "policy reloaded": Event("a policy was read again, and holds", ("file",)),
    "policy unchanged": Event("a policy was read again, and is the same", ("file",)),
    "policy not reloaded": Event("a policy could not be read again; the one before is served", ("file",), ("reason", "incident")),
    "certificates reloaded": Event("handshakes from now on use them"),
    "certificates not reloaded": Event("those before are used", ("reason",)),
    "public tables have changed": Event("they are read again", ("dataset", "tables")),
    "the data are not those that were opened": Event(
        "they are read again; statements are refused meanwhile", ("dataset", "error")
    ),
    "prepared copy begun": Event(
        "a copy of the private tables is made in the background: at most so many bytes, in about so many seconds of a processor",
        ("dataset", "most", "seconds"),
    ),
    "prepared copy is made": Event("how far it is, once a minute", ("dataset", "percent")),
    "prepared copy made": Event("it is on the disk", ("dataset", "seconds")),
    "prepared copy used": Event("statements are planned with it from now on", ("dataset", "bytes", "tables")),
    "prepared copies removed": Event("they were of other data, or are not wanted any more", ("dataset", "number")),
    "no prepared copy": Event("answers are computed from the data as they are", ("dataset", "problem")),
    "extract begun": Event("the tables of a PostgreSQL database are being read into a file", ("dataset", "most")),
    "extract is made": Event("how far it is, once a minute", ("dataset", "percent")),
    "extract made": Event("it is on the disk", ("dataset", "seconds")),
    "extract used": Event("statements are measured in it", ("dataset", "of", "bytes")),
    "extract overtaken": Event(
        "the epoch of the data moved on while it was made, which took so long: it is served as of its snapshot, and holds for"
        " ten times as long, a minute at least; told once",
        ("dataset", "seconds"),
    ),
    "no extract": Event("one is damaged, or a newer one was not made: the one before is served", ("dataset", "problem")),
    "table closed": Event(
        "what reads it is refused before its charge: its rows break a claim of the policy, or it cannot be read any more",
        ("dataset", "table", "problem", "fix"),
    ),
    "table open again": Event("a look saw it as the policy describes it", ("dataset", "table")),
    "the data were not looked at": Event("the look failed; what the last one saw holds", ("dataset", "error")),
    "the data's epoch is unknown": Event("its query failed: nothing is reused meanwhile", ("dataset", "error")),
    "an answer was not stored": Event("asking again will cost again", ("dataset", "error")),
    "stored answers cannot be reached": Event(
        "the PostgreSQL server that holds them is away: statements are refused instead of charged again", ("error",)
    ),
    "what sessions take could not be looked at": Event(
        "nobody is held to the facade's limits for a moment", (), ("error", "trace")
    ),
    "health request failed": Event("a probe or Prometheus was not answered", ("path", "error")),
    "a process died and is started again": Event("of several; its sessions are lost", ("number", "exit_code")),
    "a process does not get the data the others have, and is ended": Event("of several", ("number",)),
}

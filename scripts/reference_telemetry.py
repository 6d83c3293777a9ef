"""The pages of log events and metrics, from the lists in the code.

Knows: `dpproxy.telemetry.events`, `dpproxy.console.metrics`. Must not know: who writes an event, where a number is from.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpproxy.console.metrics import FAMILIES
from dpproxy.telemetry.events import COMMON, EVENTS, FIELDS

LOG_HEAD = """# The log and the audit log

`dpproxy serve` logs one line an event on standard error. `--log-format json` (the default) writes one JSON object a line,
`--log-format human` text for people. `--log-level debug|info|warning|error` says from which level on. Refusals of budgets,
failed logins and what operators did are warnings; what must not happen is an error.

A line never holds a literal of a statement, a value of the data, a name that a stranger typed, or the text of an exception. A
statement is the first 16 digits of the SHA-256 of its text: `printf '%s' "SELECT ..." | sha256sum` names it (without the
semicolon), as do `dpproxy.answers` and the ledger. A refusal is its SQLSTATE and the function of dpproxy that decided it.

## Events

"""
LOG_TAIL = """
## The audit log

`audit.jsonl` in the state folder has one JSON object a line for each thing an operator did: `at`, `action`, `by` (the account
of this machine, as the system says it; `proxy` for its own start and stop), `outcome`, to whom (`dataset`, `role`, `scope`,
`name`, `session`), and the operator's `reason`. A line is on disk before the command returns. Grants and words about the
clock are in the ledger as well, whose chain of hashes shows changes. The audit log only grows: rotate it by moving it away.
"""
METRICS_HEAD = """# Metrics and health

`--metrics HOST:PORT` serves three paths by HTTP; everything else there is 404. Of several processes the first one serves
them, and tells of all.

- `/metrics`: numbers for Prometheus, below. They tell every role's spending. On an address that others reach,
  `--metrics-token-file FILE` is needed: Prometheus shows the token of that file (`authorization: { credentials_file: ... }`).
  Without a token the address must be of this machine (127.0.0.1).
- `/healthz`: 200 as long as the process answers. Restart what does not.
- `/ready`: 200 when statements can be answered: each role's facade accepts connections, the backend answers a query that
  reads no table, the ledger ends a transaction that charges nothing, and would charge (its disk has room, the clock can be
  believed), and the proxy is not stopping; 503 otherwise, and JSON that says which of these does
  not work: `dpproxy admin status` says why. It names no dataset and needs no token. A probe tries the parts once a second at
  most.

`--health HOST:PORT` serves `/healthz` and `/ready` alone, for probes that come from another address: a cluster's, a balancer's.

`docker/grafana-dashboard.json` is a dashboard to import into Grafana, `docker/alerts.yaml` has rules for Prometheus.

"""


def log_page() -> str:
    return LOG_HEAD + "\n".join([*_events(), "", *_fields()]) + "\n" + LOG_TAIL


def _events() -> Iterator[str]:
    yield "| event | says | fields | in some lines |"
    yield "|---|---|---|---|"
    for name, event in EVENTS.items():
        yield f"| {name} | {event.about} | {_ticked(event.fields)} | {_ticked(event.optional)} |"


def _fields() -> Iterator[str]:
    yield "| field | holds |"
    yield "|---|---|"
    yield from (f"| `{name}` | {about} |" for name, about in {**COMMON, **dict(sorted(FIELDS.items()))}.items())


def metrics_page() -> str:
    """Counters stand there as Prometheus stores them."""
    rows = (
        f"| `{name}{'_total' if family.kind == 'counter' else ''}` | {family.kind} | {_ticked(family.labels)} | {family.help} |"
        for name, family in FAMILIES.items()
    )
    return METRICS_HEAD + "\n".join(["| metric | type | labels | says |", "|---|---|---|---|", *rows]) + "\n"


def _ticked(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)

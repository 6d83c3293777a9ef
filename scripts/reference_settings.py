"""The page of settings: those of a session from the table that reads them, those of the server in words.

Knows: names, values, meanings. Must not know: who reads a setting. `scripts/reference.py` writes the page.
"""

from __future__ import annotations

from dpproxy.sql.settings import OWN, POSTGRES

HEAD = """# Settings

## Of a session

`SET` them in SQL, `SET LOCAL` them for a transaction, or give them when you connect:
`psql "postgresql://ada@localhost:6432/shop?options=-c%20dpproxy.epsilon%3D0.5"`. `SHOW` and `RESET` work as in PostgreSQL.
Nothing that is set here lets a role learn more than its policy allows.

| setting | values | what it does |
|---|---|---|
"""
BETWEEN = """
PostgreSQL's own settings work as well; these are read by the planner too:

| setting | what it does here |
|---|---|
"""
TAIL = """
## Of the server

Options of `dpproxy serve` are on the page of the [command line](command-line.md#dpproxy-serve); what a dataset allows is in its
[policy](../policies/reference.md). Each option of `dpproxy serve` may stand in the environment (its name in capitals, with `_`
for `-`, behind `DPPROXY_`) or in a file (`--config`): [systemd](../how-to/systemd.md). These variables hold for other
commands, too:

| variable | what it is |
|---|---|
| `DPPROXY_STATE` | as `--state` |
| `DPPROXY_LEDGER` | as `--ledger` |
| `DPPROXY_ANCHOR` | as `--anchor` |
| `DPPROXY_KEY_FILE` | as `--key-file` |
| `DPPROXY_FACADE_DSN` | as `--facade-dsn` |
| `DPPROXY_COLLECT_STATE`, `DPPROXY_COLLECT_TO` | as `--state` and `--to` of `dpproxy collect` |
| `${env:NAME}`, `${file:PATH}` in a policy | secrets of the backend's address: read when the policy is read |
"""


def page() -> str:
    """Return the page as Markdown."""
    own = [f"| `{setting.name}` | {setting.values} | {setting.meaning} |\n" for setting in OWN]
    postgres = [f"| `{setting.name}` | {setting.meaning} |\n" for setting in POSTGRES]
    return "".join([HEAD, *own, BETWEEN, *postgres, TAIL])

"""The page of the catalogue: the tables of schema `dpproxy`, from the meanings that analysts see as comments.

Knows: names, types, meanings. Must not know: where rows come from. `scripts/reference.py` writes the page.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpproxy.sql.virtual_tables import VIRTUAL_TABLES, VirtualTable

HEAD = """# Tables about yourself: the schema `dpproxy`

Written from the code (`scripts/reference`); psql shows the same texts (`\\dt+ dpproxy.*`, `\\d+ dpproxy.budget`). Every role may
read these tables, at no charge. They tell of its own budget, answers and policy. Nothing in them depends on a private row, and
nothing tells what other roles did. They may be joined, filtered and aggregated like any table:

```sql
SELECT "window", epsilon_left, resets FROM dpproxy.budget WHERE scope = 'role';
SELECT column_name, "values" FROM dpproxy.policy WHERE table_name = 'customers' AND kind = 'plain';
SELECT * FROM TABLE(SNOWFLAKE.DATA_PRIVACY.ESTIMATE_REMAINING_DP_AGGREGATES('customers'));  -- the last table below
```

What the data hold is in the usual places: `information_schema.columns`, `pg_catalog`, psql's `\\d+`. Tables and columns that your
role may not read do not exist there. Comments on tables and columns say what the policy says of them.
"""
TAIL = """## Functions

| function | what it is |
|---|---|
| `dpproxy.low(x)`, `dpproxy.high(x)` | the ends of an aggregate's interval (`dpproxy.confidence`); NULL: nothing is known there |
| `dpproxy.stderr(x)` | the standard error of an aggregate by its noise |
"""


def page() -> str:
    """The page, as Markdown."""
    return "\n".join([HEAD, *(line for name, table in VIRTUAL_TABLES.items() for line in _part(name, table)), TAIL])


def _part(name: str, table: VirtualTable) -> Iterator[str]:
    yield from (f"## dpproxy.{name}", "", f"{table.meaning}.", "", "| column | type | what it is |", "|---|---|---|")
    yield from (f"| `{column.name}` | {column.type} | {column.meaning.replace('|', chr(92) + '|')} |" for column in table.columns)
    yield ""

"""The page of the catalogue: the tables of schema `dpproxy`, from the meanings that analysts see as comments.

Knows: names, types, meanings. Must not know: where rows come from. `scripts/reference.py` writes the page.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpproxy.sql.virtual_tables import VIRTUAL_TABLES, VirtualTable

HEAD = """# Tables about yourself: schema `dpproxy`

Written from the code (`scripts/reference`); `\\d+ dpproxy.budget` in psql says the same. Everybody can read these tables, at no
charge. What they say depends on the policy and on what your role has asked, never on the data.

What the data hold is in the usual places: `information_schema.columns`, `pg_catalog`, psql's `\\d+`. Tables and columns that your
role may not read do not exist there. Comments on tables and columns say what the policy says of them.
"""


def page() -> str:
    """The page, as Markdown."""
    return "\n".join([HEAD, *(line for name, table in VIRTUAL_TABLES.items() for line in _part(name, table))])


def _part(name: str, table: VirtualTable) -> Iterator[str]:
    yield from (f"## dpproxy.{name}", "", f"{table.meaning}.", "", "| column | type | what it is |", "|---|---|---|")
    yield from (f"| `{column.name}` | {column.type} | {column.meaning.replace('|', chr(92) + '|')} |" for column in table.columns)
    yield ""

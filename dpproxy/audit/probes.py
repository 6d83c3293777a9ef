"""Expressions that fail for some values and not for others, where PostgreSQL computes them: asked below an aggregate, they
must not.

Knows: policies, catalogs, SQL as text. Must not know: what is answered. Each is refused for everybody, or answered for everybody.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpproxy.audit.subject import Statement
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import ColumnRole, Policy
from dpproxy.policy.names import quote_name

_OF_NUMBERS = (
    "sum(1 / {x})", "sum({x} / ({x} - {x}))", "sum(sqrt({x}))", "sum(ln({x}))", "sum(exp({x}))", "sum({x} * 1e300 * 1e300)",
    "sum(CAST({x} AS smallint))", "sum(power({x}, 400))", "count(*) FILTER (WHERE mod(CAST({x} AS integer), 0) = 1)",
    "sum(CASE WHEN {x} > 100000 THEN 1 / 0 ELSE 1 END)", "count(DISTINCT repeat('x', CAST({x} AS integer)))", "avg(log({x}))",
)  # fmt: skip
_OF_TEXTS = (
    "count(*) FILTER (WHERE CAST({u} AS integer) > 0)", "count(*) FILTER (WHERE CAST({u} AS date) > date '2024-01-01')",
    "count(*) FILTER (WHERE substring({u}, 1, -1) = '')", "count(*) FILTER (WHERE {u} ~ '(')",
    "count(DISTINCT to_date({u}, 'YYYY-MM-DD'))",
    "count(*) FILTER (WHERE split_part({u}, '-', 0) = '')", "count(DISTINCT chr(length({u}) - 3))",
)  # fmt: skip
_NUMBERS = ("int2", "int4", "int8", "numeric", "float4", "float8")
_TEXTS = ("text", "varchar", "bpchar")
MOST = 40


def probes(policy: Policy, catalog: Catalog) -> tuple[Statement, ...]:
    """Return probes of a number and a text of each table."""
    role = max(policy.roles.values(), key=lambda r: len(r.tables) if r.tables is not None else len(policy.tables))
    return tuple(Statement(role.name, sql, "probe") for sql in _texts(policy, catalog, role.tables))[:MOST]


def _texts(policy: Policy, catalog: Catalog, visible: object) -> Iterator[str]:
    for table in policy.tables.values():
        if table.public or (isinstance(visible, frozenset) and table.name not in visible):
            continue
        plain = [c.name for c in catalog.tables[table.name].columns if c.name in table.columns]
        plain = [c for c in plain if table.columns[c].role is ColumnRole.PLAIN]
        types = {c.name: c.type for c in catalog.tables[table.name].columns}
        source = (
            quote_name(table.name.name) if table.name.schema == "public" else f"{table.name.schema}.{quote_name(table.name.name)}"
        )
        for x in [c for c in plain if types[c] in _NUMBERS][:1]:
            yield from (f"SELECT {call.format(x=quote_name(x))} FROM {source}" for call in _OF_NUMBERS)
        for u in [c for c in plain if types[c] in _TEXTS][:1]:
            yield from (f"SELECT {call.format(u=quote_name(u))} FROM {source}" for call in _OF_TEXTS)

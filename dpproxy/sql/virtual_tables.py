"""The tables of schema `dpproxy`, whose rows the session supplies: names and types of their columns.

Knows: names. Must not know: ledgers. The facade creates empty tables of the same shape (`facade.ddl`), so that catalog
queries and Describe see them.
"""

from __future__ import annotations

VIRTUAL_TABLES: dict[str, tuple[tuple[str, str], ...]] = {
    "budget": (
        ("role", "text"), ("scope", "text"), ("epsilon_spent", "numeric"), ("epsilon_limit", "numeric"),
        ("epsilon_left", "numeric"), ("delta_spent", "numeric"), ("delta_limit", "numeric"), ('"window"', "text"),
        ("resets", "timestamptz"), ("epsilon_lifetime", "numeric"), ("delta_lifetime", "numeric"),
    ),
    "answers": (
        ("asked", "timestamptz"), ("epsilon", "numeric"), ("delta", "numeric"), ("measurements", "int4"),
        ("reused", "bool"), ("statement_hash", "text"), ("outcome", "text"),
    ),
    "policy": (
        ("table_name", "text"), ("column_name", "text"), ("kind", "text"), ("type", "text"), ("low", "text"),
        ("high", "text"), ('"values"', "text"), ("note", "text"),
    ),
    "tables": (
        ("table_name", "text"), ("kind", "text"), ("rows_per_group", "int4"), ("groups", "int4"), ("note", "text"),
    ),
}  # fmt: skip

"""The keys of the policy format, declared once.

Knows: which keys each mapping may and must have, and what each is for. Must not know: how they are read. The reader
takes unknown, missing and suggested keys from here; the JSON Schema takes the same keys and their descriptions, so
the two cannot name different keys. A new key is added here first; a test fails until the schema types it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """Declares a mapping of the format: `title` for messages, the keys with their purpose, and those that must be there."""

    title: str
    keys: Mapping[str, str]
    required: tuple[str, ...] = ()


POLICY = Shape(
    "a policy",
    {
        "version": "Version of the policy format; always 1.",
        "dataset": "Name of the database that clients connect to.",
        "include": "More files of this policy, relative to this one: each holds `tables`, `views`, `roles` or `users`.",
        "backend": "Where the data is. The proxy only reads it.",
        "privacy_unit": "Who is protected: one person, customer, patient.",
        "budget": "The most that all roles together may ever learn in a window.",
        "tables": "The tables that exist for analysts. A table not listed does not exist.",
        "views": "Named SELECT statements, planned like the analyst's own text.",
        "roles": "What each kind of analyst may see and spend.",
        "users": "Who may log in.",
        "mechanism": "Noise: laplace (pure epsilon), gaussian (epsilon, delta), or auto (the cheaper one).",
        "previews": "Queries for rows of people without a filter: refuse them, answer with no rows, or with invented ones "
        "(default refuse).",
        "reuse_answers": "Answer an equal measurement again from the earlier release, at no charge.",
        "timing": "Side channels through time.",
        "accelerate": "A prepared copy of the private tables, or an extract of a PostgreSQL database, from which the same is "
        "answered faster (default auto).",
    },
    ("version", "dataset", "backend", "privacy_unit", "budget", "tables", "roles", "users"),
)
INCLUDED = Shape(
    "an included file",
    {key: POLICY.keys[key] for key in ("tables", "views", "roles", "users")},
)
BACKEND = Shape(
    "a backend",
    {
        "duckdb": "Path of a DuckDB file, relative to this file. May hold ${env:NAME}.",
        "memory_limit": "DuckDB: most memory for queries, as in `4GB`.",
        "threads": "DuckDB: most threads for queries.",
        "postgres": "PostgreSQL: connection URI of a role that can only read. May hold ${env:NAME} or ${file:path}.",
        "password": "PostgreSQL: the password, as ${env:NAME} or ${file:path}.",
        "spark": "Spark Connect: the address sc://host:port of Spark or Sail. May hold ${env:NAME} or ${file:path}.",
        "catalog": "Spark Connect: the catalog that holds the tables (default: the server's own).",
        "token": "Spark Connect: the token of the proxy's user, as ${env:NAME} or ${file:path}.",
    },
)
PRIVACY_UNIT = Shape(
    "a privacy unit",
    {"name": "Singular noun for messages, as in `customer`.", "key": "The column that names a unit: table.column."},
    ("name", "key"),
)
BUDGET = Shape(
    "a budget",
    {
        "epsilon": "Most epsilon in a window; rounded down to a millionth.",
        "delta": "Most delta in a window (default 0); rounded down to 1e-18.",
        "every": "When a new budget starts (default never).",
        "warn": "Percents of it at which a notice and the log say so (default [80]).",
    },
    ("epsilon",),
)
TABLE = Shape(
    "a table",
    {
        "public": "true: no person's data; shown as it is. Such a table has no unit.",
        "unit": "The column that names the privacy unit of a row, or a foreign-key path to it.",
        "unique": "At most one row per unit (checked at start). Default: true for the privacy unit's own key.",
        "bounds": "How much of one unit a query may see; rows and groups beyond are cut.",
        "columns": "Columns that analysts may use. In a private table a column not listed is hidden.",
    },
)
VIA = Shape(
    "a path to the unit",
    {
        "via": "table.column that this table refers to; that table has a unit of its own.",
        "column": "This table's column, when it is named differently.",
    },
    ("via",),
)
BOUNDS = Shape(
    "a bounds mapping",
    {
        "rows_per_group": "Most rows of one unit that count in a group.",
        "groups": "Most groups that one unit counts in, or `all` (best when all groups are declared and few).",
    },
    ("rows_per_group", "groups"),
)
WHOLE_BOUNDS = Shape(
    "a bounds mapping with `rows`",
    {
        "rows": "In all groups together a unit weighs no more than this many rows in one; more is scaled down.",
        "groups": "Most groups that one unit counts in where it cannot be scaled (default all).",
    },
    ("rows",),
)
COLUMN = Shape(
    "a column",
    {
        "values": "All values that may be shown as groups. Public: listed even when no row has them.",
        "nulls": "true: NULL is one of the declared groups.",
        "range": "[lowest, highest], inclusive: numbers, dates, or intervals as in [0 days, 30 days]. Values beyond are moved to "
        "the nearest end. Sums need it.",
        "resolution": "Grid of a numeric column, as in 0.01 for cents.",
        "length": "Most characters of a text column that its length() counts; averages of it need that.",
        "references": "table.column this key refers to: the row there belongs to the same unit. May be joined on, not shown.",
    },
)
ROLE = Shape(
    "a role",
    {
        "budget": "What all users of the role together may spend in a window.",
        "query": "What one statement costs.",
        "tables": "Tables and views the role can see (default: all).",
        "min_units": "Groups of fewer units are never shown, unless their keys are declared (default 1).",
        "temp_tables": "true: may make temporary tables (default false).",
        "previews": "What the role gets for rows of people without a filter (default: the policy's `previews`).",
    },
    ("budget", "query"),
)
QUERY = Shape(
    "a query mapping",
    {
        "epsilon": "Epsilon of a statement unless the session sets another.",
        "max_epsilon": "The most that a session may set (default: epsilon).",
        "delta": "Delta of a statement with undeclared groups (default: a thousandth of the role's delta).",
        "measure_bounds": "Part of a statement's epsilon that measures how many units its bounds cut, as in 0.05 (default 0).",
        "parameter_bytes": "Bytes that a statement's parameters may have together (default 1048576, which is the most).",
    },
    ("epsilon",),
)
USER = Shape(
    "a user",
    {
        "role": "The user's role.",
        "password": "A SCRAM-SHA-256 verifier, as printed by `dpproxy policy password`.",
        "budget": "The most of the role's budget that this user's own statements may spend (default: all of it).",
    },
    ("role", "password"),
)
REUSE = Shape(
    "a reuse_answers mapping",
    {
        "for": "How long an answer may be reused, as in 1d (default: as long as the data does not change).",
        "epoch": "The data's state: any name, to be changed when data is reloaded; `never changes`; `reload at 03:00` (UTC); "
        "or a SELECT of one whole number from public tables. Default: the time of a DuckDB file; of other data, one day.",
    },
)
TIMING = Shape("a timing mapping", {"quantum": "Answers wait for a multiple of this time, as in 50ms; or off."}, ("quantum",))
ACCELERATE = Shape(
    "an accelerate mapping",
    {
        "mode": "off: no copy; on: always one; auto: where the data are large; extract: PostgreSQL's tables are read once for "
        "each epoch of the data, and DuckDB measures.",
        "disk": "The most disk that making and keeping a copy may take, as in `20GB` (default: six times the data, and half of "
        "what is free).",
        "folder": "Where copies are kept, relative to this file (default: the state folder).",
        "queries": "Statements that the copy is made for, as dashboards ask them, beside what is made for every policy.",
    },
    ("mode",),
)
ALL = (
    POLICY,
    BACKEND,
    PRIVACY_UNIT,
    BUDGET,
    TABLE,
    VIA,
    BOUNDS,
    WHOLE_BOUNDS,
    COLUMN,
    ROLE,
    QUERY,
    USER,
    REUSE,
    TIMING,
    ACCELERATE,
)
"""Every shape of the format."""

"""The keys of a whole policy: of the file itself, its backend, its privacy unit, and what holds for all roles.

Knows: types, purposes, effects; all parts of the format, in the order of the page of keys. Must not know: how a value is read
(`policy.load`, `policy.load`). A key is one row, and all that is said of it is in that row; `policy.key_types` says what
a row has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from dpproxy.policy.key_types import (
    COUNT,
    DURATION,
    SIZE,
    TABLE_COLUMN,
    TEXT,
    TEXTS,
    Part,
    PolicyKey,
    Shape,
    named,
    one_of,
    part_ref,
)
from dpproxy.policy.model import AccelerateMode, Mechanism, Previews
from dpproxy.policy.people_keys import BUDGET, QUERY, ROLE, USER
from dpproxy.policy.report_keys import CLAIM, RANDOMISED, RELEASED_LIST, REPORTS
from dpproxy.policy.table_keys import BOUNDS, COLUMN, DAY, REVIEW, TABLE, VIA, WHOLE_BOUNDS

_WINDOW = {"epsilon": 10, "delta": 1e-6, "every": "month"}

POLICY = Part(
    name="policy",
    title="a policy",
    heading="The policy",
    keys={
        "version": PolicyKey(
            "Version of the policy format; always 1.",
            {"const": 1},
            "Another number is refused, so that an old proxy never misreads a new policy.",
            1,
            required=True,
        ),
        "dataset": PolicyKey(
            "Name of the database that clients connect to.",
            TEXT,
            "Spending is recorded under this name; the same data under another name are refused.",
            "shop",
            required=True,
        ),
        "include": PolicyKey(
            "More files of this policy, relative to this one: each holds `tables`, `views`, `roles` or `users`.",
            TEXTS,
            "Privacy and error are those of one file with all parts.",
            ["tables.yaml", "people/roles.yaml"],
        ),
        "backend": PolicyKey(
            "Where the data is. The proxy only reads it.",
            part_ref("backend"),
            "Its role should be able to read, and nothing else.",
            {"duckdb": "shop.duckdb"},
            required=True,
        ),
        "privacy_unit": PolicyKey(
            "Who is protected: one person, customer, patient.",
            part_ref("privacy_unit"),
            "All rows of one unit are protected together: the larger the unit (person, household), the more is "
            "protected, and the more noise there is.",
            {"name": "customer", "key": "customers.customer_id"},
            required=True,
        ),
        "budget": PolicyKey(
            "The most that all roles together may ever learn in a window.",
            part_ref("budget"),
            "Roles may work together, so this is what anybody can learn about one unit in a window, whatever the roles have.",
            {"epsilon": 100, "delta": 1e-5, "every": "year"},
            with_unit=True,
        ),
        "tables": PolicyKey(
            "The tables that exist for analysts. A table not listed does not exist.",
            named(part_ref("table")),
            "What is not listed cannot be asked for, and tells nothing.",
            {"orders": {"unit": "customer_id"}},
            required=True,
        ),
        "views": PolicyKey(
            "Named SELECT statements, planned like the analyst's own text.",
            named(TEXT),
            "A view is planned with its tables' bounds: it opens nothing that they do not.",
            {"adults": "SELECT 1"},
        ),
        "roles": PolicyKey(
            "What each kind of analyst may see and spend.",
            named(part_ref("role")),
            "Each role has a budget of its own, within the dataset's.",
            {"analyst": {"budget": _WINDOW}},
            required=True,
        ),
        "users": PolicyKey(
            "Who may log in.",
            named(part_ref("user")),
            "Users of a role share its budget and its stored answers.",
            {"ada": {"role": "analyst"}},
            required=True,
        ),
        "mechanism": PolicyKey(
            "Noise: laplace (pure epsilon), gaussian (epsilon, delta), or auto (the cheaper one).",
            one_of(get_args(Mechanism)),
            "Gaussian noise costs delta, and is smaller than Laplace noise when a statement has many columns or groups; "
            "auto takes whichever is smaller for the statement.",
            "auto",
        ),
        "previews": PolicyKey(
            "Queries for rows of people without a filter: refuse them, answer with no rows, or with invented ones "
            "(default refuse).",
            one_of(get_args(Previews)),
            "Tells nothing of the data and costs nothing: such answers are made of what `dpproxy.policy` shows anyway. "
            "But whoever reads no notices may take invented rows for real ones, or none for an empty table.",
            "empty",
        ),
        "reuse_answers": PolicyKey(
            "Answer an equal measurement again from the earlier release, at no charge.",
            {"anyOf": [{"const": "off"}, part_ref("reuse")]},
            "A repeated question costs nothing and tells nothing new.",
            {"for": "1d"},
        ),
        "timing": PolicyKey(
            "Side channels through time.",
            part_ref("timing"),
            "Without it, how long an answer takes may tell how many rows somebody has.",
            {"quantum": "50ms"},
        ),
        "accelerate": PolicyKey(
            "A prepared copy of the private tables, or an extract of a PostgreSQL database, from which the same is "
            "answered faster (default auto).",
            {"anyOf": [one_of(get_args(AccelerateMode)), part_ref("accelerate")]},
            "Does not matter for privacy; the copy holds rows of people, as the data do.",
            "on",
        ),
    },
)

INCLUDED = Shape(
    title="an included file",
    keys={name: replace(POLICY.keys[name], required=False) for name in ("tables", "views", "roles", "users")},
)

BACKEND = Part(
    name="backend",
    title="a backend",
    heading="`backend`",
    keys={
        "duckdb": PolicyKey(
            "Path of a DuckDB file, relative to this file. May hold ${env:NAME}.",
            TEXT,
            "The file is read only, and no file besides it.",
            "shop.duckdb",
        ),
        "memory_limit": PolicyKey(
            "DuckDB: most memory for queries, as in `4GB`.",
            TEXT,
            "A query that needs more is answered from disk, or fails after its charge. Tables that are indexed by "
            "people's numbers come on top: about half as much again.",
            "4GB",
        ),
        "threads": PolicyKey("DuckDB: most threads for queries.", COUNT, "Does not matter for privacy or error.", 4),
        "postgres": PolicyKey(
            "PostgreSQL: connection URI of a role that can only read. May hold ${env:NAME} or ${file:path}.",
            TEXT,
            "Grant the role what `dpproxy policy grants` prints.",
            "postgresql://reader@db/shop",
        ),
        "password": PolicyKey(
            "PostgreSQL: the password, as ${env:NAME} or ${file:path}.",
            TEXT,
            "A reference keeps it out of the file.",
            "${env:PGPASSWORD}",
        ),
        "spark": PolicyKey(
            "Spark Connect: the address sc://host:port of Spark or Sail. May hold ${env:NAME} or ${file:path}.",
            TEXT,
            "Let its user read the policy's tables, and nothing else.",
            "sc://spark:15002",
        ),
        "catalog": PolicyKey(
            "Spark Connect: the catalog that holds the tables (default: the server's own).",
            TEXT,
            "Tables of other catalogs do not exist.",
            "lake",
        ),
        "token": PolicyKey(
            "Spark Connect: the token of the proxy's user, as ${env:NAME} or ${file:path}.",
            TEXT,
            "A reference keeps it out of the file.",
            "${env:SPARK_TOKEN}",
        ),
    },
)

PRIVACY_UNIT = Part(
    name="privacy_unit",
    title="a privacy unit",
    heading="`privacy_unit`",
    keys={
        "name": PolicyKey(
            "Singular noun for messages, as in `customer`.", TEXT, "Messages to analysts use it.", "customer", required=True
        ),
        "key": PolicyKey(
            "The column that names a unit: table.column. Of several, a list: [t.tenant, t.user], [t.person, { day: t.at }].",
            {"anyOf": [TABLE_COLUMN, {"type": "array", "items": {"anyOf": [TABLE_COLUMN, part_ref("day")]}, "minItems": 2}]},
            "Adding or removing all rows of one key changes no answer by much.",
            "customers.customer_id",
            with_unit=True,
        ),
    },
)

REUSE = Part(
    name="reuse",
    title="a reuse_answers mapping",
    heading="`reuse_answers`",
    keys={
        "for": PolicyKey(
            "How long an answer may be reused, as in 1d (default: as long as the data does not change).",
            DURATION,
            "Longer: fewer charges, older answers.",
            "1d",
        ),
        "epoch": PolicyKey(
            "The data's state: any name, to be changed when data is reloaded; `never changes`; `reload at 03:00` (UTC); "
            "or a SELECT of one whole number from public tables. Default: the time of a DuckDB file; of other data, one "
            "day.",
            TEXT,
            "Tells when the data are others: then answers are measured and charged anew.",
            "reload at 03:00",
        ),
    },
)

TIMING = Part(
    name="timing",
    title="a timing mapping",
    heading="`timing`",
    keys={
        "quantum": PolicyKey(
            "Answers wait for a multiple of this time, as in 50ms; or off.",
            {"anyOf": [{"const": "off"}, DURATION]},
            "Longer tells less through time, and makes every answer wait.",
            "50ms",
            required=True,
        ),
    },
)

ACCELERATE = Part(
    name="accelerate",
    title="an accelerate mapping",
    heading="`accelerate`",
    keys={
        "mode": PolicyKey(
            "off: no copy; on: always one; auto: where the data are large; extract: PostgreSQL's tables are read once "
            "for each epoch of the data, and DuckDB measures.",
            one_of(get_args(AccelerateMode)),
            "Does not matter for privacy: a copy is of the same data, and what an answer promises is the same.",
            "on",
            required=True,
        ),
        "disk": PolicyKey(
            "The most disk that making and keeping a copy may take, as in `20GB` (default: six times the data, and half "
            "of what is free).",
            SIZE,
            "Does not matter for privacy. A copy that would take more is not made.",
            "20GB",
        ),
        "folder": PolicyKey(
            "Where copies are kept, relative to this file (default: the state folder).",
            TEXT,
            "Whoever can read that disk can read rows of people.",
            "/fast/dpproxy",
        ),
        "queries": PolicyKey(
            "Statements that the copy is made for, as dashboards ask them, in addition to what is made for every policy.",
            TEXTS,
            "Does not matter for privacy: they are not asked, and cost nothing.",
            ["SELECT count(*) FROM visits"],
        ),
    },
)

OF_REPORTS = (REPORTS, RANDOMISED, CLAIM, RELEASED_LIST)
PARTS = (
    POLICY,
    BACKEND,
    PRIVACY_UNIT,
    BUDGET,
    TABLE,
    REVIEW,
    DAY,
    VIA,
    BOUNDS,
    WHOLE_BOUNDS,
    COLUMN,
    *OF_REPORTS,
    ROLE,
    QUERY,
    USER,
    REUSE,
    TIMING,
    ACCELERATE,
)
"""Every part of the format."""

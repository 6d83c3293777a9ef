"""What each key of a policy does to privacy and to error, and an example of it: hover texts in editors, and the reference.

Knows: keys by the names of the schema's parts, numbers of the field. Must not know: how a key is read. `policy.shapes` says
what a key is for, in one sentence; what is said here comes after it. A key without a note fails a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """A note says what a key does to privacy and to error, and how it is written."""

    effect: str
    example: object


_WINDOW = {"epsilon": 10, "delta": 1e-6, "every": "month"}

KEY_NOTES: Mapping[str, Mapping[str, Note]] = {
    "policy": {
        "version": Note("Another number is refused, so that an old proxy never misreads a new policy.", 1),
        "dataset": Note("Spending is recorded under this name; the same data under another name are refused.", "shop"),
        "include": Note("Privacy and error are those of one file with all parts.", ["tables.yaml", "people/roles.yaml"]),
        "backend": Note("Its role should be able to read, and nothing else.", {"duckdb": "shop.duckdb"}),
        "privacy_unit": Note(
            "All rows of one unit are protected together: the larger the unit (person, household), the more is protected, and "
            "the more noise there is.",
            {"name": "customer", "key": "customers.customer_id"},
        ),
        "budget": Note(
            "Roles may work together, so this is what anybody can learn about one unit in a window, whatever the roles have.",
            {"epsilon": 100, "delta": 1e-5, "every": "year"},
        ),
        "tables": Note("What is not listed cannot be asked for, and tells nothing.", {"orders": {"unit": "customer_id"}}),
        "views": Note("A view is planned with its tables' bounds: it opens nothing that they do not.", {"adults": "SELECT 1"}),
        "roles": Note("Each role has a budget of its own, within the dataset's.", {"analyst": {"budget": _WINDOW}}),
        "users": Note("Users of a role share its budget and its stored answers.", {"ada": {"role": "analyst"}}),
        "mechanism": Note(
            "Gaussian noise costs delta, and is smaller than Laplace noise when a statement has many columns or groups; auto "
            "takes whichever is smaller for the statement.",
            "auto",
        ),
        "previews": Note(
            "Tells nothing of the data and costs nothing: such answers are made of what `dpproxy.policy` shows anyway. But "
            "whoever reads no notices may take invented rows for real ones, or none for an empty table.",
            "empty",
        ),
        "reuse_answers": Note("A repeated question costs nothing and tells nothing new.", {"for": "1d"}),
        "timing": Note("Without it, how long an answer takes may tell how many rows somebody has.", {"quantum": "50ms"}),
        "accelerate": Note("Does not matter for privacy; the copy holds rows of people, as the data do.", "on"),
    },
    "backend": {
        "duckdb": Note("The file is read only, and no file besides it.", "shop.duckdb"),
        "memory_limit": Note(
            "A query that needs more is answered from disk, or fails after its charge. Tables that are indexed by people's "
            "numbers come on top: about half as much again.",
            "4GB",
        ),
        "threads": Note("Does not matter for privacy or error.", 4),
        "postgres": Note("Grant the role what `dpproxy policy grants` prints.", "postgresql://reader@db/shop"),
        "password": Note("A reference keeps it out of the file.", "${env:PGPASSWORD}"),
        "spark": Note("Let its user read the policy's tables, and nothing else.", "sc://spark:15002"),
        "catalog": Note("Tables of other catalogs do not exist.", "lake"),
        "token": Note("A reference keeps it out of the file.", "${env:SPARK_TOKEN}"),
    },
    "privacy_unit": {
        "name": Note("Messages to analysts use it.", "customer"),
        "key": Note("Adding or removing all rows of one key changes no answer by much.", "customers.customer_id"),
    },
    "budget": {
        "epsilon": Note(
            "Someone who is sure to 50 % that a unit has a property is sure to at most e^epsilon / (1 + e^epsilon) after a "
            "window: 73 % at 1, 95 % at 3. Errors shrink with it.",
            10,
        ),
        "delta": Note(
            "The chance that the epsilon above does not hold: keep it far below one in the number of units. Groups that are not "
            "declared, and Gaussian noise, need some.",
            1e-6,
        ),
        "every": Note("What is learned adds up over windows: twelve months of epsilon 1 are epsilon 12 a year at most.", "month"),
        "warn": Note("Does not matter for privacy or error.", [50, 80]),
    },
    "table": {
        "public": Note("Its rows are shown without noise or charge: never a table about people.", True),
        "unit": Note("A row without a unit belongs to nobody and counts in no answer.", "customer_id"),
        "unique": Note("One row a unit needs no bounds, and has the least noise.", True),
        "bounds": Note("Noise grows with them; what is beyond them is cut or weighed down, which answers miss.", {"rows": 50}),
        "columns": Note("A private column that is not listed does not exist for analysts.", {"region": {}}),
    },
    "via": {
        "via": Note("It must be unique (checked at start), or a row would be several units'.", "orders.order_id"),
        "column": Note("Does not matter for privacy or error.", "order"),
    },
    "bounds": {
        "rows_per_group": Note("Noise of counts and sums is this many times larger than for one row.", 10),
        "groups": Note("With Laplace noise, noise grows with it; a unit's groups beyond it are left out, chosen at random.", 5),
    },
    "whole_bounds": {
        "rows": Note(
            "Noise is that of this many rows. Units with more rows are counted in classes of size, and scaled back up where that "
            "stands out of the noise.",
            50,
        ),
        "groups": Note("Noise of undeclared groups grows with it.", 10),
    },
    "plain_column": {
        "values": Note(
            "Declared groups cost no delta and are always shown, also empty ones; rows with other values are in no group.",
            ["north", "south"],
        ),
        "nulls": Note("Without it, rows whose declared key is NULL are in no group.", True),
        "range": Note("Noise of sums grows with its larger end; values beyond count as the nearest end.", [0, 1000]),
        "resolution": Note("Finer than the data needs costs nothing; coarser rounds every value.", 0.01),
        "length": Note("Noise of sums of lengths grows with it; longer texts count as this long.", 80),
        "references": Note(
            "A row that refers to another unit's row would not be protected: it is taken for the unit's own.", "a.id"
        ),
    },
    "role": {
        "budget": Note("What all its users together may learn in a window.", _WINDOW),
        "query": Note("A larger epsilon a query: less noise, and fewer queries.", {"epsilon": 0.1}),
        "tables": Note("Other tables do not exist for the role.", ["customers", "orders"]),
        "min_units": Note("Hides small undeclared groups on top of the threshold that delta needs.", 10),
        "temp_tables": Note("Only what was released can be kept in them.", True),
        "previews": Note("As the policy's own: for a role of tools that show sample rows, say.", "synthetic"),
    },
    "query": {
        "epsilon": Note("A count of one row a unit is off by less than 3 / epsilon, 19 times in 20.", 0.1),
        "max_epsilon": Note("One statement may tell this much of a unit.", 1),
        "delta": Note("The smaller, the higher the threshold that undeclared groups must pass.", 1e-9),
        "measure_bounds": Note("Takes this part of each statement's epsilon, and tells how much bounds cut.", 0.05),
        "parameter_bytes": Note("Changes no answer: longer lists are refused before anything is charged.", 100_000),
    },
    "user": {
        "role": Note("The user sees and spends what the role may.", "analyst"),
        "password": Note("A verifier: the password cannot be read from it.", "SCRAM-SHA-256$4096:..."),
        "budget": Note("Keeps one user from spending all of the role's budget.", {"epsilon": 2, "every": "month"}),
    },
    "reuse": {
        "for": Note("Longer: fewer charges, older answers.", "1d"),
        "epoch": Note("Tells when the data are others: then answers are measured and charged anew.", "reload at 03:00"),
    },
    "timing": {"quantum": Note("Longer tells less through time, and makes every answer wait.", "50ms")},
    "accelerate": {
        "mode": Note("Does not matter for privacy: a copy is of the same data, and what an answer promises is the same.", "on"),
        "disk": Note("Does not matter for privacy. A copy that would take more is not made.", "20GB"),
        "folder": Note("Whoever can read that disk can read rows of people.", "/fast/dpproxy"),
        "queries": Note("Does not matter for privacy: they are not asked, and cost nothing.", ["SELECT count(*) FROM visits"]),
    },
}

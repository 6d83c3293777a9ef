"""The keys of a policy's tables: whose rows they hold, how much of one unit counts, what columns show.

Knows: types, purposes, effects. Must not know: how a value is read (`policy.tables`, `policy.columns`). A key is one row, and all
that is said of it is in that row; `policy.key_types` says what a row has.
"""

from __future__ import annotations

from dpproxy.policy.key_types import (
    COUNT,
    COUNT_OR_ALL,
    DATE,
    FLAG,
    INTERVAL,
    NAMES,
    POSITIVE,
    TABLE_COLUMN,
    TEXT,
    VALUE,
    Part,
    PolicyKey,
    named,
    pair,
    part_ref,
)

KEY_PARTS = {"type": "array", "items": {"anyOf": [TEXT, part_ref("day")]}, "minItems": 2}
TABLE_COLUMNS = {"type": "array", "items": TABLE_COLUMN, "minItems": 2}

TABLE = Part(
    name="table",
    title="a table",
    heading="A table",
    keys={
        "public": PolicyKey(
            "true, or a review: no person's data; shown as it is. Such a table has no unit.",
            {"anyOf": [FLAG, part_ref("review")]},
            "Its rows are shown without noise or charge: never a table about people.",
            True,
        ),
        "reports": PolicyKey(
            "The table holds reports that devices randomised before they sent them. Such a table has no unit.",
            part_ref("reports"),
            "Answers are estimates and cost no epsilon: what a device tells is bounded by its own reports. Plain columns have no "
            "noise at all.",
            {"epsilon": 4, "per_day": 1, "keep": "90d"},
        ),
        "unit": PolicyKey(
            "The column that names the privacy unit of a row, a list of the columns that do, or a foreign-key path to it.",
            {"anyOf": [TEXT, KEY_PARTS, part_ref("via")]},
            "A row without a unit belongs to nobody and counts in no answer. With a day among its columns, a unit is one day of "
            "somebody.",
            "customer_id",
        ),
        "unprotected": PolicyKey(
            "Columns by which a row names further units, as the receiver of a payment. Written by who knows it.",
            NAMES,
            "Those units are not protected by these rows: answers may show any number of them. EXPLAIN says so.",
            ["to_account"],
        ),
        "unique": PolicyKey(
            "At most one row per unit (checked at start). Default: true for the privacy unit's own key.",
            FLAG,
            "One row a unit needs no bounds, and has the least noise.",
            True,
        ),
        "keys": PolicyKey(
            "Columns, or lists of columns, whose values no two rows share (checked at start).",
            {"type": "array", "items": {"anyOf": [TEXT, NAMES]}, "minItems": 1},
            "Joins by them meet one row: more of a unit's tables may be joined. The keys of a database need not be listed.",
            [["order_id", "line"]],
        ),
        "bounds": PolicyKey(
            "How much of one unit a query may see; rows and groups beyond are cut.",
            {"anyOf": [part_ref("bounds"), part_ref("whole_bounds")]},
            "Larger bounds mean more noise; contributions beyond them are cut or scaled down, and missing from answers.",
            {"rows": 50},
        ),
        "rows_at_most": PolicyKey(
            "The most rows that one unit has in this table. It is taken as true, as ranges are; `policy check --data` says what "
            "it is.",
            COUNT,
            "Adds no noise. It closes intervals above: what bounds cut is then at most the units that noise may hide, times it. "
            "Rows of a unit beyond it are missed without a word.",
            400,
        ),
        "columns": PolicyKey(
            "Columns that analysts may use. In a private table a column not listed is hidden.",
            named(part_ref("column")),
            "A private column that is not listed does not exist for analysts.",
            {"region": {}},
        ),
    },
)

REVIEW = Part(
    name="review",
    title="a review of a public table",
    heading="`public`, with a review",
    keys={
        "reviewed": PolicyKey(
            "When, and by whom, the table was found to be about nobody.",
            TEXT,
            "`policy check` then no longer doubts it. Columns that share values with people's ids are shown to everybody.",
            "2026-11-28 by Ada",
            required=True,
        ),
    },
)

DAY = Part(
    name="day",
    title="a day of a key",
    heading="A day in a key",
    keys={
        "day": PolicyKey(
            "The date or timestamp whose day is part of the key.",
            TEXT,
            "A weaker promise: one day of a person is protected, and not what several days of the same person tell together.",
            "at",
            required=True,
        ),
    },
)

VIA = Part(
    name="via",
    title="a path to the unit",
    heading="`unit`, as a path",
    keys={
        "via": PolicyKey(
            "table.column that this table refers to, or a list of them; that table has a unit of its own.",
            {"anyOf": [TABLE_COLUMN, TABLE_COLUMNS]},
            "It must be unique (checked at start), or a row would be several units'.",
            "orders.order_id",
            required=True,
        ),
        "column": PolicyKey(
            "This table's column, or as many as `via` lists, when they are named differently.",
            {"anyOf": [TEXT, NAMES]},
            "Does not matter for privacy or error.",
            "order",
        ),
    },
)

BOUNDS = Part(
    name="bounds",
    title="a bounds mapping",
    heading="`bounds`, in each group",
    keys={
        "rows_per_group": PolicyKey(
            "Most rows of one unit that count in a group.",
            COUNT,
            "Noise of counts and sums is this many times larger than for one row.",
            10,
            required=True,
        ),
        "groups": PolicyKey(
            "Most groups that one unit counts in, or `all` (best when all groups are declared and few).",
            COUNT_OR_ALL,
            "With Laplace noise, noise grows with it; a unit's groups beyond it are left out, chosen at random.",
            5,
            required=True,
        ),
    },
)

WHOLE_BOUNDS = Part(
    name="whole_bounds",
    title="a bounds mapping with `rows`",
    heading="`bounds`, over all groups",
    keys={
        "rows": PolicyKey(
            "A unit's contributions over all groups are scaled down to those of this many rows in one group.",
            COUNT,
            "Noise is that of this many rows. Units with more rows are counted in classes of size, and scaled back up "
            "where that stands out of the noise.",
            50,
            required=True,
        ),
        "groups": PolicyKey(
            "Most groups that one unit counts in where it cannot be scaled (default all).",
            COUNT_OR_ALL,
            "Noise of undeclared groups grows with it.",
            10,
        ),
    },
)

COLUMN = Part(
    name="plain_column",
    title="a column",
    heading="A column",
    keys={
        "values": PolicyKey(
            "All values that may be shown as groups. Public: listed even when no row has them.",
            {"type": "array", "items": VALUE, "minItems": 1, "uniqueItems": True},
            "Declared groups cost no delta and are always shown, also empty ones; rows with other values are in no group.",
            ["north", "south"],
        ),
        "nulls": PolicyKey(
            "true: NULL is one of the declared groups.",
            FLAG,
            "Without it, rows whose declared key is NULL are in no group.",
            True,
        ),
        "range": PolicyKey(
            "[lowest, highest], inclusive: numbers, dates, or intervals as in [0 days, 30 days]. Values beyond "
            "count as the nearest end. Sums need it.",
            {"anyOf": [pair({"type": "number"}), pair(DATE), pair(INTERVAL)]},
            "Noise of sums grows with its larger end; values beyond count as the nearest end.",
            [0, 1000],
        ),
        "resolution": PolicyKey(
            "Grid of a numeric column, as in 0.01 for cents.",
            POSITIVE,
            "Finer than the data needs costs nothing; coarser rounds every value.",
            0.01,
        ),
        "length": PolicyKey(
            "Most characters of a text column that its length() counts; averages of it need that.",
            COUNT,
            "Noise of sums of lengths grows with it; longer texts count as this long.",
            80,
        ),
        "references": PolicyKey(
            "table.column this key refers to: the row there belongs to the same unit. May be joined on, not shown.",
            TABLE_COLUMN,
            "A row that refers to another unit's row would not be protected: it is taken for the unit's own.",
            "a.id",
        ),
        "plain": PolicyKey(
            "true, in a table of reports: devices report the column as it is.",
            FLAG,
            "Shown without noise to everybody who may read the table: never what names or nearly names a person.",
            True,
        ),
        "randomised": PolicyKey(
            "How devices, or people with a coin, randomised the column before it was stored.",
            part_ref("randomised"),
            "Answers take the randomness out again, and say how far off that leaves them.",
            {"by": "rr", "if_yes": "3/4", "if_no": "1/4"},
        ),
        "from": PolicyKey(
            "Of a randomised column: the stored column with the reports (default: the one of its own name).",
            TEXT,
            "That column is not visible.",
            "emoji_r",
        ),
    },
)

"""The keys of tables whose rows devices randomised: limits of reports, claims about devices, candidates.

Knows: types, purposes, effects. Must not know: how a value is read (`policy.reports`), what a mechanism computes.
A key is one row, and all that is said of it is in that row; `policy.key_types` says what a row has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from dpproxy.policy.key_types import (
    COUNT,
    DURATION,
    POSITIVE,
    SHARE,
    TABLE_COLUMN,
    TEXT,
    VALUE,
    Fragment,
    Part,
    PolicyKey,
    one_of,
    pair,
    part_ref,
)

MECHANISMS = ("auto", "rr", "krr", "sue", "oue", "pgr", "flh", "cms", "hcms", "levels", "laplace", "duchi", "sfp")
PROBABILITY: Final[Fragment] = {"anyOf": [SHARE, {"type": "string", "pattern": "^[0-9]{1,18}/[0-9]{1,18}$"}]}

REPORTS = Part(
    name="reports",
    title="a reports mapping",
    heading="`reports`",
    keys={
        "epsilon": PolicyKey(
            "The most epsilon of one report, all of its columns together.",
            POSITIVE,
            "The odds of any guess about a device change at most by e^epsilon for each of its reports.",
            4,
            required=True,
        ),
        "per_day": PolicyKey(
            "The most reports that a device makes in a day (default 1).",
            COUNT,
            "A day of a device tells this many times the epsilon of a report.",
            1,
        ),
        "keep": PolicyKey(
            "How long reports are kept, in days or weeks, two years at most (default: for ever).",
            DURATION,
            "Reports of a device add up over as many days.",
            "90d",
        ),
        "at_least": PolicyKey(
            "Groups of fewer reports are not shown (default 1000, least 100).",
            COUNT | {"minimum": 100},
            "Keeps estimates that are all noise from being shown. It protects nobody by itself.",
            1000,
        ),
        "answers": PolicyKey(
            "fresh: a device draws for each report; memoised: once for each value, and it repeats itself (default fresh).",
            one_of(("fresh", "memoised")),
            "Memoised answers to one question tell no more after a year than after a day. For rr and krr alone.",
            "fresh",
        ),
        "rows": PolicyKey(
            "reports: a row is a report; cells: a row stands for the `n` reports that are alike (default reports).",
            one_of(("reports", "cells")),
            "With cells no single report is kept. Bit vectors (sue, oue, cms) have to be stored so.",
            "cells",
        ),
    },
)

CLAIM = Part(
    name="claim",
    title="a claim",
    heading="A claim",
    keys={
        "by": PolicyKey(
            "The mechanism. auto: krr or pgr, whichever has the smaller error.",
            one_of(MECHANISMS),
            "What devices are said to do. `dpproxy audit` refutes some claims, and proves none.",
            "auto",
        ),
        "epsilon": PolicyKey(
            "Epsilon of the column in one report (default: that of `reports`, where one column is randomised).",
            POSITIVE,
            "Those of the columns of one report add up. Larger: less error, less privacy.",
            4,
        ),
        "if_yes": PolicyKey(
            "rr: the probability that a device reports yes where yes is true, as in 3/4.",
            PROBABILITY,
            "With `if_no` it decides about epsilon, which is then computed.",
            "3/4",
        ),
        "if_no": PolicyKey(
            "rr: the probability that a device reports yes where no is true.",
            PROBABILITY,
            "The nearer to `if_yes`, the smaller epsilon, and the larger the error.",
            "1/4",
        ),
        "keep": PolicyKey(
            "krr, levels, flh, cms, hcms, sfp: the probability that the value, or a bit of it, is reported as it is.",
            PROBABILITY,
            "In place of epsilon, which is then computed.",
            "1/2",
        ),
        "count": PolicyKey(
            "How many of the values the claim is about, from the first (default: all that are listed here).",
            COUNT,
            "A claim stays true when a list grows. Must be there for values of a table.",
            2600,
        ),
        "range": PolicyKey(
            "levels, laplace, duchi: [lowest, highest] of the numbers.",
            pair({"type": "number"}),
            "Errors grow with it.",
            [0, 24],
        ),
        "levels": PolicyKey(
            "levels: how many equally spaced numbers are reported (default: the best).",
            COUNT,
            "Another number than the best has the larger error.",
            5,
        ),
        "scale": PolicyKey(
            "laplace: the scale of the noise, in place of epsilon.", POSITIVE, "Epsilon is the width of the range over it.", 2
        ),
        "base": PolicyKey("pgr: the prime of the geometry (default: the best).", COUNT, "The error depends on it a little.", 53),
        "dimension": PolicyKey("pgr: the dimension of the geometry, with `base`.", COUNT, "As `base`.", 3),
        "k": PolicyKey(
            "flh, cms, hcms, sfp: the number of hash functions, of which a device draws one.",
            COUNT,
            "More: less error by values that share cells, and slower answers.",
            1024,
        ),
        "m": PolicyKey(
            "cms, hcms, sfp, and flh if written: the cells of a hash function. A power of two for hcms and sfp.",
            COUNT,
            "More: less error by values that share cells.",
            1024,
        ),
        "seed": PolicyKey(
            "flh, cms, hcms, sfp: names the hash functions.",
            TEXT,
            "Does not matter for privacy: each device draws its function.",
            "words-2026",
        ),
        "letters": PolicyKey("sfp: the letters that words are spelled with.", TEXT, "Words with others are not reported.", "abc"),
        "length": PolicyKey("sfp: the most letters of a word, even.", COUNT, "Longer: more reports are needed.", 10),
    },
)

RANDOMISED = replace(
    CLAIM,
    name="randomised",
    title="a randomised column",
    heading="`randomised`",
    keys={**CLAIM.keys}
    | {
        "values": PolicyKey(
            "All candidates, in the order in which reports number them: a list, or a column of a public table.",
            {"anyOf": [{"type": "array", "items": VALUE, "minItems": 2, "uniqueItems": True}, part_ref("released_list")]},
            "Candidates are public: each is shown, also one that no device has. New ones are added at the end, in a new claim.",
            ["cat", "dog"],
        ),
        "claims": PolicyKey(
            "Versions, by the number in the table's column `claim`; each has what it says otherwise than this mapping.",
            {"type": "object", "additionalProperties": part_ref("claim")},
            "Reports of each version are taken by its own probabilities, and estimates are added.",
            {1: {"epsilon": 2}, 2: {"epsilon": 4}},
        ),
    },
)

RELEASED_LIST = Part(
    name="released_list",
    title="a list of values in a table",
    heading="`values`, of a public table",
    keys={
        "table": PolicyKey(
            "The table.column that lists them: of a public table.",
            TABLE_COLUMN,
            "The list is shown to everybody.",
            "emojis.name",
            required=True,
        ),
        "order": PolicyKey(
            "The column that numbers them (default: the table's primary key).",
            TEXT,
            "Reports name values by their place: it must never change.",
            "id",
        ),
    },
)

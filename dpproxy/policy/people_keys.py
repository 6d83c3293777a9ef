"""The keys of budgets, roles and users: who may ask, and how much they may learn.

Knows: types, purposes, effects. Must not know: how a value is read (`policy.people`). A key is one row, and all that is said of
it is in that row; `policy.key_types` says what a row has.
"""

from __future__ import annotations

from typing import get_args

from dpproxy.budget_windows import KINDS
from dpproxy.policy.key_types import (
    COUNT,
    FLAG,
    PERCENTS,
    POSITIVE,
    SHARE,
    TEXT,
    TEXTS,
    VERIFIER,
    Part,
    PolicyKey,
    one_of,
    part_ref,
)
from dpproxy.policy.model import PARAMETER_BYTES, Previews

_WINDOW = {"epsilon": 10, "delta": 1e-6, "every": "month"}

BUDGET = Part(
    name="budget",
    title="a budget",
    heading="`budget`: of the dataset, a role, a user",
    keys={
        "epsilon": PolicyKey(
            "Most epsilon in a window; rounded down to a millionth.",
            POSITIVE,
            "Someone who is sure to 50 % that a unit has a property is sure to at most e^epsilon / (1 + e^epsilon) after "
            "a window: 73 % at 1, 95 % at 3. Errors shrink with it.",
            10,
            required=True,
        ),
        "delta": PolicyKey(
            "Most delta in a window (default 0); rounded down to 1e-18.",
            SHARE,
            "The chance that the epsilon above does not hold: keep it far below one in the number of units. Groups that "
            "are not declared, and Gaussian noise, need some.",
            1e-6,
        ),
        "every": PolicyKey(
            "When a new budget starts (default never).",
            one_of(KINDS),
            "What is learned adds up over windows: twelve months of epsilon 1 are epsilon 12 a year at most.",
            "month",
        ),
        "warn": PolicyKey(
            "Percents of it at which a notice and the log say so (default [80]).",
            PERCENTS,
            "Does not matter for privacy or error.",
            [50, 80],
        ),
    },
)

ROLE = Part(
    name="role",
    title="a role",
    heading="A role",
    keys={
        "budget": PolicyKey(
            "What all users of the role together may spend in a window.",
            part_ref("budget"),
            "What all its users together may learn in a window.",
            _WINDOW,
            with_unit=True,
        ),
        "query": PolicyKey(
            "What one statement costs.",
            part_ref("query"),
            "A larger epsilon a query: less noise, and fewer queries.",
            {"epsilon": 0.1},
            with_unit=True,
        ),
        "tables": PolicyKey(
            "Tables and views the role can see (default: all).",
            TEXTS,
            "Other tables do not exist for the role.",
            ["customers", "orders"],
        ),
        "min_units": PolicyKey(
            "Groups of fewer units are never shown, unless their keys are declared (default 1).",
            COUNT,
            "Hides small undeclared groups on top of the threshold that delta needs.",
            10,
        ),
        "temp_tables": PolicyKey(
            "true: may make temporary tables (default false).", FLAG, "Only what was released can be kept in them.", True
        ),
        "previews": PolicyKey(
            "What the role gets for rows of people without a filter (default: the policy's `previews`).",
            one_of(get_args(Previews)),
            "As the policy's own: for a role of tools that show sample rows, say.",
            "synthetic",
        ),
    },
)

QUERY = Part(
    name="query",
    title="a query mapping",
    heading="`query`: what one statement costs",
    keys={
        "epsilon": PolicyKey(
            "Epsilon of a statement unless the session sets another.",
            POSITIVE,
            "A count of one row a unit is off by less than 3 / epsilon, 19 times in 20.",
            0.1,
            required=True,
        ),
        "max_epsilon": PolicyKey(
            "The most that a session may set (default: epsilon).", POSITIVE, "One statement may tell this much of a unit.", 1
        ),
        "delta": PolicyKey(
            "Delta of a statement with undeclared groups (default: a thousandth of the role's delta).",
            SHARE,
            "The smaller, the higher the threshold that undeclared groups must pass.",
            1e-9,
        ),
        "measure_bounds": PolicyKey(
            "Part of a statement's epsilon that measures how many units its bounds cut, as in 0.05 (default 0).",
            SHARE,
            "Takes this part of each statement's epsilon, and tells how much bounds cut.",
            0.05,
        ),
        "parameter_bytes": PolicyKey(
            "Bytes that a statement's parameters may have together (default 1048576, which is the most).",
            COUNT | {"maximum": PARAMETER_BYTES},
            "Changes no answer: longer lists are refused before anything is charged.",
            100_000,
        ),
    },
)

USER = Part(
    name="user",
    title="a user",
    heading="A user",
    keys={
        "role": PolicyKey("The user's role.", TEXT, "The user sees and spends what the role may.", "analyst", required=True),
        "password": PolicyKey(
            "A SCRAM-SHA-256 verifier, as printed by `dpproxy policy password`.",
            VERIFIER,
            "A verifier: the password cannot be read from it.",
            "SCRAM-SHA-256$4096:...",
            required=True,
        ),
        "budget": PolicyKey(
            "The most of the role's budget that this user's own statements may spend (default: all of it).",
            part_ref("budget"),
            "Keeps one user from spending all of the role's budget.",
            {"epsilon": 2, "every": "month"},
        ),
    },
)

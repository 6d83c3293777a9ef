"""Tables of reports as a policy has them, and batches of them: what tests of the collector share.

Knows: the policy's model, claims. Must not know: HTTP, stores.
"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpproxy.collector.tables import ReportTable, tables_of
from dpproxy.local.claims import Binary, CountMean, Direct, Plane
from dpproxy.policy.model import Bounds, ColumnPolicy, Policy, Randomised, ReleasedList, Reports, TablePolicy
from dpproxy.table_terms import TableName

EMOJI = ("😀", "😂", "😢", "🎉")
LIST = ReleasedList(TableName("public", "emojis"), "name", 4)
DAYS = (dt.datetime(2026, 1, 1), dt.datetime(2027, 12, 31, 23, 59, 59, 999999))
COIN = Binary(Fraction(3, 4), Fraction(1, 4))
OLD, NEW = Plane.within(Fraction(4), 3, 53, 3), Plane.within(Fraction(4), 4, 53, 3)
BITS = CountMean.within(Fraction(4), 2, 16, "words")


def table(name: str, columns: list[ColumnPolicy], **settings: Any) -> TablePolicy:
    reports = Reports(**{"epsilon": Fraction(4), **settings})
    named = {column.name: column for column in columns}
    return TablePolicy(TableName("public", name), None, False, Bounds(1, 1), named, reports=reports)


DAY = ColumnPolicy("day", plain=True, range=DAYS)
REGION = ColumnPolicy("region", plain=True, values=("north", "south"))
TABLES = (
    table("emoji", [DAY, REGION, ColumnPolicy("emoji", randomised=Randomised(((1, OLD), (2, NEW)), "emoji_r", LIST))], keep_days=90),
    table("coin", [ColumnPolicy("age", plain=True, range=(Decimal(0), Decimal(120))), ColumnPolicy("ill", randomised=Randomised(((1, COIN),), "ill"))]),
    table(
        "cells",
        [DAY, REGION, ColumnPolicy("mood", randomised=Randomised(((1, Direct.within(Fraction(4), 4)),), "mood", EMOJI))],
        cells=True,
    ),
    table("bits", [DAY, ColumnPolicy("word", randomised=Randomised(((1, BITS),), "word_r"))], cells=True),
)  # fmt: skip


class _Policy:
    """As much of a policy as the collector reads."""

    dataset = "phones"

    def of_kind(self, _kind: object) -> tuple[TablePolicy, ...]:
        return TABLES


def tables() -> dict[str, ReportTable]:
    policy: Policy = _Policy()  # type: ignore[assignment]
    return tables_of(policy, {LIST: EMOJI})


ROWS: dict[str, list[Any]] = {
    "emoji": ["north", 7],
    "coin": [44, True],
    "cells": ["south", "😂"],
    "bits": ["1:8001"],
}
"""A report of each table."""


def document(name: str = "emoji", batch: int = 1, rows: list[list[Any]] | None = None, claim: int = 0) -> dict[str, Any]:
    """A batch as a device posts it; of the newest claim unless a number is named."""
    asked = tables()[name]
    hash_ = asked.questions[claim or max(asked.questions)].claim
    return {"batch": f"{batch:032x}", "claim": hash_, "reports": rows or [ROWS[name]]}


def body(**of: Any) -> bytes:
    return json.dumps(document(**of)).encode()

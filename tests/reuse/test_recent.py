"""What is kept in memory of answers just shown: never more than the role has seen, never longer than it may be."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from fractions import Fraction
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

from dpproxy.mechanisms.noise import Released
from dpproxy.plan.model import Plan
from dpproxy.privacy.loss import Loss
from dpproxy.reuse import lookup
from dpproxy.reuse.lookup import LIFE, MOST, NUMBERS, RecentAnswers, RecentNotices
from dpproxy.reuse.matching import Asked, StoredRelease
from dpproxy.reuse.store import Found

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ASKED = Asked("rows", ("k",), ("c",), (Fraction(1),))


def found(*roles: str, rows: int = 1, created: dt.datetime = NOW) -> Found:
    released = Released((pa.array(["x"] * rows),), (np.zeros(rows, np.int64),), rows)
    return Found(released, StoredRelease("d", ASKED, released, Loss(1), created, frozenset(roles), 1), (created,))


def test_who_has_seen_it_may_have_it_again() -> None:
    memory, each = RecentAnswers(), found("ada", "eve")
    memory.add("ada", ASKED, each, NOW)
    assert memory.find("ada", ASKED, NOW, None) is each
    assert memory.find("eve", ASKED, NOW, None) is None, "asked for by nobody of this role yet"


@pytest.mark.parametrize(
    "kept",
    [found("eve"), Found(found("ada").released, None, (NOW,)), found("ada", rows=lookup.ROWS + 1)],
    ids=["of another role", "computed from others", "too large"],
)
def test_what_is_not_remembered(kept: Found) -> None:
    memory = RecentAnswers()
    memory.add("ada", ASKED, kept, NOW)
    assert memory.find("ada", ASKED, NOW, None) is None


@pytest.mark.parametrize(
    "other",
    [
        replace(ASKED, rows="others"),
        replace(ASKED, keys=("l",)),
        replace(ASKED, columns=("d",)),
        replace(ASKED, noise=(Fraction(1, 2),)),
        replace(ASKED, tau=3),
    ],
)
def test_another_question_is_not_answered(other: Asked) -> None:
    memory = RecentAnswers()
    memory.add("ada", ASKED, found("ada"), NOW)
    assert memory.find("ada", other, NOW, None) is None


def test_it_is_forgotten() -> None:
    memory = RecentAnswers()
    memory.add("ada", ASKED, found("ada"), NOW)
    assert memory.find("ada", ASKED, NOW + LIFE, None) is None
    memory.add("ada", ASKED, found("ada", created=NOW - dt.timedelta(hours=1)), NOW)
    assert memory.find("ada", ASKED, NOW, dt.timedelta(hours=2)) is not None
    assert memory.find("ada", ASKED, NOW, dt.timedelta(minutes=59)) is None, "too old for the policy"
    memory.add("ada", ASKED, found("ada"), NOW)
    memory.forget(replace(ASKED, noise=(Fraction(1, 9),)))
    assert memory.find("ada", ASKED, NOW, None) is None, "something newer answers it"


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "MOST", 3)
    memory = RecentAnswers()
    for i in range(5):
        memory.add("ada", replace(ASKED, rows=str(i)), found("ada"), NOW)
    assert [memory.find("ada", replace(ASKED, rows=str(i)), NOW, None) is not None for i in range(5)] == [
        False,
        False,
        True,
        True,
        True,
    ]


def test_what_was_said_of_the_same_numbers() -> None:
    """By identity: a plan or numbers that are merely equal may be another answer's."""
    said, plan = RecentNotices(), cast(Plan, object())
    few, many = np.zeros(10, np.int64), np.zeros(NUMBERS + 1, np.int64)
    values = {0: (few, few)}
    assert said.find(plan, values) is None
    said.keep(plan, values, ("close",))
    assert said.find(plan, {0: values[0]}) == ("close",)
    assert said.find(plan, {0: (few, few)}) is None
    assert said.find(plan, {}) is None
    assert said.find(cast(Plan, object()), values) is None
    large = {0: (many,)}
    said.keep(plan, large, ("close",))
    assert said.find(plan, large) is None
    others = [cast(Plan, object()) for _ in range(MOST)]
    for other in others:
        said.keep(other, values, ("far",))
    assert said.find(plan, values) is None
    assert said.find(others[0], values) == ("far",)

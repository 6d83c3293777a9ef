"""Answers of a client as events look at them; and two proxies, asked by black box and attacks as `dpproxy audit` has them asked."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from functools import partial

import pytest

from dpproxy.audit import attacks, black_box, wire
from dpproxy.audit import black_box as guesses
from dpproxy.audit.bench import AuditBench, Statement, Subject
from dpproxy.audit.black_box import figure
from dpproxy.audit.planted import COUNT, NOTES
from dpproxy.audit.replay import replay
from dpproxy.audit.self_test import ROLE
from dpproxy.audit.wire import Pair, as_outcome

ANSWERS = 48
AMPLE = 240.0
"""Seconds that are never waited for: the number of answers ends the asking."""


def test_rows_are_named_by_what_is_no_number() -> None:
    rows = [[("region", "north"), ("n", 3), ("mean", Decimal("1.5"))], [("region", None), ("n", 4), ("mean", None)]]
    found = as_outcome(rows)
    assert found.numbers == {(("north",), "n"): 3.0, (("north",), "mean"): 1.5, ((), "n"): 4.0}
    columns, nulls = found.code  # type: ignore[misc]
    assert columns == ("region", "n", "mean")
    assert len(nulls) == 2


def test_arrays_days_and_no_rows() -> None:
    found = as_outcome([[("day", dt.date(2024, 1, 1)), ("q", [1.0, None, 3]), ("f", True)]])
    place = ("2024-01-01", "[1.0, None, 3]", "True")
    assert sorted(found.numbers.values()) == [1.0, 3.0]
    assert all(place[0] in str(p) for p in found.numbers)
    assert as_outcome([]).code == ((), ())


# --- two proxies


@pytest.fixture(scope="module")
def both(small: AuditBench) -> Iterator[Pair]:
    with wire.pair(small) as started:
        yield started


@pytest.mark.long
def test_two_proxies_are_asked_as_an_audit_asks(small: AuditBench, both: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in (black_box, attacks):
        monkeypatch.setattr(part, "ask", partial(wire.ask, most=ANSWERS))
    monkeypatch.setattr(attacks, "MOST", 3)
    monkeypatch.setattr(attacks, "TIMED", 4 * guesses.FEWEST)
    statements = [Statement(ROLE, COUNT, "count"), Statement(ROLE, NOTES, "undeclared key")]
    replayed = replay(Subject(), small.bench, small.other, small.neighbours, statements)

    figures, given = black_box.black_box(both, small, replayed, AMPLE)
    assert {(f.statement.shape, f.epsilon, f.answers, f.refuted) for f in figures} == {
        ("count", 10, ANSWERS, False), ("undeclared key", 10, ANSWERS, False),
    }  # fmt: skip
    counted = next(f for f in figures if f.statement.shape == "count")
    assert 0.3 < counted.shown < 10, "of a person more or less at so much epsilon so many answers tell something"
    tenth = figure(replace(replayed[0], statement=counted.statement, epsilon=0.1), given[counted.statement], 1e-3)
    assert tenth.refuted, "a charge that is none"

    found = (
        attacks.averaging(figures, given), attacks.tracing(figures, given), attacks.key_probing(figures, given),
        attacks.differencing(both, small, figures, AMPLE), attacks.error_probing(both, small),
        attacks.timing(both, small, figures, AMPLE),
    )  # fmt: skip
    assert [a.refuted for a in found if a is not None] == [False] * len(found)
    assert all(p.tries for a in found if a is not None for p in a.points)

"""What the door releases is accounted for: cell by cell from exact columns and dice."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dpproxy.amounts import MICRO
from dpproxy.audit import door_account
from dpproxy.audit.bench import AuditBench
from dpproxy.audit.door_account import Dice, Roll
from dpproxy.audit.movement import Exactly
from dpproxy.audit.planted import NOTES, ORDERS, VISITS
from dpproxy.audit.self_test import ROLE
from dpproxy.engines import literal
from dpproxy.mechanisms.noise import Exact, Released
from dpproxy.mechanisms.release import release
from dpproxy.privacy import running_sums
from dpproxy.privacy.loss import Loss
from dpproxy.privacy.measurement import Basis, Measurement
from dpproxy.privacy.running_sums import Running


def _released(small: AuditBench, sql: str, roll: Roll = Roll.FAIR) -> tuple[Measurement, Exactly, Released, Dice]:
    plan = small.bench.planned(ROLE, sql)
    assert plan is not None
    (m,) = plan.measurements
    table = small.neighbours.run(m.queries[0].render([], literal))
    exact = Exactly.read(table, len(m.keys))
    dice = Dice(exact.order, roll, m.threshold.reach if m.threshold else None)
    return m, exact, release(m, Exact((table,)), dice), dice


@pytest.mark.parametrize(
    "sql", [ORDERS, NOTES, VISITS, "SELECT note, count(*) FROM orders GROUP BY 1 ORDER BY count(*) DESC LIMIT 1"]
)
def test_the_door_as_it_is(small: AuditBench, sql: str) -> None:
    for roll in Roll:
        m, exact, released, dice = _released(small, sql, roll)
        assert list(door_account.problems(m, exact, released, dice, None)) == []
        assert list(door_account.follows_dice(m, exact, released, roll)) == []


def test_sums_that_get_noise_in_place_of_groups(small: AuditBench) -> None:
    """Groups that are not coded, coded by another matrix, or not decoded, are told apart."""
    m, exact, _, _ = _released(small, VISITS)
    running = Running(0, len(exact.order), len(exact.order), 1)
    linf = running_sums.changed(running)
    loss = Loss.gaussian(1, linf, Fraction(10**5), MICRO, 10**12)
    basis = Basis("sums", linf, Fraction(1), "gaussian", Fraction(10**5), loss, 2, running_sums.PARTS, 1, False, running)
    m = replace(m, bases=(basis,), l0=1, loss=loss, counted=None, selections=(), queries=m.queries[:1])
    keys = {"k0": pa.array([key for (key,) in exact.order])}
    table = pa.table({**keys, "b0": pa.array([exact.cells[name][0] for name in exact.order])})
    dice = Dice(exact.order, Roll.FAIR, None)
    released = release(m, Exact((table,)), dice)
    assert list(door_account.problems(m, exact, released, dice, None)) == []
    other = replace(m, bases=(replace(basis, running=replace(running, width=1)),))
    assert "other values than" in next(door_account.problems(other, exact, released, dice, None))
    off = replace(released, values=(released.values[0] + 1,))
    assert "not its exact value" in next(door_account.problems(m, exact, off, dice, None))


def test_a_cell_a_group_and_a_column_that_are_not(small: AuditBench) -> None:
    m, exact, released, dice = _released(small, ORDERS)
    one_off = replace(released, values=(released.values[0] + 1, released.values[1]))
    assert "not its exact value" in next(door_account.problems(m, exact, one_off, dice, None))
    doubles = replace(released, values=(released.values[0] + 0.5, released.values[1]))
    assert "places of a double" in next(door_account.problems(m, exact, doubles, dice, None))
    stranger = replace(released, keys=(pa.array(["elsewhere", *released.keys[0].to_pylist()[1:]]),))
    assert "did not return" in next(door_account.problems(m, exact, stranger, dice, None))
    unnoised = replace(dice, calls=dice.calls[:1])
    assert "noise was asked for 1 times" in next(door_account.problems(m, exact, released, unnoised, None))
    sharper = replace(dice, calls=[replace(dice.calls[0], scale=dice.calls[0].scale / 2), dice.calls[1]])
    assert "of scale" in next(door_account.problems(m, exact, released, sharper, None))


def test_groups_follow_the_dice(small: AuditBench) -> None:
    m, exact, released, _ = _released(small, NOTES, Roll.HIGH)
    assert released.rows == len(exact.order) > 1
    fewer = Released(tuple(k[:-1] for k in released.keys), tuple(v[:-1] for v in released.values), released.rows - 1)
    assert "is hidden although" in next(door_account.follows_dice(m, exact, fewer, Roll.HIGH))
    assert "is shown although" in next(door_account.follows_dice(m, exact, fewer, Roll.LOW))
    assert door_account.column(exact, 0).dtype == np.int64

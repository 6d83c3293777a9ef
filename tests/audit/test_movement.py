"""Movements within a claim pass, one more does not: groups, cells, norms, what comes and goes."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from dpproxy.audit.bench import AuditBench
from dpproxy.audit.movement import Exactly, Moved, compared, place, rows_of
from dpproxy.audit.planted import COUNT, NOTES, ORDERS, VISITS
from dpproxy.audit.self_test import ROLE
from dpproxy.privacy.measurement import Measurement


@pytest.fixture(scope="module")
def planned(small: AuditBench) -> dict[str, Measurement]:
    found = {}
    for sql in (COUNT, ORDERS, NOTES, VISITS):
        plan = small.bench.planned(ROLE, sql)
        assert plan is not None
        (found[sql],) = plan.measurements
    return found


def _exactly(**cells: tuple[int, ...]) -> Exactly:
    return Exactly(tuple((name,) for name in cells), {(name,): row for name, row in cells.items()})


def _told(m: Measurement, before: Exactly, after: Exactly) -> list[str]:
    return list(compared(m, before, after, Moved()))


def test_cells_and_groups(planned: dict[str, Measurement]) -> None:
    m = planned[ORDERS]  # three rows in each of two groups, amounts in cents
    base = _exactly(books=(10, 500), toys=(4, 90), garden=(1, 1))
    within = _exactly(books=(7, 500 + 300_000), toys=(1, 90), garden=(1, 1))
    assert _told(m, base, within) == []
    assert "moved by 4" in _told(m, base, _exactly(books=(6, 500), toys=(4, 90), garden=(1, 1)))[0]
    assert "3 groups changed" in _told(m, base, _exactly(books=(9, 500), toys=(3, 90), garden=(0, 1)))[0]
    assert "appeared, vanished or moved" in _told(m, base, _exactly(books=(10, 500), toys=(4, 90)))[0]


def test_undeclared_groups(planned: dict[str, Measurement]) -> None:
    m = planned[NOTES]  # shown from three units on
    base = _exactly(a=(9, 5), b=(6, 3))
    assert _told(m, base, _exactly(a=(9, 5))) == []
    assert "vanished at 5 units" in _told(m, base, _exactly(b=(6, 3)))[0]
    assert "the order of groups" in _told(m, base, _exactly(b=(6, 3), a=(9, 5)))[0]


def test_a_norm_over_all_cells(planned: dict[str, Measurement]) -> None:
    m = planned[VISITS]
    assert m.bases[0].norm == 2
    most, width = m.bases[0].linf, sum(b.steps for b in m.bases)

    def cells(*firsts: int) -> Exactly:
        names = ("home", "cart", "help")
        return _exactly(**{n: (f, *[0] * (width - 1)) for n, f in zip(names, firsts, strict=True)})

    part = int(most * 0.57)
    assert _told(m, cells(0, 0, 0), cells(part, part, part)) == []
    (told,) = _told(m, cells(0, 0, 0), cells(*[int(most * 0.59)] * 3))
    assert "in all groups together (L2)" in told


def test_how_near_it_came_is_noted(planned: dict[str, Measurement]) -> None:
    most = Moved()
    m = replace(planned[COUNT], keys=planned[ORDERS].keys)
    list(compared(m, _exactly(a=(5,)), _exactly(a=(4,)), most))
    assert most.parts == {"count(*)": 1.0}


def test_values_compare_as_what_they_are() -> None:
    table = pa.table({"k": pa.array([float("nan"), -0.0, 0.0, None])})
    assert rows_of(table) == [("NaN",), ("-0",), (0.0,), (None,)]
    with pytest.raises(ValueError, match="twice"):
        Exactly.read(pa.table({"k0": ["a", "a"], "b0": [1, 2]}), 1)


def test_where_steps_stand(planned: dict[str, Measurement]) -> None:
    m = planned[VISITS]
    assert place(m, 1).start == m.bases[0].steps

"""Trouble is there: rows beyond every bound, whose owners are known."""

from __future__ import annotations

from dpproxy.audit.bench import AuditBench
from dpproxy.audit.hostile_rows import HostileTable


def _table(small: AuditBench, name: str) -> HostileTable:
    return next(t for t in small.world.tables if t.shape.name.name == name)


def test_units_reach_beyond_their_bounds(small: AuditBench) -> None:
    whale, outlier, stranger = small.world.units[:3]
    orders, people, visits = (_table(small, name) for name in ("orders", "people", "visits"))
    assert orders.owners is not None
    assert orders.owners.count(whale) > 20
    assert orders.owners.count(outlier) >= 3, "as many as bounds allow"
    assert orders.owners.count(stranger) == 6, "twice as many, all alike"
    assert people.owners is not None
    assert stranger not in people.owners
    assert None in orders.owners
    assert visits.owners is not None
    assert visits.owners.count(whale) > 4
    scores = dict(zip(people.owners, people.rows.column("score").to_pylist(), strict=True))
    assert int(scores[outlier]) > 100, "beyond the range"


def test_what_a_table_is_without_a_unit(small: AuditBench) -> None:
    orders = _table(small, "orders")
    assert orders.owners is not None
    for unit in (*small.world.units[:3], None):
        left = orders.without(unit)
        assert left.num_rows == len(orders.owners) - orders.owners.count(unit)
        kept = {
            order for order, owner in zip(orders.rows.column("order_id").to_pylist(), orders.owners, strict=True) if owner != unit
        }
        assert set(left.column("order_id").to_pylist()) == kept


def test_the_crowd_shares_values_that_the_whale_completes(small: AuditBench) -> None:
    orders = _table(small, "orders")
    assert orders.owners is not None
    members: dict[str, set[str]] = {}
    for note, owner in zip(orders.rows.column("note").to_pylist(), orders.owners, strict=True):
        if note is not None and owner is not None:
            members.setdefault(note, set()).add(owner)
    least = 3
    whale = small.world.units[0]
    assert any(len(who) > least and whale in who for who in members.values()), "there without the whale"
    assert any(len(who) == least and whale in who for who in members.values()), "there with the whale alone"

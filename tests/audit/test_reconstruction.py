"""Bits are told by chance at a small epsilon, and nearly all of them at a huge one: the attack works, noise stops it."""

from __future__ import annotations

from dataclasses import replace

from dpproxy.audit.bench import AuditBench
from dpproxy.audit.hostile_rows import World
from dpproxy.audit.reconstruction import SPENT, reconstruction


def test_from_guessing_to_knowing(small: AuditBench) -> None:
    attack = reconstruction(small)
    assert attack is not None
    assert [p.epsilon for p in attack.points] == [2 * e for e in SPENT]
    assert not attack.refuted
    assert attack.points[-1].advantage > 0.6 > attack.points[0].advantage


def test_where_there_is_nothing_to_try_it_on(small: AuditBench) -> None:
    assert reconstruction(replace(small, world=World((), ()))) is None

"""The reference names every key."""

from __future__ import annotations

from dpproxy.policy.policy_keys import PARTS
from dpproxy.policy.reference import text


def test_every_key_has_its_row() -> None:
    rows = [line for line in text().splitlines() if line.startswith("| `")]
    assert len(rows) == sum(len(part.keys) for part in PARTS)
    assert all(row.count(" | ") == 3 for row in rows)

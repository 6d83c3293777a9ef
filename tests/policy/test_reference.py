"""The reference is what the code says, and names every key."""

from __future__ import annotations

from pathlib import Path

from dpproxy.policy.reference import text
from dpproxy.policy.schema import typed_shapes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "policies" / "reference.md"


def test_the_committed_page_is_current() -> None:
    assert PAGE.read_text() == text(), "python -m dpproxy.policy.reference > docs/policies/reference.md"


def test_every_key_has_its_row() -> None:
    rows = [line for line in text().splitlines() if line.startswith("| `")]
    assert len(rows) == sum(len(shape.keys) for shape, _ in typed_shapes().values())
    assert all(row.count(" | ") == 3 for row in rows)

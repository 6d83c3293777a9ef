"""What PostgreSQL makes of an outer query, or of what is evaluated first, when the released arrays are so and so.

Knows: texts with parameters. Must not know: how plans are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from dpproxy.session.outer_text import with_literals

Cells = Sequence[str | int | None]


def answered(postgres: psycopg.Connection[Any], sql: str, arrays: Sequence[Cells]) -> list[tuple[Any, ...]]:
    """The rows of a query whose parameters, from the first on, are these arrays."""
    literals = {i + 1: "'{" + ",".join(map(_element, cells)) + "}'" for i, cells in enumerate(arrays)}
    return postgres.execute(with_literals(sql, literals).encode(), prepare=False).fetchall()


def _element(value: str | int | None) -> str:
    return "NULL" if value is None else str(value) if isinstance(value, int) else f'"{value}"'

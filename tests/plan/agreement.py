"""One statement planned for both engines, and their answers made alike, so that they can be compared.

Knows: plans, text forms of values. Must not know: servers, which statements are asked.
"""

from __future__ import annotations

import re
from typing import Any

import plan_harness

from dpproxy.plan.model import Plan
from dpproxy.plan.pipeline import planning
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy


def plans(sql: str, catalog: Catalog, policy: Policy) -> tuple[Plan, Plan]:
    """For PostgreSQL and for DuckDB."""
    statement = plan_harness.statement(sql, policy)
    postgres, other = (
        planning(policy, catalog, dialect)(statement, policy.roles["analyst"], {"search_path": "public"}, ())
        for dialect in ("postgres", "duckdb")
    )
    return postgres, other


def plain_cell(value: Any) -> Any:
    """A value whatever its road: numbers as floats, times as text without empty fractions."""
    if isinstance(value, bool) or value is None:
        return value
    text = str(value)
    if re.fullmatch(r"-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text, re.I):
        return float(f"{round(float(text), 9):.12g}") + 0.0
    text = text.removesuffix("+00")
    return re.sub(r" 00:00:00$", "", re.sub(r"(\.\d*?)0+$", r"\1", text) if re.match(r"\d+-\d\d-\d\d ", text) else text)


def groups(rows: list[tuple[Any, ...]], keys: int) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Groups that are not empty."""
    plain = [tuple(map(plain_cell, row)) for row in rows]
    return {row[:keys]: row[keys:] for row in plain if any(row[keys:])}

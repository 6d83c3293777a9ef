"""Whether declared groups hold every row is asked where groups are added up, and by work in proportion to what WHERE says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import plan_harness
import pytest

from dpproxy.plan.measure import coverage
from dpproxy.policy.catalog import Catalog


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, shop_catalog: Catalog) -> Callable[[str, str], int]:
    """How often a function of `coverage` is called while a statement is planned."""

    def count(name: str, sql: str) -> int:
        calls = 0
        plain: Callable[..., Any] = getattr(coverage, name)

        def counted(*arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            return plain(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(coverage, name, counted)
            plan_harness.plan(sql, shop_catalog)
        return calls

    return count


def test_it_is_asked_of_grouping_sets_alone(asked: Callable[[str, str], int]) -> None:
    assert asked("holds_all", "SELECT birth_year, count(*) FROM customers GROUP BY birth_year") == 0
    assert asked("holds_all", "SELECT birth_year, count(*) FROM customers GROUP BY ROLLUP (birth_year)") > 0


def test_each_column_is_narrowed_once(asked: Callable[[str, str], int]) -> None:
    def sql(mentions: int) -> str:
        said = " AND ".join(f"birth_year <> {1700 + i}" for i in range(mentions))
        return f"SELECT birth_year, count(*) FROM customers WHERE {said} GROUP BY ROLLUP (birth_year)"

    assert asked("narrowed_bound", sql(20)) == asked("narrowed_bound", sql(2)) > 0

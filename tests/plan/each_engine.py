"""What tests of several engines have of each: its name and its troubled shops.

Knows: shops. Must not know: servers, how plans are made. The fixture `engine` sets for whom `plan_harness.plan` plans.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import plan_harness
import pytest

from dpproxy.sql.template import Dialect

ENGINES: tuple[Dialect, ...] = ("duckdb", "postgres")
"""Engines of which one refuses what the other refuses."""
ALL_ENGINES = (*ENGINES, pytest.param("spark", marks=pytest.mark.long))
"""And one that answers fewer statements, for tests that pass by what is refused: Sail, in long mode, since it plans slowly."""


class Engine:
    """An engine and its troubled shops, each made once. Where there are `at_once` of them, the oldest is ended before another is
    made, and made again when asked for again."""

    def __init__(
        self,
        dialect: Dialect,
        make: Callable[[int, int], plan_harness.AnyShop],
        at_once: int = sys.maxsize,
        end: Callable[[plan_harness.AnyShop], None] = lambda shop: None,
    ) -> None:
        self.dialect, self._make, self._at_once, self._end = dialect, make, at_once, end
        self._made: dict[tuple[int, int], plan_harness.AnyShop] = {}
        self._kept: dict[str, Any] = {}

    def shop(self, seed: int, most: int = 100) -> plan_harness.AnyShop:
        if (seed, most) not in self._made:
            if len(self._made) == self._at_once:
                self._end(self._made.pop(next(iter(self._made))))
            self._made[seed, most] = self._make(seed, most)
        return self._made[seed, most]

    def quick_shop(self, seed: int, most: int) -> plan_harness.AnyShop:
        """A shop for very many statements. DuckDB takes its time for plans that small tables do not need."""
        if self.dialect != "duckdb":
            return self.shop(seed, most)
        made: plan_harness.AnyShop = self.once(f"quick {seed} {most}", lambda: plan_harness.Shop(seed, most, quick=True))
        return made

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Something made for this engine when it is first asked for."""
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

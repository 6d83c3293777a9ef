"""All measurements of one statement, staged ones included, are made in one snapshot of the data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worlds.town import town

STAGED = "SELECT count(*) FROM people WHERE income > (SELECT avg(income) FROM people WHERE sex = 'F')"


@pytest.mark.parametrize(("sql", "measured"), [(STAGED, 2), ("SELECT region, count(*) FROM people GROUP BY 1", 1)])
async def test_one_snapshot_a_statement(tmp_path: Path, sql: str, measured: int) -> None:
    async with town(tmp_path) as world, world.client() as client:
        before = len(world.backend.asked)
        await client.ask(sql)
        assert len(world.backend.asked) == before + measured
        assert world.backend.snapshots == ([before, before + measured] if measured else [])

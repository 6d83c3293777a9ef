"""Filling a database: in which order, what is too large stays out, what cannot be a key is no error."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import asyncpg
import pyarrow as pa
import pytest

from dpproxy.facade import ddl
from dpproxy.facade.database import fill
from dpproxy.facade.ddl import Shown
from dpproxy.policy.catalog import Catalog, CatalogTable
from dpproxy.policy.model import ColumnPolicy, ColumnRole
from dpproxy.table_terms import TableName
from tests.worlds.scripted import SHOPS, catalog, policy

CAP = 3
VIEW = TableName("public", "recent")


@dataclass
class Connection:
    """Notes what is executed and copied."""

    done: list[str] = field(default_factory=list)
    copied: list[tuple[str, Sequence[str], bytes]] = field(default_factory=list)
    refused: str = "no such statement"

    async def execute(self, script: str) -> None:
        if self.refused in script:
            raise asyncpg.UniqueViolationError("could not create unique index")
        self.done.append(script)

    async def fetchval(self, query: str, *arguments: object) -> bool:
        assert query == ddl.STANDING_ON
        return arguments[0] == '"public"."recent"'

    async def copy_to_table(
        self, name: str, *, schema_name: str, columns: Sequence[str], source: AsyncIterator[bytes], format: str
    ) -> None:
        self.copied.append((f"{schema_name}.{name}", columns, b"".join([chunk async for chunk in source])))
        self.done.append("copied")


def shown(**change: Any) -> Shown:
    rules = replace(policy(), **change)
    known = catalog()
    shapes = {**known.tables, SHOPS: replace(known.tables[SHOPS], primary_key=("id",))}
    return Shown(rules, Catalog(shapes), rules.roles["analyst"])


async def public_rows(table: CatalogTable, columns: Sequence[str], cap: int) -> pa.Table:
    assert (table.name, cap) == (SHOPS, CAP), "private rows are never asked for"
    return pa.table({"extra": ["x", "y"], "id": pa.array([1, 2], pa.int32())})


async def too_many(table: CatalogTable, columns: Sequence[str], cap: int) -> pa.Table:
    return pa.table({"id": pa.array(range(cap + 1), pa.int32())})


async def test_rows_are_there_before_keys_and_keys_before_grants() -> None:
    connection = Connection()
    assert await fill(connection, shown(), "shop", public_rows, CAP) == frozenset()
    words = ("REVOKE EXECUTE ON FUNCTION", "CREATE TABLE", "copied", "ADD PRIMARY KEY", "GRANT CONNECT", "ANALYZE")
    assert [next(w for w in words if w in step) for step in connection.done] == list(words)
    assert connection.copied == [("public.shops", ["id"], b"1\n2\n")], "columns that are shown, in their order"


async def test_a_table_over_the_cap_stays_empty_and_is_not_granted() -> None:
    connection = Connection()
    assert await fill(connection, shown(), "shop", too_many, CAP) == {SHOPS}
    assert connection.copied == []
    assert f"more than {CAP} rows" in "".join(connection.done)
    (grants,) = (step for step in connection.done if "GRANT CONNECT" in step)
    assert "shops" not in grants


async def test_a_key_that_data_break_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    connection = Connection(refused="ADD PRIMARY KEY")
    await fill(connection, shown(), "shop", public_rows, CAP)
    assert connection.done[-1] == "ANALYZE"
    assert caplog.messages == ["dataset shop: key left out: UniqueViolationError"], "no value of the data"


async def test_what_is_behind_views_is_gone_before_anything_is_granted() -> None:
    rules = policy()
    narrow = replace(rules.roles["analyst"], tables=frozenset({SHOPS, VIEW}))
    connection = Connection()
    await fill(connection, shown(views={VIEW: "SELECT 1"}, roles={"analyst": narrow}), "shop", public_rows, CAP)
    steps = [i for word in ("DROP VIEW", "DROP TABLE", "GRANT CONNECT") for i, s in enumerate(connection.done) if word in s]
    assert steps == sorted(steps)
    assert len(set(steps)) == 3


async def test_a_table_of_hidden_columns_is_not_read() -> None:
    rules = policy()
    hidden = replace(rules.tables[SHOPS], columns={"id": ColumnPolicy("id", ColumnRole.HIDDEN)})

    async def nobody(*_: object) -> pa.Table:
        raise AssertionError

    connection = Connection()
    await fill(connection, shown(tables={**rules.tables, SHOPS: hidden}), "shop", nobody, CAP)
    assert connection.copied == []

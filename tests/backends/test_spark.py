"""Spark Connect as the data engine, on Sail: results, cancels, time-outs, lost sessions, and errors that tell nothing of the data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.worlds import spark_servers
from tests.worlds.waiting import SAFETY

pytest.importorskip("pyspark", reason=spark_servers.MISSING)

from dpproxy.backends import spark, spark_session
from dpproxy.backends.base import BackendError
from dpproxy.backends.spark import Spark
from dpproxy.mechanisms.noise import Exact
from dpproxy.policy.model import SparkBackend
from dpproxy.table_terms import TableName

T = TableName("shop", "t")
SLOW = "SELECT count(*) AS n FROM range(0, 30000) AS a JOIN range(0, 30000) AS b ON a.id % 7 + b.id % 11 = 1 WHERE a.id * b.id % 13 = 5"
"""Seconds. Sail hears an interrupt, and computes such a join to its end."""
COLUMNS = "id INT, d DECIMAL(10, 2), s STRING, x DOUBLE, ts TIMESTAMP, n TIMESTAMP_NTZ, m MAP<STRING, INT>"
ROW = "1, 1.5, 'a', 2.0D, TIMESTAMP'2024-01-01 10:00:00', TIMESTAMP_NTZ'2024-01-01 10:00:00', map('k', 1)"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose sessions all find one table: Sail keeps a catalog in memory for each."""
    folder, before = tmp_path_factory.mktemp("spark") / "t", spark_session.prepare

    def prepared(session: Any) -> None:
        before(session)
        session.sql("CREATE DATABASE shop")
        session.sql(f"CREATE TABLE shop.t ({COLUMNS}) USING parquet LOCATION '{folder}'")
        if not folder.exists():
            session.sql(f"INSERT INTO shop.t VALUES ({ROW})")

    with pytest.MonkeyPatch.context() as patch, spark_servers.sail() as found:
        patch.setattr(spark_session, "prepare", prepared)
        yield found


@pytest.fixture
async def backend(address: str) -> AsyncIterator[Spark]:
    made = Spark(SparkBackend(address), places=2)
    made.choose_by(7)
    yield made
    await made.close()


async def test_what_is_there(backend: Spark) -> None:
    catalog = await backend.introspect()
    told = {c.name: (c.type, c.bounded, c.exact) for c in catalog.tables[T].columns}
    assert told == {
        "id": ("int4", True, ""), "d": ("numeric", True, "decimal(10,2)"), "s": ("text", True, ""), "x": ("float8", True, ""),
        "ts": ("timestamptz", True, ""), "n": ("timestamp", True, ""), "m": ("text", False, ""),
    }  # fmt: skip
    known = (await backend.with_public_ranges(catalog, frozenset([T]))).tables[T]
    assert (known.rows, known.columns[1].public_range, known.columns[3].most) == (1, ("1.50", "1.50"), 1)
    rows = await backend.public_rows(known, ["id", "d"], 10)
    assert rows.to_pydict() == {"id": [1], "d": ["1.50"]}
    assert (await backend.public_states([known]))[T].startswith("1 ")
    checks = ["SELECT COUNT(*) AS n FROM shop.t", "SELECT 0 AS n"]
    assert [await backend.violations(checks, aside=aside) for aside in (False, True)] == [(1, 0), (1, 0)]
    assert (backend.state, backend.outdated()) == ("", False)


async def test_measurements_read_the_key_and_come_as_they_are(backend: Spark) -> None:
    query = "SELECT 1 AS k0, (SELECT salt FROM dpproxy_pick) AS b0"
    async with backend.snapshot(()) as runner:
        exact = await runner.run([query, query])
    assert [t.to_pydict() for t in exact._open()] == [{"k0": [1], "b0": [7]}] * 2


@pytest.mark.parametrize("query", ["SELECT CAST(s AS INT) AS n FROM (VALUES ('victim')) AS t(s)", "SELECT victim FROM nowhere"])
async def test_errors_say_nothing_of_the_data(query: str, backend: Spark, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BackendError) as caught:
        await backend.run([query])
    told = capfd.readouterr()
    assert "victim" not in str(caught.value) + told.out + told.err
    async with backend.snapshot(()) as runner:
        assert isinstance(await runner.run(["SELECT 1 AS one"]), Exact), "the next statement finds a session"


async def test_a_cancelled_statement_is_interrupted(backend: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, told, loop = asyncio.Event(), [], asyncio.get_running_loop()
    rows, interrupted = spark.catalogs.rows, spark_session.interrupted

    def noted(session: Any, query: str) -> Any:
        loop.call_soon_threadsafe(begun.set)
        return rows(session, query)

    monkeypatch.setattr(spark.catalogs, "rows", noted)
    monkeypatch.setattr(spark_session, "interrupted", lambda session, tag: (told.append(tag), interrupted(session, tag)))
    task = asyncio.ensure_future(backend.run([SLOW]))
    async with asyncio.timeout(SAFETY):
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait(backend._stopping)
    assert told, "the server was told"
    assert not backend._idle, "a session that may be busy is not used again"


async def test_a_statement_that_takes_too_long(address: str) -> None:
    backend = Spark(SparkBackend(address), places=2)
    backend.choose_by(1)
    async with backend.snapshot(()) as runner:
        backend._seconds = 0.2
        with pytest.raises(BackendError, match=r"longer than 0\.2 seconds"):
            await runner.run([SLOW])
    backend._seconds = spark.STATEMENT_SECONDS
    await backend.close()
    with pytest.raises(BackendError, match="closed"):
        await backend.run(["SELECT 1 AS one"])


async def test_a_lost_session_is_opened_anew_until_something_was_told(backend: Spark) -> None:
    async with backend.snapshot(()) as runner:
        spark_session.cut(runner._session)  # type: ignore[attr-defined]
        await runner.run(["SELECT 1 AS one"])  # nothing was told: another session does
        spark_session.cut(runner._session)  # type: ignore[attr-defined]
        with pytest.raises(BackendError):
            await runner.run(["SELECT 1 AS one"])
    session = backend._idle[0] if backend._idle else await backend.taken()
    spark_session.cut(session)
    assert isinstance(await backend.run(["SELECT 1 AS one"]), Exact)


async def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "TRIES", (0.0,))
    backend = Spark(SparkBackend("sc://127.0.0.1:1"))
    with pytest.raises(BackendError, match="Grpc"):
        await backend.introspect()
    await backend.close()

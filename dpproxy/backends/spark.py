"""Spark as the data engine: sessions on a Spark Connect server, Spark's own or Sail.

Knows: Spark Connect's client, sessions, which errors pass by themselves. Must not know: plans, noise, clients. It runs SQL that
was generated from a checked plan, nothing else; what the server lets the proxy's user read is the second wall. There is no JVM
here: statements go out by gRPC, results come back as Arrow.

A measurement has a session of its own, taken from a few that stay open (`spark_session` says what each is given). Spark has no
transaction over several statements: queries of one measurement see the data as each of them finds it. Names of tables, the
measured numbers' sensitivities and their noise do not rest on that; that the parts of an answer fit together does, so that data
should be replaced at known times, and the policy should name them (`reuse_answers: { epoch: ... }`).

A session that is lost is opened anew, a few times, as long as the snapshot has told nothing. The client itself takes up a
broken stream again, by the operation's name. A statement is interrupted by its tag when its task is cancelled, and when it
takes longer than `STATEMENT_SECONDS`. Errors may quote data ("the value 'victim' cannot be cast"), so only their kind and
Spark's name of the error are passed on, even to the operator's log, and the client's own log of them is silent.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pyarrow as pa

from dpproxy.backends import spark_catalog as catalogs
from dpproxy.backends import spark_session as sessions
from dpproxy.backends.base import BackendError, Runner, whole_number
from dpproxy.mechanisms.noise import Exact
from dpproxy.policy.catalog import Catalog, CatalogTable
from dpproxy.policy.model import SparkBackend
from dpproxy.sql.template import Dialect
from dpproxy.table_terms import TableName

PLACES = 4
"""Measurements at once: a cluster runs each on all its machines already."""
STATEMENT_SECONDS = 600.0
TRIES = (0.0, 0.5, 2.0)
"""Seconds to wait before each attempt to open a session that works."""
GIVE_UP_SECONDS = 10.0
"""How long a server is given to end what it was told to end, and to say goodbye."""
INTERRUPT_EVERY = 0.2
"""Seconds: an interrupt before the server knows the operation is lost, so it is repeated until the thread has ended."""

T = TypeVar("T")
Work = Callable[[Any], T]


class Spark:
    """Runs the `Backend` of one catalog of a server. Nothing is opened before the first call."""

    dialect: Dialect = "spark"

    def __init__(self, config: SparkBackend, places: int = PLACES, seconds: float = STATEMENT_SECONDS) -> None:
        self._config, self.places, self._seconds = config, places, seconds
        self._threads = ThreadPoolExecutor(2 * (places + 1), thread_name_prefix="spark")
        self._idle: list[Any] = []
        self._own: Any = None
        self._turn = asyncio.Lock()
        self._key: int | None = None
        self._running: set[asyncio.Task[Any]] = set()
        self._stopping: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def state(self) -> str:
        return ""

    def outdated(self) -> bool:
        return False

    def choose_by(self, key: int) -> None:
        self._key = key

    async def public_states(self, tables: Sequence[CatalogTable]) -> dict[TableName, str]:
        return (
            await self._alone(lambda session: {table.name: catalogs.state(session, table) for table in tables}) if tables else {}
        )

    async def introspect(self) -> Catalog:
        return await self._alone(lambda session: catalogs.introspected(session, sessions.UNREADABLE))

    async def with_public_ranges(self, catalog: Catalog, public: frozenset[TableName]) -> Catalog:
        def ranges(session: Any) -> Catalog:
            tables = {n: catalogs.with_ranges(session, t) if n in public else t for n, t in catalog.tables.items()}
            return Catalog(tables)

        return await self._alone(ranges)

    async def public_rows(self, table: CatalogTable, columns: Sequence[str], cap: int) -> pa.Table:
        query = catalogs.public_rows(table, columns, cap)
        return await self._alone(lambda session: catalogs.rows(session, query))

    async def violations(self, checks: Sequence[str], aside: bool = False) -> tuple[int, ...]:
        def counts(session: Any) -> tuple[int, ...]:
            return tuple(int(catalogs.rows(session, check).column(0)[0].as_py()) for check in checks)

        return await (self._beside(counts) if aside else self._alone(counts))

    async def number(self, query: str) -> int:
        return await self._alone(lambda session: whole_number(catalogs.rows(session, query).column(0)[0].as_py()))

    async def run(self, queries: Sequence[str]) -> Exact:
        async with self.snapshot(()) as runner:
            return await runner.run(queries)

    @asynccontextmanager
    async def snapshot(self, tables: Sequence[CatalogTable]) -> AsyncIterator[Runner]:
        place = _Place(self)
        try:
            await place.ready()
            yield place
        finally:
            await place.leave()

    async def close(self) -> None:
        """Interrupt what runs, then end the sessions."""
        self._closed = True
        for task in (running := list(self._running)):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if self._stopping:
            await asyncio.wait(self._stopping, timeout=2 * GIVE_UP_SECONDS)
        left = [*self._idle, *([self._own] if self._own is not None else [])]
        self._idle, self._own = [], None
        loop = asyncio.get_running_loop()
        if left:
            goodbyes = [loop.run_in_executor(self._threads, sessions.ended, session) for session in left]
            await asyncio.wait(goodbyes, timeout=GIVE_UP_SECONDS)
            for session in left:
                sessions.cut(session)
        self._threads.shutdown(wait=False, cancel_futures=True)

    # --- sessions

    async def opened(self, *, keyed: bool) -> Any:
        """Return a session that answers. Raises BackendError."""
        for last, delay in zip((False,) * (len(TRIES) - 1) + (True,), TRIES, strict=True):
            await asyncio.sleep(delay)
            try:
                return await self.work(None, lambda _: sessions.opened(self._config, self._key if keyed else None))
            except sessions.Failed as error:
                if last or not error.passing:
                    raise BackendError(str(error)) from None
        raise AssertionError("the last attempt returns or raises")

    async def taken(self) -> Any:
        """Return a session for measurements, one that is open where there is one and it answers."""
        while self._idle:
            session = self._idle.pop()
            try:
                await self.work(session, sessions.answers)
                return session
            except sessions.Failed:
                self.drop(session)
        return await self.opened(keyed=True)

    def give_back(self, session: Any) -> None:
        if self._closed or len(self._idle) >= self.places:
            self.drop(session)
        else:
            self._idle.append(session)

    def drop(self, session: Any) -> None:
        """End a session that is of no more use, in the background."""
        if not self._closed:
            asyncio.get_running_loop().run_in_executor(self._threads, sessions.ended, session)

    async def _alone(self, work: Work[T]) -> T:
        """`work` that is no measurement, one at a time."""
        async with self._turn:
            for first in (True, False):
                if self._own is None:
                    self._own = await self.opened(keyed=False)
                try:
                    return await self.work(self._own, work)
                except sessions.Failed as error:
                    if error.passing:
                        self.drop(self._own)
                        self._own = None
                    if not error.passing or not first:
                        raise BackendError(str(error)) from None
        raise AssertionError("the last attempt returns or raises")

    async def _beside(self, work: Work[T]) -> T:
        """`work` that is no measurement and may take long, on a session of its own."""
        session = await self.opened(keyed=False)
        try:
            return await self.work(session, work)
        except sessions.Failed as error:
            raise BackendError(str(error)) from None
        finally:
            self.drop(session)

    async def work(self, session: Any, work: Work[T]) -> T:
        """`work` in a thread. Cancelling the caller interrupts what the session runs. Raises Failed, BackendError."""
        if self._closed:
            raise BackendError("the backend is closed")
        tag = f"dpproxy-{uuid.uuid4().hex}"
        task = asyncio.ensure_future(self._within_time(session, tag, work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await task

    async def _within_time(self, session: Any, tag: str, work: Work[T]) -> T:
        future = asyncio.get_running_loop().run_in_executor(self._threads, sessions.tagged, session, tag, work)
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.shield(future)
        except (TimeoutError, asyncio.CancelledError) as error:
            stopping = asyncio.ensure_future(self._stopped(session, tag, future))
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)
            if isinstance(error, TimeoutError):
                raise BackendError(f"the statement took longer than {self._seconds:g} seconds") from None
            raise

    async def _stopped(self, session: Any, tag: str, future: asyncio.Future[Any]) -> None:
        """Interrupt until the thread has ended. A server that is too busy to hear it loses the connection instead."""
        loop, asked = asyncio.get_running_loop(), None
        for _ in range(int(GIVE_UP_SECONDS / INTERRUPT_EVERY)):
            if future.done() or session is None:
                break
            if asked is None or asked.done():
                asked = loop.run_in_executor(self._threads, sessions.interrupted, session, tag)
            await asyncio.wait([future], timeout=INTERRUPT_EVERY)
        if not future.done() and session is not None:
            sessions.cut(session)
            await asyncio.wait([future], timeout=GIVE_UP_SECONDS)
        if future.done() and not future.cancelled():
            future.exception()  # nobody waits for it any more


class _Place:
    """Runs on one session. `read`: it has told something, so that no other will do."""

    def __init__(self, backend: Spark) -> None:
        self._backend, self._session, self._read, self._broken = backend, None, False, False

    async def ready(self) -> None:
        self._session = await self._backend.taken()

    async def run(self, queries: Sequence[str]) -> Exact:
        for first in (True, False):
            try:
                self._broken = True  # until it has ended well: whoever is cancelled leaves a session that may be busy
                found = await self._backend.work(self._session, lambda s: tuple(catalogs.rows(s, q) for q in queries))
                self._broken, self._read = False, True
                return Exact(found)
            except sessions.Failed as error:
                if not error.passing or self._read or not first:
                    raise BackendError(str(error)) from None
                self._backend.drop(self._session)
                await self.ready()
        raise AssertionError("the last attempt returns or raises")

    async def leave(self) -> None:
        if self._session is not None:
            (self._backend.drop if self._broken else self._backend.give_back)(self._session)
            self._session = None

"""The prepared copy of one dataset, while the dataset is served: found or made in the background, put to use, never waited for.

Knows: the backend of a DuckDB file, the files of copies. Must not know: plans, policies; `ready` is called once the backend has
the copy, and only from then on may a query name its tables. A dataset is of one state of its data, and so is its copy: when the
data change the dataset is opened anew, with another `Accelerator`, whose copy has another name. Whatever goes wrong is told to
the operator, and answers are computed from the data as before.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

import structlog

from dpproxy.acceleration import copy_making
from dpproxy.acceleration.copy_files import Copy, CopyError, CopyFolder
from dpproxy.acceleration.copy_making import Job, expected
from dpproxy.backends.base import BackendError
from dpproxy.backends.duckdb import DuckDB

LOG = structlog.get_logger()

State = Literal["none", "looking", "making", "used", "failed"]
"""none: the policy wants no copy, or the data are small. failed: there should be one; the log says why not."""

_READING = ThreadPoolExecutor(1, thread_name_prefix="copies")
"""All of a copy is read before it is used: one at a time, apart from the threads that others' questions wait for."""

TELL_EVERY: Final = 60.0
"""Seconds between two lines of the log about a copy that is being made."""

T = TypeVar("T")


@dataclass
class CopyStatus:
    """How far a copy is: `bytes` of disk it takes, which `part` of it is made."""

    state: State = "none"
    bytes: int = 0
    part: float = 0.0


class Accelerator:
    """The prepared copy of a backend's data. `prepared` says what is to be made: it may take a while, and is asked in a thread.
    `wanted`: whether a copy is to be made; one that is there is used in any case."""

    def __init__(
        self,
        dataset: str,
        backend: DuckDB,
        folder: CopyFolder,
        prepared: Callable[[], Job],
        ready: Callable[[Copy], None],
        wanted: bool = True,
    ) -> None:
        self._dataset, self._backend, self._folder = dataset, backend, folder
        self._prepared, self._ready, self._wanted = prepared, ready, wanted
        self.status = CopyStatus()
        self._work: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look for a copy, or make one, in the background; unless that is being done, or there is one in use."""
        if self.status.state in ("none", "failed") and (self._work is None or self._work.done()):
            self._work = asyncio.ensure_future(self._guarded())

    async def done(self) -> CopyStatus:
        """Return how it ended, when there is nothing more to do."""
        if self._work is not None:
            await asyncio.wait([self._work])
        return self.status

    async def close(self) -> None:
        """End what is being made."""
        if self._work is not None:
            self._work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._work

    async def _guarded(self) -> None:
        try:
            await self._found_or_made()
        except (CopyError, BackendError, OSError) as error:
            self._fail(str(error))
        except Exception as error:  # a fault of ours: answers go on without a copy
            self._fail(type(error).__name__)

    def _fail(self, reason: str) -> None:
        self.status = CopyStatus("failed")
        LOG.warning("no prepared copy", dataset=self._dataset, problem=reason)

    async def _found_or_made(self) -> None:
        if not self._wanted and not self._folder.leftover():
            return
        job = await _aside(self._prepared)
        copy = await self._whole(job)
        if copy is None and self._wanted and job.preparations:
            await self._make(job)
            copy = await self._whole(job)
            if copy is None:
                raise CopyError("the copy was removed as soon as it was made")
        await _aside(functools.partial(tidy, job.folder, job.key, self._dataset))
        if copy is None:
            self.status = CopyStatus()
            return
        await self._backend.adopt(copy.path, job.name)
        self.status = CopyStatus("used", copy.manifest.size, 1.0)
        self._ready(copy)
        LOG.info("prepared copy used", dataset=self._dataset, bytes=copy.manifest.size, tables=len(copy.manifest.tables))

    async def _whole(self, job: Job) -> Copy | None:
        """The copy of these data, if it is there and what it was when it was made."""
        if not job.folder.has(job.key):
            return None
        self.status = CopyStatus("looking")
        try:
            return await _aside(functools.partial(job.folder.whole, job.key))
        except CopyError as error:
            LOG.warning("no prepared copy", dataset=self._dataset, problem=str(error))
            await _aside(functools.partial(job.folder.condemn, job.key))
            return None

    async def _make(self, job: Job) -> None:
        began = told = time.monotonic()
        self.status = CopyStatus("making")

        def tell(table: str, part: float) -> None:
            nonlocal told
            self.status = CopyStatus("making", job.folder.taken(job.key), part)
            if time.monotonic() - told > TELL_EVERY:
                told = time.monotonic()
                LOG.info("prepared copy is made", dataset=self._dataset, percent=round(100 * part))

        seconds = await _aside(functools.partial(expected, job))
        LOG.info("prepared copy begun", dataset=self._dataset, most=job.disk, seconds=round(seconds))
        await copy_making.made(job, tell, background=True)
        LOG.info("prepared copy made", dataset=self._dataset, seconds=round(time.monotonic() - began, 1))


def tidy(folder: CopyFolder, kept: str | None, dataset: str) -> None:
    """Remove copies of other data, unless another process is at it. Who has one open goes on with it. Raises CopyError,
    OSError."""
    if not folder.leftover(kept):
        return
    with folder.locked() as lock:
        removed = folder.remove(kept) if lock is not None else 0
    if removed:
        LOG.info("prepared copies removed", dataset=dataset, number=removed)


async def _aside(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_READING, work)

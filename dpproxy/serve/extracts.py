"""Which extract of a PostgreSQL database a dataset is served from (`accelerate: extract`): found, made where there is none, and
made anew when the epoch of the data has changed.

Knows: policies, epochs, both engines' backends. Must not know: sessions, plans, how an extract is made. A dataset is served from
one extract as long as it is served, and its answers are of that extract's epoch; another extract is another dataset, which takes
the place of the one before as after any change of data (`serve.served_policies`). Nothing is ever measured in PostgreSQL beside
it: the same question has one name and one answer in an epoch. So a start waits until there is an extract.

An epoch may move faster than an extract is made. Then an extract is served under the epoch of its own snapshot, which is past,
and holds for a while before another is made; the operator is told once (`extract overtaken`).

Where the policy names no epoch, an extract holds until the operator has another one made (`dpproxy prepare`).
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from dpproxy.acceleration.copy_files import FOLDER, Copy, CopyError, CopyFolder, free
from dpproxy.answers.data_identity import data_of
from dpproxy.backends.base import Backend, BackendError
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.check import check
from dpproxy.policy.load import Loaded
from dpproxy.policy.model import Policy, PostgresBackend
from dpproxy.policy.problems import PolicyError, Problem
from dpproxy.reuse.data_epoch import Epoch, Named, epoch_of, epoch_query, shape_of
from dpproxy.serve.data_checks import check_exposures, fitting_catalog, open_backend, unseen_rows
from dpproxy.sql.template import Dialect

if TYPE_CHECKING:  # each engine's client is imported where it is used
    from dpproxy.acceleration.copy_making import Told
    from dpproxy.acceleration.extract_making import ExtractJob
    from dpproxy.acceleration.extract_tables import ExtractTable
    from dpproxy.backends.postgres import Postgres

LOG = structlog.get_logger()

FORMAT: Final = 1
"""Of what is in an extract. Another number: those of before are made anew."""
EVERY: Final = 10.0
"""Seconds between two looks at the epoch of the data."""
RETRY: Final = 60.0
"""Seconds after which an extract that could not be made, or put to use, is tried again."""
TELL_EVERY: Final = 60.0
"""Seconds between two lines of the log about an extract that is being made."""
_OVERTAKEN: Final = set[str]()
"""Datasets of which the log was told that their epoch moves faster than extracts are made."""
TRIES: Final = 3
"""Of opening an extract: another process may replace it meanwhile."""


@dataclass(frozen=True)
class Data:
    """What a dataset is served from. `epoch` of an extract; None: what the backend and the policy say. `watch`: for another
    extract; None where there is none. `doubts`: of the database that was extracted."""

    backend: Backend
    epoch: Epoch | None = None
    watch: ExtractWatch | None = None
    doubts: tuple[Problem, ...] = ()


def extracts(loaded: Loaded) -> bool:
    """Return whether a policy's data are measured in an extract of them."""
    return loaded.policy.accelerate.mode == "extract" and isinstance(loaded.policy.backend, PostgresBackend)


async def open_data(loaded: Loaded, state: Path | None, told: Told | None = None, anew: bool = False) -> Data:
    """Open the data of a policy as they are served; `state`: the folder for an extract, which there is none of without. `anew`:
    an extract that the policy names no epoch for is made anew. `told` hears how far it is, else the log. Raises PolicyError,
    BackendError."""
    if state is None or not isinstance(loaded.policy.backend, PostgresBackend):
        return Data(open_backend(loaded))
    try:
        if extracts(loaded):
            return await _extract(loaded, state, told, anew)
        await asyncio.to_thread(_remove, loaded, state)
    except (CopyError, OSError) as error:
        raise BackendError(str(error)) from None
    return Data(open_backend(loaded))


async def _extract(loaded: Loaded, state: Path, told: Told | None, anew: bool) -> Data:
    """Raises PolicyError, BackendError, CopyError, OSError."""
    for _ in range(TRIES):
        source = await _source(loaded, state)
        if anew and loaded.policy.epoch is None:
            source, anew = replace(source, job=replace(source.job, after=source.job.newest() or "")), False
        copy = await _found_or_made(source, told)
        if copy is None:
            continue
        try:
            return await _opened(loaded, state, source, copy)
        except BackendError:
            if copy.path.exists():
                raise
    raise BackendError("the data change while they are extracted")


def _remove(loaded: Loaded, state: Path) -> None:
    """Remove the extracts of a policy that wants none, and what was prepared of them. Raises CopyError, OSError."""
    if not (state / FOLDER).exists() and loaded.policy.accelerate.folder is None:
        return
    for folder in (_folder(loaded, state), folder_of(loaded.policy, state)):
        if folder.leftover():
            with folder.locked() as lock:
                if lock is not None:
                    folder.remove()


async def held(loaded: Loaded, catalog: Catalog, backend: Backend) -> tuple[Catalog, Dialect]:
    """Return the catalog that statements are planned by, and the dialect: an extract's, where there would be one. The policy must
    fit the catalog. Raises BackendError."""
    if not extracts(loaded):
        return catalog, backend.dialect
    from dpproxy.acceleration.extract_tables import held_catalog

    return held_catalog(await _tables(loaded, catalog, backend)), "duckdb"


async def held_problems(loaded: Loaded, catalog: Catalog, backend: Backend) -> tuple[Problem, ...]:
    """Return why a policy that fits its database does not fit an extract of it. Raises BackendError."""
    if not extracts(loaded):
        return ()
    known, _ = await held(loaded, catalog, backend)
    found = check(loaded.policy, known, loaded.file, loaded.positions)
    return tuple(replace(problem, what=f"{problem.what}, in an extract") for problem in found)


@dataclass(frozen=True)
class _Source:
    """What there is to be extracted, of which dataset, and a digest of its shape in the database."""

    job: ExtractJob
    dataset: str
    shape: str
    doubts: tuple[Problem, ...] = ()


async def _tables(loaded: Loaded, catalog: Catalog, backend: Backend) -> tuple[ExtractTable, ...]:
    from dpproxy.acceleration.extract_tables import extract_tables
    from dpproxy.backends.postgres import Postgres

    assert isinstance(backend, Postgres)
    return extract_tables(loaded.policy, catalog, await backend.numerics())


async def _source(loaded: Loaded, state: Path) -> _Source:
    """Hold the policy against the database as it is now. Raises PolicyError, BackendError."""
    from dpproxy.backends.postgres import Postgres

    backend = open_backend(loaded)
    assert isinstance(backend, Postgres)
    try:
        catalog = await fitting_catalog(loaded, backend)
        await check_exposures(loaded, catalog, backend)
        problems = await held_problems(loaded, catalog, backend)
        if problems:
            raise PolicyError(problems)
        doubts = await unseen_rows(loaded, catalog, backend)
        return replace(await _described(loaded, catalog, backend, state), doubts=tuple(doubts))
    finally:
        await backend.close()


async def _described(loaded: Loaded, catalog: Catalog, backend: Postgres, state: Path) -> _Source:
    import duckdb

    from dpproxy.acceleration.extract_making import NUMBER, ExtractJob
    from dpproxy.acceleration.extract_tables import described

    policy, shape = loaded.policy, shape_of(loaded.policy, catalog)
    tables = await _tables(loaded, catalog, backend)
    parts = [FORMAT, duckdb.__version__, shape, list(described(tables))]
    about = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    folder, said, query = _folder(loaded, state), policy.accelerate.disk, epoch_query(policy)
    epoch = await _epoch(loaded, backend, shape).current(dt.datetime.now(dt.UTC))
    assert isinstance(policy.backend, PostgresBackend)
    disk = said if said is not None else free(folder.path) // 2
    job = ExtractJob(policy.backend, tables, about, epoch, folder, disk, query, f"version {NUMBER} {shape}")
    return _Source(job, policy.dataset, shape)


def folder_of(policy: Policy, state: Path, kind: str = "") -> CopyFolder:
    """Return where the prepared copies of a dataset are; its extracts (`kind`) lie next to them."""
    said = policy.accelerate.folder
    return CopyFolder(Path(said) if said is not None else state / FOLDER, policy.dataset, f"{kind}{data_of(policy)}", state)


def _folder(loaded: Loaded, state: Path) -> CopyFolder:
    return folder_of(loaded.policy, state, "extract of ")


def _epoch(loaded: Loaded, backend: Backend, shape: str) -> Epoch:
    """The epoch of the data in the database, as who measures there would name it; of no name where the policy has none."""
    return epoch_of(loaded.policy, backend, "", shape) if loaded.policy.epoch is not None else Named("")


async def _found_or_made(source: _Source, told: Told | None, background: bool = False) -> Copy | None:
    """The last extract of the epoch; None where the epoch is another one by now. Raises CopyError, OSError."""
    from dpproxy.acceleration import copy_making

    found = await _whole(source)
    if found is not None:
        return found
    if told is not None:
        await copy_making.made(source.job, told, background)
        return await _whole(source)
    began = time.monotonic()
    LOG.info("extract begun", dataset=source.dataset, most=source.job.disk)
    await copy_making.made(source.job, _Teller(source.dataset).tell, background)
    LOG.info("extract made", dataset=source.dataset, seconds=round(time.monotonic() - began, 1))
    return await _whole(source)


async def _whole(source: _Source) -> Copy | None:
    """The last extract of the epoch, where it is what it was when it was made."""
    job = source.job
    key = job.newest()
    if key is None:
        return None
    try:
        return await asyncio.to_thread(job.folder.whole, key)
    except CopyError as error:
        LOG.warning("no extract", dataset=source.dataset, problem=str(error))
        await asyncio.to_thread(job.folder.condemn, key)
        return None


class _Teller:
    """Tells the log how far an extract is, now and then."""

    def __init__(self, dataset: str) -> None:
        self._dataset, self._told = dataset, time.monotonic()

    def tell(self, table: str, part: float) -> None:
        if time.monotonic() - self._told > TELL_EVERY:
            self._told = time.monotonic()
            LOG.info("extract is made", dataset=self._dataset, percent=round(100 * part))


async def _opened(loaded: Loaded, state: Path, source: _Source, copy: Copy) -> Data:
    """Raises BackendError."""
    from dpproxy.acceleration.extract_tables import Extract, held_catalog
    from dpproxy.backends import duckdb
    from dpproxy.limits.side_threads import share

    roles = len(loaded.policy.roles)
    backend = Extract(copy.path, held_catalog(source.job.tables), share(duckdb.PLACES, roles) * max(roles, 1))
    epoch = f"opened {backend.state} {source.shape}"
    if loaded.policy.epoch is not None:
        epoch = copy.manifest.epoch or source.job.epoch
    watch = ExtractWatch(loaded, state, source, copy)
    return Data(backend, Named(epoch), watch, source.doubts)


class ExtractWatch:
    """Looks at the epoch of the data that an extract was made of, and has another made when it has changed."""

    def __init__(self, loaded: Loaded, state: Path, source: _Source, copy: Copy) -> None:
        self._loaded, self._state, self._source, self._copy = loaded, state, source, copy.manifest
        self._epoch = copy.manifest.epoch or source.job.epoch
        self._work: asyncio.Task[None] | None = None

    @property
    def moment(self) -> dt.datetime:
        """Return when the snapshot was taken."""
        from dpproxy.acceleration.extract_making import moment

        return moment(self._copy.key)

    @property
    def overtaken(self) -> bool:
        """Return whether the epoch moved on while the extract was made."""
        return self._copy.overtaken

    async def outdated(self) -> bool:
        """Return whether opening the data now would open another extract. Raises PolicyError, BackendError."""
        source = await _source(self._loaded, self._state)
        return source.job.newest() != self._copy.key

    def start(self, changed: Callable[[], None]) -> None:
        """Look from now on. `changed` is called when there is an extract of another epoch."""
        of = self.moment.isoformat(timespec="seconds")
        LOG.info("extract used", dataset=self._source.dataset, of=of, bytes=self._copy.size)
        self._tell_overtaken()
        if self._loaded.policy.epoch is not None and self._work is None:
            self._work = asyncio.ensure_future(self._look(changed))

    def _tell_overtaken(self) -> None:
        """Once, until an extract is made in time."""
        dataset = self._source.dataset
        if self.overtaken and dataset not in _OVERTAKEN:
            LOG.warning("extract overtaken", dataset=dataset, seconds=round(self._copy.seconds, 1))
        (_OVERTAKEN.add if self.overtaken else _OVERTAKEN.discard)(dataset)

    async def close(self) -> None:
        """End looking, and what is being made."""
        if self._work is not None:
            self._work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._work

    async def _look(self, changed: Callable[[], None]) -> None:
        backend = open_backend(self._loaded)
        epoch = _epoch(self._loaded, backend, self._source.shape)
        try:
            while True:
                await asyncio.sleep(EVERY)
                problem = await self._looked(epoch, changed)
                if problem is not None:
                    LOG.warning("no extract", dataset=self._loaded.policy.dataset, problem=problem)
                    await asyncio.sleep(RETRY)
        finally:
            await backend.close()

    async def _looked(self, epoch: Epoch, changed: Callable[[], None]) -> str | None:
        """Look once. Returns why there is no extract of the data as they are."""
        from dpproxy.acceleration.extract_making import holds

        try:
            if await epoch.current(dt.datetime.now(dt.UTC)) == self._epoch or holds(self._copy):
                return None
            source = await _source(self._loaded, self._state)
            copy = await _found_or_made(source, None, background=True)
            if copy is None or copy.manifest.key == self._copy.key:
                return None
        except (CopyError, BackendError, PolicyError, OSError) as error:
            return str(error)
        except Exception as error:  # a fault of ours: what is served stays
            return type(error).__name__
        changed()
        await asyncio.sleep(RETRY)  # this watch ends when the other extract is served
        return None

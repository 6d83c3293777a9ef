"""From a policy file to a dataset that can be served, and the end of it.

Knows: every room's constructor. Must not know: protocols. The order is: the engine opens, the policy is held against its
data (`serve.data_checks`), the facade is built. Whatever is wrong stops the start: a proxy over a policy that does not fit
would protect less than it says.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from dpproxy.answers import public_tables
from dpproxy.answers.data_identity import data_of, file_of
from dpproxy.answers.dataset import Dataset, Plans, words_of
from dpproxy.answers.plan_cache import PlanCache, plans_for
from dpproxy.backends.base import Backend, BackendError
from dpproxy.derived_keys import derived
from dpproxy.engines import literal
from dpproxy.errors import Refusal
from dpproxy.facade.facade import Facade
from dpproxy.facade.remote_server import RemoteFacade
from dpproxy.ledger.ledger import Ledger
from dpproxy.limits.side_threads import Seats
from dpproxy.mechanisms.noise_sources import DefaultNoise
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.load import Loaded
from dpproxy.policy.model import Policy
from dpproxy.policy.problems import PolicyError
from dpproxy.policy.report_columns import visible_catalog
from dpproxy.reuse.data_epoch import (
    Epoch,
    Queried,
    Refreshed,
    epoch_of,
    epoch_query,
    max_age,
    shape_of,
)
from dpproxy.reuse.lookup import Reuse
from dpproxy.reuse.store import AnswerStore
from dpproxy.serve.data_checks import beside, checked_catalog, doubts, epoch_problems, live_claims, table_access
from dpproxy.serve.extracts import open_data

if TYPE_CHECKING:
    from dpproxy.acceleration.accelerator import Accelerator

LOG = structlog.get_logger()

OTHERS = "the data are others than those the other processes serve: SIGHUP has all of them read what is there now"


async def open_dataset(
    loaded: Loaded,
    facade: Facade | RemoteFacade,
    ledger: Ledger,
    answers: AnswerStore | None = None,
    expected: str | None = None,
    state: Path | None = None,
) -> Dataset:
    """Return one policy's dataset, ready to be served, whatever else is. `expected`: the data that are to be opened, no others.
    `state`: the folder for a prepared copy, which there is none of without. Raises PolicyError, BackendError, FacadeError,
    LedgerError."""
    data = await open_data(loaded, state)
    backend = data.backend
    try:
        if expected is not None and backend.state != expected:
            raise BackendError(OTHERS)
        catalog, known = await public_tables.read(loaded.policy, await checked_catalog(loaded, backend), backend)
        for doubt in (*data.doubts, *await doubts(loaded, catalog, backend)):
            LOG.warning("policy", problem=str(doubt))
        names = (loaded.policy.dataset, data_of(loaded.policy), dt.datetime.now(dt.UTC), file_of(loaded.policy))
        await asyncio.to_thread(ledger.name, *names)
        record = await asyncio.to_thread(ledger.identity, loaded.policy.dataset)
        backend.choose_by(key := pick_key(record))
        plans = plans_for(loaded.policy, catalog, backend.dialect, key)
        accelerator = _accelerator(loaded.policy, catalog, backend, plans, record, state)
        epoch = data.epoch or epoch_of(loaded.policy, backend, backend.state, shape_of(loaded.policy, catalog))
        epoch = Refreshed(epoch) if isinstance(epoch, Queried) else epoch
        reuse = await _reuse(loaded, plans, backend, epoch, max_age(loaded.policy, backend.state), record, answers)
        claims = live_claims(loaded.policy, catalog, backend, epoch)
        if backend.outdated():
            raise BackendError("the data file was replaced while it was opened")
        rooms = await facade.open(loaded.policy, catalog, backend.public_rows)
    except BaseException:
        await backend.close()
        raise
    noise, words = DefaultNoise(), words_of(plans.names)
    seats = Seats(backend.places // max(len(loaded.policy.roles), 1))
    parts = (loaded.policy, catalog, backend, ledger, plans, noise, literal, words, rooms.withheld, reuse, rooms)
    access = table_access(loaded.policy, catalog, backend)
    return Dataset(*parts, seats=seats, publics=known, accelerator=accelerator, watch=data.watch, claims=claims, access=access)


def _accelerator(
    policy: Policy, catalog: Catalog, backend: Backend, plans: PlanCache, record: str, state: Path | None
) -> Accelerator | None:
    if state is None or backend.dialect != "duckdb":
        return None
    from dpproxy.backends.duckdb import DuckDB  # each engine's client is imported where it is used
    from dpproxy.serve.prepared_copies import accelerator_of

    assert isinstance(backend, DuckDB)
    return accelerator_of(policy, catalog, backend, plans, record, pick_key(record), state)


async def outdated(dataset: Dataset) -> bool:
    """Whether the data are not what they were when the dataset was opened: another file, other tables, other public rows."""
    backend, policy = dataset.backend, dataset.policy
    if backend.outdated():
        return True
    try:
        if dataset.watch is not None:
            return await dataset.watch.outdated()
        catalog = visible_catalog(policy, await backend.introspect())
        if shape_of(policy, catalog) != shape_of(policy, dataset.catalog):
            return True
        return await backend.public_states(public_tables.publics_of(policy, catalog)) != dataset.publics
    except (BackendError, PolicyError, KeyError):  # opening it will say why
        return True


def pick_key(record: str) -> int:
    """Return the key of the hash that chooses among a unit's groups, from the ledger's name for itself: drawn when the ledger was
    begun, the same for all processes that share it, and told to no client."""
    return int.from_bytes(derived(record.encode(), "choice of groups")[:8], "big") >> 1


async def _reuse(
    loaded: Loaded,
    plans: Plans,
    backend: Backend,
    epoch: Epoch,
    age: dt.timedelta | None,
    record: str,
    answers: AnswerStore | None,
) -> Reuse | None:
    """Stored answers for a policy that wants them; those older than `age` are dropped. Raises PolicyError, BackendError."""
    policy = loaded.policy
    query = epoch_query(policy)
    if query is not None:
        check_epoch(loaded, plans, query)
        if isinstance(epoch, Refreshed) and (problems := await epoch_problems(loaded, backend)):  # of an extract it is known
            raise PolicyError(problems)
    if answers is None or policy.reuse_seconds == 0:
        return None
    now = answers.now()
    await epoch.current(now)  # a query that fails stops the start
    if age is not None:
        await asyncio.to_thread(answers.forget, policy.dataset, before=now - age)
    return Reuse(answers, epoch, record, age)


def check_epoch(loaded: Loaded, plans: Plans, query: str) -> None:
    """What the query says is public: it must not read private tables. Raises PolicyError."""
    try:
        private = any(statement.private for statement in plans.split(query))
    except Refusal:
        private = any(name in query.lower() for name in plans.names)  # an engine's own words: by name alone
    if private:
        what, fix = "the epoch's query reads a private table", "ask a public table for the number of the last load"
        raise PolicyError([beside(loaded, ("reuse_answers", "epoch"), what, fix, "epoch")])

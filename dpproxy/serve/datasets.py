"""From a policy file to a dataset that can be served, and the end of it.

Knows: every room's constructor. Must not know: protocols. The order is: the engine opens, the policy is held against its
data (`serve.data_checks`), the facade is built. Whatever is wrong stops the start: a proxy over a policy that does not fit
would protect less than it says.
"""

from __future__ import annotations

import asyncio
import datetime as dt

import structlog

from dpproxy.answers import public_tables
from dpproxy.answers.data_epoch import (
    epoch_of,
    epoch_query,
    max_age,
    shape_of,
)
from dpproxy.answers.data_identity import data_of
from dpproxy.answers.dataset import Dataset, words_of
from dpproxy.answers.engine_seats import Seats
from dpproxy.answers.epoch_refresh import Refreshed
from dpproxy.answers.plan_cache import Plans, plans_for
from dpproxy.answers.reuse import Reuse
from dpproxy.answers.store import AnswerStore
from dpproxy.backends.base import Backend, BackendError
from dpproxy.budget.ledger import Ledger
from dpproxy.budget.seal import derived
from dpproxy.errors import Refusal
from dpproxy.facade.facade import Facade
from dpproxy.facade.remote_server import RemoteFacade
from dpproxy.mechanisms.noise_sources import DefaultNoise
from dpproxy.plan.engines import literal
from dpproxy.policy.load import Loaded
from dpproxy.policy.problems import PolicyError
from dpproxy.serve.data_checks import beside, checked_catalog, doubts, open_backend

LOG = structlog.get_logger()

OTHERS = "the data are others than those the other processes serve: SIGHUP has all of them read what is there now"


async def open_dataset(
    loaded: Loaded,
    facade: Facade | RemoteFacade,
    ledger: Ledger,
    answers: AnswerStore | None = None,
    expected: str | None = None,
) -> Dataset:
    """Return one policy's dataset, ready to be served, beside whatever is. `expected`: the data that are to be opened, no others.
    Raises PolicyError, BackendError, FacadeError, LedgerError."""
    backend = open_backend(loaded)
    try:
        if expected is not None and backend.state != expected:
            raise BackendError(OTHERS)
        catalog, known = await public_tables.read(loaded.policy, await checked_catalog(loaded, backend), backend)
        for doubt in await doubts(loaded, catalog, backend):
            LOG.warning("policy", problem=str(doubt))
        await asyncio.to_thread(ledger.name, loaded.policy.dataset, data_of(loaded.policy), dt.datetime.now(dt.UTC))
        record = await asyncio.to_thread(ledger.identity, loaded.policy.dataset)
        plans = plans_for(loaded.policy, catalog, backend.dialect, pick_key(record))
        reuse = await _reuse(loaded, backend, plans, shape_of(loaded.policy, catalog), record, answers)
        if backend.outdated():
            raise BackendError("the data file was replaced while it was opened")
        rooms = await facade.open(loaded.policy, catalog, backend.public_rows)
    except BaseException:
        await backend.close()
        raise
    noise, words = DefaultNoise(), words_of(plans.names)
    seats = Seats(backend.places // max(len(loaded.policy.roles), 1))
    parts = (loaded.policy, catalog, backend, ledger, plans, noise, literal, words, rooms.withheld, reuse, rooms)
    return Dataset(*parts, seats=seats, publics=known)


async def outdated(dataset: Dataset) -> bool:
    """Whether the data are not what they were when the dataset was opened: another file, other tables, other public rows."""
    backend, policy = dataset.backend, dataset.policy
    if backend.outdated():
        return True
    try:
        catalog = await backend.introspect()
        if shape_of(policy, catalog) != shape_of(policy, dataset.catalog):
            return True
        return await backend.public_states(public_tables.publics_of(policy, catalog)) != dataset.publics
    except (BackendError, KeyError):  # opening it will say why
        return True


def pick_key(record: str) -> int:
    """Return the key of the hash that chooses among a unit's groups, from the ledger's name for itself: drawn when the ledger was
    begun, the same for all processes that share it, and told to no client."""
    return int.from_bytes(derived(record.encode(), "choice of groups")[:8], "big") >> 1


async def _reuse(
    loaded: Loaded, backend: Backend, plans: Plans, shape: str, record: str, answers: AnswerStore | None
) -> Reuse | None:
    """Stored answers for a policy that wants them; those too old for it are dropped. Raises PolicyError, BackendError."""
    policy, now = loaded.policy, dt.datetime.now(dt.UTC)
    if answers is None or policy.reuse_seconds == 0:
        return None
    query = epoch_query(policy)
    if query is not None:
        check_epoch(loaded, plans, query)
    epoch, age = epoch_of(policy, backend, backend.state, shape), max_age(policy)
    if query is not None:
        epoch = Refreshed(epoch)
    await epoch.current(now)  # a query that fails stops the start
    if age is not None:
        answers.forget(policy.dataset, before=now - age)
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

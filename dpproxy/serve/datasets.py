"""From a policy file to a dataset that can be served, and the end of it.

Knows: every room's constructor. Must not know: protocols. The order is: the engine opens, its catalog is read, the
policy is held against it and its promises against the data, the facade is built. Whatever is wrong stops the start: a
proxy over a policy that does not fit would protect less than it says.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Mapping

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
from dpproxy.answers.engine_seats import Seats, share
from dpproxy.answers.epoch_refresh import Refreshed
from dpproxy.answers.plan_cache import Plans, plans_for
from dpproxy.answers.reuse import Reuse
from dpproxy.answers.store import AnswerStore
from dpproxy.backends import duckdb, postgres
from dpproxy.backends.base import Backend, BackendError
from dpproxy.backends.duckdb import DuckDB
from dpproxy.backends.postgres import Postgres
from dpproxy.budget.ledger import Ledger
from dpproxy.budget.seal import derived
from dpproxy.errors import Refusal
from dpproxy.facade.facade import Facade
from dpproxy.facade.remote_server import RemoteFacade
from dpproxy.mechanisms.noise_sources import DefaultNoise
from dpproxy.plan.engines import literal
from dpproxy.policy.catalog import Catalog, TableName
from dpproxy.policy.check import check
from dpproxy.policy.load import Loaded
from dpproxy.policy.model import DuckDBBackend
from dpproxy.policy.probes import probes
from dpproxy.policy.problems import START, PolicyError, Problem
from dpproxy.policy.uniqueness import doubtful_steps, repetition_checks, unique_tables, uniqueness_checks

LOG = structlog.get_logger()

OWN_FILE = "name a database file that DuckDB made; of CSV or Parquet make one: CREATE TABLE visits AS FROM 'visits.parquet'"
OWN_SERVER = "see that the server runs, and that address, database, role and password are right"
OTHERS = "the data are others than those the other processes serve: SIGHUP has all of them read what is there now"
STANDS_ON = {
    "duckdb": "copy what it reads into a table of the database: views over other files are not read",
    "postgres": "see that what it stands on is there, and grant that to the backend's role too",
}


def open_backend(loaded: Loaded) -> Backend:
    """Open the engine of a policy's data. Raises PolicyError when they cannot be opened."""
    config, roles = loaded.policy.backend, len(loaded.policy.roles)
    if not isinstance(config, DuckDBBackend):
        return Postgres(config, share(postgres.PLACES, roles) * max(roles, 1))
    try:
        return DuckDB(config, share(duckdb.PLACES, roles) * max(roles, 1))
    except BackendError as error:
        raise PolicyError([_beside(loaded, ("backend",), f"the data cannot be opened: {error}", OWN_FILE)]) from None


def _beside(loaded: Loaded, place: tuple[str, ...], what: str, fix: str) -> Problem:
    at = loaded.positions.get(place, START)
    return Problem(loaded.file, at.line, at.column, what, fix)


async def checked_catalog(loaded: Loaded, backend: Backend) -> Catalog:
    """Return the data's shape, and what is known of public tables, once the policy fits it. Raises PolicyError, BackendError."""
    return (await _known(loaded, backend))[0]


async def _known(loaded: Loaded, backend: Backend) -> tuple[Catalog, Mapping[TableName, str]]:
    policy = loaded.policy
    try:
        catalog = await backend.introspect()
    except BackendError as error:
        raise PolicyError([_beside(loaded, ("backend",), f"the data cannot be read: {error}", OWN_SERVER)]) from None
    problems = check(policy, catalog, loaded.file, loaded.positions)
    if problems:
        raise PolicyError(problems)
    await _check_readable(loaded, catalog, backend)
    await _check_promises(loaded, catalog, backend)
    return await public_tables.read(policy, catalog, backend)


async def _check_readable(loaded: Loaded, catalog: Catalog, backend: Backend) -> None:
    """Raises PolicyError for tables that the catalog shows and the engine cannot read."""
    problems = []
    for name, probe in probes(loaded.policy, catalog, backend.dialect).items():
        try:
            await backend.violations([probe])
        except BackendError as error:
            what = f"table `{name}` cannot be read: {error}"
            problems.append(_beside(loaded, ("tables", str(name)), what, STANDS_ON[backend.dialect]))
    if problems:
        raise PolicyError(problems)


async def _check_promises(loaded: Loaded, catalog: Catalog, backend: Backend) -> None:
    """`one row per unit` must be true. Says which table, never how many units break it."""
    checks = uniqueness_checks(loaded.policy, catalog, backend.dialect)
    counts = await backend.violations(checks)
    wrong = [name for name, count in zip(unique_tables(loaded.policy), counts, strict=True) if count]
    if wrong:
        what, fix = "a unit has more than one row here", "declare `bounds` with the rows a unit may have"
        raise PolicyError(_beside(loaded, ("tables", str(name)), f"`{name}`: {what}", fix) for name in wrong)


async def doubts(loaded: Loaded, catalog: Catalog, backend: Backend) -> tuple[Problem, ...]:
    """Return what is no error and yet not what its author will have meant. The policy must fit the catalog. Raises
    BackendError."""
    steps = doubtful_steps(loaded.policy, catalog)
    counts = await backend.violations(repetition_checks(loaded.policy, catalog, backend.dialect)) if steps else ()
    found = []
    for (table, step), count in zip(steps, counts, strict=True):
        key = f"`{step.target}.{step.target_column}`"
        what = f"{key} on the path from `{table}` to its unit is not unique: a row counts once for each row the path finds"
        fix = "lead the path over a unique key, or make this one unique"
        found += [_beside(loaded, ("tables", str(table)), what, fix)] if count else []
    return tuple(sorted([*found, *_greedy(loaded)]))


def _greedy(loaded: Loaded) -> list[Problem]:
    """Roles that can leave nothing of the dataset's budget to the others."""
    policy = loaded.policy
    if len(policy.roles) < 2:
        return []
    fix = "give roles less than all of them may spend together, or raise the dataset's `budget`"
    whole = [name for name, role in policy.roles.items() if role.budget.epsilon >= policy.budget.epsilon]
    return [
        _beside(loaded, ("roles", name), f"role `{name}` alone may spend the whole budget of all roles together", fix)
        for name in whole
    ]


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
        catalog, known = await _known(loaded, backend)
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
        _check_epoch(loaded, plans, query)
    epoch, age = epoch_of(policy, backend, backend.state, shape), max_age(policy)
    if query is not None:
        epoch = Refreshed(epoch)
    await epoch.current(now)  # a query that fails stops the start
    if age is not None:
        answers.forget(policy.dataset, before=now - age)
    return Reuse(answers, epoch, record, age)


def _check_epoch(loaded: Loaded, plans: Plans, query: str) -> None:
    """What the query says is public: it must not read private tables. Raises PolicyError."""
    try:
        private = any(statement.private for statement in plans.split(query))
    except Refusal:
        private = any(name in query.lower() for name in plans.names)  # an engine's own words: by name alone
    if private:
        what, fix = "the epoch's query reads a private table", "ask a public table for the number of the last load"
        raise PolicyError([_beside(loaded, ("reuse_answers", "epoch"), what, fix)])

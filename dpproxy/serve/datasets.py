"""From a policy file to a dataset that can be served, and the end of it.

Knows: every room's constructor. Must not know: protocols. The order is: the engine opens, its catalog is read, the
policy is held against it and its promises against the data, the facade is built. Whatever is wrong stops the start: a
proxy over a policy that does not fit would protect less than it says.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

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
from dpproxy.policy.model import DuckDBBackend, Window
from dpproxy.policy.probes import probes
from dpproxy.policy.problems import START, Code, PolicyError, Problem
from dpproxy.policy.uniqueness import doubtful_steps, repetition_checks, unique_tables, uniqueness_checks

LOG = structlog.get_logger()

TABLE_FILES = (".parquet", ".csv", ".tsv", ".json")
TABLE_FILES = (".parquet", ".csv", ".tsv", ".json")
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
        what, fix = f"the data cannot be opened: {error}", _file_meant(Path(config.path))
        raise PolicyError([_beside(loaded, ("backend",), what, fix, "backend-data")]) from None


def _file_meant(path: Path) -> str:
    """What to write for a database file that cannot be opened."""
    if not path.exists():
        near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.duckdb")], n=1)
        return f"did you mean `{near[0]}`?" if near else "write a path that exists, relative to the policy's own folder"
    if path.suffix in TABLE_FILES:
        return f"make a database of it: `dpproxy policy init {path.name}`, or CREATE TABLE {path.stem} AS FROM '{path.name}'"
    return OWN_FILE


def _beside(loaded: Loaded, place: tuple[str, ...], what: str, fix: str, code: Code) -> Problem:
    at = loaded.positions.get(place, START)
    return at.problem(loaded.file, what, fix, code)


async def checked_catalog(loaded: Loaded, backend: Backend) -> Catalog:
    """Return the data's shape, and what is known of public tables, once the policy fits it. Raises PolicyError, BackendError."""
    return (await _known(loaded, backend))[0]


async def _known(loaded: Loaded, backend: Backend) -> tuple[Catalog, Mapping[TableName, str]]:
    policy = loaded.policy
    try:
        catalog = await backend.introspect()
    except BackendError as error:
        raise PolicyError(
            [_beside(loaded, ("backend",), f"the data cannot be read: {error}", OWN_SERVER, "backend-data")]
        ) from None
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
            problems.append(_beside(loaded, ("tables", str(name)), what, STANDS_ON[backend.dialect], "backend-data"))
    if problems:
        raise PolicyError(problems)


async def _check_promises(loaded: Loaded, catalog: Catalog, backend: Backend) -> None:
    """`one row per unit` must be true. Says which table, never how many units break it."""
    checks = uniqueness_checks(loaded.policy, catalog, backend.dialect)
    counts = await backend.violations(checks)
    wrong = [name for name, count in zip(unique_tables(loaded.policy), counts, strict=True) if count]
    if wrong:
        raise PolicyError(_repeated(loaded, name) for name in wrong)


def _repeated(loaded: Loaded, name: TableName) -> Problem:
    """A table of one row per unit that has more. Where it has the unit's own key, one row is what that key alone says."""
    what = f"`{name}`: a unit has more than one row here"
    fix = "write `unique: false` and `bounds: { rows_per_group: 10, groups: 5 }` with the rows a unit may have"
    if name == loaded.policy.unit_table:
        fix += f"; or name in `privacy_unit` the key of a table with one row per {loaded.policy.unit_name}"
    return _beside(loaded, ("tables", str(name)), what, fix, "not-unique")


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
        found += [_beside(loaded, ("tables", str(table)), what, fix, "repeating-path")] if count else []
    return tuple(sorted([*found, *_greedy(loaded)]))


def _greedy(loaded: Loaded) -> list[Problem]:
    """Roles that can leave nothing of the dataset's budget to the others, or to the rest of its window."""
    policy, windows = loaded.policy, get_args(Window)
    fix = "give roles less than all of them may spend together, or raise the dataset's `budget`"
    found = []
    for name, role in policy.roles.items():
        sooner = windows.index(role.budget.every) < windows.index(policy.budget.every)
        if role.budget.epsilon >= policy.budget.epsilon and (len(policy.roles) > 1 or sooner):
            what = f"role `{name}` alone may spend the whole budget of all roles together"
            what += f" in one {role.budget.every}" if sooner else ""
            found.append(_beside(loaded, ("roles", name), what, fix, "whole-budget"))
    return found


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
        raise PolicyError([_beside(loaded, ("reuse_answers", "epoch"), what, fix, "epoch")])

"""The command `dpproxy prepare`: the prepared copy of a dataset is made now, before a proxy serves, or while one does.

Knows: the terminal, policies, ledgers by their address. Must not know: how a copy is made, what is in it. Standard output says
what there is in the end; what is to be expected, and a bar, go to standard error.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import sys
from pathlib import Path
from typing import Annotated

import typer

from dpproxy.acceleration import copy_making
from dpproxy.acceleration.copy_files import Copy, CopyError
from dpproxy.acceleration.copy_making import Job, expected
from dpproxy.acceleration.preparation import unplanned
from dpproxy.answers import public_tables
from dpproxy.answers.data_identity import data_of, file_of
from dpproxy.authoring.progress import bar
from dpproxy.backends.duckdb import DuckDB
from dpproxy.bookkeeping import STATE, KeyFile, Ledger, State
from dpproxy.operations.requests import serves
from dpproxy.policy.load import Loaded, load_file
from dpproxy.policy.model import DuckDBBackend, Policy
from dpproxy.private_files import private_folder
from dpproxy.records.place import SqlitePlace, ledger_key, place_of, read_secret
from dpproxy.records.record import current
from dpproxy.serve.data_checks import checked_catalog, open_backend
from dpproxy.serve.datasets import pick_key
from dpproxy.serve.extracts import extracts, folder_of, open_data
from dpproxy.serve.prepared_copies import job_of, tables_of

STEPS = 1000
"""Of the bar."""


def prepare(
    policy: Annotated[Path, typer.Argument(help="the policy file of a dataset")],
    state: State = STATE,
    ledger: Ledger = None,
    key_file: KeyFile = None,
) -> None:
    """Make the prepared copy of a dataset, as the proxy does in the background (`accelerate` in the policy).

    Whatever size the data have, unless the policy says `off`. A proxy that serves takes it at its next start, or reload. Of data
    in PostgreSQL with `accelerate: extract` the extract is made first: one of the epoch as it is now; where the policy names no
    epoch, a new one.
    """
    loaded = load_file(policy)
    if loaded.policy.accelerate.mode == "off":
        raise CopyError(f"{policy} says `accelerate: off`: a copy would be removed as soon as it is served")
    record = _record(loaded.policy, state, ledger, key_file)
    job = asyncio.run(_job(loaded, record, state))
    if job is not None:
        asyncio.run(_made(job))


def _record(policy: Policy, state: Path, address: str | None, key_file: Path | None) -> str:
    """The ledger's name for itself, which the choice of groups hangs on; a ledger is begun where there is none. Raises
    LedgerError."""
    place, name = place_of(address, state), policy.dataset
    if isinstance(place, SqlitePlace) and serves(state):  # it has one writer
        return current(place.reader(name)).ledger
    private_folder(state)
    journal = place.open(ledger_key(read_secret(key_file)))
    try:
        journal.name(name, data_of(policy), dt.datetime.now(dt.UTC), file_of(policy))
        return journal.identity(name)
    finally:
        journal.close()


async def _job(loaded: Loaded, record: str, state: Path) -> Job | None:
    """What a proxy over this policy would make; None where an extract is all. Raises PolicyError, BackendError, CopyError."""
    if not (extracts(loaded) or isinstance(loaded.policy.backend, DuckDBBackend)):
        raise CopyError("there are prepared copies of DuckDB files, and of PostgreSQL databases with `accelerate: extract`")
    backend = await _opened(loaded, state)
    try:
        catalog, _ = await public_tables.read(loaded.policy, await checked_catalog(loaded, backend), backend)
        for number, why in unplanned(loaded.policy, catalog, backend.dialect, loaded.policy.accelerate.queries):
            print(f"query {number} of `accelerate` has no table: {why}", file=sys.stderr)
        tables = tables_of(loaded.policy, catalog, pick_key(record))
        if not tables and extracts(loaded):
            return None
        if not tables:
            raise CopyError(
                "there is nothing to prepare: no private table has several rows of a unit and a declared key or range"
            )
        job = job_of(loaded.policy, backend, tables, folder_of(loaded.policy, state))
        what = f"data of {_megabytes(backend.size)}: {len(tables)} tables to be made"
        took = f"in about {expected(job):.0f} s of one processor"
        print(f"{what}, {took} and at most {_megabytes(job.disk)} of disk at {job.folder.path}", file=sys.stderr)
        return job
    finally:
        await backend.close()


async def _opened(loaded: Loaded, state: Path) -> DuckDB:
    """The data as they are served. Raises PolicyError, BackendError."""
    if not extracts(loaded):
        backend = open_backend(loaded)
        assert isinstance(backend, DuckDB)
        return backend
    with bar("waiting for the database") as progress:

        def tell(table: str, part: float) -> None:
            progress(f"table {table}", round(STEPS * part), STEPS)

        extract = (await open_data(loaded, state, tell, anew=True)).backend
    assert isinstance(extract, DuckDB)
    print(f"extract: {_megabytes(extract.size)} of disk, {extract.config.path}")
    return extract


async def _made(job: Job) -> None:
    """Raises CopyError."""
    job.folder.ready()
    copy = _whole(job)
    if copy is not None:
        print(f"made before, of these very data: {_told(copy)}")
        return
    with bar("waiting for another process that makes copies") as progress:
        number = {each.name: i for i, each in enumerate(job.preparations, 1)}

        def tell(table: str, part: float) -> None:
            progress(f"table {number[table]} of {len(number)}", round(STEPS * part), STEPS)

        await copy_making.made(job, tell, background=False)
    copy = _whole(job)
    if copy is None:
        raise CopyError("the copy was removed as soon as it was made")
    print(f"made: {_told(copy)}")


def _whole(job: Job) -> Copy | None:
    """Raises CopyError."""
    try:
        return job.folder.whole(job.key)
    except CopyError as error:
        print(f"{error}; it is made again", file=sys.stderr)
        job.folder.condemn(job.key)
        return None


def _told(copy: Copy) -> str:
    manifest = copy.manifest
    size = f"{len(manifest.tables)} tables, {_megabytes(manifest.size)} of disk, {manifest.seconds:.1f} seconds"
    return f"{size}, {copy.path}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"

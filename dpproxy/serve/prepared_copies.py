"""Whether a dataset has a prepared copy, of what, and how plans come to use it.

Knows: policies, the planner, the backend's accelerator. Must not know: SQL, how a copy is made or found. What is in a copy
follows from policy, catalog and ledger alone (`acceleration.preparation`).

`accelerate: auto` looks at how much the data take. That is a fact about rows of people, and whether there is a copy is seen in
EXPLAIN and in how long answers take. So the bound is nowhere written: it is drawn once for each ledger, evenly over sizes that
are a factor of four apart, and told to nobody. That somebody's rows tip the balance is then as unlikely as they are few among
all (docs/limits.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import structlog

from dpproxy.acceleration.accelerator import Accelerator, tidy
from dpproxy.acceleration.copy_files import Copy, CopyError, CopyFolder, Preparation, allowed_bytes, free
from dpproxy.acceleration.copy_making import Job
from dpproxy.acceleration.preparation import stored_tables
from dpproxy.answers.plan_cache import PlanCache
from dpproxy.backends.duckdb import DuckDB
from dpproxy.derived_keys import derived
from dpproxy.engines.stored_stages import DATABASE
from dpproxy.plan.context import StoredTable
from dpproxy.plan.pipeline import planning
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy
from dpproxy.serve.extracts import folder_of

LOG = structlog.get_logger()

SMALL: Final = 64 << 20
LARGE: Final = 256 << 20
"""Bytes of a data file between which the bound is drawn. Smaller ones are read in some hundredths of a second."""


def least(record: str) -> int:
    """Return from how many bytes of data on `auto` means `on`, by the ledger's name for itself."""
    drawn = int.from_bytes(derived(record.encode(), "size of copied data")[:8], "big") / 2**64
    return int(SMALL * (LARGE / SMALL) ** drawn)


def tables_of(policy: Policy, catalog: Catalog, pick_key: int) -> tuple[StoredTable, ...]:
    """Return what a copy is to hold: what is made for every policy, and for the statements of this one."""
    return stored_tables(policy, catalog, "duckdb", pick_key, policy.accelerate.queries)


def job_of(policy: Policy, backend: DuckDB, tables: Sequence[StoredTable], folder: CopyFolder) -> Job:
    """Return what is to be made of the data that a backend has open. Raises OSError."""
    said = policy.accelerate.disk
    allowed = allowed_bytes(said, backend.size, free(folder.path))
    preparations = tuple(Preparation(table.name, table.sql) for table in tables)
    job = Job(backend.config, backend.state, preparations, folder, allowed, DATABASE, said)
    job.key  # noqa: B018 - computed here, aside of the loop that looks at it ten times a second
    return job


def accelerator_of(
    policy: Policy, catalog: Catalog, backend: DuckDB, plans: PlanCache, record: str, pick_key: int, state: Path
) -> Accelerator | None:
    """Return what keeps the copy of a dataset, not yet begun; None where there must be none. `record`: the ledger's name for
    itself; `pick_key`: that of the dataset's plans."""
    mode, folder = policy.accelerate.mode, folder_of(policy, state)
    wanted = mode in ("on", "extract") or (mode == "auto" and backend.size >= least(record))
    if mode == "off":
        _removed(folder, policy.dataset)
        return None
    tables: list[StoredTable] = []

    def prepared() -> Job:
        tables[:] = tables_of(policy, catalog, pick_key)
        return job_of(policy, backend, tables, folder)

    def ready(copy: Copy) -> None:
        stored = tuple(table for table in tables if table.name in copy.manifest.tables)
        plans.replan(planning(policy, catalog, backend.dialect, pick_key, stored))

    return Accelerator(policy.dataset, backend, folder, prepared, ready, wanted)


def _removed(folder: CopyFolder, dataset: str) -> None:
    try:
        tidy(folder, None, dataset)
    except (CopyError, OSError) as error:
        LOG.warning("no prepared copy", dataset=dataset, problem=str(error))

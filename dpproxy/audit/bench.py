"""What an audit works on: a policy over invented rows, and its neighbours. The policy's own backend tells names, types and
the rows of public tables, and nothing else of it is read.

Knows: files, backends, policies. Must not know: what is done with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from dpproxy.audit.hostile_rows import World, world
from dpproxy.audit.neighbours import WHOLE, Neighbours, write_file
from dpproxy.authoring.sample_file import public_rows
from dpproxy.authoring.workbench import on_shape, open_workbench
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.load import Loaded, load_file
from dpproxy.review.verdicts import Bench
from dpproxy.serve.data_checks import fitting_catalog, open_backend
from dpproxy.table_terms import TableName


@dataclass(frozen=True)
class AuditBench:
    """Is what there is for one audit. `whole`, `without`: files of the invented rows, with and without the outlier."""

    loaded: Loaded
    world: World
    neighbours: Neighbours
    bench: Bench
    other: Bench
    whole: Path
    without: Path
    folder: Path


@contextmanager
def audit_bench(policy: Path, shape: Path | None, seed: int, most: int) -> Iterator[AuditBench]:
    """Make the invented rows; they are gone when the body ends. `shape`: a DuckDB file of the policy's shape, instead of its own
    backend; `most`: how many units are left out in turn. Raises PolicyError, BackendError, OSError."""
    loaded = load_file(policy)
    catalog, publics = asyncio.run(_shape(on_shape(loaded, shape)))
    made = world(loaded.policy, catalog, publics, seed)
    with TemporaryDirectory(prefix="dpproxy-audit-") as name:
        folder = Path(name)
        whole, without = folder / "whole.duckdb", folder / "without.duckdb"
        for path, which in ((whole, WHOLE), (without, made.units[1])):
            write_file(path, made, which)
        bench, other = (asyncio.run(open_workbench(policy, path)).bench for path in (whole, without))
        neighbours = Neighbours(made, most)
        try:
            yield AuditBench(loaded, made, neighbours, bench, other, whole, without, folder)
        finally:
            neighbours.close()


async def _shape(loaded: Loaded) -> tuple[Catalog, Mapping[TableName, pa.Table]]:
    backend = open_backend(loaded)
    try:
        catalog = await fitting_catalog(loaded, backend)
        return catalog, await public_rows(loaded.policy, catalog, backend)
    finally:
        await backend.close()

"""From a policy file to a bench on which questions are tried: the data's shape is read, and nothing of a private row.

Knows: files, backends. Must not know: what is asked. Of public tables sizes and ranges are read, since plans rest on them.
`shape` names another DuckDB file of the same shape, as `dpproxy policy sample` writes it: then the policy's own backend is not
touched, so that tests run where no data are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from dpproxy.answers import public_tables
from dpproxy.policy.load import Loaded, load_file
from dpproxy.policy.model import DuckDBBackend
from dpproxy.review.verdicts import Bench
from dpproxy.serve.data_checks import fitting_catalog, open_backend
from dpproxy.serve.extracts import held


@dataclass(frozen=True)
class Workbench:
    """A policy file that was read, and the bench to try questions on."""

    loaded: Loaded
    bench: Bench


def on_shape(loaded: Loaded, shape: Path | None) -> Loaded:
    """Return the policy over another DuckDB file, where one is named."""
    if shape is None:
        return loaded
    return replace(loaded, policy=replace(loaded.policy, backend=DuckDBBackend(str(shape.absolute()))))


async def open_workbench(path: Path, shape: Path | None = None) -> Workbench:
    """Read a policy and the shape of its data. Raises PolicyError, BackendError."""
    loaded = on_shape(load_file(path), shape)
    backend = open_backend(loaded)
    try:
        catalog = await fitting_catalog(loaded, backend)
        known, _ = await public_tables.read(loaded.policy, catalog, backend)
        known, dialect = await held(loaded, known, backend)
    finally:
        await backend.close()
    return Workbench(loaded, Bench(loaded.policy, known, dialect))

"""Whether public tables still are what plans rest on: their sizes bound how often a person's rows are repeated, their ranges
what is added up.

Knows: plans, the names of what public tables held when they were read. Must not know: private data, charges. A table of a
server may change at any time. What a plan then cuts would be cut in silence, so before anything is charged the tables in its
statements are looked at again: they are public, and looking costs nobody anything. Where one is another, nothing is charged,
and the dataset is opened anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import structlog

from dpproxy.answers.dataset import Dataset
from dpproxy.answers.named_tables import named_tables
from dpproxy.backends.base import Backend, BackendError
from dpproxy.errors import SERIALIZATION_FAILURE, Refusal
from dpproxy.policy.catalog import Catalog, CatalogTable
from dpproxy.policy.model import Policy
from dpproxy.privacy.measurement import Measurement
from dpproxy.table_terms import TableName

LOG = structlog.get_logger()

HINT: Final = "Nothing was charged. Ask again in a moment."
TRIES: Final = 3


def publics_of(policy: Policy, catalog: Catalog) -> tuple[CatalogTable, ...]:
    return tuple(catalog.tables[name] for name, table in policy.tables.items() if table.public)


async def read(policy: Policy, catalog: Catalog, backend: Backend) -> tuple[Catalog, Mapping[TableName, str]]:
    """Return the catalog with what is known of public tables, and the names of what they held then. Raises BackendError."""
    tables = publics_of(policy, catalog)
    for _ in range(TRIES):
        before = await backend.public_states(tables)
        known = await backend.with_public_ranges(catalog, frozenset(t.name for t in tables))
        if await backend.public_states(tables) == before:
            return known, before
    raise BackendError("public tables change while they are read")


async def check(dataset: Dataset, measurements: Iterable[Measurement]) -> None:
    """Raises Refusal where a public table is not what the plan rests on, or the data not those that were opened."""
    tables = used(dataset, measurements)
    try:
        now = await dataset.backend.public_states(tables)
    except BackendError as error:
        if not dataset.backend.outdated():
            return  # it is away, as whoever measures will say
        LOG.error("the data are not those that were opened", dataset=dataset.policy.dataset, error=str(error))
        dataset.outdated()
        raise Refusal(SERIALIZATION_FAILURE, "the data are not those that were opened", hint=HINT) from None
    changed = [t.name for t in tables if now[t.name] != dataset.publics.get(t.name)]
    if changed:
        LOG.info("public tables have changed", dataset=dataset.policy.dataset, tables=[str(name) for name in changed])
        dataset.outdated()
        raise Refusal(SERIALIZATION_FAILURE, f"public table {changed[0].name} has changed and is being read again", hint=HINT)


def used(dataset: Dataset, measurements: Iterable[Measurement]) -> tuple[CatalogTable, ...]:
    """Return public tables whose names are in the generated SQL."""
    named = {table.name for table in named_tables(dataset.policy, dataset.catalog, measurements)}
    return tuple(t for t in publics_of(dataset.policy, dataset.catalog) if t.name in named)

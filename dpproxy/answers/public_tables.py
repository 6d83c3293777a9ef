"""Whether public tables still are what plans rest on: their sizes bound how often a person's rows are repeated, their ranges
what is added up.

Knows: plans, the names of what public tables held when they were read. Must not know: private data, charges. A table of a
server may change at any time. What a plan then cuts would be cut in silence, so before anything is charged the tables in its
statements are looked at again: they are public, and looking costs nobody anything. Where one is another, nothing is charged,
and the dataset is opened anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from dpproxy.answers.dataset import Dataset
from dpproxy.backends.base import Backend, BackendError
from dpproxy.errors import SERIALIZATION_FAILURE, Refusal
from dpproxy.policy.catalog import Catalog, CatalogTable
from dpproxy.policy.data_claims import QUOTE, table_source
from dpproxy.policy.model import Policy, TableKind
from dpproxy.policy.names import quote_name
from dpproxy.privacy.measurement import Measurement
from dpproxy.privacy.readings import Reading
from dpproxy.sql.template import Template
from dpproxy.table_terms import TableName

# Which tables and columns of a policy generated SQL names.
#
# Knows: policies, catalogs, measurements, quoting. Must not know: engines, data. It goes by names in the text: where a name
# stands for something else as well, the text names more than it reads, never less.


def named_tables(policy: Policy, catalog: Catalog, measurements: Iterable[Measurement | Reading]) -> tuple[CatalogTable, ...]:
    """Return the policy's tables that measurements and readings name, each with the columns they name."""
    found = []
    templates = [template for m in measurements for template in _templates(m)]
    texts = [part for template in templates for part in template.parts if isinstance(part, str)]
    quotes = {QUOTE[template.dialect] for template in templates}
    for name in policy.tables:
        table = catalog.tables[name]
        if any(table_source(catalog, name, quote) in text for quote in quotes for text in texts):
            columns = [c for c in table.columns if any(quote_name(c.source, q) in text for q in quotes for text in texts)]
            found.append(replace(table, columns=tuple(columns)))
    return tuple(found)


def _templates(measurement: Measurement | Reading) -> tuple[Template, ...]:
    if isinstance(measurement, Reading):
        return measurement.queries
    first = measurement.threshold.first if measurement.threshold is not None else None
    return (*measurement.queries, *((first.query,) if first is not None else ()))


LOG = structlog.get_logger()

HINT: Final = "Nothing was charged. Ask again in a moment."
TRIES: Final = 3


def publics_of(policy: Policy, catalog: Catalog) -> tuple[CatalogTable, ...]:
    return tuple(catalog.tables[table.name] for table in policy.of_kind(TableKind.PUBLIC))


async def read(policy: Policy, catalog: Catalog, backend: Backend) -> tuple[Catalog, Mapping[TableName, str]]:
    """Return the catalog with what is known of public tables, and the names of what they held then. Raises BackendError."""
    tables = publics_of(policy, catalog)
    for _ in range(TRIES):
        before = await backend.public_states(tables)
        known = await backend.with_public_ranges(catalog, frozenset(t.name for t in tables))
        if await backend.public_states(tables) == before:
            return known, before
    raise BackendError("public tables change while they are read")


async def check(dataset: Dataset, measurements: Iterable[Measurement | Reading]) -> None:
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


def used(dataset: Dataset, measurements: Iterable[Measurement | Reading]) -> tuple[CatalogTable, ...]:
    """Return public tables whose names are in the generated SQL."""
    named = {table.name for table in named_tables(dataset.policy, dataset.catalog, measurements)}
    return tuple(t for t in publics_of(dataset.policy, dataset.catalog) if t.name in named)

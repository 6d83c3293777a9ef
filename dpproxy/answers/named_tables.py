"""Which tables and columns of a policy generated SQL names.

Knows: policies, catalogs, measurements, quoting. Must not know: engines, data. It goes by names in the text: where a name stands
for something else as well, the text names more than it reads, never less.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dpproxy.policy.catalog import Catalog, CatalogTable
from dpproxy.policy.data_claims import QUOTE, table_source
from dpproxy.policy.model import Policy
from dpproxy.policy.names import quote_name
from dpproxy.privacy.measurement import Measurement
from dpproxy.sql.template import Template


def named_tables(policy: Policy, catalog: Catalog, measurements: Iterable[Measurement]) -> tuple[CatalogTable, ...]:
    """Return the policy's tables that measurements name, each with the columns they name."""
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


def _templates(measurement: Measurement) -> tuple[Template, ...]:
    first = measurement.threshold.first if measurement.threshold is not None else None
    return (*measurement.queries, *((first.query,) if first is not None else ()))

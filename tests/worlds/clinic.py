"""A clinic's catalog, to draft policies of: people with one row each, visits with many, drugs that only a visit leads to."""

from __future__ import annotations

from dpproxy.authoring.draft import Decisions
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable, ForeignKey
from dpproxy.table_terms import TableName

PEOPLE, VISITS, DRUGS = (TableName("public", name) for name in ("people", "visits", "drugs"))


def _table(name: TableName, columns: str, key: str, *foreign: ForeignKey) -> CatalogTable:
    made = tuple(CatalogColumn(c.split(":")[0], c.split(":")[0], c.split(":")[1]) for c in columns.split())
    return CatalogTable(name, ("main", name.name), made, (key,) if key else (), foreign_keys=foreign)


CATALOG = Catalog(
    {
        PEOPLE: _table(PEOPLE, "person_id:int4 sex:text age:int4 email:text", "person_id"),
        VISITS: _table(
            VISITS,
            "visit:int4 person_id:int4 day:date cost:numeric ward:int4 note:text",
            "visit",
            ForeignKey(("person_id",), PEOPLE, ("person_id",)),
        ),
        DRUGS: _table(DRUGS, "visit:int4 drug:text", "", ForeignKey(("visit",), VISITS, ("visit",))),
    }
)
DECIDED = Decisions((PEOPLE, "person_id"), "person")

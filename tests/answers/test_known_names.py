"""What a role's texts are taken for depends on names it may know, and on no others: they would be told by the difference."""

from __future__ import annotations

from dataclasses import replace

from dpproxy.answers.plan_cache import known_to, plans_for
from dpproxy.facade.ddl import Shown
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable, TableName
from dpproxy.policy.model import Bounds, ColumnPolicy, ColumnRole, Policy, TablePolicy, UnitPath
from tests.worlds.scripted import PEOPLE, catalog, policy

SALARIES = TableName("public", "salaries")


def rules() -> tuple[Policy, Catalog]:
    """`narrow` sees people only; nobody sees the column `bonus`."""
    base, analyst = policy(), policy().roles["analyst"]
    columns = {"id": ColumnPolicy("id", ColumnRole.UNIT), "bonus": ColumnPolicy("bonus", ColumnRole.HIDDEN)}
    columns["paid"] = ColumnPolicy("paid")
    salaries = TablePolicy(SALARIES, UnitPath("id"), True, Bounds(1, 1), columns)
    narrow = replace(analyst, name="narrow", tables=frozenset({PEOPLE}))
    shape = tuple(CatalogColumn(name, name, "int4") for name in columns)
    found = Catalog({**catalog().tables, SALARIES: CatalogTable(SALARIES, ("main", "salaries"), shape)})
    return replace(base, tables={**base.tables, SALARIES: salaries}, roles={"analyst": analyst, "narrow": narrow}), found


def test_a_role_knows_what_its_facade_shows() -> None:
    given, found = rules()
    analyst, narrow = (known_to(Shown(given, found, given.roles[name])) for name in ("analyst", "narrow"))
    assert analyst.private == {"people", "salaries"}
    assert analyst.columns == {"id", "region", "paid"}
    assert (narrow.private, narrow.columns, narrow.tables) == ({"people"}, {"id", "region"}, {"people"})


def test_other_names_make_no_difference() -> None:
    """A table that one may not read is taken for one that does not exist: PostgreSQL says of both that they do not."""
    given, found = rules()
    planner = plans_for(given, found, "duckdb")
    for form in ("LOCK TABLE {}", "SELECT * FROM {}", "SELECT |/ x FROM {}", "CREATE TABLE {} (x int)", "TRUNCATE {}"):
        one, other = (planner.split(form.format(name), given.roles["narrow"]) for name in ("salaries", "nonesuch"))
        assert [(s.kind, s.private) for s in one] == [(s.kind, s.private) for s in other], form
        assert not one[0].private
        assert planner.split(form.format("salaries"), given.roles["analyst"])[0].private
    for form in ("SELECT region AS {0}, count(*) FROM people GROUP BY 1 HAVING {0} <> 'x'",):
        for name in ("bonus", "paid"):
            (mine,) = planner.split(form.format(name), given.roles["narrow"])
            (plain,) = planner.split(form.format("other_word"), given.roles["narrow"])
            assert mine.query.replace(name, "other_word") == plain.query

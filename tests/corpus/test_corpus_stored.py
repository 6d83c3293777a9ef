"""Real statements over real data, read from stored tables: the same integers as from rows, before noise.

The tables are those of each data set's policy, and of its statements. What is read otherwise would be another answer under the
same name (answer reuse), so that texts are compared by what they return.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from plan_harness import as_ordered, values_of

from dpproxy.acceleration.preparation import stored_tables
from dpproxy.answers.plan_cache import private_names
from dpproxy.backends.duckdb import set_for_measuring
from dpproxy.engines import literal
from dpproxy.engines.stored_stages import DATABASE, table
from dpproxy.errors import Refusal
from dpproxy.plan.context import StoredTable
from dpproxy.plan.pipeline import planning
from dpproxy.sql.statements import Statement, split
from tests.corpus.corpus_worlds import POLICIES, World, world

NAMES = sorted(p.stem for p in POLICIES.glob("*.yaml"))


def statements(here: World) -> list[Statement]:
    found: list[Statement] = []
    for entry in here.entries:
        try:
            found += [s for s in split(entry["sql"], private_names(here.policy)) if s.private]
        except Refusal:
            continue
    return found


def texts(here: World, statement: Statement, tables: Sequence[StoredTable]) -> list[str]:
    """What is run for a statement, in order; nothing where it is refused."""
    try:
        made = planning(here.policy, here.catalog, "duckdb", 0, tables)(
            statement, here.policy.roles["analyst"], {"search_path": "public"}, ()
        )
    except Refusal:
        return []
    firsts = [m.threshold.first.query for m in made.measurements if m.threshold is not None and m.threshold.first is not None]
    queries = [query for m in made.measurements for query in m.queries]
    return [query.render(values_of(made), literal) for query in (*queries, *firsts)]


def answer(connection: duckdb.DuckDBPyConnection, text: str) -> list[tuple[Any, ...]]:
    return as_ordered(text, connection.sql(text).to_arrow_table())


@pytest.mark.parametrize("name", [n if n == "club" else pytest.param(n, marks=pytest.mark.long) for n in NAMES])
def test_what_is_read_is_what_is_made_of_rows(name: str, shared: Path) -> None:
    corpus = shared / "corpus"
    here = world(name, corpus, POLICIES / f"{name}.yaml")
    asked = statements(here)
    tables = stored_tables(here.policy, here.catalog, "duckdb", asked=[statement.query for statement in asked])
    read = compared = 0
    with duckdb.connect(":memory:") as connection:
        connection.execute(
            f"ATTACH '{corpus / 'db' / name}.duckdb' AS data (READ_ONLY); ATTACH ':memory:' AS {DATABASE}; USE data"
        )
        set_for_measuring(connection)
        for made in tables:
            connection.execute(f"CREATE TABLE {table(made.name)} AS {made.sql}")
        for statement in asked:
            pairs = zip(texts(here, statement, ()), texts(here, statement, tables), strict=True)
            for plain, stored in pairs:
                compared += 1
                if stored != plain:
                    read += 1
                    assert answer(connection, stored) == answer(connection, plain), statement.query
    print(f"{name}: {len(tables)} tables; {read} of {compared} queries are read from them")
    assert (read > 0) == bool(tables)  # none are worth making where each unit has one row

"""Real statements, planned for both engines: the same are accepted, PostgreSQL's SQL needs what is documented, answers agree.

The acceptance run (`scripts/accept`) asks a whole proxy and takes minutes; this takes seconds. The shapes are those DuckDB
reports, for both; of a few data sets the rows are copied into a scratch PostgreSQL, and what the measurements say is
compared, before noise, under bounds that do not bind.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import psycopg
import pytest
from agreement import plain_cell
from corpus_postgres import loaded
from generous import generous
from library_functions import listed, named
from postgres_shop import readable
from scratch_postgres import Scratch, scratch_server

from dpproxy.engines import literal
from dpproxy.sql.template import Dialect
from tests.corpus.corpus_worlds import POLICIES, world

ENGINES: tuple[Dialect, ...] = ("duckdb", "postgres")
COMPARED = ("chinook", "northwind")


@pytest.mark.parametrize("each", [2, pytest.param(1, marks=pytest.mark.long)], ids=["every other", "all"])
@pytest.mark.parametrize("name", sorted(p.stem for p in POLICIES.glob("*.yaml")))
def test_both_engines_accept_the_same(name: str, each: int, shared: Path) -> None:
    """What has no plan on one has none on the other, and no label is missed by more than the labels are wrong."""
    here = world(name, shared / "corpus", POLICIES / f"{name}.yaml")
    needed, accepted, wrong = set(), 0, []
    for entry in here.entries[::each]:
        made = {dialect: here.planned(dialect, entry) for dialect in ENGINES}
        assert (made["duckdb"] is None) == (made["postgres"] is None), entry["sql"]
        accepted += made["postgres"] is not None
        private = any(m for m in made["postgres"] or ())
        if entry["expect"] == "refuse" and private:
            wrong.append(entry["id"])
        for plan in made["postgres"] or ():
            texts = ("".join(p if isinstance(p, str) else "NULL" for p in q.parts) for m in plan.measurements for q in m.queries)
            needed |= {name for text in texts for name in named(text)}
    assert accepted > 0
    assert wrong == []
    assert needed <= listed(), "docs/how-to/postgresql.md lists what an engine must have"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("corpus")) as running:
        yield running


@pytest.mark.parametrize("name", COMPARED)
def test_both_engines_answer_the_same(name: str, server: Scratch, shared: Path, tmp_path: Path) -> None:
    corpus, source = shared / "corpus", shared / "corpus" / "db" / f"{name}.duckdb"
    with mock.patch.dict(os.environ, DPPROXY_CORPUS=str(corpus / "db")):
        policy = generous(POLICIES / f"{name}.yaml", source, tmp_path)
    here = world(name, corpus, policy)
    loaded(server, name, source, corpus / "schema" / "none", tmp_path)
    compared = 0
    with psycopg.connect(server.conninfo(name), autocommit=True) as ours, duckdb.connect(str(source), read_only=True) as theirs:
        readable(ours)
        ours.execute("CREATE SCHEMA IF NOT EXISTS main; SET search_path = pg_catalog; SET TimeZone = 'UTC'")
        for entry in here.entries:
            pairs = zip(*(here.planned(dialect, entry) or () for dialect in ENGINES), strict=True)
            for duck, postgres in pairs:
                if duck.inputs:  # what the facade, or an earlier measurement, would say
                    continue
                for a, b in zip(duck.measurements, postgres.measurements, strict=True):
                    for left, right in zip(a.queries, b.queries, strict=True):
                        found = ours.execute(right.render([], literal).replace('"main".', '"public".').encode()).fetchall()
                        wanted = theirs.sql(left.render([], literal)).fetchall()
                        assert _same(_plain(found), _plain(wanted), len(b.keys)), entry["sql"]
                        compared += bool(wanted)
    assert compared > 10


def _plain(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return sorted(([plain_cell(cell) for cell in row] for row in rows), key=repr)


def _same(a: list[list[Any]], b: list[list[Any]], keys: int) -> bool:
    """Rows of the same keys, and the same numbers but for halves of a grid unit: NUMERIC rounds them up, DOUBLE to even."""
    return len(a) == len(b) and all(
        x[:keys] == y[:keys] and all(math.isclose(m, n, rel_tol=1e-4, abs_tol=1) for m, n in zip(x[keys:], y[keys:], strict=True))
        for x, y in zip(a, b, strict=True)
    )

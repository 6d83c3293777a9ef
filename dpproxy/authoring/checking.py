"""Everything that can be said of a policy file, in order: the file, its doubts, the backend's shapes, the data.

Knows: how the other files of this room are put together, the backend. Must not know: terminals, formats. What follows from a
problem that is told already is not told again: a file that cannot be read has no doubts, one that does not fit the backend is not
held against its data.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dpproxy.authoring.evidence import evidence
from dpproxy.backends.base import Backend, BackendError
from dpproxy.policy.catalog import Catalog, CatalogTable
from dpproxy.policy.load import Loaded, load_file
from dpproxy.policy.model import ColumnRole, PostgresBackend, TableKind, TablePolicy
from dpproxy.policy.problems import START, PolicyError, Problem
from dpproxy.reuse.data_epoch import epoch_query
from dpproxy.review import doubts
from dpproxy.serve import data_checks
from dpproxy.serve.data_checks import checked_catalog, open_backend


class Depth(enum.Enum):
    """How far a check goes."""

    FILE = "the file alone"
    SHAPES = "names, types, keys, and the promise of one row per unit"
    DATA = "exact counts as well"


async def findings(paths: Sequence[Path], depth: Depth) -> tuple[Problem, ...]:
    """Return the problems of all files, in the order of the files and within each of its lines."""
    files: list[Loaded] = []
    found: list[tuple[Problem, ...]] = []
    for path in paths:
        try:
            loaded = load_file(path)
        except PolicyError as error:
            found.append(error.problems)
            continue
        files.append(loaded)
        found.append(await _of(loaded, depth))
    together = doubts.shared_data(files)
    order = {str(path): i for i, path in enumerate(paths)}
    everything = {p for problems in (*found, together) for p in problems}
    return tuple(sorted(everything, key=lambda p: (order.get(p.file, len(order)), p)))


async def _of(loaded: Loaded, depth: Depth) -> tuple[Problem, ...]:
    if depth is Depth.FILE:
        return doubts.doubts(loaded, None)
    try:
        backend = open_backend(loaded)
    except PolicyError as error:
        return (*error.problems, *_grave(loaded))
    try:
        return await _with_backend(loaded, backend, depth)
    except BackendError as error:
        at = loaded.positions.get(("backend",), START)
        what, fix = f"the data cannot be read: {error}", data_checks.OWN_SERVER[backend.dialect]
        return (at.problem(loaded.file, what, fix, "backend-data"), *_grave(loaded))
    finally:
        await backend.close()


async def _with_backend(loaded: Loaded, backend: Backend, depth: Depth) -> tuple[Problem, ...]:
    try:
        catalog = await checked_catalog(loaded, backend)
    except PolicyError as error:
        return (*error.problems, *_grave(loaded))
    found = [*await _of_extract(loaded, catalog, backend), *doubts.doubts(loaded, catalog)]
    found += _public_tables(loaded, catalog, found)
    found += await data_checks.doubts(loaded, catalog, backend)
    if loaded.policy.views or epoch_query(loaded.policy) is not None:
        from dpproxy.authoring.sql_texts import wrong_texts  # the planner is imported where there is SQL to read

        wrong = await wrong_texts(loaded, catalog, backend)
        found += wrong
        if not any(problem.code == "epoch" for problem in wrong):  # what reads private tables is not run
            found += await data_checks.epoch_problems(loaded, backend)
    if depth is Depth.DATA:
        from dpproxy.authoring.exact_counts import questions

        asked = questions(loaded, catalog, backend.dialect)
        queries = tuple(dict.fromkeys(query for question in asked for query in question.queries))  # many ask of the same ids
        counts = dict(zip(queries, await backend.violations(queries), strict=True)) if queries else {}
        told = (question.told(tuple(counts[query] for query in question.queries)) for question in asked)
        found += [problem for problem in told if problem is not None]
    return tuple(found)


def _public_tables(loaded: Loaded, catalog: Catalog, said: Sequence[Problem]) -> Iterator[Problem]:
    """What a schema says for public tables being about people, where nothing was said of them yet."""
    policy = loaded.policy
    if policy.unit_key is None:
        return
    private = frozenset(t.name for t in policy.of_kind(TableKind.PEOPLE))
    for table in policy.of_kind(TableKind.PUBLIC):
        if table.reviewed or any(f"public table `{table.name}`" in problem.what for problem in said):
            continue
        signs = evidence(catalog, private, policy.unit_key, _shown(table, catalog))
        if signs:
            at = loaded.positions.get(("tables", str(table.name)), START)
            what = f"public table `{table.name}` may be about people: {signs[0]}"
            fix = 'give it a `unit`, hide the column, or write `public: { reviewed: "date by name" }` if nobody is in it'
            yield at.problem(loaded.file, what, fix, "personal-table")


def _shown(table: TablePolicy, catalog: Catalog) -> CatalogTable:
    """A public table without the columns that the policy hides."""
    shape = catalog.tables[table.name]
    hidden = {c.name for c in table.columns.values() if c.role is ColumnRole.HIDDEN}
    return replace(shape, columns=tuple(c for c in shape.columns if c.name not in hidden))


def _grave(loaded: Loaded) -> list[Problem]:
    """Doubts shown together with errors of the backend: no notes, which may follow from those."""
    return [doubt for doubt in doubts.doubts(loaded, None) if doubt.severity == "warning"]


async def _of_extract(loaded: Loaded, catalog: Catalog, backend: Backend) -> tuple[Problem, ...]:
    """Why a policy does not fit an extract of its PostgreSQL database."""
    if not isinstance(loaded.policy.backend, PostgresBackend):
        return ()
    from dpproxy.serve.extracts import held_problems  # what serves is imported where there may be an extract

    return await held_problems(loaded, catalog, backend)

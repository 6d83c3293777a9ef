"""A policy held against its data: the engine opens, every name, type and key is there, and what the policy promises is true.

Knows: the backend, what `policy` asks of data. Must not know: the planner, ledgers, the facade; `dpproxy policy check` and
`dpproxy policy init` wait for no more than this. What it says of private rows is the operator's alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path

from dpproxy.answers.table_standing import ClaimStanding, Closure, Closures, TableAccess
from dpproxy.backends.base import Backend, BackendError
from dpproxy.budget_windows import KINDS
from dpproxy.limits.side_threads import share
from dpproxy.policy.catalog import Catalog, CatalogTable
from dpproxy.policy.check import check
from dpproxy.policy.data_claims import Claim, ClaimKind, broken_claim, claim_query, remedy, unkept
from dpproxy.policy.grants import exposures, private_tables, probes, unseen, used_columns
from dpproxy.policy.load import Loaded
from dpproxy.policy.model import DuckDBBackend, Policy, PostgresBackend
from dpproxy.policy.problems import START, Code, PolicyError, Problem
from dpproxy.policy.report_columns import visible_catalog
from dpproxy.reuse.data_epoch import Epoch, epoch_query, shape_of
from dpproxy.table_terms import TableName

# The claims of a policy (`policy.data_claims`) held against its data, on whichever engine has them.
#
# Knows: the list of claims, the backend. Must not know: what a claim means for a plan, sessions. Whoever opens data calls
# `broken_claims`: the start, a reload, an extract or a prepared copy, `dpproxy policy check`. Data that change while they are
# open, a server's, are looked at again as long as they are asked (`live_claims`). What a key of the catalog keeps is not asked
# for: of a server's catalog it is looked at whether the key is there. How many rows break a claim is for the operator; analysts
# are told that one is broken, and by which key.


PARTS = {ClaimKind.ONE_ROW: "tables", ClaimKind.PATH_KEY: "units", ClaimKind.LISTED_KEY: "keys"}
"""What of a table in a policy makes a claim."""


async def broken_claims(policy: Policy, catalog: Catalog, backend: Backend) -> Mapping[Claim, int]:
    """Return the claims that do not hold, each with how many rows share one value. The policy must fit the catalog. Raises
    BackendError."""
    asked = {claim: claim_query(claim, policy, catalog, backend.dialect) for claim in unkept(policy, catalog)}
    queries = tuple(dict.fromkeys(asked.values()))  # two claims may be of one column
    counts = dict(zip(queries, await backend.violations(queries, aside=True), strict=True)) if queries else {}
    return {claim: counts[query] for claim, query in asked.items() if counts[query]}


def claim_problems(loaded: Loaded, broken: Mapping[Claim, int]) -> Iterator[Problem]:
    """Say of each broken claim where the policy makes it, and what to write instead."""
    for claim, rows in broken.items():
        what = broken_claim(claim, rows, loaded.policy.unit_name)
        part = PARTS[claim.kind]
        at = loaded.positions.get((part, str(claim.user)), START)
        yield at.problem(loaded.file, what, remedy(claim, loaded.policy), "not-unique")


def unkept_claims(loaded: Loaded, catalog: Catalog, backend: Backend) -> Iterator[Problem]:
    """Say which claims only looks confirm, of data that change while they are open."""
    policy = loaded.policy
    if backend.state or policy.accelerate.mode == "extract":
        return
    for claim in unkept(policy, catalog):
        at = loaded.positions.get(("tables", str(claim.table)), START)
        what = f"`{claim.key}` is unique, and no key of the database keeps it so"
        if claim.kind is ClaimKind.ONE_ROW:
            what = f"`{claim.table}` has one row a {policy.unit_name}, and no key of the database keeps it so"
        fix = "add a UNIQUE constraint, or know that what breaks it is found minutes later"
        yield at.problem(loaded.file, what, fix, "unkept-key")


def live_claims(policy: Policy, catalog: Catalog, backend: Backend, epoch: Epoch) -> ClaimStanding:
    """Return what keeps looking at data that are open. `catalog`: as plans have it."""
    if backend.state:
        return ClaimStanding()
    shape = shape_of(policy, catalog)

    async def look() -> Closures | None:
        known = visible_catalog(policy, await backend.introspect())
        if not policy.tables.keys() <= known.tables.keys() or shape_of(policy, known) != shape:
            return None
        broken = await broken_claims(policy, known, backend)
        return {claim.table: _closure(claim, rows, policy) for claim, rows in broken.items()}

    watched = {claim.table for claim in unkept(policy, catalog)}
    return ClaimStanding(look, watched, epoch, policy.dataset)


def _closure(claim: Claim, rows: int, policy: Policy) -> Closure:
    """The message to analysts has no number, the line of the log has one."""
    why = f"`{claim.key}` is not unique in the data, and the path from `{claim.user}` leads over it"
    to_do = f"`{claim.columns[0]}` is to be unique in `{claim.table}`"
    if claim.kind is ClaimKind.LISTED_KEY:
        why = f"rows share the values of `{claim.key}` in the data, and the policy lists it in `keys`"
        to_do = f"no two rows of `{claim.table}` are to share them"
    if claim.kind is ClaimKind.ONE_ROW:
        why = f"a {policy.unit_name} has more than one row in the data, and the policy says one"
        to_do = f"each {policy.unit_name} is to have one row in `{claim.table}`"
    return Closure(why, to_do, f"{broken_claim(claim, rows, policy.unit_name)}; {remedy(claim, policy)}")


TABLE_FILES = (".parquet", ".csv", ".tsv", ".json")
OWN_FILE = "name a database file that DuckDB made; of CSV or Parquet make one: CREATE TABLE visits AS FROM 'visits.parquet'"
OWN_SERVER = {
    "duckdb": "see that the file is a database that DuckDB can read",
    "postgres": "see that the server runs, and that address, database, role and password are right",
    "spark": "see that the server runs, and that address, TLS (`/;use_ssl=true`), token and catalog are right",
}
STANDS_ON = {
    "duckdb": "copy what it reads into a table of the database: views over other files are not read",
    "postgres": "see that what it stands on is there, and grant that to the backend's role too",
    "spark": "see that what it stands on is there, and that the token's user may read it",
}

ROADS = "it is a view of it, its parent or its child"
UNSEEN = {
    1: (
        "public table `{}` holds rows of another server: whether they are rows of people cannot be seen from here",
        "see what it holds; if these are rows of people, say whose (`unit`)",
    ),
    2: (
        "row-level security chooses which rows of `{}` the backend's role reads: answers are about these",
        "let the backend's role read all rows (BYPASSRLS), or be sure that its policies show the rows that are meant",
    ),
}
"""What to say of rows that are chosen elsewhere (`policy.grants.unseen`), and what to do."""


def open_backend(loaded: Loaded) -> Backend:
    """Open the engine of a policy's data. Raises PolicyError when they cannot be opened."""
    config, roles = loaded.policy.backend, len(loaded.policy.roles)
    if isinstance(config, PostgresBackend):
        from dpproxy.backends import postgres  # each engine's client is imported where it is used

        return postgres.Postgres(config, share(postgres.PLACES, roles) * max(roles, 1))
    if not isinstance(config, DuckDBBackend):
        try:
            from dpproxy.backends import spark
        except ImportError as error:
            what, fix = (
                f"the client of Spark Connect is not installed ({error.name})",
                "install dpproxy with its extra: pip install '.[spark]' in its folder",
            )
            raise PolicyError([beside(loaded, ("backend",), what, fix, "backend-data")]) from None
        return spark.Spark(config, share(spark.PLACES, roles) * max(roles, 1))
    from dpproxy.backends import duckdb

    try:
        return duckdb.DuckDB(config, share(duckdb.PLACES, roles) * max(roles, 1))
    except BackendError as error:
        what, fix = f"the data cannot be opened: {error}", _file_meant(Path(config.path))
        raise PolicyError([beside(loaded, ("backend",), what, fix, "backend-data")]) from None


def _file_meant(path: Path) -> str:
    """What to write for a database file that cannot be opened."""
    if not path.exists():
        near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.duckdb")], n=1)
        return f"did you mean `{near[0]}`?" if near else "write a path that exists, relative to the policy's own folder"
    if path.suffix in TABLE_FILES:
        return f"make a database of it: `dpproxy policy init {path.name}`, or CREATE TABLE {path.stem} AS FROM '{path.name}'"
    return OWN_FILE


def beside(loaded: Loaded, place: tuple[str, ...], what: str, fix: str, code: Code) -> Problem:
    """Return a problem at a place in the policy."""
    at = loaded.positions.get(place, START)
    return at.problem(loaded.file, what, fix, code)


async def fitting_catalog(loaded: Loaded, backend: Backend) -> Catalog:
    """Return the shape of a backend's data. Raises PolicyError when it cannot be read, or the policy does not fit it."""
    try:
        catalog = visible_catalog(loaded.policy, await backend.introspect())
    except BackendError as error:
        raise PolicyError(
            [beside(loaded, ("backend",), f"the data cannot be read: {error}", OWN_SERVER[backend.dialect], "backend-data")]
        ) from None
    problems = check(loaded.policy, catalog, loaded.file, loaded.positions)
    if problems:
        raise PolicyError(problems)
    return catalog


async def checked_catalog(loaded: Loaded, backend: Backend) -> Catalog:
    """Return the same, once every table is known to be readable and to keep what the policy promises of it. Raises PolicyError,
    BackendError."""
    catalog = await fitting_catalog(loaded, backend)
    await _check_readable(loaded, catalog, backend)
    await check_exposures(loaded, catalog, backend)
    await _check_promises(loaded, catalog, backend)
    return catalog


async def _check_readable(loaded: Loaded, catalog: Catalog, backend: Backend) -> None:
    """Raises PolicyError for tables that the catalog shows and the engine cannot read."""
    problems = []
    for name, probe in probes(loaded.policy, catalog, backend.dialect).items():
        try:
            await backend.violations([probe])
        except BackendError as error:
            what = f"table `{name}` cannot be read: {error}"
            problems.append(beside(loaded, ("tables", str(name)), what, STANDS_ON[backend.dialect], "backend-data"))
    if problems:
        raise PolicyError(problems)


def table_access(policy: Policy, catalog: Catalog, backend: Backend) -> TableAccess:
    """Return what knows which tables cannot be read any more. `catalog`: as plans have it."""
    if backend.state:
        return TableAccess()
    asked, used = probes(policy, catalog, backend.dialect), used_columns(policy)

    async def look() -> dict[TableName, str]:
        known, found = visible_catalog(policy, await backend.introspect()), dict[TableName, str]()
        for name, probe in asked.items():
            before, now = (_shape(c.tables.get(name), used[name]) for c in (catalog, known))
            changed = sorted(column for column in before if now.get(column) != before[column])
            if changed:
                found[name] = f"columns are gone or of another kind: {', '.join(changed)}"
                continue
            try:
                await backend.violations([probe])
            except BackendError as error:
                found[name] = f"it cannot be read: {error}"
        return found

    return TableAccess(look, policy.dataset)


def _shape(table: CatalogTable | None, columns: frozenset[str]) -> dict[str, tuple[object, ...]]:
    """What plans know of the columns in use."""
    known = [c for c in table.columns if c.name in columns] if table is not None else []
    return {c.name: (c.source, c.type, c.nullable, c.bounded, c.exact, c.collated, c.reports) for c in known}


async def check_exposures(loaded: Loaded, catalog: Catalog, backend: Backend) -> None:
    """Hold what is called public against what it is made of. Raises PolicyError for public tables whose rows are those of
    private ones."""
    asked, private = exposures(loaded.policy, catalog, backend.dialect), private_tables(loaded.policy)
    shown = await backend.violations([query for _, query in asked])
    problems = []
    for (table, _), number in zip(asked, shown, strict=True):
        if number:
            what = f"public table `{table}` shows rows of private table `{private[number - 1]}`: {ROADS}"
            fix = "say whose rows it holds (`unit`), or leave it out of the policy"
            problems.append(beside(loaded, ("tables", str(table)), what, fix, "shown-rows"))
    if problems:
        raise PolicyError(problems)


async def epoch_problems(loaded: Loaded, backend: Backend) -> list[Problem]:
    """Return why the data's epoch cannot be told, where a query is to tell it. The query must read public tables alone
    (`serve.datasets.check_epoch`)."""
    query = epoch_query(loaded.policy)
    try:
        if query is not None:
            await backend.number(query)
    except BackendError as error:
        fix = "ask a public table for one whole number, as in `SELECT max(load) FROM loads`"
        return [beside(loaded, ("reuse_answers", "epoch"), f"the epoch cannot be read: {error}", fix, "epoch")]
    return []


async def unseen_rows(loaded: Loaded, catalog: Catalog, backend: Backend) -> list[Problem]:
    """Return warnings of tables whose rows are chosen where dpproxy cannot see it. Raises BackendError."""
    asked = unseen(loaded.policy, catalog, backend.dialect)
    found = []
    for (table, _), kind in zip(asked, await backend.violations([query for _, query in asked]), strict=True):
        if kind:
            found.append(beside(loaded, ("tables", str(table)), UNSEEN[kind][0].format(table), UNSEEN[kind][1], "unseen-rows"))
    return found


async def _check_promises(loaded: Loaded, catalog: Catalog, backend: Backend) -> None:
    """Raises PolicyError where a claim that the guarantee rests on does not hold."""
    broken = await broken_claims(loaded.policy, catalog, backend)
    if broken:
        raise PolicyError(claim_problems(loaded, broken))


async def doubts(loaded: Loaded, catalog: Catalog, backend: Backend) -> tuple[Problem, ...]:
    """Return what is no error and yet not what its author will have meant. The policy must fit the catalog. Raises
    BackendError."""
    seen = [*unkept_claims(loaded, catalog, backend), *await unseen_rows(loaded, catalog, backend)]
    return tuple(sorted([*seen, *_greedy(loaded)]))


def _greedy(loaded: Loaded) -> list[Problem]:
    """Roles that can leave nothing of the dataset's budget to the others, or to the rest of its window."""
    policy, windows = loaded.policy, KINDS
    fix = "give roles less than all of them may spend together, or raise the dataset's `budget`"
    found = []
    for name, role in policy.roles.items():
        sooner = windows.index(role.budget.every) < windows.index(policy.budget.every)
        if role.budget.epsilon >= policy.budget.epsilon and (len(policy.roles) > 1 or sooner):
            what = f"role `{name}` alone may spend the whole budget of all roles together"
            what += f" in one {role.budget.every}" if sooner else ""
            found.append(beside(loaded, ("roles", name), what, fix, "whole-budget"))
    return found

"""`dpproxy policy init`: from a source of data to a first policy, a user, and what to type next.

Knows: the terminal, files, the order of steps. Must not know: how a draft is made. It asks when a terminal is there and
takes flags otherwise; whatever nobody said becomes a TODO. A table is public only when `--public` or a yes says so. The password
is drawn here, printed once and kept nowhere.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit, urlunsplit

import duckdb
import typer

from dpproxy import postgres_connections
from dpproxy.authoring import report_drafts
from dpproxy.authoring.draft import Column, Decisions, Frame, candidates, draft, of_person, unit_name
from dpproxy.authoring.evidence import evidence
from dpproxy.authoring.paid_session import Draft, measurements
from dpproxy.authoring.schema_facts import DUCKDB, POSTGRES, Facts, Place, read_facts
from dpproxy.authoring.unit_links import links
from dpproxy.authoring.yaml_text import scalar
from dpproxy.backends.base import Backend, BackendError
from dpproxy.backends.duckdb import DuckDB
from dpproxy.backends.postgres import Postgres
from dpproxy.errors import OperatorError
from dpproxy.policy import names
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.check import check
from dpproxy.policy.load import ADDRESS, read_text
from dpproxy.policy.model import DuckDBBackend, PostgresBackend
from dpproxy.policy.people import make_verifier
from dpproxy.policy.problems import PolicyError, Problem
from dpproxy.serve.data_checks import OWN_SERVER
from dpproxy.table_terms import TableName

# What `dpproxy policy init` is pointed at: a DuckDB file, a Parquet or CSV file, an address of a PostgreSQL.
#
# Knows: files, engines' catalogs. Must not know: policies' contents, terminals. Of a DuckDB or PostgreSQL only the schema is
# read. A Parquet or CSV file has to be copied into a database before it can be served: the engine that serves opens nothing but
# that.


TABLES = (".parquet", ".csv", ".tsv", ".json", ".jsonl")
PASSWORD = "PGPASSWORD"
KINDS = "name a DuckDB, Parquet or CSV file, or postgresql://role@host/database"


class SourceError(OperatorError):
    """A source cannot be read, and what to name instead."""


@dataclass(frozen=True)
class Described:
    """A source's schema. `backend`: YAML of it for a policy in `folder`; `made`: the database that was made of a file."""

    name: str
    backend: str
    catalog: Catalog
    facts: Mapping[Place, Facts]
    made: Path | None = None


def describe(source: str, folder: Path, env: Mapping[str, str]) -> Described:
    """Read a source's schema. Raises SourceError."""
    if source.startswith(ADDRESS):
        return asyncio.run(_postgres(source, env))
    path = Path(source)
    if not path.exists():
        raise SourceError(f"{source}: there is no such file; {KINDS}")
    made = None
    if path.suffix.lower() in TABLES:
        made = folder / f"{path.stem}.duckdb"
        _make(path, made)
    return asyncio.run(_duckdb(made or path, folder, made))


def _make(path: Path, database: Path) -> None:
    if database.exists():
        raise SourceError(f"{path}: would be copied into {database}, which exists; name that instead")
    table, file = path.stem.lower().replace('"', ""), str(path).replace("'", "''")
    try:
        with duckdb.connect(str(database)) as connection:
            connection.execute(f"CREATE TABLE \"{table}\" AS FROM '{file}'")
    except duckdb.Error as error:
        database.unlink(missing_ok=True)
        raise SourceError(f"{path}: DuckDB cannot read it ({type(error).__name__})") from None


async def _duckdb(path: Path, folder: Path, made: Path | None) -> Described:
    absolute = path.resolve()
    catalog = await _catalog(lambda: DuckDB(DuckDBBackend(str(absolute))), f"{path}", KINDS)
    with duckdb.connect(str(absolute), read_only=True) as connection:
        rows = [row for query in DUCKDB for row in connection.execute(query).fetchall()]
    inside = absolute.relative_to(folder.resolve()) if absolute.is_relative_to(folder.resolve()) else absolute
    return Described(path.stem.lower(), f"{{ duckdb: {scalar(str(inside))} }}", catalog, read_facts(rows, "duckdb"), made)


async def _postgres(address: str, env: Mapping[str, str]) -> Described:
    parts = urlsplit(address)
    password = parts.password or env.get(PASSWORD)
    plain = urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", "@"))) if parts.password else address
    catalog = await _catalog(lambda: Postgres(PostgresBackend(plain, password), 1), plain, OWN_SERVER["postgres"])
    connection = await postgres_connections.connect(plain, password=password)
    try:
        rows = [tuple(row) for query in POSTGRES for row in await connection.fetch(query)]
    finally:
        await connection.close()
    secret = f", password: ${{env:{PASSWORD}}}" if password else ""
    backend = f"{{ postgres: {scalar(plain)}{secret} }}".replace(f"${{env:{PASSWORD}}}", f'"${{env:{PASSWORD}}}"')
    return Described(parts.path.strip("/").lower() or "data", backend, catalog, read_facts(rows, "postgres"))


async def _catalog(opened: Callable[[], Backend], name: str, fix: str) -> Catalog:
    backend: Backend | None = None
    try:
        backend = opened()
        return await backend.introspect()
    except BackendError as error:
        raise SourceError(f"{name}: {error}; {fix}") from None
    finally:
        if backend is not None:
            await backend.close()


STATE = Path("dpproxy-state")


def init(
    source: Annotated[str, typer.Argument(help="a DuckDB, Parquet or CSV file, or postgresql://role@host/database")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="the policy to write; default: DATASET.yaml")] = None,
    dataset: Annotated[str | None, typer.Option(help="the database that clients connect to; default: the source's name")] = None,
    unit: Annotated[str | None, typer.Option(help="table.column that names a person; asked for on a terminal")] = None,
    unit_noun: Annotated[str | None, typer.Option("--unit-name", help="what one is called, as in `customer`")] = None,
    public: Annotated[list[str] | None, typer.Option(help="a table with nothing about people in it; may be repeated")] = None,
    leave_out: Annotated[list[str] | None, typer.Option(help="a table analysts are not to see; may be repeated")] = None,
    reports: Annotated[list[str] | None, typer.Option(help="a table whose columns devices randomised; may be repeated")] = None,
    user: Annotated[str, typer.Option(help="the first user")] = "analyst",
    spend_epsilon: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=100,
            help="measure ranges, values and bounds privately, of this much epsilon in all, charged to the ledger",
        ),
    ] = None,
    state: Annotated[Path, typer.Option(help="with --spend-epsilon: the folder whose ledger is charged")] = STATE,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="ask nothing; what is not said becomes a TODO")] = False,
) -> None:
    """Draft a policy from names, types, keys and constraints. No row is read, unless --spend-epsilon says what it may cost."""
    folder = out.parent if out is not None else Path()
    described = describe(source, folder, os.environ)
    dataset = dataset or described.name
    out = out or Path(f"{dataset}.yaml")
    if out.exists():
        raise _problem(str(out), "exists already", "name another file by --out, or remove this one")
    ask, catalog = _on_terminal() and not yes, described.catalog
    password = secrets.token_urlsafe(12)
    frame = Frame(dataset, described.backend, user, make_verifier(password))
    told = _tables(catalog, reports or [], "--reports")
    _check_reported(catalog, told)
    if told and unit is None and not any(of_person(catalog, place) for place in candidates(catalog) if place[0] not in told):
        lines = report_drafts.alone(catalog, told, _tables(catalog, public or []), dataset, described.backend)
        person = f"  {scalar(user)}: {{ role: {scalar(frame.role)}, password: {scalar(frame.verifier)} }}"
        lines += ["roles:", f"  {scalar(frame.role)}: {{}}", "users:", person, ""]
        _written("\n".join(lines), out, described, frame, password)
        return
    decisions = replace(_decisions(catalog, unit, unit_noun, public or [], leave_out or [], ask), reports=told)
    if spend_epsilon is not None:
        made = Draft(described.catalog, described.facts, decisions, frame)
        decisions = measurements(made, Decimal(f"{spend_epsilon:g}"), folder, state, _agreed if ask else _read_out)
    _written(draft(catalog, decisions, described.facts, frame), out, described, frame, password)


def _check_reported(catalog: Catalog, told: Set[TableName]) -> None:
    for name in told:
        if not report_drafts.reported(catalog.tables[name]):
            what = f"`{name}` has no column of yes or no, of texts or numbers"
            raise _problem("--reports", what, "name a table whose columns devices randomised")


def _written(text: str, out: Path, described: Described, frame: Frame, password: str) -> None:
    _verified(text, described.catalog, out)
    out.write_text(text, encoding="utf-8")
    _told(text, out, described, frame, password)


def _on_terminal() -> bool:
    return sys.stdin.isatty()


def _problem(file: str, what: str, fix: str) -> PolicyError:
    return PolicyError([Problem(file, 1, 1, what, fix, "unreadable-file")])


def _decisions(
    catalog: Catalog, unit: str | None, noun: str | None, public: Sequence[str], left_out: Sequence[str], ask: bool
) -> Decisions:
    if not catalog.tables:
        raise _problem("--unit", "there is no table here that may be read", "name another database, or GRANT SELECT to the role")
    chosen, gone = _tables(catalog, public), _tables(catalog, left_out)
    likely = [place for place in candidates(catalog) if place[0] not in chosen | gone]
    best = next((place for place in likely if of_person(catalog, place)), None)
    if unit is None and ask:
        shown = ", ".join(f"{t}.{c}" for t, c in likely[:5])
        unit = typer.prompt(
            f"Which table.column names a person to protect? ({shown})", default=_dotted(best) if best is not None else None
        )
    place = names.table_column(unit) if unit is not None else best
    table = catalog.tables.get(place[0]) if place is not None else None
    if place is None or table is None or table.column(place[1]) is None:
        known = ", ".join(_dotted(c) for c in likely[:5]) or "none that is likely"
        what = f"`{unit}` is no column here" if unit else "no column names people by its name"
        raise _problem("--unit", what, f"write --unit table.column ({known})")
    if noun is None:
        noun = typer.prompt("What is one of them called?", default=unit_name(place)) if ask else unit_name(place)
    if table.name in chosen | gone:
        how = "public" if table.name in chosen else "left out"
        raise _problem("--unit", f"`{table.name}` names the people to protect, and is to be {how}", "name it in one of the two")
    private = links(catalog, place)
    if ask:
        for name in catalog.tables:
            decided = name in private or name in chosen or name in gone
            if not decided and _shown_to_all(catalog, private.keys(), place, name):
                chosen |= {name}
    return Decisions(place, noun, public=chosen, left_out=gone)


def _shown_to_all(catalog: Catalog, private: Set[TableName], unit: Column, name: TableName) -> bool:
    """Ask whether everybody may see a table that has no path to the unit. Anything but yes leaves it out."""
    signs = evidence(catalog, private, unit, catalog.tables[name])
    print(f"`{name}` has no path to {_dotted(unit)}" + (": " + "; ".join(signs[:3]) if signs else ""))
    return typer.confirm("  May everybody see every row of it? No leaves it out", default=False)


def _read_out(forecast: str) -> bool:
    """Say what is to be spent, where nobody is there to be asked."""
    print(forecast)
    return True


def _agreed(forecast: str) -> bool:
    print(forecast)
    return typer.confirm("Spend it?", default=False)


def _tables(catalog: Catalog, texts: Sequence[str], option: str = "--public") -> frozenset[TableName]:
    found = set()
    for text in texts:
        name = names.table(text)
        if name is None or name not in catalog.tables:
            raise _problem(option, f"there is no table `{text}`", f"use one of {', '.join(map(str, catalog.tables))}")
        found.add(name)
    return frozenset(found)


def _dotted(place: Column) -> str:
    return f"{place[0]}.{place[1]}"


def _verified(text: str, catalog: Catalog, out: Path) -> None:
    """A draft passes check. Raises PolicyError with what is wrong, which is a fault of ours."""
    loaded = read_text(text, str(out), out.parent, {"PGPASSWORD": "x", **os.environ})
    problems = check(loaded.policy, catalog, loaded.file, loaded.positions)
    if problems:
        raise PolicyError(problems)


def _told(text: str, out: Path, described: Described, frame: Frame, password: str) -> None:
    if described.made is not None:
        print(f"{described.made}: the data, copied into a database that can be served")
    print(f"{out}: a policy with {text.count('TODO')} decisions of yours, each marked TODO")
    print(f"user {frame.user}, password {password} (printed this once)")
    print("next:")
    print(f"  dpproxy policy check {out}")
    print(f"  dpproxy serve --draft {out}    # this machine alone; without --draft once no TODO is left")
    print(f"  dpproxy psql 'host=127.0.0.1 port=6432 user={frame.user} dbname={frame.dataset}'")

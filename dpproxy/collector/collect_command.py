"""The commands `dpproxy collect`: take reports of devices, load them, write what devices are asked, check that all of it fits.

Knows: the terminal, policies, addresses of stores. Must not know: how anything is kept or loaded. Standard output is for what was
asked, standard error for everything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from dpproxy.collect.ledger import DeviceError
from dpproxy.collect.post import LOOPBACK
from dpproxy.collect.questions import question_of
from dpproxy.collector.journal import JournalBusy, State
from dpproxy.collector.limits import Rates
from dpproxy.collector.loading import CLAIM, Store, StoreError, load_sealed
from dpproxy.collector.serving import Options, serve
from dpproxy.collector.sources import report_tables
from dpproxy.collector.stores import DuckDBStore, PostgresStore
from dpproxy.collector.tables import ReportTable
from dpproxy.errors import OperatorError
from dpproxy.listeners import host_and_port
from dpproxy.operations.requests import Reload, ask_any
from dpproxy.policy.load import load_file

collect_app = typer.Typer(no_args_is_help=True, help="Collect reports that devices randomised.")

PolicyFile = Annotated[Path, typer.Argument(help="the policy that has the tables of reports")]
Folder = Annotated[
    Path, typer.Option("--state", envvar="DPPROXY_COLLECT_STATE", help="folder of the journal; nobody else may write it")
]
To = Annotated[
    str,
    typer.Option(
        "--to",
        envvar="DPPROXY_COLLECT_TO",
        show_envvar=True,
        help="postgresql://..., or a DuckDB file that is replaced",
    ),
]
STATE = Path("dpproxy-collect")


@collect_app.command(name="serve")
def serve_command(
    policy: PolicyFile,
    listen: Annotated[str, typer.Option(help="HOST:PORT; port 0 picks a free one")] = "127.0.0.1:8443",
    tls_cert: Annotated[Path | None, typer.Option(help="file with the certificate and those above it")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="file with its key")] = None,
    without_tls: Annotated[bool, typer.Option("--without-tls", help="somebody else in front of it encrypts")] = False,
    state: Folder = STATE,
    to: To = "",
    per_minute: Annotated[float, typer.Option(min=1, help="requests of one address in a minute")] = Rates.per_address,
    per_second: Annotated[float, typer.Option(min=1, help="requests of all addresses in a second")] = Rates.total,
    segment_minutes: Annotated[float, typer.Option(min=0.01, help="after which a segment ends and is loaded")] = 60,
) -> None:
    """Take reports until SIGTERM or Ctrl-C. With --to, load them; else `dpproxy collect load` does."""
    host, port = host_and_port(listen)
    if (tls_cert is None) != (tls_key is None):
        raise OperatorError("a certificate needs its key, and a key its certificate: give both --tls-cert and --tls-key")
    tls = (tls_cert, tls_key) if tls_cert is not None and tls_key is not None else None
    if tls is None and not without_tls and host not in LOOPBACK:
        raise OperatorError("reports travel by TLS: give --tls-cert and --tls-key, or --without-tls where somebody else encrypts")
    tables = report_tables(load_file(policy).policy)
    options = Options(host, port, state, tls, Rates(per_minute, per_second), segment_minutes * 60)
    asyncio.run(serve(options, tables, _loader(tables, to) if to else None))


@collect_app.command()
def load(
    policy: PolicyFile,
    to: To,
    state: Folder = STATE,
    proxy: Annotated[Path | None, typer.Option(help="state folder of a proxy that reads the file: it is asked to reload")] = None,
) -> None:
    """Load sealed segments into the store, and say how many. Where no collector serves, what is left open is sealed first."""
    tables = report_tables(load_file(policy).policy)
    place = State(state)
    with place.lock("loading"):
        _seal_what_is_left(place)
        number = _loader(tables, to)(place)
    print(f"{number} segments loaded")
    if proxy is not None and number:
        ask_any(proxy, Reload())


@collect_app.command()
def file(
    policy: PolicyFile,
    table: Annotated[str, typer.Argument(help="a table of reports")],
    claim: Annotated[int | None, typer.Option(help="the number of a claim; by default the newest")] = None,
) -> None:
    """Print the mechanism's file of a table, which is shipped with the app."""
    tables = report_tables(load_file(policy).policy)
    if table not in tables:
        raise OperatorError(f"no table of reports is named {table}: there are {', '.join(tables)}")
    questions = tables[table].questions
    if claim is not None and claim not in questions:
        raise OperatorError(f"{table} has no claim {claim}: there are {', '.join(map(str, questions))}")
    question = tables[table].newest if claim is None else questions[claim]
    print(json.dumps(question.document(), ensure_ascii=False, indent=1))


@collect_app.command()
def check(
    policy: PolicyFile,
    files: Annotated[list[Path] | None, typer.Option("--file", help="a mechanism's file of an app")] = None,
    to: To = "",
    state: Annotated[Path | None, typer.Option(help="folder of a journal")] = None,
) -> None:
    """Say whether a policy, mechanisms' files, a store and a journal fit each other. Exits with 1 where something does not."""
    tables = report_tables(load_file(policy).policy)
    checks = [
        *(_claims(table) for table in tables.values()),
        *(_of_file(path, tables) for path in files or ()),
        *([_columns(tables, _store(to))] if to else ()),
        *([_journal(state)] if state else ()),
    ]
    works = True
    for name, lines in checks:
        for right, said in lines:
            works &= right
            print(f"{'ok' if right else 'wrong'}\t{name}\t{said}")
    if not works:
        raise typer.Exit(1)


Check = tuple[str, list[tuple[bool, str]]]
"""What was looked at, and of each finding whether it is right."""


def _claims(table: ReportTable) -> Check:
    lines = []
    for number, question in table.questions.items():
        by = ", ".join(f"{column.name} {column.claim.name}" for column in question.randomised)
        lines.append((True, f"claim {number}: {by}, epsilon {question.epsilon / 10**6:g} a report, hash {question.claim[:16]}"))
    return str(table.name), lines


def _of_file(path: Path, tables: dict[str, ReportTable]) -> Check:
    try:
        question = question_of(json.loads(path.read_bytes()))
    except (DeviceError, ValueError) as error:
        return path.name, [(False, str(error))]
    table = tables.get(question.table)
    if table is None:
        return path.name, [(False, f"the policy has no table of reports {question.table}")]
    number = table.numbers.get(question.claim)
    if number is None:
        return path.name, [(False, f"its claim is none of {question.table}: a stale list of values, mechanism or epsilon")]
    return path.name, [(True, f"claim {number} of {question.table}")]


def _columns(tables: dict[str, ReportTable], store: Store) -> Check:
    try:
        present = asyncio.run(store.columns(tables.values()))
    except StoreError as error:
        return "store", [(False, str(error))]
    missing = [name for name, table in tables.items() if len(table.questions) > 1 and CLAIM not in present[name]]
    return "store", [(False, f"{name} has no column {CLAIM}") for name in missing] or [(True, "each table has its columns")]


def _journal(folder: Path) -> Check:
    try:
        segments = State(folder).sealed()
        number = sum(1 for segment in segments for _ in segment.batches())
    except (OperatorError, OSError) as error:
        return "journal", [(False, str(error))]
    return "journal", [(True, f"{len(segments)} segments with {number} batches wait to be loaded")]


def _loader(tables: dict[str, ReportTable], to: str) -> Callable[[State], int]:
    store = _store(to)

    def bring(state: State) -> int:
        return asyncio.run(load_sealed(state, tables, store, time.time()))

    return bring


def _store(to: str) -> Store:
    def today() -> dt.date:
        return dt.datetime.now(dt.UTC).date()

    if to.startswith(("postgresql://", "postgres://")):
        return PostgresStore(to, today)
    if "://" in to:
        raise OperatorError("reports are loaded into PostgreSQL (postgresql://...) or a DuckDB file (its path)")
    return DuckDBStore(Path(to), today)


def _seal_what_is_left(state: State) -> None:
    """Seal open segments, unless a collector writes one. Raises JournalDamaged."""
    with contextlib.suppress(JournalBusy), state.lock("collecting"):
        state.seal_all()

"""The command line: serve, connect, look at budgets, work on policies.

Knows: files, signals, the terminal. Must not know: how anything is done; each command is a few calls. Standard output
is for what was asked, standard error for everything else.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from dpproxy.authoring.app import policy_app
from dpproxy.bookkeeping import STATE, Anchor, KeyFile, Ledger, State, budget_app, ledger_app
from dpproxy.facade.binaries import find_binaries
from dpproxy.policy.grants import grants as grants_text
from dpproxy.policy.load import load_file
from dpproxy.policy.model import PostgresBackend
from dpproxy.policy.password import make_verifier
from dpproxy.policy.schema import text as schema_text
from dpproxy.serve import proxy
from dpproxy.serve.processes import supervise
from dpproxy.serve.proxy import Options
from dpproxy.serve.runtime import log_json, run
from dpproxy.server.rations import Rations
from dpproxy.server.server import DRAIN_SECONDS
from dpproxy.server.tls import TlsFiles
from dpproxy.session.limits import SessionLimits

ABOUT = "A PostgreSQL that answers questions about people with differential privacy: serve, connect, budgets, policies."

commands = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, pretty_exceptions_show_locals=False, help=ABOUT
)
commands.add_typer(policy_app, name="policy")
commands.add_typer(budget_app, name="budget")
commands.add_typer(ledger_app, name="ledger")

Policies = Annotated[list[Path], typer.Argument(help="policy files, one a dataset")]
Seconds = Annotated[float, typer.Option(min=0)]


class Stop(Exception):
    """Says that what the user asks for cannot be done, and why."""


def app() -> None:
    """Run the command line. Errors the operator can mend are one line each, without a traceback."""
    try:
        commands()
    except (Stop, *proxy.ERRORS, OSError) as error:  # a port in use, a folder that cannot be made, a full disk
        sys.exit(f"dpproxy: {error}")


@commands.command()
def serve(
    policies: Policies,
    listen: Annotated[str, typer.Option(help="HOST:PORT; port 0 picks a free one")] = "127.0.0.1:6432",
    unix_socket: Annotated[
        Path | None, typer.Option(help="folder for a socket that local clients reach by `-h FOLDER`, same port", file_okay=False)
    ] = None,
    state: State = STATE,
    postgres: Annotated[Path | None, typer.Option(help="bin folder of an installed PostgreSQL for the facade")] = None,
    facade_dsn: Annotated[
        str | None,
        typer.Option(
            envvar="DPPROXY_FACADE_DSN",
            show_envvar=True,
            help="a superuser's DSN of a server for the facade alone; with `{role}` in it for several roles",
        ),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="PEM file: the server's certificate, then its chain")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM file of its key, readable by its owner alone")] = None,
    tls_client_ca: Annotated[
        Path | None, typer.Option(help="PEM file: clients must show a certificate that it signed; implies --require-tls")
    ] = None,
    tls_min: Annotated[str, typer.Option(help="oldest version of TLS: 1.2 or 1.3")] = "1.2",
    require_tls: Annotated[bool, typer.Option("--require-tls", help="turn away who does not encrypt")] = False,
    connections: Annotated[int, typer.Option(min=1, help="of all users together")] = SessionLimits.connections,
    connections_per_user: Annotated[int, typer.Option(min=1)] = SessionLimits.connections_per_user,
    login_timeout: Seconds = SessionLimits.login,
    idle_timeout: Seconds = SessionLimits.idle,
    transaction_timeout: Annotated[
        float, typer.Option(min=0, help="seconds idle within a transaction")
    ] = SessionLimits.transaction,
    statement_timeout: Seconds = SessionLimits.statement,
    facade_memory: Annotated[
        int | None,
        typer.Option(min=64, help="MB that statements of all users may take in the facade; default: a quarter"),
    ] = None,
    facade_disk: Annotated[
        int | None, typer.Option(min=64, help="MB of its temporary files; default: a tenth of what is free, at most 8 GB")
    ] = None,
    role_share: Annotated[
        float,
        typer.Option(
            min=0.01,
            max=1,
            help="part of the facade's memory, disk and processors that one role's users may take together",
        ),
    ] = Rations.share,
    disk_reserve: Annotated[int, typer.Option(min=0, help="MB of disk that statements leave free")] = Rations.reserve_mb,
    processes: Annotated[int, typer.Option(min=1, help="serving the port together; needs a ledger in PostgreSQL")] = 1,
    drain: Annotated[float, typer.Option(help="seconds running statements get when they must end")] = DRAIN_SECONDS,
    ledger: Ledger = None,
    anchor: Anchor = None,
    key_file: KeyFile = None,
    metrics: Annotated[str | None, typer.Option(help="HOST:PORT for Prometheus; the operator's, not for analysts")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="read policies again when their files change, as SIGHUP has it")] = False,
) -> None:
    """Serve one database per policy file until SIGTERM or Ctrl-C. SIGHUP reads policies and certificates again.

    Timeouts are in seconds; 0 is none.
    """
    log_json()
    host, port = _address(listen)
    tls = _tls_files(tls_cert, tls_key, tls_client_ca, tls_min)
    if require_tls and tls is None:
        raise Stop("--require-tls needs --tls-cert and --tls-key")
    encrypted = require_tls or tls_client_ca is not None
    limits = SessionLimits(connections, connections_per_user, login_timeout, idle_timeout, transaction_timeout, statement_timeout)
    files = tuple(policies)
    scraped = _address(metrics) if metrics is not None else None
    rations = Rations(facade_memory, facade_disk, role_share, disk_reserve)
    tail = (drain, limits, ledger, key_file, scraped, unix_socket, rations, anchor, watch)
    options = Options(files, host, port, state, postgres, facade_dsn, tls, encrypted, *tail)
    run(proxy.serve(options) if processes == 1 else supervise(options, processes))


def _tls_files(cert: Path | None, key: Path | None, client_ca: Path | None, minimum: str) -> TlsFiles | None:
    if cert is None or key is None:
        if cert or key or client_ca:
            raise Stop("TLS needs both --tls-cert and --tls-key")
        return None
    if minimum not in ("1.2", "1.3"):
        raise Stop("--tls-min is 1.2 or 1.3")
    return TlsFiles(cert, key, client_ca, "1.3" if minimum == "1.3" else "1.2")


@commands.command(context_settings={"ignore_unknown_options": True})
def psql(
    arguments: Annotated[list[str] | None, typer.Argument(help="passed to psql, for example a connection string")] = None,
) -> None:
    """Run the psql that comes with the facade; by default it connects to 127.0.0.1:6432."""
    program = find_binaries().program("psql")
    if not Path(program).is_file():
        raise Stop(f"there is no psql beside {program}")
    environment = {"PGHOST": "127.0.0.1", "PGPORT": "6432", **os.environ}
    os.execve(program, [program, *(arguments or [])], environment)


@policy_app.command()
def password() -> None:
    """Ask for a password and print the verifier to write into a policy."""
    word = typer.prompt("password", hide_input=True, confirmation_prompt=True) if sys.stdin.isatty() else input()
    try:
        print(make_verifier(word))
    except ValueError as error:
        raise Stop(str(error)) from None


@policy_app.command()
def grants(file: Annotated[Path, typer.Argument(help="a policy whose backend is a PostgreSQL")]) -> None:
    """Print the GRANTs that the backend's role needs, as SQL: the columns of the policy and nothing else."""
    rules = load_file(file).policy
    if not isinstance(rules.backend, PostgresBackend):
        raise Stop(f"{file}: the backend is no PostgreSQL, there is nothing to grant")
    print(grants_text(rules, rules.backend), end="")


@policy_app.command()
def schema() -> None:
    """Print the JSON Schema of policy files, for editors."""
    print(schema_text(), end="")


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise Stop(f"`{listen}` is not HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


if __name__ == "__main__":
    app()

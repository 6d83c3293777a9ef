"""The command `dpproxy serve`: options from the command line, as values.

Knows: the terminal, what can be asked together. Must not know: how anything is served.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as Named
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from dpproxy.bookkeeping import STATE, Anchor, KeyFile, Ledger, State
from dpproxy.console import tokens
from dpproxy.limits.session_limits import DRAIN_SECONDS, Rations, SessionLimits
from dpproxy.listeners import host_and_port
from dpproxy.policy import scalars
from dpproxy.policy.problems import START, PolicyError, Problem, suggestion
from dpproxy.policy.reader import kind
from dpproxy.policy.tree import Mapping, Node, Scalar, Sequence, parse
from dpproxy.serve import proxy
from dpproxy.serve.processes import supervise
from dpproxy.serve.runtime import Options, ServingError, run
from dpproxy.server.tls import TlsFiles
from dpproxy.telemetry.log import FORMATS, LEVELS, start_log

# `dpproxy serve --config FILE`: every option of the command in a YAML file, by its name with `_` for `-`.
#
# Knows: YAML's tree, how the command line names and reads its options. Must not know: what an option means. What the command
# line or the environment says goes before the file, the file before an option's default. A key that is no option, and a value
# that the option does not take, stop the start with line and column, as in policies. Paths are relative to the file's own
# folder.


NOT_OPTIONS: Final = ("config", "help")


def read_config(context: typer.Context, file: Path | None) -> Path | None:
    """Take defaults of the command from a file; a callback of an option that is read first. Raises PolicyError, OSError."""
    if file is not None:
        context.default_map = {**(context.default_map or {}), **defaults(file, context)}
    return file


def defaults(file: Path, context: typer.Context) -> Named[str, Any]:
    """Return values by the names of the command's parameters. Raises PolicyError with every problem found, OSError."""
    text = file.read_text()
    says = any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())
    tree = parse(text, str(file)) if says else Mapping({}, {}, START)
    if not isinstance(tree, Mapping):
        raise PolicyError(
            [tree.at.problem(str(file), f"not options but {kind(tree)}", "write `listen: 0.0.0.0:6432`", "wrong-type")]
        )
    known = {each.name: each for each in context.command.params if each.name not in NOT_OPTIONS}
    found: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, node in tree.entries.items():
        if name not in known:
            what, fix = f"unknown key `{name}`", suggestion(name.replace("-", "_"), map(str, known))
            problems.append(tree.keys[name].problem(str(file), what, fix, "unknown-key"))
            continue
        try:
            found[name] = _value(known[name], node, file.parent, context)
        except ValueError as error:
            problems.append(
                node.at.problem(str(file), f"`{name}`: {error}", "`dpproxy serve --help` says what it takes", "wrong-type")
            )
    if problems:
        raise PolicyError(problems)
    return found


def _value(option: Any, node: Node, folder: Path, context: typer.Context) -> Any:
    """As the command line would have it. Raises ValueError."""
    given = [_text(item) for item in node.items] if isinstance(node, Sequence) else _text(node)
    several = option.nargs == -1
    if isinstance(given, list) and not several:
        raise ValueError("not a list")
    if getattr(option, "is_flag", False):
        flag = scalars.flag(node) if isinstance(node, Scalar) else None
        if flag is None:
            raise ValueError(f"true or false, not {kind(node)}")
        return flag
    wanted = given if isinstance(given, list) or not several else [given]
    try:
        read = option.get_runtime_param().coerce(wanted, param=option, ctx=context)
    except Exception as error:  # typer's own, of whichever class
        raise ValueError(getattr(error, "message", None) or str(error)) from None
    return _beside(read, folder) if _paths(read) else wanted


def _paths(read: object) -> bool:
    return isinstance(read, Path) or (isinstance(read, Iterable) and any(isinstance(each, Path) for each in read))


def _beside(read: Any, folder: Path) -> Any:
    return str(folder / read) if isinstance(read, Path) else [str(folder / each) for each in read]


def _text(node: Node) -> str:
    """Raises ValueError."""
    if not isinstance(node, Scalar) or scalars.is_null(node):
        raise ValueError(f"text or a number, not {kind(node)}")
    return node.text


Policies = Annotated[list[Path], typer.Argument(help="policy files, one a dataset")]
Word = TypeVar("Word", bound=str)
Seconds = Annotated[float, typer.Option(min=0)]

serve_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@serve_app.command(context_settings={"auto_envvar_prefix": "DPPROXY"})
def serve(
    policies: Policies,
    config: Annotated[
        Path | None, typer.Option(help="YAML file with options by name, as `listen: ...`", callback=read_config, is_eager=True)
    ] = None,
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
    metrics: Annotated[
        str | None, typer.Option(help="HOST:PORT for /metrics, /healthz and /ready; the operator's, not for analysts")
    ] = None,
    metrics_token_file: Annotated[
        Path | None, typer.Option(help="file with what must be shown for /metrics; needed on an address that others reach")
    ] = None,
    health: Annotated[
        str | None, typer.Option(help="HOST:PORT for /healthz and /ready alone, which a cluster's probes reach; no token")
    ] = None,
    console: Annotated[str | None, typer.Option(help="HOST:PORT for the operators' pages; `dpproxy admin token` lets in")] = None,
    console_without_tls: Annotated[
        bool, typer.Option("--console-without-tls", help="on an address that others reach: a proxy before it encrypts")
    ] = False,
    log_format: Annotated[str, typer.Option(help="json, or human")] = "json",
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error")] = "info",
    draft: Annotated[
        bool, typer.Option("--draft", help="serve policies with open decisions (TODO), to this machine alone")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="read policies again when their files change, as SIGHUP has it")] = False,
) -> None:
    """Serve one database per policy file until SIGTERM or Ctrl-C. SIGHUP reads policies and certificates again.

    Timeouts are in seconds; 0 is none. Options may stand in the environment (DPPROXY_LISTEN) and in a file (--config), too.
    """
    form, level = _chosen("--log-format", log_format, FORMATS), _chosen("--log-level", log_level, LEVELS)
    host, port = host_and_port(listen)
    if draft and not tokens.is_local(host):
        raise ServingError(f"--draft serves this machine alone, and {host} is reached by others: decide what is open first")
    tls = _tls_files(tls_cert, tls_key, tls_client_ca, tls_min)
    if require_tls and tls is None:
        raise ServingError("--require-tls needs --tls-cert and --tls-key")
    encrypted = require_tls or tls_client_ca is not None
    limits = SessionLimits(connections, connections_per_user, login_timeout, idle_timeout, transaction_timeout, statement_timeout)
    files = tuple(policies)
    scraped, probed, looked_at = (host_and_port(each) if each is not None else None for each in (metrics, health, console))
    token = tokens.read_token(metrics_token_file) if metrics_token_file is not None else None
    if scraped is not None:
        tokens.check_address(scraped[0], token)
    if looked_at is not None:
        tokens.check_console(looked_at[0], console_without_tls or tls is not None)
    rations = Rations(facade_memory, facade_disk, role_share, disk_reserve)
    tail = (drain, limits, ledger, key_file, scraped, unix_socket, rations, anchor, watch, form, level, token, looked_at)
    options = Options(files, host, port, state, postgres, facade_dsn, tls, encrypted, *tail, console_without_tls, draft, probed)
    lines = start_log(form, level)
    run(proxy.serve(options, lines=lines) if processes == 1 else supervise(options, processes))


def _chosen(option: str, given: str, known: tuple[Word, ...]) -> Word:
    """Raises ServingError."""
    for word in known:
        if word == given:
            return word
    raise ServingError(f"{option} is one of {', '.join(known)}")


def _tls_files(cert: Path | None, key: Path | None, client_ca: Path | None, minimum: str) -> TlsFiles | None:
    if cert is None or key is None:
        if cert or key or client_ca:
            raise ServingError("TLS needs both --tls-cert and --tls-key")
        return None
    if minimum not in ("1.2", "1.3"):
        raise ServingError("--tls-min is 1.2 or 1.3")
    return TlsFiles(cert, key, client_ca, "1.3" if minimum == "1.3" else "1.2")

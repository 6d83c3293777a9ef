"""What is served, and how: the options of `dpproxy serve` as a value, and what cannot be served together.

Knows: types of options. Must not know: the command line, what an option does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dpproxy.errors import OperatorError
from dpproxy.limits.session_limits import Rations, SessionLimits
from dpproxy.server.server import DRAIN_SECONDS
from dpproxy.server.tls import TlsFiles
from dpproxy.telemetry.log import Format


class ServingError(OperatorError):
    """What was asked for cannot be served together; the text says why."""


@contextmanager
def listening(where: str) -> Iterator[None]:
    """Raises ServingError for an address that cannot be had."""
    try:
        yield
    except OSError as error:
        raise ServingError(f"cannot listen on {where}: {error.strerror or error}") from None


@dataclass(frozen=True)
class Options:
    """What is served, and how. `postgres`: bin folder of an installed PostgreSQL for the facade; `facade_dsn`: a server for
    it. `drain`: seconds. `ledger`: its address, None for a file in `state`. `key_file`: the secret that seals ledger and stored
    answers. `metrics`: where Prometheus may ask; of several processes the first answers. `local`: folder for a unix socket.
    `session_limits`: what the facade may take. `anchor`: a file outside that tells when a SQLite ledger was rolled back. `watch`:
    policies are read again when their files change. `metrics_token`: what has to be shown for metrics. `console`: where
    operators' pages are; of several processes the first has them; `console_plain`: without TLS. `draft`: policies with open
    decisions are served, too."""

    policies: tuple[Path, ...]
    host: str
    port: int
    state: Path
    postgres: Path | None = None
    facade_dsn: str | None = None
    tls: TlsFiles | None = None
    require_tls: bool = False
    drain: float = DRAIN_SECONDS
    limits: SessionLimits = field(default_factory=SessionLimits)
    ledger: str | None = None
    key_file: Path | None = None
    metrics: tuple[str, int] | None = None
    local: Path | None = None
    rations: Rations = field(default_factory=Rations)
    anchor: Path | None = None
    watch: bool = False
    log_format: Format = "json"
    log_level: str = "info"
    metrics_token: str | None = field(default=None, repr=False)
    console: tuple[str, int] | None = None
    console_plain: bool = False
    draft: bool = False

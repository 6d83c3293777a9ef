"""What a simulated week happens in: two datasets, a proxy with a clock of its own, analysts, and all the places where it
tells of itself.

Knows: `dpproxy serve` and `dpproxy admin` as operators have them, HTTP, psycopg. Must not know: what happens when. The state
folder is on a small disk of its own where this account may mount one; it begins as an earlier version left it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import html
import http.cookiejar
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
import psycopg
from scratch_postgres import Scratch, scratch_server
from typer.testing import CliRunner

from dpproxy.cli import commands
from dpproxy.console.tokens import give
from dpproxy.errors import OperatorError
from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import Proxy, launched

ROOT: Final = Path(__file__).resolve().parents[1]
EARLIER: Final = ROOT / "tests" / "serve" / "earlier_state"
KEPT: Final = ("ledger.sqlite", "ledger.sqlite.anchor", "answers.sqlite", "unknown-users.key")
MONDAY: Final = dt.datetime(2026, 11, 23, 8, tzinfo=dt.UTC)
"""Some hours after the last entry of the earlier version's ledger."""
DISK: Final = "96m"
"""Of the state: sixteen megabytes are the ledger's reserve."""
SAFETY: Final = 60.0
"""Seconds until what is awaited is given up."""
CLINIC: Final = """version: 1
dataset: clinic
backend: { postgres: "DSN" }
privacy_unit: { name: patient, key: patients.id }
budget: { epsilon: 20, delta: 0, every: week }
tables:
  patients:
    unit: id
    columns: { id: unit, town: { values: [Aldorf, Bruck, Celle] }, born: { range: [1920, 2020] } }
roles:
  planner: { budget: { epsilon: 8, delta: 0, every: week, warn: [50, 90] }, query: { epsilon: 0.5, max_epsilon: 1 } }
  intern: { budget: { epsilon: 1, delta: 0, every: day, warn: [50, 90] }, query: { epsilon: 0.5, max_epsilon: 1 } }
users:
  ben: { role: planner, password: "VERIFIER" }
  ivy: { role: intern, password: "VERIFIER" }
reuse_answers: { for: 1d }
"""
PASSWORDS: Final = {"ada": "x", "eve": "x", "ben": "sesame", "ivy": "sesame"}
DATASETS: Final = {"ada": "town", "eve": "town", "ben": "clinic", "ivy": "clinic"}


@dataclass
class Console:
    """A browser of an operator without scripts."""

    address: str
    token: str
    opener: urllib.request.OpenerDirector = field(
        default_factory=lambda: urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    )

    def log_in(self) -> None:
        page = self._open("/login")
        secret = re.search(r'name="form" value="([^"]*)"', page)
        assert secret is not None
        self._open("/login", {"form": secret[1], "token": self.token})

    def lines(self, path: str) -> list[str]:
        """What a page says, a line for each row of a table, item and paragraph."""
        text = re.sub(r"<script.*?</script>|<svg.*?</svg>|<header>.*?</header>", "", self._open(path), flags=re.DOTALL)
        text = re.sub(r"</(tr|li|p|h\d|dd|caption|figcaption|article)>", "\n", text.replace("\n", " "))
        told = (html.unescape(re.sub(r"<[^>]*>", " ", line)) for line in re.sub(r"</t[dh]>", " | ", text).split("\n"))
        return [line for line in (" ".join(line.split()).strip(" |") for line in told) if line]

    def _open(self, path: str, fields: Mapping[str, str] | None = None) -> str:
        data = urllib.parse.urlencode(fields).encode() if fields else None
        with self.opener.open(self.address + path, data, timeout=60) as reply:
            return reply.read().decode()


@dataclass
class World:
    """Is the machine room. `small`: the state has a disk of its own; `now`: seconds since Monday."""

    folder: Path
    server: Scratch
    small: bool
    now: float = 0.0
    wrong: float = 0.0
    proxy: Proxy | None = None
    console: Console | None = None
    running: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    marked: int = 0
    spoiler: Path | None = None
    long_thread: threading.Thread = field(default_factory=threading.Thread)
    long: list[str] = field(default_factory=list)

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def policy(self, dataset: str) -> Path:
        return self.folder / f"{dataset}.yaml"

    # the proxy

    def start(self) -> None:
        """As an operator's unit does."""
        door = self.folder / "clock.sock"
        door.unlink(missing_ok=True)
        ahead = (MONDAY - dt.datetime.now(dt.UTC)).total_seconds() + self.now + self.wrong
        options = ["--metrics", "127.0.0.1:0", "--console", "127.0.0.1:0", "--watch", "--drain", "60"]
        program = [sys.executable, str(ROOT / "scripts" / "week_proxy.py")]
        policies = [self.policy("town"), self.policy("clinic")]
        env = {"DPPROXY_WEEK": f"{door}|{ahead}"}
        self.proxy = self.running.enter_context(launched(policies, self.state, env=env, options=options, program=program))
        self.marked = 0
        self.console = Console(self._said(r"console on (\S+)"), give(self.state, "olga"))
        self.console.log_in()

    def _said(self, pattern: str) -> str:
        assert self.proxy is not None
        found = re.search(pattern, "\n".join(self.proxy.said))
        assert found is not None, pattern
        return found[1]

    def tell_to_stop(self) -> None:
        assert self.proxy is not None
        self.proxy.process.send_signal(signal.SIGTERM)

    def stopped(self) -> int:
        """Wait for the end; return the exit code."""
        assert self.proxy is not None
        code = self.proxy.process.wait(120)
        self.running.close()
        return code

    def kill(self) -> None:
        assert self.proxy is not None
        self.proxy.process.kill()
        self.stopped()

    # the clock

    def until(self, day: int, hour: float) -> None:
        """Let time pass until an hour of a day; Monday is 0."""
        at = (day * 24 + hour - MONDAY.hour) * 3600.0
        assert at >= self.now
        if self.proxy is not None and self.proxy.process.poll() is None:
            self._move(at - self.now, "time")
        self.now = at

    def set_clock(self, seconds: float) -> None:
        """Somebody sets the machine's clock: so far ahead of what it should be."""
        self._move(seconds - self.wrong, "clock")
        self.wrong = seconds

    def _move(self, seconds: float, what: str) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            door.connect(str(self.folder / "clock.sock"))
            with door.makefile("rw") as lines:
                lines.write(f"{seconds} {what}\n")
                lines.flush()
                assert lines.readline() == "moved\n"

    # analysts

    def connect(self, user: str, password: str | None = None) -> psycopg.Connection[Any]:
        assert self.proxy is not None
        where = f"host={self.proxy.host} port={self.proxy.port} user={user} dbname={DATASETS[user]} connect_timeout=30"
        return psycopg.connect(where, password=password or PASSWORDS[user], autocommit=True)

    def ask(self, user: str, *statements: str) -> list[str]:
        """What an analyst sees: rows and notices, or the error."""
        said: list[str] = []
        try:
            with self.connect(user) as connection:
                connection.add_notice_handler(lambda told: said.append(f"NOTICE: {told.message_primary}"))
                for statement in statements:
                    try:
                        said.append(f"{len(connection.execute(statement).fetchall())} rows")
                    except psycopg.Error as error:
                        said += refused(error)
        except psycopg.OperationalError as error:
            said.append(f"no connection: {' '.join(str(error).split())}")
        return said

    def seen(self, work: Callable[[], object]) -> list[str]:
        """The error that an analyst or operator sees of what they do."""
        try:
            work()
        except psycopg.Error as error:
            return refused(error) if error.sqlstate else [f"no connection: {' '.join(str(error).split())}"]
        except OperatorError as error:
            return [f"the operator is told: {error}"]
        return ["done"]

    def long_statement(self, user: str, statement: str) -> None:
        """Begin one that does not end by itself; return when its first rows are there."""
        begun = threading.Event()

        def run() -> None:
            try:
                with self.connect(user) as connection:
                    for _ in connection.cursor().stream(statement):
                        begun.set()
                self.long.append("done")
            except psycopg.Error as error:
                self.long.append(error.sqlstate or "lost")

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        assert begun.wait(SAFETY)
        self.long_thread = thread

    def outcome(self) -> str:
        """How the long statement ended."""
        self.long_thread.join(SAFETY)
        return self.long.pop()

    # what it says of itself

    def awaited(self, place: str, pattern: str, page: str = "/", gone: bool = False) -> str:
        """Wait until a line of a place matches, or none does; return the line."""
        deadline = time.monotonic() + SAFETY
        while True:
            lines = self.look(place, page)
            found = next((line for line in lines if re.search(pattern, line)), None)
            if (found is None) == gone and not "".join(lines[:1]).startswith("does not answer"):
                return found or ""
            if time.monotonic() > deadline:
                raise AssertionError(f"{place} {'still says' if gone else 'does not say'} {pattern}:\n" + "\n".join(lines))
            time.sleep(0.1)

    def mark(self) -> None:
        """What the log says from now on is new."""
        self.marked = len(self.log_lines())

    def log_lines(self) -> list[str]:
        return [line for line in list(self.proxy.said) if line.startswith("{")] if self.proxy is not None else []

    def look(self, place: str, page: str = "/") -> list[str]:
        """Each line that a place tells now; nothing where it does not answer."""
        try:
            match place:
                case "log":
                    return [_event(line) for line in self.log_lines()[self.marked :]]
                case "audit":
                    return (self.state / "audit.jsonl").read_text().splitlines()[-20:]
                case "status":
                    return self._status()
                case "console":
                    assert self.console is not None
                    return self.console.lines(page)
            where = self._said(r"metrics on (\S+)")
            with urllib.request.urlopen(f"http://{where}/{place}", timeout=60) as reply:
                lines = reply.read().decode().splitlines()
                return (
                    [line for line in lines if not line.startswith("#")] if place == "metrics" else [f"{reply.status} {lines[0]}"]
                )
        except urllib.error.HTTPError as error:
            return [f"{error.code} {error.read().decode().strip()}"]
        except (OSError, OperatorError) as error:
            return [f"does not answer: {type(error).__name__}"]

    def _status(self) -> list[str]:
        told = self.admin("status")
        lines = []
        for line in told.splitlines():
            for name, value in json.loads(line).items():
                lines += (
                    [f"{name}: {json.dumps(each)}" for each in value]
                    if isinstance(value, list)
                    else [f"{name}: {json.dumps(value)}"]
                )
        return lines

    def admin(self, *words: str) -> str:
        done = CliRunner().invoke(commands, ["admin", *words, "--state", str(self.state)])
        if isinstance(done.exception, OperatorError):
            raise done.exception
        return done.stdout


def refused(error: psycopg.Error) -> list[str]:
    told = error.diag
    parts = (
        ("ERROR", f"{told.message_primary} ({error.sqlstate})"),
        ("DETAIL", told.message_detail),
        ("HINT", told.message_hint),
    )
    return [f"{what}: {text}" for what, text in parts if text]


def _event(line: str) -> str:
    """A line of the log without what differs from run to run."""
    found = json.loads(line)
    rest = {
        k: v for k, v in found.items() if k not in ("event", "timestamp", "level", "session", "milliseconds", "policy", "trace")
    }
    return f"{found['level']}: {found['event']}: {', '.join(f'{k}={v}' for k, v in rest.items())}"


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """A disk that is soon full, where this account may mount one."""
    folder.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "tmpfs", str(folder)]
    small = shutil.which("mount") is not None and subprocess.run(mount, check=False, capture_output=True).returncode == 0
    try:
        yield small
    finally:
        if small:
            subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def machine_room(folder: Path) -> Iterator[World]:
    """Two datasets with their data, and the state folder that the version before left."""
    with contextlib.ExitStack() as stack:
        small = stack.enter_context(small_disk(folder / "state"))
        for name in KEPT:
            shutil.copy(EARLIER / name, folder / "state" / name)
            (folder / "state" / name).chmod(0o600)
        with duckdb.connect(str(folder / "town.duckdb")) as connection:
            people = "i::INTEGER AS id, CASE WHEN i % 3 = 0 THEN 'west' ELSE 'east' END AS region, (i % 100)::INTEGER AS income"
            connection.execute(f"CREATE TABLE people AS SELECT {people} FROM range(1000) AS t(i)")
        shutil.copy(EARLIER / "town.yaml", folder / "town.yaml")
        server = stack.enter_context(scratch_server(folder / "postgres", hba=["local postgres reader trust"]))
        with psycopg.connect(server.conninfo(), autocommit=True) as owner:
            owner.execute("CREATE TABLE patients (id int PRIMARY KEY, town text, born int)")
            towns = "(ARRAY['Aldorf', 'Bruck', 'Celle'])[1 + i % 3]"
            owner.execute(f"INSERT INTO patients SELECT i, {towns}, 1930 + i % 80 FROM generate_series(1, 2000) AS i")
            owner.execute("CREATE ROLE reader LOGIN; GRANT SELECT ON patients TO reader; ANALYZE patients")
        clinic = CLINIC.replace("VERIFIER", make_verifier("sesame")).replace("DSN", server.dsn(user="reader"))
        (folder / "clinic.yaml").write_text(clinic)
        world = World(folder, server, small)
        stack.enter_context(world.running)
        yield world


def fill(folder: Path) -> Path:
    """Take all that is free of a disk."""
    path = folder / "somebody-elses"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with contextlib.suppress(OSError):
        while True:
            os.write(file, bytes(1 << 16))
    os.close(file)
    return path

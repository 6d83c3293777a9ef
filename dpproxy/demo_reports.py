"""`scripts/demo --reports`: invented devices randomise what they saw, a proxy estimates it, and the truth stands beside it.

Knows: `policies/coin.yaml` and `policies/emoji.yaml`, devices' own randomiser, psql. Must not know: how counts are decoded.
Devices run the code that real ones run, with the chance of the operating system, so no two demos are the same. The truth is known
because the devices are invented; it never reaches the proxy, whose files hold reports alone.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
from rich.console import Console
from rich.progress import track
from rich.table import Table

from dpproxy.collect.encode import randomised
from dpproxy.facade.account import find_binaries
from dpproxy.local.claims import Claim
from dpproxy.policy.load import load_file
from dpproxy.serve.launch import Proxy, client_variables, launched
from dpproxy.table_terms import TableName

CONSOLE: Final = Console()
POLICIES: Final = Path(__file__).resolve().parents[1] / "policies"
DEVICES: Final = 50_000
EMOJIS: Final = 2_600
DISTRICTS: Final = ("north", "east", "south", "west")
ILL: Final = {"north": 0.05, "east": 0.1, "south": 0.2, "west": 0.4}
FIRST_DAY: Final = dt.date(2026, 11, 1)
DAYS: Final = 2
STRIDE: Final = 7919
"""A number without a factor in common with DEVICES: devices of one emoji are of all districts and days."""


MISSES: Final = 4
"""Of twelve intervals that hold the truth in 95 of 100 cases, more miss in one demo of 5,000."""


@dataclass
class World:
    """The invented devices' truth, and the folder of what they reported."""

    folder: Path
    ill: Counter[str] = field(default_factory=Counter)
    people: Counter[str] = field(default_factory=Counter)
    emojis: Counter[str] = field(default_factory=Counter)


def make_world(folder: Path) -> World:
    """Let all devices report, into files of DuckDB, with copies of their policies."""
    world = World(folder)
    for name in ("coin", "emoji"):
        shutil.copy(POLICIES / f"{name}.yaml", folder)
    _coins(world)
    _emojis(world)
    return world


def _claim(folder: Path, dataset: str, table: str, column: str) -> Claim:
    """The mechanism that a policy says devices run."""
    policy = load_file(folder / f"{dataset}.yaml").policy
    randomised = policy.tables[TableName("public", table)].columns[column].randomised
    assert randomised is not None
    return randomised.claims[0][1]


def _coins(world: World) -> None:
    """Everybody tosses a coin, and answers by it."""
    claim, rows = _claim(world.folder, "coin", "answers", "has_piles"), []
    for device in track(range(DEVICES), "devices toss a coin", console=CONSOLE):
        district = DISTRICTS[device % len(DISTRICTS)]
        is_ill = device // len(DISTRICTS) % 100 < 100 * ILL[district]
        world.people[district] += 1
        world.ill[district] += is_ill
        rows.append((district, randomised(claim, is_ill)))
    with duckdb.connect(str(world.folder / "coin.duckdb")) as data:
        data.execute("CREATE TABLE answers (district VARCHAR, has_piles BOOLEAN)")
        _insert(data, "answers", rows)


def _emojis(world: World) -> None:
    """Each device reports the emoji that it used most. The k-th emoji is used by a share of 1 / k of the first one's."""
    claim = _claim(world.folder, "emoji", "emoji_reports", "emoji")
    names = [chr(0x1F600 + number) if number < 80 else f"emoji {number}" for number in range(EMOJIS)]
    total = sum(1 / (rank + 1) for rank in range(EMOJIS))
    used = [number for number in range(EMOJIS) for _ in range(round(DEVICES / total / (number + 1)))][:DEVICES]
    cells: Counter[tuple[dt.date, str, Any]] = Counter()
    for device in track(range(DEVICES), "devices report an emoji", console=CONSOLE):
        shuffled = device * STRIDE % DEVICES
        number = used[device] if device < len(used) else 0
        world.emojis[names[number]] += 1
        cells[FIRST_DAY + dt.timedelta(shuffled % DAYS), DISTRICTS[shuffled // DAYS % 4], randomised(claim, number)] += 1
    with duckdb.connect(str(world.folder / "emoji.duckdb")) as data:
        data.execute("CREATE TABLE emojis (id INTEGER, name VARCHAR)")
        _insert(data, "emojis", list(enumerate(names)))
        data.execute("CREATE TABLE emoji_reports (day DATE, region VARCHAR, emoji_r BIGINT, n BIGINT)")
        _insert(data, "emoji_reports", [(*cell, n) for cell, n in cells.items()])


def _insert(data: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[Any, ...]], size: int = 1000) -> None:
    """Insert rows, some at a time."""
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        one = f"({', '.join('?' * len(part[0]))})"
        data.execute(f"INSERT INTO {table} VALUES {', '.join([one] * len(part))}", [value for row in part for value in row])


@dataclass(frozen=True)
class Scene:
    """A question, asked through psql, and what it is held against. `raw`: what a count of the reports as they are would say."""

    title: str
    dataset: str
    sql: str
    truth: Callable[[World], dict[str, int]]
    raw: str
    remark: str


SCENES: Final = (
    Scene(
        "A survey with a coin: how many are ill, by district?",
        "coin",
        "SELECT district, count(*) FILTER (WHERE has_piles) AS ill,\n"
        "    dpproxy.low(count(*) FILTER (WHERE has_piles)) AS low, dpproxy.high(count(*) FILTER (WHERE has_piles)) AS high\n"
        "FROM answers GROUP BY district ORDER BY district;",
        lambda world: dict(world.ill),
        "SELECT district, count(*) FROM answers WHERE has_piles GROUP BY 1",
        "Whoever is ill says yes three times in four, whoever is well once in four. No answer tells which.",
    ),
    Scene(
        "2,600 emojis: which are used most?",
        "emoji",
        "SELECT emoji, count(*) AS devices, dpproxy.low(count(*)) AS low, dpproxy.high(count(*)) AS high\n"
        "FROM emoji_reports GROUP BY emoji ORDER BY 2 DESC LIMIT 8;",
        lambda world: dict(world.emojis),
        "",
        "One number a device, of 2,863: it makes no guess of what was seen more than e^4 times as likely as another.",
    ),
)


def show(world: World, proxy: Proxy) -> bool:
    """Ask each question, print the answer and the truth; return whether all intervals but `MISSES` hold it."""
    held = []
    for number, scene in enumerate(SCENES, 1):
        CONSOLE.print(f"\n[bold]{number}. {scene.title}[/bold]")
        CONSOLE.print(scene.sql, style="cyan", markup=False, highlight=False)
        rows, notices = _asked(proxy, scene)
        raw, truth = _raw(world, scene), scene.truth(world)
        table = Table("", *(["raw count"] if raw else []), "estimate", "95 % interval", "truth")
        for key, estimate, low, high in rows:
            table.add_row(
                key, *([f"{raw[key]:,}"] if raw else []), f"{int(estimate):,}", f"{low} to {high}", f"{truth.get(key, 0):,}"
            )
            held.append(float(low) <= truth.get(key, 0) <= float(high))
        CONSOLE.print(table)
        CONSOLE.print(notices, style="dim", markup=False, highlight=False)
        CONSOLE.print(f"[dim]{scene.remark}[/dim]")
    return held.count(False) <= MISSES


def _asked(proxy: Proxy, scene: Scene) -> tuple[list[list[str]], str]:
    """The rows of an answer, and its notices. Raises CalledProcessError."""
    psql = find_binaries().program("psql")
    command = [psql, "-X", "-q", "--csv", "-t", "-v", "ON_ERROR_STOP=1", "-c", scene.sql]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=client_variables(proxy, "ada", scene.dataset))
    return list(csv.reader(io.StringIO(done.stdout))), done.stderr.strip()


def _raw(world: World, scene: Scene) -> dict[str, int]:
    if not scene.raw:
        return {}
    with duckdb.connect(str(world.folder / f"{scene.dataset}.duckdb"), read_only=True) as data:
        return dict(data.execute(scene.raw).fetchall())


@contextmanager
def served(listen: str) -> Iterator[tuple[World, Proxy]]:
    """Make the devices and their reports, and serve these. Raises LaunchError."""
    with tempfile.TemporaryDirectory(prefix="dpproxy-reports-") as name:
        world = make_world(Path(name))
        with CONSOLE.status("starting the proxy"), ExitStack() as stack:
            proxy = stack.enter_context(
                launched([world.folder / "coin.yaml", world.folder / "emoji.yaml"], world.folder / "state", listen)
            )
            serving = stack.pop_all()
        with serving:
            yield world, proxy

"""`scripts/demo`: make the sample shop, start a proxy over it, ask it a few things through psql, then serve.

Knows: `policies/shop.yaml`, the demo's user, psql. Must not know: how answers are made; it is an ordinary client of an
ordinary proxy, and what it shows is what anybody would see. A step that ends otherwise than it should (an answer
refused, a refusal answered) fails the demo.

The ledger of the demo is a fresh one each time, in a temporary folder: its people are invented, so that nothing is
lost by forgetting what they have spent. A real ledger is never thrown away.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax

from dpproxy.demo_data import make_shop
from dpproxy.facade.account import find_binaries
from dpproxy.serve.launch import LaunchError, Proxy, end_on_sigterm, launched

ROOT: Final = Path(__file__).resolve().parent.parent
POLICY: Final = ROOT / "policies" / "shop.yaml"
USER: Final = "ada"  # of policies/shop.yaml; the password is the same word
LISTEN: Final = "127.0.0.1:6432"
CONSOLE: Final = Console(highlight=False)


@dataclass(frozen=True)
class Step:
    """Shows one thing. `sql` is a psql script of one statement, after those of `before`; `refused`: it must end in an error.

    `options` are psql's own.
    """

    title: str
    sql: str
    remark: str
    before: str = ""
    refused: bool = False
    options: tuple[str, ...] = ()


TOUR: Final = (
    Step(
        "How many customers are there?",
        "SELECT count(*) AS customers FROM customers;",
        "The truth is 50,000: the answer is off by noise that hides whether any one customer is in the data.",
    ),
    Step(
        "Sales by month and category",
        "SELECT to_char(date_trunc('month', ts), 'YYYY-MM') AS month, category,\n"
        "    round(sum(least(amount, 200))) AS sales\n"
        "FROM orders WHERE ts >= '2025-07-01' AND ts < '2026-01-01'\n"
        "GROUP BY date_trunc('month', ts), category\n"
        "ORDER BY date_trunc('month', ts), category \\crosstabview",
        "Books and toys for Christmas, garden tools in summer. `least(amount, 200)` bounds what one order can add: less noise.",
        before="SET dpproxy.epsilon = 1;",
    ),
    Step(
        "Who earns how much, by region?",
        "SELECT region, count(*) AS customers, round(avg(income)) AS income\n"
        "FROM customers GROUP BY region ORDER BY income DESC;",
        "Count and average share one measurement, and one charge.",
    ),
    Step(
        "Show me the customers!",
        "SELECT * FROM customers;",
        "No: rows of people are never shown, and the message says what to ask instead.",
        refused=True,
    ),
    Step(
        "What would a question cost, and how exact would the answer be?",
        "EXPLAIN SELECT category, count(*), sum(amount) FROM orders GROUP BY category;",
        "EXPLAIN touches no data and costs nothing.",
        options=("-A", "-t"),
    ),
    Step(
        "What is left of the budget?",
        "SELECT * FROM dpproxy.budget;",
        "Each answer was charged before the data was touched.",
    ),
)


class DemoError(Exception):
    """The demo cannot go on; the text is for the person in front of it."""


def make_data() -> None:
    """Make the sample shop in its policy's folder, with progress on the console."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=CONSOLE) as bar:
        task = bar.add_task("sample shop")
        path = POLICY.with_name("shop.duckdb")
        make_shop(path, lambda what, done, steps: bar.update(task, description=what, completed=done, total=steps))
        bar.update(task, description=f"sample shop: {path.stat().st_size / 1e6:.0f} MB", completed=100, total=100)


def run_tour(proxy: Proxy) -> None:
    """Run each step through psql. Raises DemoError at the first that does not end as it should."""
    psql = find_binaries().program("psql")
    for number, step in enumerate(TOUR, 1):
        CONSOLE.print(f"\n[bold]{number}. {step.title}[/bold]")
        CONSOLE.print(Syntax(f"{step.before}\n{step.sql}".strip(), "sql", background_color="default"), soft_wrap=True)
        done = subprocess.run(
            [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-P", "pager=off", "-P", "footer=off", *step.options],
            input=f"{step.before}\n{step.sql}\n",
            capture_output=True,
            text=True,
            check=False,
            env={**{name: os.environ[name] for name in os.environ if not name.startswith("PG")}, **connection(proxy)},
        )
        print(f"{done.stdout}{done.stderr}".strip("\n"), flush=True)
        if (done.returncode != 0) is not step.refused:
            raise DemoError(f"step {number} {'was answered' if step.refused else 'failed'}")
        CONSOLE.print(f"[dim]{step.remark}[/dim]", soft_wrap=True)


def connection(proxy: Proxy) -> dict[str, str]:
    """Return libpq's variables for the demo's user."""
    return {
        "PGHOST": proxy.host,
        "PGPORT": str(proxy.port),
        "PGUSER": USER,
        "PGPASSWORD": USER,
        "PGDATABASE": "shop",
        "PGCONNECT_TIMEOUT": "10",
    }


def serve(proxy: Proxy) -> None:
    """Say where to connect, and wait until Ctrl-C or the proxy's end."""
    psql = find_binaries().program("psql")
    url = f"postgresql://{USER}:{USER}@{proxy.host}:{proxy.port}/shop"
    CONSOLE.print(f"\n[bold]Serving.[/bold] Connect with any PostgreSQL client:\n  psql {url}", soft_wrap=True)
    if shutil.which("psql") is None:
        CONSOLE.print(f"  (psql is here: {psql})", soft_wrap=True)
    CONSOLE.print("Ctrl-C ends it.")
    if proxy.process.wait() != 0:
        raise DemoError("the proxy ended:\n" + "\n".join(list(proxy.said)[-20:]))


def free_or_any(listen: str) -> str:
    """Return `listen`, or its host with port 0 when something else is there already."""
    host, _, port = listen.rpartition(":")
    try:
        with socket.create_server((host, int(port))):
            return listen
    except OSError:
        CONSOLE.print(f"[dim]{listen} is taken: using another port[/dim]")
        return f"{host}:0"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/demo", description="a sample shop behind dpproxy, and a tour of it")
    parser.add_argument("--once", action="store_true", help="end after the tour")
    parser.add_argument("--listen", default=LISTEN, metavar="HOST:PORT", help=f"default {LISTEN}")
    options = parser.parse_args(arguments)
    end_on_sigterm()
    try:
        make_data()
        with contextlib.ExitStack() as stack:
            state = stack.enter_context(tempfile.TemporaryDirectory(prefix="dpproxy-demo-"))
            with CONSOLE.status("starting the proxy"):
                proxy = stack.enter_context(launched([POLICY], Path(state), free_or_any(options.listen)))
            run_tour(proxy)
            if not options.once:
                serve(proxy)
    except (DemoError, LaunchError) as error:
        CONSOLE.print(f"[red]{error}[/red]", markup=True)
        return 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        CONSOLE.print("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())

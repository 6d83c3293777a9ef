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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax

from dpproxy import demo_reports
from dpproxy.facade.account import find_binaries
from dpproxy.serve.launch import LaunchError, Proxy, client_variables, end_on_sigterm, launched

# The sample shop: invented people and orders, the same on every machine, made inside DuckDB in a few seconds.
#
# Knows: the tables of `policies/shop.yaml` and what a shop looks like. Must not know: policies, noise, the proxy; this is the
# operator's side of the house, which has the data.
#
# Chance comes from `hash` of a row's number and a salt, so that no seed, thread or clock changes a value. What is worth seeing
# in the answers is put in on purpose: few customers own many orders (rank r has a share of 1/(r + 30)^0.75), regions differ in
# size, income and taste, toys sell in December and garden tools in spring, and sales grow by a third in a year. An order has
# one category, one to three items of it, and costs what its items cost.


CUSTOMERS: Final = 50_000
ORDERS: Final = 1_000_000
DAYS: Final = 731
"""2024-01-01 to 2025-12-31."""

REGIONS: Final = {"north": 0.30, "south": 0.20, "east": 0.35, "west": 0.15}
INCOME: Final = {"north": 41_000, "south": 33_000, "east": 36_000, "west": 52_000}
CATEGORIES: Final = ("books", "clothing", "electronics", "garden", "groceries", "toys")
PRICES: Final = (9, 25, 60, 18, 4, 12)
"""The typical price of a product of each category."""
TASTE: Final = {
    "north": (22, 16, 10, 12, 30, 10),
    "south": (10, 24, 8, 20, 28, 10),
    "east": (14, 18, 14, 8, 34, 12),
    "west": (16, 16, 26, 10, 22, 10),
}
"""How often each region buys of each category, in no unit."""
THRIFT: Final = {"north": 1.3, "south": 2.0, "east": 1.6, "west": 1.0}
"""1: all prices alike; more: cheap products more often."""
SEASON: Final = {
    "books": (10, 9, 9, 9, 9, 9, 11, 11, 9, 10, 12, 18),
    "clothing": (8, 7, 12, 12, 10, 8, 8, 8, 13, 12, 11, 12),
    "electronics": (9, 8, 8, 8, 8, 8, 8, 9, 10, 10, 20, 20),
    "garden": (2, 4, 14, 24, 24, 16, 10, 8, 8, 5, 2, 2),
    "groceries": (10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 12),
    "toys": (6, 6, 7, 8, 8, 8, 8, 8, 8, 9, 18, 34),
}
"""How often each category is bought from January to December, in no unit."""

ShopProgress = Callable[[str, int, int], None]
"""Called before each step with what is being made, how many steps are done, and how many there are."""


def _values(rows: list[tuple[object, ...]]) -> str:
    return "VALUES " + ", ".join(repr(row).replace(",)", ")") for row in rows)


def _demand() -> str:
    """(region, category, month, weight): taste times season."""
    rows: list[tuple[object, ...]] = [
        (region, category, month + 1, weight * SEASON[category][month])
        for region, tastes in TASTE.items()
        for category, weight in zip(CATEGORIES, tastes, strict=True)
        for month in range(12)
    ]
    return _values(rows)


_MACROS = """
CREATE TEMP MACRO chance(row, salt) AS ((hash(row::BIGINT * 64 + salt) >> 11)::DOUBLE + 0.5) / 9007199254740992;
CREATE TEMP MACRO bell(row, salt) AS
    sqrt(-2 * ln(chance(row, salt))) * cos(6.283185307179586 * chance(row, salt + 1))
"""

_PRODUCTS = f"""
CREATE TABLE products (
    product_id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, category VARCHAR NOT NULL, price DECIMAL(10,2) NOT NULL);
INSERT INTO products
SELECT i + 1, concat(adjective, ' ', noun, ' ', 1 + i // 48), category,
       greatest(0.5, round(typical * exp(0.55 * bell(i, 10)), 1) - 0.01)::DECIMAL(10,2)
FROM (
    SELECT i, ({list(CATEGORIES)!r})[1 + i % 6] AS category, ({list(PRICES)!r})[1 + i % 6] AS typical,
           (['Plain', 'Fine', 'Small', 'Grand', 'Old', 'Bright', 'Quiet', 'Swift'])[1 + (i // 6) % 8] AS adjective,
           (['Reader', 'Coat', 'Radio', 'Spade', 'Basket', 'Puzzle'])[1 + i % 6] AS noun
    FROM range(200) AS t(i))
ORDER BY i
"""

_PEOPLE = f"""
CREATE TEMP TABLE shares AS
SELECT i AS customer_id, 1 / pow(row_number() OVER (ORDER BY hash(i * 64 + 1)) + 30, 0.75) AS share
FROM range(1, {CUSTOMERS + 1}) AS t(i);
CREATE TEMP TABLE people AS
SELECT s.customer_id, r.region,
       CASE WHEN chance(s.customer_id, 3) < 0.515 THEN 'F' ELSE 'M' END AS sex,
       least(2006, greatest(1930, round(1976 + 15 * bell(s.customer_id, 4))))::INTEGER AS birth_year,
       greatest(1, round({ORDERS} * s.share / (SELECT sum(share) FROM shares)))::BIGINT AS orders,
       r.typical
FROM shares AS s
JOIN (SELECT region, typical, sum(weight) OVER (ORDER BY region) AS high, high - weight AS low
      FROM ({_values([(r, w, INCOME[r]) for r, w in REGIONS.items()])}) AS v(region, weight, typical)) AS r
  ON chance(s.customer_id, 2) >= r.low AND chance(s.customer_id, 2) < r.high
"""

_DEMAND = f"""
CREATE TEMP TABLE demand AS
SELECT region, category, month, weight, sum(weight) OVER w / sum(weight) OVER (PARTITION BY region) AS high
FROM ({_demand()}) AS v(region, category, month, weight)
WINDOW w AS (PARTITION BY region ORDER BY month, category)
"""

_BASKETS = """
CREATE TEMP TABLE baskets AS
SELECT row_number() OVER (ORDER BY ts, customer_id, k)::BIGINT AS order_id, customer_id, region, ts, category
FROM (
    SELECT o.customer_id, o.region, o.k, d.category,
           first + to_days(floor(chance(o.id, 22) * day(last_day(first)))::INTEGER)
           + to_seconds((3600 * (14.5 + 3.2 * greatest(-3, least(2.9, bell(o.id, 23)))))::BIGINT) AS ts
    FROM (SELECT p.customer_id, p.region, k, p.customer_id * 4096 + k AS id
          FROM people AS p, unnest(range(p.orders)) AS t(k)) AS o
    ASOF JOIN demand AS d ON o.region = d.region AND chance(o.id, 20) < d.high,
    LATERAL (SELECT make_timestamp(2024 + (chance(o.id, 21) < 0.571)::INTEGER, d.month, 1, 0, 0, 0) AS first))
"""

_LINES = f"""
CREATE TEMP TABLE lines AS
SELECT l.order_id, p.product_id, l.quantity, l.quantity * p.price AS cost
FROM (SELECT order_id, category, 1 + floor(2.6 * pow(chance(order_id * 4 + n, 31), 3))::INTEGER AS quantity,
             pow(chance(order_id * 4 + n, 32), thrift) AS wish
      FROM baskets JOIN ({_values(list(THRIFT.items()))}) AS v(region, thrift) USING (region),
           unnest(range(1 + floor(3 * pow(chance(order_id, 30), 2))::BIGINT)) AS t(n)) AS l
JOIN (SELECT product_id, price, category, row_number() OVER (PARTITION BY category ORDER BY price, product_id) AS place,
             count(*) OVER (PARTITION BY category) AS places FROM products) AS p
  ON p.category = l.category AND p.place = 1 + floor(p.places * l.wish)::BIGINT
"""

_CUSTOMERS = """
CREATE TABLE customers (
    customer_id BIGINT PRIMARY KEY, region VARCHAR NOT NULL, sex VARCHAR NOT NULL, birth_year INTEGER NOT NULL,
    income INTEGER NOT NULL, signup DATE NOT NULL, email VARCHAR NOT NULL);
INSERT INTO customers
SELECT customer_id, region, sex, birth_year,
       least(500000, round(typical * exp(0.45 * bell(customer_id, 40)) * (1 - abs(birth_year - 1976) / 120)))::INTEGER,
       greatest(DATE '2020-01-01', first::DATE - (700 * pow(chance(customer_id, 42), 2))::INTEGER),
       concat('customer', customer_id, '@example.org')
FROM people JOIN (SELECT customer_id, min(ts) AS first FROM baskets GROUP BY customer_id) USING (customer_id)
ORDER BY customer_id
"""

_ORDERS = """
CREATE TABLE orders (
    order_id BIGINT PRIMARY KEY, customer_id BIGINT NOT NULL REFERENCES customers (customer_id),
    ts TIMESTAMP NOT NULL, amount DECIMAL(10,2) NOT NULL, category VARCHAR NOT NULL);
INSERT INTO orders
SELECT order_id, customer_id, ts, amount, category
FROM baskets JOIN (SELECT order_id, sum(cost)::DECIMAL(10,2) AS amount FROM lines GROUP BY order_id) USING (order_id)
ORDER BY order_id
"""

_ITEMS = """
CREATE TABLE order_items (
    order_id BIGINT NOT NULL REFERENCES orders (order_id), product_id INTEGER NOT NULL REFERENCES products (product_id),
    quantity INTEGER NOT NULL);
INSERT INTO order_items SELECT order_id, product_id, quantity FROM lines ORDER BY order_id, product_id, quantity
"""

STEPS: Final = (
    ("products", _MACROS + ";" + _PRODUCTS),
    ("people", _PEOPLE),
    ("seasons", _DEMAND),
    ("orders", _BASKETS),
    ("items", _LINES),
    ("table customers", _CUSTOMERS),
    ("table orders", _ORDERS),
    ("table order_items", _ITEMS),
)


def make_shop(path: Path, progress: ShopProgress = lambda _what, _done, _all: None) -> None:
    """Write the sample shop to `path`, replacing what is there only when the new file is whole."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    try:
        with duckdb.connect(str(fresh)) as database:
            for done, (what, sql) in enumerate(STEPS):
                progress(what, done, len(STEPS))
                database.execute(sql)
        fresh.replace(path)
    finally:
        for left in path.parent.glob(f"{fresh.name}*"):
            left.unlink()


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
            env=connection(proxy),
        )
        print(f"{done.stdout}{done.stderr}".strip("\n"), flush=True)
        if (done.returncode != 0) is not step.refused:
            raise DemoError(f"step {number} {'was answered' if step.refused else 'failed'}")
        CONSOLE.print(f"[dim]{step.remark}[/dim]", soft_wrap=True)


def connection(proxy: Proxy) -> dict[str, str]:
    """Return psql's environment for the demo's user."""
    return client_variables(proxy, USER, "shop")


def serve(proxy: Proxy, dataset: str = "shop") -> None:
    """Say where to connect, and wait until Ctrl-C or the proxy's end."""
    psql = find_binaries().program("psql")
    url = f"postgresql://{USER}:{USER}@{proxy.host}:{proxy.port}/{dataset}"
    CONSOLE.print(f"\n[bold]Serving.[/bold] Connect with any PostgreSQL client:\n  psql {url}", soft_wrap=True)
    if shutil.which("psql") is None:
        CONSOLE.print(f"  (psql is here: {psql})", soft_wrap=True)
    CONSOLE.print("Ctrl-C ends it.")
    if proxy.process.wait() != 0:
        raise DemoError("the proxy ended:\n" + "\n".join(list(proxy.said)[-20:]))


def show_reports(listen: str, once: bool) -> None:
    """Show reports of devices, then serve them. Raises DemoError where the truth is not in the intervals."""
    with demo_reports.served(listen) as (world, proxy):
        if not demo_reports.show(world, proxy):
            raise DemoError(
                "more than one interval in ten does not hold the truth: run it again, and tell us if it happens twice"
            )
        if not once:
            serve(proxy, "emoji")


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
    parser.add_argument("--reports", action="store_true", help="reports that devices randomise, their estimates and the truth")
    options = parser.parse_args(arguments)
    end_on_sigterm()
    try:
        if options.reports:
            show_reports(free_or_any(options.listen), options.once)
            return 0
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

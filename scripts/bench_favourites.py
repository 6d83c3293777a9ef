"""How far off answers are where large users choose unlike small ones: counts and sums by category, under `rows: 10`.

Knows: a made-up shop, PostgreSQL's protocol. 100,000 users have 3 M orders, their numbers by Zipf's law (the r-th user's as
r**-`ACTIVITY`). Each has four of five orders in one favourite of 20 categories, others anywhere; the heaviest 1 % share one
favourite. Beside the proxy's errors: what the best single bound would reach, with each user's vector over categories scaled
to an L2 norm of at most that, at the same charge, chosen in hindsight - by the true answers, which nobody who answers has.
Errors are relative; `scripts/bench accuracy` prints them with the shared workload's.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import psycopg
import pyarrow as pa

from dpproxy.policy.people import make_verifier
from dpproxy.privacy.noise_scale import gaussian_sigmas
from dpproxy.serve.launch import launched

USERS, ORDERS, CATEGORIES = 100_000, 3_000_000, 20
ACTIVITY, FAVOURITE, HEAVIEST, SHARED, SEED = 0.8, 0.8, 0.01, 7, 17
ROWS, MOST = 10, 1000  # `rows`, and the range of an amount

PASSWORD = "bench"
POLICY = """
version: 1
dataset: favourites
backend: {{ duckdb: favourites.duckdb }}
privacy_unit: {{ name: user, key: users.user_id }}
budget: {{ epsilon: 1000000, delta: 0.01 }}
mechanism: auto
tables:
  users:
    unit: user_id
    columns:
      user_id: unit
  orders:
    unit: user_id
    bounds: {{ rows: {rows} }}
    columns:
      user_id: unit
      category: {{ range: [0, {last}], resolution: 1 }}
      amount: {{ range: [0, {most}], resolution: 0.01 }}
roles:
  analyst:
    budget: {{ epsilon: 1000000, delta: 0.01 }}
    query: {{ epsilon: 1, max_epsilon: 1, delta: 1e-6 }}
users:
  bench: {{ role: analyst, password: "{verifier}" }}
"""

Float64 = npt.NDArray[np.float64]
FOUND = {"count": ("count(*)", ROWS), "sum": ("sum(amount)", ROWS * MOST)}
"""Aggregate -> its SQL, and the norm that `rows` allows."""


@dataclass(frozen=True)
class Orders:
    """Holds one entry an order."""

    user: npt.NDArray[np.int64]
    category: npt.NDArray[np.int64]
    amount: Float64

    def vectors(self, name: str) -> Float64:
        """Return what each user has in each category."""
        cell, size = self.user * CATEGORIES + self.category, (int(self.user.max()) + 1) * CATEGORIES
        whole = np.bincount(cell, self.amount if name == "sum" else None, minlength=size)
        return whole.astype(np.float64).reshape(-1, CATEGORIES)


def made(users: int = USERS, orders: int = ORDERS) -> Orders:
    """Return the orders, the same each time."""
    rng = np.random.default_rng(SEED)
    weight = np.arange(1, users + 1) ** -ACTIVITY
    number = np.maximum(1, np.rint(weight / weight.sum() * orders)).astype(np.int64)
    favourite = rng.integers(0, CATEGORIES, users)
    favourite[: int(users * HEAVIEST)] = SHARED
    user = np.repeat(np.arange(users), number)
    any_other = rng.integers(0, CATEGORIES, user.size)
    category = np.where(rng.random(user.size) < FAVOURITE, favourite[user], any_other)
    amount = np.minimum(MOST, np.exp(3.4 + 0.9 * rng.standard_normal(user.size)))
    return Orders(user, category, np.round(amount, 2).astype(np.float64))


def best_in_hindsight(vectors: Float64, least: float, answers: int) -> str:
    """Return the errors of the L2 bound (`least` times a power of the root of 2) whose median error is least."""
    rng, truth, size = np.random.default_rng(SEED), vectors.sum(axis=0), np.sqrt((vectors * vectors).sum(axis=1))
    unit = float(gaussian_sigmas([(1, 2**20)], [1], 10**6, 10**12)[0]) / 2**20  # epsilon 1, delta 1e-6
    found = []
    for bound in least * 2.0 ** np.arange(0, 12, 0.5):
        cut = (vectors * np.minimum(1, bound / np.maximum(size, 1e-9))[:, None]).sum(axis=0)
        noise = rng.normal(0, unit * bound, (max(answers, 10), truth.size))
        found.append(np.abs(cut + noise - truth) / truth)
    return text(min(found, key=lambda errors: float(np.median(errors))))


def text(errors: Float64) -> str:
    return f"{100 * np.median(errors):.3g} / {100 * np.percentile(errors, 95):.3g}"


def stored(orders: Orders, place: Path) -> None:
    """Write a DuckDB file, unless it is there."""
    if place.is_file():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    made_up = pa.table({"user_id": orders.user, "category": orders.category, "amount": orders.amount})  # noqa: F841
    unfinished = place.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    with duckdb.connect(str(unfinished)) as data:
        data.execute("CREATE TABLE orders AS SELECT user_id, CAST(category AS INTEGER) AS category, amount FROM made_up")
        data.execute("CREATE TABLE users AS SELECT DISTINCT user_id FROM orders")
    unfinished.rename(place)


def shop() -> Path:
    """Return the folder where data are kept from one run to the next, a temporary one."""
    return Path(tempfile.gettempdir()) / f"dpproxy favourites {USERS} {ORDERS} {ACTIVITY} {SEED}"


def favourites(answers: int, folder: Path | None = None) -> None:
    """Print the table."""
    folder = folder or shop()
    orders = made()
    stored(orders, folder / "favourites.duckdb")
    policy = folder / "favourites.yaml"
    policy.write_text(POLICY.format(rows=ROWS, last=CATEGORIES - 1, most=MOST, verifier=make_verifier(PASSWORD)))
    with tempfile.TemporaryDirectory() as state, launched([policy], Path(state)) as proxy:
        place = {"host": proxy.host, "port": proxy.port, "user": "bench", "password": PASSWORD, "dbname": "favourites"}
        with psycopg.connect(**place, autocommit=True) as connection:  # type: ignore[arg-type]
            connection.execute("SET dpproxy.notices = off")
            connection.execute("SET dpproxy.reuse = off")
            print(
                f"accuracy: large users unlike small ones, {USERS:,} users, relative error in %, median / p95, {answers} answers"
            )
            print("aggregate\t10 in all\tbest single L2 bound in hindsight")
            for name, (sql, least) in FOUND.items():
                vectors = orders.vectors(name)
                shown = text(_answered(connection, sql, vectors.sum(axis=0), answers))
                print(f"{name} by category\t{shown}\t{best_in_hindsight(vectors, least, answers)}", flush=True)


def _answered(connection: psycopg.Connection[Sequence[object]], sql: str, truth: Float64, answers: int) -> Float64:
    print(f"accuracy: favourites, {sql}", file=sys.stderr, flush=True)
    found = []
    for _ in range(answers):
        rows = connection.execute(f"SELECT category, {sql} FROM orders GROUP BY category ORDER BY category".encode()).fetchall()
        found.append(np.abs(np.array([float(str(value)) for _, value in rows]) - truth) / truth)
    return np.array(found)

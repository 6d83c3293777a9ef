"""Fixtures of the tests of planner, kernel, tree and engines: the shop's catalog, troubled shops with all their neighbours.

A folder's conftest takes them by name. The helpers they share lie in tests/plan.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plan"))  # helpers, in any import mode
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))  # the starter of scratch servers

import plan_harness
from accuracy_stage import Stage
from each_engine import ENGINES, Engine
from noiseless_orders import NoiselessOrders
from postgres_shop import PostgresShop
from scratch_postgres import Scratch, scratch_server
from spark_shop import SparkShop

from dpproxy.policy.catalog import Catalog
from dpproxy.tree.interval import Interval
from tests.worlds import spark_servers

SAILS = 2
"""At once, as many as a test compares: of a thousand statements each holds two gigabytes."""


@pytest.fixture(scope="session", autouse=True)
def ends_in_order() -> Iterator[None]:
    """Whatever a test plans: bounds that no value is within hold no value, and the kernel refuses them."""
    made = Interval.__init__

    def checked(self: Interval, lo: Fraction | None, hi: Fraction | None) -> None:
        assert lo is None or hi is None or lo <= hi, f"from {lo} to {hi}"
        made(self, lo, hi)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Interval, "__init__", checked)
        yield


@pytest.fixture(scope="session")
def duckdb_engine() -> Engine:
    return Engine("duckdb", plan_harness.Shop)


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("engines")) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_engine(scratch: Scratch) -> Iterator[Engine]:
    with contextlib.ExitStack() as stack:

        def make(seed: int, most: int) -> PostgresShop:
            return stack.enter_context(contextlib.closing(PostgresShop(scratch, f"shop_{seed}_{most}", seed, most)))

        yield Engine("postgres", make)


@pytest.fixture(scope="session")
def spark_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """On Sail, a server for each shop: it keeps something of each statement until it ends. Skips where it is not installed."""
    with contextlib.ExitStack() as stack:
        running: dict[int, contextlib.ExitStack] = {}

        def make(seed: int, most: int) -> SparkShop:
            own = stack.enter_context(contextlib.ExitStack())
            session = own.enter_context(spark_servers.session(own.enter_context(spark_servers.sail_beside())))
            shop = SparkShop(session, tmp_path_factory.mktemp(f"shop_{seed}_{most}"), plan_harness.Shop(seed, most))
            running[id(shop)] = own
            return shop

        yield Engine("spark", make, at_once=SAILS, end=lambda shop: running.pop(id(shop)).close())


@pytest.fixture(scope="session")
def postgres(scratch: Scratch) -> Iterator[psycopg.Connection[Any]]:
    """A PostgreSQL that is asked what outer queries mean, as the facade would be."""
    with psycopg.connect(scratch.conninfo(), autocommit=True) as connection:
        yield connection


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Each engine in turn: `plan_harness.plan` plans for it."""
    monkeypatch.setattr(plan_harness, "engine", request.param)
    found: Engine = request.getfixturevalue(f"{request.param}_engine")
    return found


@pytest.fixture(scope="session")
def shop_catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return plan_harness.catalog(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def orders(postgres: psycopg.Connection[Any], shop_catalog: Catalog) -> Iterator[NoiselessOrders]:
    """Orders whose statements PostgreSQL answers itself."""
    made = NoiselessOrders(postgres, shop_catalog)
    yield made
    made.close()


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory, shop_catalog: Catalog) -> Iterator[Stage]:
    """One big shop, and a PostgreSQL for outer queries, to try errors on."""
    made = Stage(tmp_path_factory.mktemp("accuracy"), shop_catalog)
    yield made
    made.close()

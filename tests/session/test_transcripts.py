"""What 25 real clients sent, sent again: the proxy says what PostgreSQL says, and reading no private table is free.

Twice: over a database whose tables are public, where every answer must have PostgreSQL's shape; and over the same tables
kept private, where what reads them may be refused, and everything else must not change.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
from scratch_postgres import Scratch, scratch_server

from dpproxy.serve.launch import Proxy, launched
from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import read_backend_key_data
from dpproxy.wire.scram import make_verifier
from tests.worlds.wire_client import PASSWORD, Wire, rows

from .transcripts import OBJECTS, Exchange, Player, events

RECORDINGS = Path(__file__).resolve().parents[3] / "shared" / "clients"
FILES = sorted(p for p in RECORDINGS.glob("*.txt") if not p.name.startswith("_"))

DATA = """
CREATE SCHEMA sales;
CREATE TABLE sales.customer (
    id int PRIMARY KEY, name text NOT NULL, region varchar(20), birth date, created timestamptz, score float8, vip bool);
INSERT INTO sales.customer SELECT i, 'n' || i, 'nesw'::text[1 + i % 4], '1950-01-01'::date + i, now(), i / 7.0, i % 2 = 0
    FROM generate_series(1, 1000) AS i;
CREATE TABLE sales.orders (
    id bigserial PRIMARY KEY, customer_id int REFERENCES sales.customer, amount numeric(12, 2), placed date, note text,
    tags text[], meta jsonb, uid uuid);
INSERT INTO sales.orders SELECT i, 1 + i % 1000, i % 500, '2024-01-01'::date + i % 300, 'x', NULL, NULL, gen_random_uuid()
    FROM generate_series(1, 10000) AS i;
CREATE INDEX ON sales.orders (customer_id);
CREATE VIEW sales.v_orders AS SELECT o.id, c.region, o.amount FROM sales.orders o JOIN sales.customer c ON c.id = o.customer_id;
CREATE TABLE sales.staff (id int PRIMARY KEY);
""".replace("'nesw'::text[1 + i % 4]", "substr('nesw', 1 + i % 4, 1)")

PUBLIC = """
  sales.customer: { public: true }
  sales.orders: { public: true }
  sales.v_orders: { public: true }
  sales.staff: { unit: id, columns: { id: unit } }
"""
PRIVATE = """
  sales.customer:
    unit: id
    columns:
      id: unit
      name: {}
      region: { values: [n, e, s, w] }
      birth: { range: [1950-01-01, 1960-01-01] }
      created: { range: [2020-01-01, 2040-01-01] }
      score: { range: [0, 200], resolution: 0.01 }
      vip: { values: [true, false] }
  sales.orders:
    unit: customer_id
    bounds: { rows_per_group: 10, groups: 5 }
    columns:
      id: key
      customer_id: unit
      amount: { range: [0, 500], resolution: 0.01 }
      placed: { range: [2024-01-01, 2025-01-01] }
      note: {}
      uid: {}
  sales.staff: { public: true }
"""
POLICY = """
version: 1
dataset: bi
backend: { postgres: "DSN" }
privacy_unit: { name: person, key: UNIT }
budget: { epsilon: 1000000, delta: 1e-3, every: never }
tables: TABLES
roles:
  analyst:
    budget: { epsilon: 1000000, delta: 1e-4, every: never }
    query: { epsilon: 1, max_epsilon: 10, delta: 1e-9 }
users:
  ada: { role: analyst, password: "VERIFIER" }
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    """PostgreSQL itself, with the recordings' database."""
    if not FILES:
        pytest.skip(f"NOT RUN: the recordings of clients are not at {RECORDINGS}")
    with scratch_server(tmp_path_factory.mktemp("original")) as server:
        with psycopg.connect(server.conninfo(), autocommit=True) as admin:
            admin.execute("CREATE DATABASE bi")
        with psycopg.connect(server.conninfo("bi"), autocommit=True) as owner:
            owner.execute(DATA.encode())
        yield server


def served(original: Scratch, folder: Path, tables: str, unit: str) -> Path:
    filled = POLICY.replace("TABLES", tables).replace("UNIT", unit).replace("DSN", original.dsn("bi"))
    (folder / "bi.yaml").write_text(filled.replace("VERIFIER", make_verifier(PASSWORD)))
    return folder / "bi.yaml"


@dataclass(frozen=True)
class Theatre:
    """Where recordings are played: `proxy` over public or private tables, or PostgreSQL itself (None)."""

    original: Scratch
    proxy: Proxy | None
    private: bool = False

    async def connect(self, database: str, settings: Mapping[str, str]) -> Wire:
        wire = await self._open()
        await wire.login(user="ada" if self.proxy else "postgres", database=database, **settings)
        return wire

    async def _open(self) -> Wire:
        if self.proxy is not None:
            return await Wire.open(self.proxy.port)
        return Wire(*await asyncio.open_unix_connection(str(self.original.server.place.socket)))

    async def cancel(self, running: Wire) -> None:
        """Asked for until the statement has failed: nobody is told when it begins, and what has not begun is not cancelled."""
        key = read_backend_key_data(next(p for t, p in running.startup if t == b"K"))
        failed = asyncio.ensure_future(running.until(b"E"))
        while not failed.done():
            wire = await self._open()
            wire.send(front.cancel_request(*key))
            await wire.reader.read()
            await wire.close()
            await asyncio.wait([failed], timeout=0.1)
        running.unread(failed.result())

    async def play(self, path: Path) -> list[Exchange]:
        player = Player(self.connect, self.cancel, await self._numbers())
        return [e for exchanges in (await player.play(events(path))).values() for e in exchanges]

    async def _numbers(self) -> dict[int, int]:
        wire = await self.connect("bi", {})
        found = {n: rows(await wire.query(f"SELECT ({e})::oid::int8"))[0][0] for n, e in OBJECTS.items()}
        await wire.close()
        return {n: int(own) for n, own in found.items() if own is not None}

    async def spent(self) -> Decimal:
        wire = await self.connect("bi", {})
        ((spent,),) = rows(await wire.query("SELECT epsilon_spent FROM dpproxy.budget WHERE scope = 'role'"))
        await wire.close()
        return Decimal(spent or "")


@pytest.fixture(scope="module", params=["public", "private"])
def theatre(request: pytest.FixtureRequest, original: Scratch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    folder = tmp_path_factory.mktemp(request.param)
    tables, unit = (PUBLIC, "sales.staff.id") if request.param == "public" else (PRIVATE, "sales.customer.id")
    with launched([served(original, folder, tables, unit)], folder / "state") as proxy:
        yield Theatre(original, proxy, request.param == "private")


def comparable(shapes: list[str]) -> list[str]:
    """Without numbers of rows, since the catalog of one database has more objects than another's; without notices of cost;
    without the columns of a statement that was cancelled, which PostgreSQL describes only if it had begun to run."""
    free = [re.sub(r"^(C [A-Z ]+?) \d+$", r"\1", shape) for shape in shapes if shape != "N 00000"]
    return [s for i, s in enumerate(free) if not (s.startswith("T ") and free[i + 1 : i + 2] == ["E 57014"])]


READS = re.compile(
    r'\b(from|join|view|table)\s+("?bi"?\.)?("?sales"?\."?(customer|orders|v_orders)|"?public"?\."m__)', re.IGNORECASE
)
HANDLES = re.compile(r"\b(fetch|close|deallocate|commit)\b", re.IGNORECASE)


def same(ours: Exchange, postgres: Exchange) -> bool:
    """As recorded, or as the PostgreSQL of the proxy's own version says today. A database that is not there looks like a
    wrong password: which there are is nobody's business."""
    free = comparable(ours.got)
    return free in (comparable(ours.recorded), comparable(postgres.got)) or (free, postgres.got) == (["E 28P01"], ["E 3D000"])


def check(played: list[Exchange], real: list[Exchange], private: bool) -> int:
    """How many answers were paid for. What differs must have been refused, or have needed what was."""
    paid, refused = 0, False
    for ours, postgres in zip(played, real, strict=True):
        paid += ours.got.count("N 00000") - postgres.got.count("N 00000")
        if same(ours, postgres):
            continue
        errors = [shape[2:] for shape in ours.got if shape.startswith("E ")]
        concerned = READS.search(ours.sql) is not None
        if concerned and (private or "m__dbt" in ours.sql):
            assert errors, ours
            assert set(errors) <= {"0A000", "42501", "42703", "42P01"}, ours
            refused = True
        else:
            assert refused, ours
            assert set(errors) <= {"26000", "34000"}, ours
            assert not ours.sql or HANDLES.search(ours.sql), ours
    return paid


@pytest.fixture(scope="module")
def recordings() -> dict[Path, list[Exchange]]:
    """Filled with what PostgreSQL itself says to each, once it has been asked."""
    return {}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_a_recording(theatre: Theatre, recordings: dict[Path, list[Exchange]], path: Path) -> None:
    before = await theatre.spent()
    played = await theatre.play(path)
    if path not in recordings:
        recordings[path] = await Theatre(theatre.original, None).play(path)
    paid = check(played, recordings[path], theatre.private)
    spent = await theatre.spent() - before
    assert 0 <= spent <= paid
    assert sum(bool(e.recorded) for e in played) > 5, "the recording was read"

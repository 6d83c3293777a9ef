"""Kills, cancel requests, timeouts, lost clients and lost engines at random moments: each charge is an answer told or kept.

After a run every role asks again for whatever it was charged for. What is then free was kept; what is not must have been lost
by the engine, which the process said, or have died with the process when it was killed: of each asker one statement at most. So
nothing is charged twice, nothing told unpaid. Figures are printed: `scripts/test -m long -s tests/answers/test_paid_kills.py`;
DPPROXY_TEST_ROUNDS and DPPROXY_TEST_KILLS say how many processes run to their end, and how many are killed, in each of the four
worlds.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import psycopg
import pytest
from scratch_postgres import scratch_server

from dpproxy.ledger.ledger import Charge
from dpproxy.records import record
from dpproxy.records.place import place_of
from tests.worlds.town import DATA, POLICY, VERIFIER

from .paid_writer import answered, opened

ROOT = Path(__file__).resolve().parents[2]
ASKERS, STATEMENTS = 8, 12
ROUNDS, KILLS = int(os.environ.get("DPPROXY_TEST_ROUNDS", "10")), int(os.environ.get("DPPROXY_TEST_KILLS", "250"))
ROLES = {"ada": "analyst", "cy": "other", "dee": "frugal"}

PEOPLE = """
CREATE TABLE people AS SELECT i::int AS id, (ARRAY['east', 'north', 'south', 'west'])[1 + i % 4] AS region,
    (ARRAY['F', 'M'])[1 + (i / 4) % 2] AS sex, 100 * (i % 50) AS income FROM generate_series(0, 999) AS t(i);
CREATE TABLE visits (visit int, person int, shop text, paid int);
CREATE TABLE trips (person int, line int);
CREATE TABLE loads AS SELECT 1 AS load;
"""


@dataclass
class World:
    folder: Path
    ledger: str
    data: str | None = None  # a DSN to the engine's server


def made(folder: Path, engine: str, ledger: str, stack: ExitStack, elsewhere: Path) -> World:
    world = World(folder, str(folder / "ledger.sqlite"))
    policy = re.sub(r"budget: \{ epsilon: \d{1,4}, delta[^}]*\}", "budget: { epsilon: 100000, delta: 0, every: never }", POLICY)
    policy = policy.replace("epsilon: 0.5, max_epsilon: 2, delta: 1e-7", "epsilon: 1, max_epsilon: 2")
    policy = policy.replace(", delta: 1e-7", "").replace("VERIFIER", VERIFIER)
    if "postgres" in (engine, ledger):
        server = stack.enter_context(scratch_server(elsewhere))
        if ledger == "postgres":
            world.ledger = server.dsn()
        if engine == "postgres":
            with psycopg.connect(server.conninfo(), autocommit=True) as connection:
                connection.execute("CREATE DATABASE town")
            with psycopg.connect(server.conninfo("town"), autocommit=True) as connection:
                connection.execute(PEOPLE)
            world.data = server.conninfo("town")
            policy = policy.replace("duckdb: town.duckdb", f'postgres: "{server.dsn("town")}"')
    if engine == "duckdb":
        with duckdb.connect(str(folder / "town.duckdb")) as connection:
            connection.execute(DATA)
    (folder / "town.yaml").write_text(policy)
    return world


@dataclass
class Said:
    """What all processes printed, and what may have died with them."""

    did: Counter[str] = field(default_factory=Counter)
    lost: Counter[tuple[str, str]] = field(default_factory=Counter)
    told: set[tuple[str, str]] = field(default_factory=set)
    kills: int = 0

    def add(self, lines: Iterable[str]) -> None:
        for line in lines:
            word, *rest = line.split()
            if word == "did":
                self.did[rest[0]] += 1
            elif word == "lost":
                self.lost[rest[0], rest[1]] += 1
            elif word == "told":
                self.did["told"] += 1
                self.told.add((rest[0], rest[1]))


def round_of(world: World, said: Said, rng: random.Random, seed: int, kill: bool) -> None:
    arguments = [str(world.folder), world.ledger, str(ASKERS), str(STATEMENTS), str(seed)]
    command = [sys.executable, "-m", "tests.answers.paid_writer", *arguments]
    writer = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"ready\n"
    if kill:
        time.sleep(rng.uniform(0, 0.6))
        if rng.random() < 0.3 and world.data is not None:
            terminated(world.data, said)
        writer.kill()
        said.kills += 1
    elif world.data is not None:
        terminated(world.data, said)
    said.add(writer.stdout.read().decode().split("\n")[:-1])
    code = writer.wait()
    writer.stdout.close()
    assert code in ((0, -9) if kill else (0,))


def terminated(data: str, said: Said) -> None:
    """The engine's connections, as when its server restarts."""
    query = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'dpproxy'"
    with psycopg.connect(data, autocommit=True) as connection:
        connection.execute(query)
    said.did["terminated"] += 1


def charges_of(world: World) -> list[Charge]:
    reader = place_of(world.ledger, world.folder).reader("town")
    record.verify(reader)
    return [entry for _, entry in record.show(reader) if isinstance(entry, Charge)]


def own(charges: Iterable[Charge]) -> Counter[tuple[str, str]]:
    return Counter((charge.role, charge.statement.split()[1]) for charge in charges)


def kept(world: World, paid: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """What a role may have again at no charge."""
    users = {role: user for user, role in ROLES.items()}

    async def again() -> set[tuple[str, str]]:
        dataset, answers, journal = await opened(world.folder, world.ledger)
        try:
            return {(role, chart) for role, chart in paid if await answered(dataset, users[role], int(chart))}
        finally:
            await dataset.close()
            journal.close()
            answers.close()

    return asyncio.run(again())


def checked(world: World, said: Said) -> str:
    """Raises AssertionError where a charge is neither told nor kept."""
    paid = own(charges_of(world))
    free = kept(world, paid)
    died = {key: count - (key in free) - said.lost[key] for key, count in paid.items()}
    assert not [key for key, count in died.items() if count < 0], "kept, and not charged"
    assert said.told <= set(paid), "told, and not charged"
    assert sum(died.values()) <= ASKERS * said.kills, "charged twice, or neither told nor kept"
    figures = ", ".join(f"{count} {what}" for what, count in sorted(said.did.items()))
    return (
        f"{said.kills} kills, {figures}: {sum(paid.values())} charges to roles = {len(free)} kept + {sum(said.lost.values())} lost "
        f"by the engine or at its limit + {sum(died.values())} that died with a killed process"
    )


ORDINARY = [("duckdb", "sqlite"), ("postgres", "postgres")]
ALL = [(engine, ledger) for engine in ("duckdb", "postgres") for ledger in ("sqlite", "postgres")]


def run(tmp_path: Path, elsewhere: Path, engine: str, ledger: str, rounds: int, kills: int) -> str:
    with ExitStack() as stack:
        world, said, rng = made(tmp_path, engine, ledger, stack, elsewhere), Said(), random.Random(7)
        for i in range(rounds):
            round_of(world, said, rng, i, kill=False)
        checked(world, said)
        assert sum(said.did.values()) > rounds
        for i in range(kills):
            round_of(world, said, rng, rounds + i, kill=True)
        return checked(world, said)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "ledger"), ORDINARY)
def test_each_charge_is_an_answer(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, engine: str, ledger: str) -> None:
    run(tmp_path, tmp_path_factory.mktemp("server"), engine, ledger, 1, 2)


@pytest.mark.long
@pytest.mark.parametrize(("engine", "ledger"), ALL)
def test_each_charge_is_an_answer_long(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, engine: str, ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = run(tmp_path, tmp_path_factory.mktemp("server"), engine, ledger, ROUNDS, KILLS)
    with capsys.disabled():
        print(f"\n{engine}, ledger in {ledger}: {told}")


def test_the_arithmetic() -> None:
    said = Said()
    said.add(["told analyst 1", "did cancel", "lost other 2", "lost other 2"])
    assert (said.told, said.lost, said.did) == ({("analyst", "1")}, {("other", "2"): 2}, {"told": 1, "cancel": 1})

"""Three proxies in network namespaces of their own, two of them with wrong clocks, over one ledger: a partition, a slow network.

Needs root, `ip netns`, and for the slow network `tc` with netem; says loudly what it did not try. A namespace is a machine as far as the network
goes: its own addresses, and one cable to the machine that has the ledger, which is cut and slowed down here. In long mode only.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import psycopg
import pytest
from scratch_postgres import Scratch, scratch_server

from dpproxy.ledger.ledger import Charge
from dpproxy.records import record
from dpproxy.records.place import ledger_key
from dpproxy.records.postgres import PostgresReader
from dpproxy.reuse.server_tables import ServerClaims
from dpproxy.serve.launch import Proxy, launched
from tests.worlds.town import DATA, POLICY, VERIFIER
from tests.worlds.waiting import SAFETY

pytestmark = pytest.mark.long

WRONG: Final = (0, 7200, -7200)
"""Seconds that the clocks of the machines are ahead."""
AWAY: Final = ("57P03", "XX000")
"""What a client is told when stored answers, or the ledger, cannot be reached."""
KEY: Final = b"k" * 32
HOLDER: Final = """
import asyncio, sys
from dpproxy.reuse.server_tables import ServerClaims
async def main():
    print(await ServerClaims(sys.argv[1]).claim(["a"]), flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@dataclass(frozen=True)
class Machine:
    """A namespace. `cable`: its end on the machine that has the ledger."""

    name: str
    cable: str
    ledger: str
    within: tuple[str, ...]

    def cut(self) -> None:
        run("ip", "link", "set", self.cable, "down")

    def mend(self) -> None:
        run("ip", "link", "set", self.cable, "up")

    def slow(self, milliseconds: int) -> bool:
        """Whether this kernel can."""
        late = ("netem", "delay", f"{milliseconds}ms")
        done = subprocess.run(["tc", "qdisc", "add", "dev", self.cable, "root", *late], capture_output=True, check=False)
        return done.returncode == 0


@contextlib.contextmanager
def machine(number: int) -> Iterator[Machine]:
    name, cable, net = f"dpproxy{os.getpid()}-{number}", f"dpp{os.getpid() % 100000}v{number}", f"10.213.{number}"
    run("ip", "netns", "add", name)
    try:
        run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "addr", "add", f"{net}.1/30", "dev", cable)
        run("ip", "link", "set", cable, "up")
        within = ("ip", "netns", "exec", name)
        run(*within, "ip", "link", "set", "lo", "up")
        run(*within, "ip", "addr", "add", f"{net}.2/30", "dev", "eth0")
        run(*within, "ip", "link", "set", "eth0", "up")
        yield Machine(name, cable, f"{net}.1", within)
    finally:
        run("ip", "netns", "del", name)


@pytest.fixture
def machines() -> Iterator[list[Machine]]:
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("NAMESPACES ABSENT: needs root and ip")
    with contextlib.ExitStack() as stack:
        try:
            made = [stack.enter_context(machine(number)) for number in (1, 2, 3)]
        except subprocess.CalledProcessError as error:
            pytest.skip(f"NAMESPACES ABSENT: {error.stderr.decode().strip()}")
        yield made


@pytest.fixture
def ledger(machines: list[Machine], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    listening = {"listen_addresses": ", ".join(each.ledger for each in machines)}
    with scratch_server(
        tmp_path_factory.mktemp("ledger"), settings=listening, hba=["host all all 10.213.0.0/16 trust"]
    ) as server:
        yield server


@dataclass
class Site:
    """A proxy on a machine, reached by its unix socket, which namespaces share."""

    proxy: Proxy
    sockets: Path

    def ask(self, user: str, statement: str) -> tuple[str, str]:
        """The rows, and what the first notice says first."""
        notices: list[str] = []
        address = f"host={self.sockets} port={self.proxy.port} user={user} password=x dbname=town"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.add_notice_handler(lambda told: notices.append(told.message_primary or ""))
            rows = connection.execute(statement).fetchall()  # type: ignore[call-overload]
        return str(sorted(rows)), notices[0].split()[0].rstrip(",")


@pytest.fixture
def sites(machines: list[Machine], ledger: Scratch, tmp_path: Path) -> Iterator[list[Site]]:
    with duckdb.connect(str(tmp_path / "town.duckdb")) as connection:
        connection.execute(DATA)
    policy = POLICY.replace("VERIFIER", VERIFIER) + "\nreuse_answers: { for: 1h, epoch: one }\n"
    (tmp_path / "town.yaml").write_text(policy)
    (tmp_path / "key").write_bytes(KEY)
    root = str(Path(__file__).resolve().parents[2])
    with contextlib.ExitStack() as stack:
        found = []
        for number, (each, wrong) in enumerate(zip(machines, WRONG, strict=True)):
            sockets = tmp_path / f"sockets{number}"
            sockets.mkdir()
            options = ("--ledger", f"postgresql://postgres@{each.ledger}/postgres", "--key-file", str(tmp_path / "key"))
            program = [*each.within, sys.executable, "-m", "tests.worlds.wrong_clock", str(wrong)]
            proxy = stack.enter_context(
                launched(
                    [tmp_path / "town.yaml"],
                    tmp_path / f"state{number}",
                    env={"PYTHONPATH": root},
                    options=(*options, "--unix-socket", str(sockets)),
                    program=program,
                )
            )
            found.append(Site(proxy, sockets))
        yield found


def question(number: int) -> str:
    return f"SELECT region, sum(income) FROM people WHERE income <> {number} GROUP BY region"


def charges_of(ledger: Scratch) -> list[Charge]:
    reader = PostgresReader(ledger.dsn(), "town")
    record.verify(reader, key=ledger_key(KEY))
    return [entry for _, entry in record.show(reader) if isinstance(entry, Charge)]


def test_wrong_clocks_a_partition_and_a_slow_network(
    machines: list[Machine], sites: list[Site], ledger: Scratch, capsys: pytest.CaptureFixture[str]
) -> None:
    clocks_differ(sites, ledger)
    waited = a_machine_is_cut_off(machines[0], sites, ledger)
    told = f"refused after {waited[0]:.0f} and {waited[1]:.0f} s without a ledger"
    if machines[1].slow(300):
        seconds = a_network_is_slow(sites)
        told += f"; answered in {seconds:.1f} s at 300 ms a crossing"
    else:
        told += "; NOT TRIED, NETEM ABSENT: a slow network"
    with capsys.disabled():
        print(f"\n{told}")


def a_network_is_slow(sites: list[Site]) -> float:
    """The second machine's: it answers late, and pays once. Returns the seconds it took."""
    began = time.monotonic()
    paid, told = sites[1].ask("ada", question(30))
    seconds = time.monotonic() - began
    assert told == "charged"
    assert sites[2].ask("ada", question(30)) == (paid, "reused")
    assert seconds > 0.3
    return seconds


def clocks_differ(sites: list[Site], ledger: Scratch) -> None:
    """What one has paid for is neither too old nor from the future elsewhere, and each window is the record's."""
    for number, payer in enumerate(sites):
        paid, told = payer.ask("ada", question(number))
        assert told == "charged"
        for other in sites:
            assert other.ask("ada", question(number)) == (paid, "reused")
    assert len(charges_of(ledger)) == len(sites)


def a_machine_is_cut_off(machine: Machine, sites: list[Site], ledger: Scratch) -> list[float]:
    """It answers nothing that it does not know, and charges nothing; the others go on, and take over what it was making."""
    holder = subprocess.Popen(
        [*machine.within, sys.executable, "-c", HOLDER, f"postgresql://postgres@{machine.ledger}/postgres"],
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"True\n"
    before, waited = len(charges_of(ledger)), []
    machine.cut()
    try:
        for user in ("ada", "cy"):
            began = time.monotonic()
            with pytest.raises(psycopg.Error) as refused:
                sites[0].ask(user, question(20))
            assert refused.value.sqlstate in AWAY
            waited.append(time.monotonic() - began)
        assert len(charges_of(ledger)) == before
        paid, told = sites[1].ask("ada", question(20))
        assert told == "charged"
        asyncio.run(taken_over(ledger.dsn()))
    finally:
        holder.kill()
        holder.communicate()
        machine.mend()
    deadline = time.monotonic() + SAFETY
    while True:
        with contextlib.suppress(psycopg.Error):
            assert sites[0].ask("ada", question(20)) == (paid, "reused")
            break
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert sites[0].ask("cy", question(20))[0] == paid
    assert len(charges_of(ledger)) == before + 2
    return waited


async def taken_over(dsn: str) -> Any:
    """The server lets go of what a machine claimed of which it hears nothing."""
    claims = ServerClaims(dsn)
    async with asyncio.timeout(SAFETY):
        while not await claims.claim(["a"]):
            await asyncio.sleep(0.5)
    claims.close()

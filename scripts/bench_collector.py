"""How many reports a second a collector takes, each on the disk before it is acknowledged, and what one costs it.

Knows: the command line, HTTP/1.1 on sockets. Must not know: how the collector works. The generator is another process's work
on the same machine, so the processor time of a report is the collector's alone; what came is counted on the disk afterwards.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Final

import psutil

from dpproxy.collect.questions import Question, question_of
from dpproxy.collector.journal import State

CONNECTIONS: Final = 64
AT_ONCE: Final = (1, 10, 50)
"""Reports in one request."""
POLICY: Final = """
version: 1
dataset: phones
backend: { duckdb: none.duckdb }
privacy_unit: { name: device }
budget: { epsilon: 1, delta: 1e-9, every: year }
roles: { analyst: { budget: { epsilon: 1, every: month }, query: { epsilon: 0.1, max_epsilon: 1 } } }
users: {}
tables:
  reports:
    reports: { epsilon: 4 }
    columns:
      region: { plain: true, values: [north, east, south, west] }
      value: { randomised: { by: pgr, values: VALUES } }
"""


def collector(work: Path, options: Namespace) -> None:
    """Print a line for each number of reports in a request."""
    folder = work / "collector"
    folder.mkdir()
    (folder / "phones.yaml").write_text(POLICY.replace("VALUES", json.dumps([f"v{n}" for n in range(2600)])))
    program = [sys.executable, "-m", "dpproxy", "collect"]
    file = subprocess.run([*program, "file", "phones.yaml", "reports"], cwd=folder, check=True, capture_output=True).stdout
    question = question_of(json.loads(file))
    columns = ("a request", "requests/s", "reports/s", "microseconds of processor a report", "missing on disk")
    print("collector: reports of 2,600 values", "\t".join(columns), sep="\n")
    for number in AT_ONCE:
        state = folder / f"state{number}"
        command = [*program, "serve", "phones.yaml", "--listen", "127.0.0.1:0", "--state", state]
        command += ["--per-minute", "1e9", "--per-second", "1e9"]
        server = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None
            port = int(server.stderr.readline().rpartition(":")[2])
            before = _seconds(server.pid)
            began = time.monotonic()
            requests = asyncio.run(_load(port, bodies(question, number), options.seconds))
            lasted, used = time.monotonic() - began, _seconds(server.pid) - before
        finally:
            server.terminate()
            server.wait()
        on_disk = sum(len(batch.reports) for segment in State(state).sealed() for batch in segment.batches())
        rate, cost = requests / lasted, used / (requests * number) * 1e6
        print(f"{number}\t{rate:.0f}\t{rate * number:.0f}\t{cost:.1f}\t{requests * number - on_disk}", flush=True)


def bodies(question: Question, number: int) -> list[tuple[bytes, bytes]]:
    """Requests of so many reports, made before: the two parts between which a batch's name belongs."""
    reports = [["north", json.loads(question.report(question.value(f"v{n}")))[0]] for n in range(1000)]
    made = []
    for start in range(0, 1000, number):
        rest = json.dumps({"claim": question.claim, "reports": reports[start : start + number]})[1:]
        length = len('{"batch": "", ') + 32 + len(rest)
        head = f'POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{{"batch": "'
        made.append((head.encode(), f'", {rest}'.encode()))
    return made


async def _load(port: int, parts: list[tuple[bytes, bytes]], seconds: float) -> int:
    """Post from several connections; return how many were acknowledged."""
    end = time.monotonic() + seconds
    return sum(await asyncio.gather(*(_client(port, parts, end) for _ in range(CONNECTIONS))))


async def _client(port: int, parts: list[tuple[bytes, bytes]], end: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    taken = 0
    while time.monotonic() < end:
        head, rest = parts[taken % len(parts)]
        writer.write(head + secrets.token_hex(16).encode() + rest)
        reply = await reader.readuntil(b"\r\n\r\n")
        assert reply.startswith(b"HTTP/1.1 204"), reply
        taken += 1
    writer.close()
    return taken


def _seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system

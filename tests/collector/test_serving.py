"""A collector as a process: what it keeps of real requests, connections that send slowly, kills, a store that comes and goes."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dpproxy.collect import Device
from dpproxy.collector.journal import State
from tests.collector.reports import body, tables
from tests.collector.served import Served, served
from tests.collector.world import TABLES_SQL, DuckDBWorld
from tests.worlds.certificates import certificate

MARK = "MARKED"


def until(true: Callable[[], bool]) -> None:
    """Ask again and again; each question is a request, and the test has a limit of time."""
    while not true():
        pass


def everything(folder: Path) -> bytes:
    """Every byte on the disk, with the names of files."""
    return b"".join(str(path).encode() + (path.read_bytes() if path.is_file() else b"") for path in folder.rglob("*"))


def names(folder: Path) -> list[str]:
    return [batch.name for segment in State(folder).sealed() for batch in segment.batches()]


def marked(running: Served, requests: int) -> None:
    """Requests whose every part but a right body has a mark."""
    headers = dict.fromkeys(("User-Agent", "Cookie", "X-Forwarded-For", "Referer", "Authorization", "Accept-Language"), MARK)
    for number in range(requests):
        assert running.post(body(batch=number), headers) == 204
    assert running.post(b"{", headers, f"/v1/{MARK}") == 404
    assert running.post(f'{{"{MARK}": 1}}'.encode(), headers) == 400


def nothing_is_kept(folder: Path, requests: int) -> None:
    with served(folder) as running:
        marked(running, requests)
        assert running.health() == {"works": True, "reports": {"emoji": requests}, "waiting": 0, "problem": ""}
        inside = everything(folder)
    kept = inside + everything(folder) + "".join(running.said).encode()
    assert len(names(folder)) == requests
    assert MARK.encode() not in kept
    assert b"127.0.0.1" not in kept.replace(running.said[0].encode(), b"")
    assert running.said[1:] == []


def test_nothing_of_a_client_is_kept(tmp_path: Path) -> None:
    nothing_is_kept(tmp_path / "state", 50)


@pytest.mark.long
def test_nothing_of_ten_thousand_requests_is_kept(tmp_path: Path) -> None:
    nothing_is_kept(tmp_path / "state", 10_000)


@pytest.mark.parametrize(
    "start",
    [b"", b"POST /v1/emoji HTTP/1.1\r\nHost: x\r\n", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /health HTTP/1.1\r\nX: y"],
    ids=["nothing", "half a header", "half a second header"],
)
def test_who_sends_no_header_in_time_is_let_go(tmp_path: Path, start: bytes) -> None:
    with served(tmp_path / "state", header_seconds=0.2) as running, socket.create_connection(("127.0.0.1", running.port)) as slow:
        slow.sendall(start)
        while slow.recv(65536):  # the reply to a whole request; then the end
            pass
        assert running.post(body()) == 204


def test_devices_post_by_tls_to_the_collector_that_they_trust(tmp_path: Path) -> None:
    """To another one nothing is sent, and what was charged waits."""
    mine = certificate(tmp_path, "localhost")
    (tmp_path / "coin.json").write_text(json.dumps(tables()["coin"].newest.document()))
    device = Device(tmp_path / "coin.json", tmp_path / "dp.sqlite", max_epsilon=2)
    device.answer("ill", True, age=44)
    with served(tmp_path / "state", tls=mine) as running:
        url = f"https://localhost:{running.port}"
        assert (device.send(url).later, running.said[1:]) == (1, [])
        again = Device(tmp_path / "coin.json", tmp_path / "dp.sqlite", max_epsilon=2, clock=lambda: time.time() + 3600)
        assert again.send(url, context=ssl.create_default_context(cafile=mine.certificate)).taken == 1
    (batch,) = [batch for segment in State(tmp_path / "state").sealed() for batch in segment.batches()]
    assert (batch.table, batch.reports[0][0]) == ("coin", 44)


def test_a_segment_comes_into_the_store_while_batches_come(tmp_path: Path) -> None:
    """At first there is no table: segments wait, and /health says why."""
    world = DuckDBWorld(tmp_path / "reports.duckdb")
    world.sql("CREATE TABLE other (i int)")
    with served(tmp_path / "state", store=world.path, seconds=0.05) as running:
        assert running.post(body(batch=1)) == 204
        until(lambda: "has no table" in running.health()["problem"])
        assert running.post(body(batch=2)) == 204
        os.replace(_with_tables(tmp_path / "new.duckdb"), world.path)
        until(lambda: running.health()["waiting"] == 0 and running.health()["problem"] == "")
        assert running.post(body(batch=1)) == 204  # sent again
    assert len(running.said) == 2
    assert world.sql("SELECT count(*) FROM emoji") == [(2,)]


def _with_tables(path: Path) -> Path:
    DuckDBWorld(path).sql(TABLES_SQL)
    return path


def load_and_kill(running: Served, start: int, acknowledged: list[int], enough: int) -> None:
    """Post from several threads until the collector is killed after so many replies."""
    counted = threading.Event()
    mine: list[int] = []

    def client(first: int) -> None:
        for number in range(first, first + 100_000):
            try:
                if running.post(body(batch=number, rows=[["north", 7]] * 10)) == 204:
                    mine.append(number)
            except OSError:
                return
            if len(mine) >= enough:
                counted.set()

    threads = [threading.Thread(target=client, args=(start + 200_000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    counted.wait()
    os.kill(running.process.pid, signal.SIGKILL)
    for thread in threads:
        thread.join()
    acknowledged += mine


def kills(folder: Path, times: int, progress: Callable[[int, int], None] = lambda done, of: None) -> None:
    acknowledged: list[int] = []
    for number in range(times):
        with served(folder) as running:
            load_and_kill(running, number * 1_000_000, acknowledged, 20 + number % 50)
        progress(number + 1, times)
    State(folder).seal_all()
    kept = names(folder)
    assert {f"{number:032x}" for number in acknowledged} <= set(kept)
    assert len(kept) == len(set(kept))


def test_kills_under_load_lose_nothing(tmp_path: Path) -> None:
    kills(tmp_path / "state", 2)


@pytest.mark.long
def test_a_hundred_kills_under_load_lose_nothing(tmp_path: Path, progress: Callable[[int, int], None]) -> None:
    kills(tmp_path / "state", 100, progress)

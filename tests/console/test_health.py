"""Three paths and no more: what each says, to whom, and what it says when something does not work."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest
from structlog.testing import capture_logs

from dpproxy.console import health
from dpproxy.console.health import HealthServer
from dpproxy.console.web import OF_ONE
from dpproxy.operations.requests import OperationError
from dpproxy.operations.status import Check, Status
from tests.worlds.told_status import STATUS

TOKEN = "a token of operators"


@dataclass
class Proxy:
    """What is asked, and what it says."""

    told: Status | Exception = STATUS
    asked: int = 0
    dead: Exception | None = None
    server: HealthServer = field(init=False)

    def statuses(self) -> Sequence[Status]:
        self.asked += 1
        if isinstance(self.told, Exception):
            raise self.told
        return [self.told]

    def alive(self) -> None:
        if self.dead is not None:
            raise self.dead

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=300)
        connection.request(method, path, headers=headers)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    monkeypatch.setattr(health, "LASTS", 0.0)
    made = Proxy()
    made.server = HealthServer("127.0.0.1", 0, made.statuses, made.alive, TOKEN)
    yield made
    made.server.end()


def test_metrics_are_for_who_shows_the_token(proxy: Proxy) -> None:
    assert proxy.get("/metrics")[0] == 401
    assert proxy.get("/metrics", Authorization=f"Bearer {TOKEN}x")[0] == 401
    assert proxy.asked == 0, "nothing is done for who may not ask"
    status, text = proxy.get("/metrics?x=1", Authorization=f"Bearer {TOKEN}")
    assert status == 200
    assert "dpproxy_budget_epsilon_spent" in text


@pytest.mark.parametrize("path", ["/", "/metrics/", "/METRICS", "/metrics.json", "/healthz/x", "/ready.", "/admin"])
def test_there_is_nothing_else(proxy: Proxy, path: str) -> None:
    assert proxy.get(path, Authorization=f"Bearer {TOKEN}")[0] == 404
    assert proxy.asked == 0


def test_a_server_of_probes_has_no_metrics(proxy: Proxy) -> None:
    proxy.server.probes_only = True
    assert proxy.get("/metrics", Authorization=f"Bearer {TOKEN}") == (404, "there is /healthz and /ready\n")
    assert proxy.get("/healthz") == (200, "ok\n")
    assert proxy.get("/ready")[0] == 200


@pytest.mark.parametrize("header", [b"X: " + b"a" * 1000 + b"\r\n", b"X: " + b"a" * health.HEADERS], ids=["many", "one"])
def test_long_headers_are_not_kept(proxy: Proxy, header: bytes) -> None:
    """Of a hundred headers of 64 kB, in each of a hundred connections, 600 MB were kept."""
    with socket.create_connection(("127.0.0.1", proxy.server.server_port), timeout=60) as client, capture_logs() as logged:
        client.sendall(b"GET /healthz HTTP/1.1\r\n" + header * (health.HEADERS // len(header) + 1))
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
    assert logged == []
    assert proxy.get("/healthz") == (200, "ok\n")


def test_other_methods_are_refused(proxy: Proxy) -> None:
    assert proxy.get("/metrics", "POST", Authorization=f"Bearer {TOKEN}")[0] == 501
    assert proxy.get("/healthz", "HEAD") == (200, "")


def test_a_process_that_answers_is_healthy_whatever_else_fails(proxy: Proxy) -> None:
    proxy.told = OperationError("the ledger is gone")
    assert proxy.get("/healthz") == (200, "ok\n")
    proxy.dead = TimeoutError()
    with capture_logs() as logged:
        assert proxy.get("/healthz") == (503, "TimeoutError\n")
    assert logged == [{"event": "health request failed", "path": "/healthz", "error": "TimeoutError", "log_level": "error"}]


def test_ready_says_what_does_not_work_and_names_nothing(proxy: Proxy) -> None:
    status, text = proxy.get("/ready")
    assert (status, json.loads(text)["ready"]) == (200, True)
    proxy.told = replace(STATUS, checks=(*STATUS.checks, Check("ledger", "shop", False, 5.0)))
    status, text = proxy.get("/ready")
    found = json.loads(text)
    assert (status, found["ready"], found["ledger"], found["backend"]) == (503, False, False, True)
    assert not any(name in text for name in ("shop", "analyst", "ada"))
    proxy.told = replace(STATUS, stopping=True)
    assert proxy.get("/ready")[0] == 503


def test_parts_are_tried_once_a_moment_however_many_ask(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LASTS", 3600.0)
    for _ in range(5):
        proxy.get("/ready")
    assert proxy.asked == 1


@pytest.mark.parametrize("half", [b"", b"GET /healthz HTTP/1.1\r\nHost: local"])
def test_half_requests_hold_no_thread_that_somebody_needs(proxy: Proxy, half: bytes) -> None:
    """However many there are: the first of them are ended, and their threads with them."""
    before = threading.active_count()
    silent = []
    for _ in range(OF_ONE + 3):
        silent.append(socket.create_connection(("127.0.0.1", proxy.server.server_port), timeout=60))
        silent[-1].sendall(half)
    with capture_logs() as logged:
        for _ in range(3):
            assert proxy.get("/healthz") == (200, "ok\n")
    assert logged == [], "a flood must not fill the log"
    assert [one.recv(1) for one in silent[:3]] == [b"", b"", b""]
    assert threading.active_count() - before <= OF_ONE + 3 + 1
    assert len(proxy.server.door) <= OF_ONE
    for one in silent:
        one.close()

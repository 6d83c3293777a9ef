"""How long bytes have waited is told of TCP on Linux, and nothing is told where it is not known."""

from __future__ import annotations

import asyncio
import socket
import sys
import time

import pytest

from dpproxy.limits.throttle import seconds_waited


class Connection(asyncio.Transport):
    def __init__(self, connected: socket.socket | None) -> None:
        super().__init__({"socket": connected})


@pytest.mark.skipif(sys.platform != "linux", reason="told by Linux")
def test_bytes_that_wait_in_the_socket_are_as_old_as_they_are() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        server, _ = listener.accept()
        with server:
            began = time.monotonic()
            client.sendall(b"x")
            server.recv(1, socket.MSG_PEEK)
            arrived = time.monotonic()
            time.sleep(0.1)
            waited = seconds_waited(Connection(server))
            assert time.monotonic() - began + 0.02 > waited > time.monotonic() - arrived - 0.05
            client.sendall(b"y")
            server.recv(2, socket.MSG_WAITALL)
            assert seconds_waited(Connection(server)) < waited


def test_nothing_is_known_of_others() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert seconds_waited(Connection(one)) == 0
    closed = socket.socket()
    closed.close()
    assert seconds_waited(Connection(closed)) == 0
    assert seconds_waited(Connection(None)) == 0

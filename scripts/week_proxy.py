"""`dpproxy` on a machine whose clocks another process sets: a week passes in a minute, or a clock is wrong.

Knows: clocks. Must not know: what is served. DPPROXY_WEEK names a unix socket, and how far ahead of this machine the clocks
start. Each line that is heard there is a number of seconds and what moves by it: `time` (all clocks, as time does) or `clock`
(the one that people can set). Python's clock of the day is `time_machine`'s; the one that nobody sets is what the ledger is
given as that.
"""

from __future__ import annotations

import datetime as dt
import os
import socket
import threading
import time

import time_machine

from dpproxy.cli import app
from dpproxy.records import place

ahead = [0.0]
"""Seconds, of the clock that nobody sets."""


def steady() -> float:
    return time.monotonic() + ahead[0]


def listen(path: str, traveller: time_machine.Traveller) -> None:
    """Move clocks as told; a word back when they are."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            door, _ = listener.accept()
            with door, door.makefile("rw") as lines:
                seconds, what = lines.readline().split()
                traveller.shift(dt.timedelta(seconds=float(seconds)))
                ahead[0] += float(seconds) if what == "time" else 0
                lines.write("moved\n")


if __name__ == "__main__":
    path, start = os.environ["DPPROXY_WEEK"].split("|")
    place.since_boot = steady  # type: ignore[attr-defined]
    with time_machine.travel(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=float(start))) as traveller:
        threading.Thread(target=listen, args=(path, traveller), daemon=True).start()
        app()

"""What a process might say of itself: each field with something in it."""

from __future__ import annotations

from typing import Final

from dpproxy.operations.pauses import Pause
from dpproxy.operations.status import AccountStatus, Check, DatasetStatus, SessionStatus, Status
from dpproxy.telemetry.tallies import StatementEvent, Tallies


def _counted() -> Tallies:
    tallies = Tallies()
    who = ("shop", "analyst", "ada", 7, "hash", "select")
    tallies.statement(StatementEvent(0.0, *who, "answered", "digest", epsilon=500_000, milliseconds=30))
    tallies.statement(StatementEvent(0.0, *who, "reused", "digest", saved=500_000, milliseconds=2))
    tallies.statement(StatementEvent(0.0, *who, "refused", "digest", code="53400", reason_class="budget", milliseconds=4))
    tallies.login("shop", "ok")
    tallies.login("", "password")
    return tallies


STATUS: Final = Status(
    process=0,
    pid=4711,
    version="0.1.0",
    started=1_700_000_000.0,
    stopping=False,
    memory=100_000_000,
    sessions=(SessionStatus(7, 0, "shop", "analyst", "ada", "10.0.0.1", True, 1_700_000_001.0, "idle", ""),),
    datasets=(
        DatasetStatus("shop", "shop.yaml", "digest", "duckdb", 1_700_000_000.0, "", 4, 1, "used", 123_456, 1_700_000_000.0),
    ),
    accounts=(
        AccountStatus(
            "shop", "role", "analyst", "month", 500_000, 2_000_000, 1_500_000, 10**12, 10**13, 900_000, 3, 1_800_000_000.0, 20
        ),
        AccountStatus("shop", "dataset", "shop", "never", 500_000, 10_000_000, 9_500_000, 0, 10**13, 900_000, 3, None, 0),
    ),
    checks=(Check("backend", "shop", True, 0.001), Check("facade", "shop/analyst", True, 0.002)),
    pauses=(Pause("shop", "intern", 1_700_000_002.0, "root (0)", "a lost laptop"),),
    counted=_counted().counted(),
    untold=(("shop", "analyst", "client lost", "kept", 2),),
    delayed=(("shop", "analyst", 3, 0.5),),
    lines=(("info", 10), ("warning", 1)),
)

"""Requests as lines, there and back; and lines that are none."""

from __future__ import annotations

import json

import pytest

from dpproxy.operations.requests import (
    KINDS,
    CancelSession,
    Drain,
    GrantBudget,
    OperationError,
    PauseRole,
    Recent,
    Reload,
    Report,
    Request,
    Reread,
    ResumeRole,
    SetClock,
    line_of,
    read,
)

REQUESTS: tuple[Request, ...] = (
    Report(True),
    Recent(5),
    PauseRole("analyst", "why", "shop"),
    ResumeRole("analyst"),
    Reread(),
    Reload(),
    Drain(),
    CancelSession(7, True),
    GrantBudget("/state/ledger.sqlite", "shop", "role", "analyst", 500_000, 0, "audit"),
    SetClock("/state/ledger.sqlite", "shop", True, "why"),
)


def test_there_and_back() -> None:
    assert {type(request).__name__ for request in REQUESTS} == set(KINDS)
    for request in REQUESTS:
        assert read(line_of(request)) == (request, False)
        assert read(line_of(request, passed=True)) == (request, True)
        assert line_of(request).count(b"\n") == 1


@pytest.mark.parametrize(
    "given",
    [
        "nonsense",
        [],
        {},
        {"request": "Shutdown"},
        {"request": "PauseRole"},
        {"request": "PauseRole", "role": 5, "reason": "r"},
        {"request": "PauseRole", "role": "a", "reason": "r", "more": "x"},
        {"request": "CancelSession", "session": "7"},
        {"request": "CancelSession", "session": True},
        {"request": ["Report"]},
    ],
)
def test_what_is_no_request_is_said(given: object) -> None:
    with pytest.raises(OperationError):
        read(json.dumps(given).encode())

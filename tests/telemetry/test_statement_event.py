"""The line of a statement: its level by what the operator has to do, its amounts in plain units, its time on the grid."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from dpproxy import errors
from dpproxy.telemetry.events import EVENTS
from dpproxy.telemetry.tallies import StatementEvent, class_of, log, milliseconds

ANSWERED = StatementEvent(
    0.0, "shop", "analyst", "ada", 7, "hash", "select", "answered", "digest", 500_000, 10**12, 0, 2, 1, 9, 30
)


def line(event: StatementEvent) -> dict[str, object]:
    with capture_logs() as logged:
        log(event)
    (found,) = logged
    return dict(found)


def test_amounts_are_in_plain_units() -> None:
    found = line(ANSWERED)
    assert (found["epsilon"], found["delta"], found["log_level"]) == (0.5, 1e-6, "info")
    assert (found["measurements"], found["reused"], found["rows"], found["milliseconds"]) == (2, 1, 9, 30)


@pytest.mark.parametrize(
    ("verdict", "code", "level"),
    [
        ("explained", "", "debug"),
        ("reused", "", "info"),
        ("refused", errors.FEATURE_NOT_SUPPORTED, "info"),
        ("refused", errors.CONFIGURATION_LIMIT_EXCEEDED, "warning"),
        ("refused", errors.INTERNAL_ERROR, "error"),
        ("failed", errors.QUERY_CANCELED, "warning"),
        ("failed", errors.SYSTEM_ERROR, "error"),
    ],
)
def test_levels(verdict: str, code: str, level: str) -> None:
    event = replace(ANSWERED, verdict=verdict, code=code, reason_class=class_of(code) if code else "")  # type: ignore[arg-type]
    found = line(event)
    assert (found["log_level"], found["verdict"]) == (level, verdict)
    assert set(found) - {"event", "log_level"} <= {*EVENTS["statement"].fields, *EVENTS["statement"].optional}
    assert ("epsilon" in found) == (verdict != "refused"), "a refusal costs nothing"


def test_what_is_no_class_of_its_own_is_wrong_sql() -> None:
    assert (class_of(errors.UNDEFINED_TABLE), class_of("42P99"), class_of(errors.DISK_FULL)) == ("sql", "sql", "disk")


def test_times_are_rounded_up_to_the_grid() -> None:
    assert [milliseconds(s, None) for s in (0.0, 0.0301, 1.0)] == [0, 31, 1000]
    assert [milliseconds(s, 250) for s in (0.001, 0.25, 0.251)] == [250, 250, 500]

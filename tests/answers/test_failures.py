"""What must not happen: the log has its place, the client a number that finds it there."""

from __future__ import annotations

import re

from structlog.testing import capture_logs

from dpproxy.answers.statement_end import StatementFailed, incident, internal
from dpproxy.backends.base import BackendError


def raised() -> RuntimeError:
    try:
        secret = "Ada earns 4711"
        raise RuntimeError(f"about {len(secret)} letters")
    except RuntimeError as error:
        return error


def test_the_clients_number_is_the_logs() -> None:
    with capture_logs() as logged:
        refusal = internal(raised(), statement="abc")
    (entry,) = logged
    found = re.fullmatch(r"internal error, incident ([0-9a-f]{12})", refusal.message)
    assert found is not None
    assert (refusal.sqlstate, refusal.detail, refusal.hint) == ("XX000", None, "Tell the operator this number: the log has it.")
    assert (entry["incident"], entry["error"], entry["statement"]) == (found[1], "RuntimeError", "abc")
    assert entry["trace"].endswith(" raised"), "where it was raised"
    assert not any(secret in str(entry) for secret in ("4711", "letters")), "neither values nor what was said of them"


def test_what_is_said_without_data_is_logged() -> None:
    with capture_logs() as logged:
        incident(BackendError("08006 the server closed the connection"))
    assert logged[0]["text"] == "08006 the server closed the connection"


def test_each_incident_has_a_number_of_its_own() -> None:
    error = raised()
    with capture_logs():
        assert len({incident(error) for _ in range(20)}) == 20


def test_the_facades_error_is_kept_as_it_is() -> None:
    assert StatementFailed(b"E\0\0\0\4").raw == b"E\0\0\0\4"

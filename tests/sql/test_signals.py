"""Calls of functions that reach another session are found wherever they stand, and nothing that is only called so."""

from __future__ import annotations

import pytest

from dpproxy.sql.statements import SIGNALS, parse, signal_calls, split


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT pg_cancel_backend(5)", ["pg_cancel_backend"]),
        ("SELECT PG_Catalog.PG_Terminate_Backend($1, 100) AS x", ["PG_Terminate_Backend"]),
        ("SELECT CASE WHEN pg_cancel_backend(1) THEN 1 END FROM (SELECT pg_terminate_backend(2)) q", 2),
        ("SELECT 'pg_cancel_backend(5)', pg_cancel_backend FROM t", []),
    ],
)
def test_calls(sql: str, found: list[str] | int) -> None:
    calls = [call.name for call in signal_calls(parse(sql))]
    assert (len(calls) if isinstance(found, int) else calls) == found
    (statement,) = split(sql, frozenset())
    assert statement.private == bool(calls), "the proxy answers it itself"
    assert set(SIGNALS.values()) == {"cancel", "terminate"}

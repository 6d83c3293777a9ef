"""A statement of the facade's own that is known to run: its first rows are there, its last one comes after a sleep.

Tests that end, cancel or outlast a statement wait for its rows, not for a moment by which it should have begun.
"""

from __future__ import annotations

import threading
from typing import Any

import psycopg

SAFETY = 300.0  # seconds until what hangs is given up


def sleeping(seconds: float) -> str:
    """Three rows larger than what PostgreSQL holds back, and a fourth some seconds later."""
    return f"SELECT repeat('x', 20000) FROM generate_series(1, 4) AS g, LATERAL pg_sleep(CASE g WHEN 4 THEN {seconds} ELSE 0 END)"


class Running(threading.Thread):
    """Begins at once, and waits until it runs. `outcome`: `done`; or the SQLSTATE; or `lost`."""

    def __init__(self, connection: psycopg.Connection[Any], seconds: float) -> None:
        super().__init__(daemon=True)
        self.outcome = ""
        self._connection, self._sql, self._begun = connection, sleeping(seconds), threading.Event()
        self.start()
        assert self._begun.wait(SAFETY), "it never began"

    def run(self) -> None:
        try:
            for _ in self._connection.cursor().stream(self._sql):
                self._begun.set()
            self.outcome = "done"
        except psycopg.Error as error:
            self.outcome = error.sqlstate or "lost"

    def ended(self) -> str:
        """How."""
        self.join(SAFETY)
        assert not self.is_alive()
        return self.outcome

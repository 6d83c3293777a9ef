"""Analysts at work: each asks from a list of questions, in a session of their own, at the same time as the others.

Knows: psycopg, the machine room. Must not know: what happens to the proxy meanwhile: whatever comes back is counted.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Final

import psycopg
from week_world import World

QUESTIONS: Final = {
    "ada": ("SELECT count(*) FROM people", "SELECT region, count(*) FROM people GROUP BY 1", "SELECT * FROM dpproxy.budget"),
    "eve": ("SELECT region, count(*) FROM people GROUP BY 1", "SELECT sum(income) FROM people", "SELECT id FROM people"),
    "ben": (
        "SELECT town, count(*) FROM patients GROUP BY 1 ORDER BY 1",
        "SELECT count(*) FROM patients",
        "SELECT * FROM patients",
    ),
    "ivy": ("SELECT count(*) FROM patients", "EXPLAIN SELECT avg(born) FROM patients", "SELECT 1"),
}
SAFETY: Final = 120.0
"""Seconds until what hangs is given up."""


class Load:
    """Is one load. `begin` returns when each analyst has had a first answer."""

    def __init__(self, world: World) -> None:
        self.told: Counter[str] = Counter()
        self._world = world
        self._begun = threading.Barrier(len(QUESTIONS) + 1)
        self._threads: list[threading.Thread] = []

    def run(self, each: int) -> Sequence[str]:
        """All of them ask so many questions; what they were told, and how often."""
        self.begin(each)
        return self.end()

    def begin(self, each: int = 100_000) -> None:
        self._threads = [threading.Thread(target=self._work, args=(user, each), daemon=True) for user in QUESTIONS]
        for thread in self._threads:
            thread.start()
        self._begun.wait(SAFETY)

    def end(self) -> Sequence[str]:
        for thread in self._threads:
            thread.join(SAFETY)
            assert not thread.is_alive()
        return [f"{what}: {count}" for what, count in self.told.most_common()]

    def _work(self, user: str, each: int) -> None:
        with self._world.connect(user) as connection:
            connection.add_notice_handler(self._noticed)
            for number in range(each):
                if not self._ask(connection, QUESTIONS[user][number % len(QUESTIONS[user])]):
                    return
                if number == 0:
                    self._begun.wait(SAFETY)

    def _noticed(self, told: psycopg.errors.Diagnostic) -> None:
        text = told.message_primary or ""
        self.told[
            "answers charged" if text.startswith("charged") else "answers reused" if text.startswith("reused") else "notices"
        ] += 1

    def _ask(self, connection: psycopg.Connection[object], statement: str) -> bool:
        """Whether there is still somebody to ask."""
        try:
            connection.execute(statement)  # type: ignore[call-overload]
        except psycopg.Error as error:
            self.told[f"refused {error.sqlstate}" if error.sqlstate else "connections lost"] += 1
            return not connection.closed
        return True

"""`dpproxy` whose sessions on Sail all find the same tables: Sail keeps a catalog in memory for each session.

Knows: where the backend prepares a session. Must not know: tests. `DPPROXY_TEST_TABLES` names a file of statements, separated by
semicolons; each session runs them before anything else. It is started in place of `dpproxy`, and never served to anybody.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dpproxy.backends import spark_session
from dpproxy.cli import app


def load() -> None:
    before, statements = spark_session.prepare, Path(os.environ["DPPROXY_TEST_TABLES"]).read_text().split(";")

    def prepared(session: Any) -> None:
        before(session)
        for statement in filter(str.strip, statements):
            session.sql(statement)

    spark_session.prepare = prepared


if __name__ == "__main__":
    load()
    app()

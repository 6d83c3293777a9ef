"""The table of clients, from what the tests of this folder reported: which client was seen to do what.

A plugin of the test run, loaded by conftest.py. It writes when `$DPPROXY_CLIENT_TABLE` names a file (`scripts/clients`
does): Markdown, one row a client, in the order in which they ran. What was skipped is said under the table.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

COLUMNS = (
    *("answer", "types", "parameters", "prepared", "paging", "transactions"),
    *("errors", "catalog", "copy", "cancel", "pool"),
)

OWN = {
    "test_psql": (
        "psql (bundled)",
        {
            "test_an_answer_with_its_price": "answer",
            "test_bind": "parameters",
            "test_fetch_count": "paging",
            "test_cursors_and_transactions": "transactions",
            "test_refusals_point_at_their_place": "errors",
            "test_the_d_family": "catalog",
            "test_copy": "copy",
        },
    ),
    "test_psycopg": (
        "psycopg 3",
        {
            "test_results": "answer types",
            "test_parameters": "parameters",
            "test_prepared_statements_pay_at_each_execution": "prepared",
            "test_server_side_cursors": "paging",
            "test_transactions": "transactions",
            "test_errors_are_classes": "errors",
            "test_copy_out": "copy",
            "test_cancel": "cancel",
            "test_many_sessions_at_once": "pool",
        },
    ),
    "test_asyncpg": (
        "asyncpg",
        {
            "test_fetch_and_types": "answer types",
            "test_parameters": "parameters",
            "test_prepare_describes_without_spending": "prepared",
            "test_cursors_page": "paging",
            "test_errors_leave_the_session_usable": "errors transactions",
            "test_temp_tables_and_type_introspection": "catalog",
            "test_copy_from_query": "copy",
            "test_timeout_cancels": "cancel",
            "test_a_pool_resets_its_sessions": "pool",
        },
    ),
    "test_pg8000": (
        "pg8000",
        {
            "test_rows_and_columns": "answer types",
            "test_parameters": "parameters",
            "test_prepared": "prepared",
            "test_dbapi_transactions": "transactions",
            "test_errors": "errors",
        },
    ),
}
"""Tests with a module of their own: the client, and what each test shows."""


@dataclass
class Row:
    version: str = ""
    cells: dict[str, bool] = field(default_factory=dict)
    skipped: str = ""

    def saw(self, column: str, worked: bool) -> None:
        self.cells[column] = worked and self.cells.get(column, True)


class Matrix:
    def __init__(self, target: Path) -> None:
        self._target = target
        self._rows: dict[str, Row] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        module, _, test = report.nodeid.partition("::")
        name = Path(module).stem
        if name == "test_drivers":
            self._driver(report, test.partition("[")[2].rstrip("]"))
        elif name in OWN and report.when == "call":
            client, shows = OWN[name]
            for column in shows.get(test.partition("[")[0], "").split():
                self._rows.setdefault(client, Row()).saw(column, report.passed)

    def _driver(self, report: pytest.TestReport, test: str) -> None:
        properties: dict[str, Any] = dict(report.user_properties)
        if report.skipped:
            self._rows[test.replace("-", " ")] = Row(skipped=str(report.longrepr[2]) if report.longrepr else "skipped")
        elif report.when == "call" and "client" in properties:
            row = self._rows.setdefault(properties["client"], Row())
            row.version = properties["version"]
            for column, worked in properties["checks"].items():
                row.saw(column, worked)

    def pytest_sessionfinish(self) -> None:
        self._target.write_text(self.text())

    def text(self) -> str:
        lines = ["| client | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
        for name, row in self._rows.items():
            if not row.skipped:
                cells = [{True: "yes", False: "**no**", None: ""}[row.cells.get(column)] for column in COLUMNS]
                lines.append(f"| {name} {row.version} | ".replace("  ", " ") + " | ".join(cells) + " |")
        lines += ["", *(f"Not run: {name} ({row.skipped})" for name, row in self._rows.items() if row.skipped)]
        return "\n".join(lines).rstrip() + "\n"


def pytest_configure(config: pytest.Config) -> None:
    target = os.environ.get("DPPROXY_CLIENT_TABLE")
    if target and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Matrix(Path(target)), "dpproxy-clients")

"""The table of clients, from what the tests of this folder reported: which client was seen to do what.

A plugin of the test run, loaded by conftest.py. It writes when `$DPPROXY_CLIENT_TABLE` names a file (`scripts/clients`
does): Markdown, one row a client, then one row for each driver's own tests. What was skipped is said under the tables.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

COLUMNS = (
    *("answer", "types", "parameters", "prepared", "paging", "transactions"),
    *("errors", "catalog", "previews", "copy", "cancel", "pool"),
)

OWN = {
    "test_psql": (
        "psql (of the facade)",
        {
            "test_an_answer_with_its_price": "answer",
            "test_bind": "parameters prepared",
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
            "test_types_are_looked_up": "catalog",
            "test_copy_out": "copy",
            "test_previews": "previews",
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
            "test_dbapi_transactions": "transactions paging",
            "test_errors": "errors",
            "test_catalog": "catalog",
            "test_copy": "copy",
        },
    ),
}
"""Tests with a module of their own: the client, and what each test shows."""

PACKAGES = {"psycopg 3": "psycopg", "asyncpg": "asyncpg", "pg8000": "pg8000"}
"""Of those, the packages that know their version."""


STRANGERS = ("passed", "failed", "left out", "skipped by itself")


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
        self._notes: list[str] = []
        self._strangers: dict[str, dict[str, int]] = {}
        self._skipped: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        module, _, test = report.nodeid.partition("::")
        name, case = Path(module).stem, test.partition("[")[2].rstrip("]")
        if report.skipped and name in ("test_drivers", "test_strangers", "test_tools"):
            reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else "skipped"
            client = case.replace("-", " ") or test.removeprefix("test_")
            self._skipped[client] = " ".join(reason.removeprefix("Skipped: ").split())
        elif report.when == "call":
            self._saw(name, test.partition("[")[0], report.passed, dict(report.user_properties))

    def _saw(self, module: str, test: str, passed: bool, properties: dict[str, Any]) -> None:
        if "stranger" in properties:
            self._strangers[f"{properties['stranger']} {properties['version']}"] = properties["numbers"]
        elif "client" in properties:
            row = self._rows.setdefault(properties["client"], Row())
            row.version = str(properties["version"]).partition(" ")[0]
            self._notes += [f"{properties['client']}, {note}." for note in properties["notes"]]
            for column, worked in properties["checks"].items():
                row.saw(column, worked)
        elif module in OWN:
            client, shows = OWN[module]
            row = self._rows.setdefault(client, Row())
            if client in PACKAGES:
                row.version = version(PACKAGES[client])
            for column in shows.get(test, "").split():
                row.saw(column, passed)

    def pytest_sessionfinish(self) -> None:
        self._target.write_text(self.text())

    def text(self) -> str:
        lines = ["| client | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
        for name, row in sorted(self._rows.items(), key=lambda item: item[0].lower()):
            cells = [{True: "yes", False: "**no**", None: ""}[row.cells.get(column)] for column in COLUMNS]
            lines.append(f"| {name} {row.version} | ".replace("  ", " ") + " | ".join(cells) + " |")
        lines += ["", *self._notes] if self._notes else []
        if self._strangers:
            lines += [
                "",
                "Drivers' own tests, from their source distributions or repositories (`tests/clients/strangers.toml`):",
                "",
            ]
            lines += ["| tests of | " + " | ".join(STRANGERS) + " |", "|---" * (len(STRANGERS) + 1) + "|"]
            for name, numbers in self._strangers.items():
                lines.append(f"| {name} | " + " | ".join(str(numbers[column]) for column in STRANGERS) + " |")
        lines += ["", *(f"Not tried: {name} ({reason})" for name, reason in self._skipped.items())]
        return "\n".join(lines).rstrip() + "\n"


def merged(old: str, new: str) -> str:
    """The table with the rows of a run that tried some clients only; what it did not try stays as it was."""
    (columns, before), (now, tried) = _parsed(old), _parsed(new)
    columns = [column for column in COLUMNS if column in {*columns, *now}]
    rows = {_client(name): (name, cells) for name, cells in (*before, *tried)}
    lines = ["| client | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, cells in sorted(rows.values(), key=lambda row: row[0].lower()):
        lines.append(f"| {name} | " + " | ".join(cells.get(column, "") for column in columns) + " |")
    _, gap, rest = old.partition("\n\n")
    return "\n".join(lines) + (gap + rest if gap else "\n")


def _client(name: str) -> str:
    """Without its version, which is the last word if it has one."""
    client, _, last = name.rpartition(" ")
    return client if last[:1].isdigit() else name


def _parsed(text: str) -> tuple[list[str], list[tuple[str, dict[str, str]]]]:
    """Columns and rows of the first table in a text."""
    lines = [line.strip("| ").split("|") for line in text.partition("\n\n")[0].splitlines() if line.startswith("|")]
    columns = [cell.strip() for cell in lines[0]][1:]
    rows = [[cell.strip() for cell in line] for line in lines[2:]]
    return columns, [(row[0], dict(zip(columns, row[1:], strict=False))) for row in rows]


def pytest_configure(config: pytest.Config) -> None:
    target = os.environ.get("DPPROXY_CLIENT_TABLE")
    if target and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Matrix(Path(target)), "dpproxy-clients")

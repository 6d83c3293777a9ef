"""Every event of the code is in the list, with every field it is written with."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import dpproxy
from dpproxy.telemetry.events import COMMON, EVENTS, FIELDS

SOURCE = Path(dpproxy.__file__).parent
METHODS = {"debug", "info", "warning", "error", "exception", "critical"}


def written(tree: ast.AST) -> Iterator[tuple[str, set[str], bool]]:
    """Each line that is logged by structlog: its event, the fields that are spelled, and whether there are more."""
    local = {
        node.targets[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and "LOG." in ast.unparse(node.value)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = ast.unparse(node.func)
        logs = called in local or (called.startswith("LOG.") and called.removeprefix("LOG.") in METHODS)
        if logs and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
            names = {keyword.arg for keyword in node.keywords if keyword.arg is not None}
            yield node.args[0].value, names, any(keyword.arg is None for keyword in node.keywords)


def found() -> list[tuple[str, set[str], bool]]:
    """Of files that log by structlog; Python's own module has texts, no events."""
    files = [path for path in SOURCE.rglob("*.py") if "LOG = structlog" in path.read_text()]
    assert len(files) > 10
    return [line for path in files for line in written(ast.parse(path.read_text()))]


def test_every_event_and_field_is_in_the_list_and_the_other_way_round() -> None:
    lines = found()
    assert {name for name, _, _ in lines} == set(EVENTS)
    for name, fields, more in lines:
        known = EVENTS[name]
        assert fields <= {*known.fields, *known.optional}, name
        assert more or {*known.fields} - fields <= {"error", "trace"}, name


def test_every_field_is_explained_and_used() -> None:
    used = {field for event in EVENTS.values() for field in (*event.fields, *event.optional)}
    assert used == set(FIELDS)
    assert not used & set(COMMON)


def test_a_line_is_found() -> None:
    tree = ast.parse('write = LOG.error if x else LOG.info\nwrite("a", b=1)\nLOG.info("c", **d)\nother("e")')
    assert list(written(tree)) == [("a", {"b"}, False), ("c", set(), True)]

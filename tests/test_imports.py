"""Imports point down: a file may import its own room and rooms below it, nothing else; no file is part of a circle.

Knows: the rooms and their ranks (docs/architecture.md). Must not know: what the code does. A room is named by the longest prefix
of a module's name that has a rank; a file without a room fails, so that nobody opens a heap. Rooms of one rank are strangers:
neither imports the other. Imports inside functions and under TYPE_CHECKING count like any other, since a reader has to follow
them too; so does the place of a late command, as in "dpproxy.cli:policy_app".
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "dpproxy"

ORDER: tuple[str, ...] = (
    "errors amounts budget_windows table_terms derived_keys late_commands postgres_connections waiting_places",
    "private_files local listeners",
    "wire telemetry policy collect",
    "operations sql",
    "facade tree privacy decoding",
    "kernel mechanisms ledger limits",
    "records",
    "plan.model plan.context",
    "plan.known_tables plan.refusals",
    "plan.operations",
    "plan.properties",
    "plan.functions",
    "plan.rewrite plan.intervals.arithmetic engines",
    "plan.measure",
    "plan.intervals",
    "plan.bind",
    "plan.outer plan.report",
    "plan.previews plan.signals",
    "plan.pipeline",
    "backends",
    "acceleration reuse",
    "answers",
    "review session console bookkeeping collector",
    "server",
    "serve",
    "authoring admin",
    "audit prepare",
    "demo_reports",
    "cli demo",
    "__main__",
)
"""Rooms from the ground up, a line a rank."""

RANKS: Mapping[str, int] = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms.split()}

ARITHMETIC = ("privacy", "mechanisms", "ledger", "records")
"""The rooms of the guarantee's numbers: they know neither SQL trees, nor engines, nor the planner."""

FORBIDDEN: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (ARITHMETIC, ("sqlglot", "duckdb", "dpproxy.policy", "dpproxy.wire", "dpproxy.telemetry", "dpproxy.operations")),
    (("privacy", "local", "collect"), ("numpy",)),
    (("tree", "plan.properties", "plan.measure", "plan.intervals.arithmetic"), ("sqlglot", "dpproxy.engines")),
    (("tree", "kernel"), ("sqlglot", "dpproxy.wire", "dpproxy.facade", "dpproxy.telemetry")),
    (
        ("plan", "engines"),
        ("dpproxy.facade", "dpproxy.mechanisms", "dpproxy.ledger", "dpproxy.records", "dpproxy.limits", "dpproxy.wire"),
    ),
    (("session", "server"), ("dpproxy.backends", "dpproxy.mechanisms")),
)
"""Rooms, and what no file of theirs imports itself. Only `answers` sees plan, ledger, engine and mechanism together."""

PURE = ("wire", "sql", "privacy", "tree", "kernel", "engines", "plan", "policy", "mechanisms", "local", "decoding")
IO_MODULES = {"asyncio", "socket", "subprocess", "sqlite3", "asyncpg", "duckdb", "threading", "random", "secrets"}
"""What pure rooms must not import: IO, threads, and generators other than the operating system's."""
PURE_EXCEPT = {("wire.protocol", "asyncio"), ("wire.scram", "secrets"), ("policy.password", "secrets")}
LATE = re.compile(r"dpproxy(\.\w+)+:\w+")
"""What a string looks like that names a function to be imported later (`dpproxy.late_commands`)."""


LONGEST = 38
"""Files that the longest chain of imports may have, from the command line to the ground. Half of it is the planner's."""

BELOW: Mapping[str, int] = {
    "dpproxy.kernel.verdict": 16,  # a policy says how columns were randomised: the rational numbers of `local` are below it
    "dpproxy.ledger.journal": 9,
    "dpproxy.mechanisms.release": 8,
}
"""Files in the longest chain below each."""


def room_of(module: str) -> str | None:
    """`dpproxy.plan.bind.joins` -> `plan.bind`; None where no room holds the module."""
    parts = module.split(".")[1:]
    names = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((name for name in names if name in RANKS), None)


@cache
def trees() -> Mapping[str, ast.Module]:
    """The syntax tree of each file, by module name without `__init__`."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text())
    return found


@cache
def named(tree: ast.Module) -> tuple[str, ...]:
    """All that a file imports, wherever in it: `from a import b` gives `a.b`."""
    return tuple(_named(tree))


def _named(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the direction"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and LATE.fullmatch(node.value):
            yield node.value.replace(":", ".")


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """The files that each file of ours imports, itself left out."""
    found = {}
    for module, tree in trees().items():
        files = {name if name in trees() else name.rpartition(".")[0] for name in named(tree) if name.startswith("dpproxy.")}
        found[module] = frozenset(files - {module, "dpproxy"})
    return found


def complaint(module: str, imported: str) -> str | None:
    """Why a file may not import another; None when it may."""
    mine, other = room_of(module), room_of(imported)
    if mine is None or other is None:
        return f"{module if mine is None else imported} is in no room"
    return None if mine == other or RANKS[other] < RANKS[mine] else f"{module} imports {imported}"


def circles(graph: Mapping[str, frozenset[str]]) -> list[list[str]]:
    """Groups of files that import each other, by any way round (Tarjan's strongly connected components)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        path.append(node)
        for other in sorted(graph[node]):
            if other not in number:
                visit(other)
            if other in path:
                low[node] = min(low[node], low[other])
        if low[node] == number[node]:
            circle = path[path.index(node) :]
            del path[path.index(node) :]
            found.extend([sorted(circle)] if len(circle) > 1 else [])

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return found


def longest_chain(graph: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """The longest way down a graph without circles: each file imports the next."""
    ways: dict[str, tuple[str, ...]] = {}

    def way(node: str) -> tuple[str, ...]:
        if node not in ways:
            ways[node] = (node, *max(map(way, sorted(graph[node])), key=len, default=()))
        return ways[node]

    return max(map(way, sorted(graph)), key=len)


def test_imports_point_down() -> None:
    up = {(m, i) for m, files in imports().items() if m != "dpproxy" for i in files if complaint(m, i)}
    assert not up


def test_no_circles() -> None:
    assert not circles(imports())


def test_no_chain_of_imports_grows() -> None:
    """A reader of the first file has the whole chain below it: it may get shorter, and `LONGEST` with it."""
    chain = longest_chain(imports())
    assert len(chain) <= LONGEST, " > ".join(chain)


def test_no_chain_below_a_door_grows() -> None:
    """Whoever reads the door, the kernel's verdict or the journal knows how far down that goes."""
    for file, most in BELOW.items():
        below, todo = {file}, [file]
        while todo:
            new = imports()[todo.pop()] - below
            below |= new
            todo += new
        chain = longest_chain({node: imports()[node] for node in below})
        assert len(chain) <= most, " > ".join(chain)


def is_forbidden(module: str, name: str) -> bool:
    """Whether a file may not import a name, though its room is higher."""
    return any(
        any(f"{module}.".startswith(f"dpproxy.{room}.") for room in rooms)
        and any(f"{name}.".startswith(f"{m}.") for m in modules)
        for rooms, modules in FORBIDDEN
    )


def test_what_rooms_must_not_know() -> None:
    guilty = [
        f"{module} imports {name}" for module, tree in trees().items() for name in named(tree) if is_forbidden(module, name)
    ]
    assert guilty == []


def test_what_runs_on_devices_needs_the_standard_library_alone() -> None:
    guilty = [
        f"{module} imports {name}"
        for module, tree in trees().items()
        if room_of(module) in ("local", "collect")
        for name in named(tree)
        if name.split(".")[0] not in sys.stdlib_module_names and not name.startswith(("dpproxy.local.", "dpproxy.collect."))
    ]
    assert guilty == []


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("plan.pipeline", "dpproxy.mechanisms.release"),
        ("plan.measure.compiler", "dpproxy.ledger.ledger"),
        ("privacy.loss", "dpproxy.policy.model"),
        ("session.client", "dpproxy.mechanisms.release"),
        ("tree.expr", "sqlglot.exp"),
        ("plan.measure.compiler", "dpproxy.engines.measured"),
    ],
)
def test_what_is_forbidden_is_seen(module: str, name: str) -> None:
    assert is_forbidden(f"dpproxy.{module}", name)


def test_pure_rooms_import_no_io() -> None:
    """Loading a policy reads its file by `pathlib`; that is all the IO pure rooms have."""
    guilty = {
        (module.removeprefix("dpproxy."), name.split(".")[0])
        for module, tree in trees().items()
        if any(module.startswith(f"dpproxy.{room}.") for room in PURE)
        for name in named(tree)
        if name.split(".")[0] in IO_MODULES
    }
    assert guilty <= PURE_EXCEPT


def test_no_private_name_crosses_a_file() -> None:
    guilty = [
        f"{module} imports {name}"
        for module, tree in trees().items()
        for name in named(tree)
        if name.startswith("dpproxy.") and name.rpartition(".")[2].startswith("_") and not name.endswith("__")
    ]
    assert guilty == []


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("wire.framing", "session.link"),
        ("wire.framing", "policy.model"),
        ("kernel.verdict", "mechanisms.release"),
        ("ledger.ledger", "reuse.lookup"),
        ("plan.measure.compiler", "budget.ledger"),
        ("plan.logical.expr", "plan.bind.joins"),
        ("plan.rewrite.rules", "plan.engines.base"),
        ("mechanisms.release", "plan.model"),
        ("privacy.loss", "plan.model"),
        ("backends.duckdb", "answers.answering"),
        ("session.client", "console.metrics"),
        ("session.client", "unheard_of.file"),
    ],
)
def test_the_test_sees_what_points_up(module: str, imported: str) -> None:
    assert complaint(f"dpproxy.{module}", f"dpproxy.{imported}")


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("sql.types", "policy.model"),
        ("plan.pipeline", "plan.bind.joins"),
        ("ledger.ledger", "privacy.loss"),
        ("backends.duckdb", "mechanisms.release"),
        ("session.client", "facade.server"),
        ("policy.model", "errors"),
    ],
)
def test_and_leaves_the_rest_alone(module: str, imported: str) -> None:
    assert complaint(f"dpproxy.{module}", f"dpproxy.{imported}") is None


def test_late_imports_are_imports() -> None:
    assert "dpproxy.serve.serve_command" in imports()["dpproxy.cli"]
    assert "dpproxy.authoring.check_command" in imports()["dpproxy.cli"]


def test_the_longest_way_is_found() -> None:
    graph = {"a": frozenset("bd"), "b": frozenset("c"), "c": frozenset("d"), "d": frozenset(), "e": frozenset("d")}
    assert longest_chain(graph) == ("a", "b", "c", "d")


def test_circles_are_found() -> None:
    graph = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("ad"), "d": frozenset(), "e": frozenset("d")}
    assert circles(graph) == [["a", "b", "c"]]

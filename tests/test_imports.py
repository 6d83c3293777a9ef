"""Imports point down: a module may import its own room and rooms of lower rank, nothing else (ARCHITECTURE section 4).

To add a room, give it a rank here. A room without a rank fails: what is not known is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "dpproxy"

RANKS = {
    "errors": -1,
    "wire": 0,
    "policy": 0,
    "sql": 0,
    "plan": 1,
    "mechanisms": 2,
    "backends": 3,
    "budget": 3,
    "facade": 3,
    "session": 4,
    "console": 5,
    "audit": 5,
    "memory": 5,
    "launch": 6,
    "demo_data": 6,
    "serving": 6,
    "bookkeeping": 6,
    "runtime": 6,
    "processes": 7,
    "cli": 8,
    "demo": 8,
}

SIDEWAYS = {("sql", "policy")}
"""Imports between rooms of one rank that are meant: the allow-list of functions knows the policy's value types."""

PURE = {"wire", "sql", "plan", "policy", "mechanisms"}
IO_MODULES = {"asyncio", "socket", "subprocess", "sqlite3", "asyncpg", "duckdb", "threading", "random", "secrets"}
"""What pure rooms must not import: IO, threads, and generators other than the operating system's."""

PURE_EXCEPT = {("wire", "protocol", "asyncio"), ("wire", "scram", "secrets"), ("policy", "password", "secrets")}


def room_of(module: str) -> str | None:
    """`dpproxy.wire.framing` -> `wire`; the package itself belongs to nobody."""
    parts = module.split(".")
    return parts[1] if parts[0] == "dpproxy" and len(parts) > 1 else None


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the direction"
            base = node.module or ""
            yield from (f"{base}.{alias.name}" for alias in node.names) if base == "dpproxy" else (base,)


def modules() -> list[tuple[str, str, ast.Module]]:
    """(room, module within it, tree) of every module but the package's own `__init__`."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        inside = path.relative_to(ROOT).with_suffix("").parts
        if inside != ("__init__",) and inside != ("__main__",):
            found.append((inside[0], ".".join(inside[1:]), ast.parse(path.read_text())))
    return found


def complaint(room: str, module: str) -> str | None:
    """Why `room` may not import `module`; None when it may."""
    target = room_of(module)
    if target is None or target == room or target == "__version__":
        return None
    if target not in RANKS:
        return f"{module}: no rank"
    if RANKS[target] < RANKS[room] or (room, target) in SIDEWAYS:
        return None
    return f"{room} imports {module}"


def test_every_room_has_a_rank() -> None:
    assert {room for room, _, _ in modules()} <= set(RANKS)


def test_imports_point_down() -> None:
    complaints = [
        f"{room}.{name}: {why}" for room, name, tree in modules() for module in imported(tree) if (why := complaint(room, module))
    ]
    assert complaints == []


def test_pure_rooms_import_no_io() -> None:
    """Loading a policy reads its file by `pathlib`; that is all the IO pure rooms have."""
    guilty = {
        (room, name, module.split(".")[0])
        for room, name, tree in modules()
        if room in PURE
        for module in imported(tree)
        if module.split(".")[0] in IO_MODULES
    }
    assert guilty <= PURE_EXCEPT


@pytest.mark.parametrize(
    ("room", "module"),
    [
        ("wire", "dpproxy.session.relay"),
        ("wire", "dpproxy.policy.model"),
        ("plan", "dpproxy.mechanisms.exact"),
        ("plan", "dpproxy.backends.duckdb"),
        ("backends", "dpproxy.budget.ledger"),
        ("facade", "dpproxy.session"),
        ("session", "dpproxy.console"),
        ("session", "dpproxy.unheard_of"),
    ],
)
def test_the_test_sees_what_points_up(room: str, module: str) -> None:
    assert complaint(room, module)


@pytest.mark.parametrize(
    ("room", "module"),
    [
        ("sql", "dpproxy.policy.model"),
        ("plan", "dpproxy.plan.loss"),
        ("budget", "dpproxy.plan.loss"),
        ("backends", "dpproxy.mechanisms.exact"),
        ("session", "dpproxy.facade.server"),
        ("policy", "dpproxy.errors"),
        ("wire", "struct"),
    ],
)
def test_and_leaves_the_rest_alone(room: str, module: str) -> None:
    assert complaint(room, module) is None

"""The rooms of the guarantee: what they pull in, and how many lines an auditor reads, as two pages of docs/ say.

Knows: files, imports, lines. Must not know: what the rooms do. Imports are looked at in a fresh interpreter, so that what a file
of theirs imports by way of others counts too.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("privacy", "mechanisms", "ledger")
DOOR = "dpproxy.mechanisms.release"
NOT_THEIRS = (
    "sqlglot",
    "duckdb",
    "dpproxy.plan",
    "dpproxy.policy",
    "dpproxy.reuse",
    "dpproxy.answers",
    "dpproxy.backends",
    "dpproxy.session",
)


@cache
def imported(*modules: str) -> dict[str, str]:
    """All modules that a fresh interpreter has after importing these, with their files."""
    script = "import sys, importlib\nfor name in sys.argv[1:]: importlib.import_module(name)\n"
    script += "for name, module in list(sys.modules.items()): print(name, getattr(module, '__file__', None) or '')"
    output = subprocess.run([sys.executable, "-c", script, *modules], check=True, capture_output=True, text=True, cwd=ROOT)
    return dict(line.split(" ", 1) for line in output.stdout.splitlines())


def files_of(room: str) -> list[Path]:
    return sorted((ROOT / "dpproxy" / room).rglob("*.py"))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def code(path: Path) -> int:
    """Lines that are neither empty, nor a comment, nor part of a docstring."""
    text = path.read_text()
    docs = {
        number
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    numbered = enumerate(text.splitlines(), 1)
    return sum(1 for number, line in numbered if line.strip() and not line.strip().startswith("#") and number not in docs)


def foreign(modules: dict[str, str]) -> list[str]:
    return sorted(name for name in modules if any(name == f or name.startswith(f + ".") for f in NOT_THEIRS))


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_of_the_guarantee_pulls_in_no_planner(room: str) -> None:
    """Neither sqlglot, nor an engine, nor the planner, also not by way of other files."""
    modules = [module_of(path) for path in files_of(room)]
    assert len(modules) > 5
    assert foreign(imported(*modules)) == []


def test_the_door_pulls_in_no_generator_either() -> None:
    """The library and the operating system's generator are behind the `Noise` that the door is given."""
    modules = imported(DOOR)
    assert DOOR in modules
    assert foreign(modules) == []
    assert not {"opendp", "secrets", "dpproxy.mechanisms.noise_sources", "dpproxy.mechanisms.sampler"} & set(modules)


def test_what_is_foreign_would_be_seen() -> None:
    assert "dpproxy.plan.pipeline" in foreign(imported("dpproxy.plan.pipeline"))


GROUND = {path.stem for path in (ROOT / "dpproxy").glob("*.py")}
GUARANTEE = ("tree", "privacy", "mechanisms", "kernel", "ledger")
OTHERS = {("privacy.measurement", "sql.template"), ("privacy.readings", "sql.template"), ("tree.spelling", "sql.template")} | {
    ("kernel.leaves", module) for module in ("policy.catalog", "policy.data_claims", "policy.model")
}
"""What the rooms of the guarantee import of rooms that are not theirs: texts with holes, and the policy whose claims the leaves
of a tree rest on."""
REPORTS = ("local", "decoding")
"""Rooms of reports, which devices have randomised: what is computed there, anybody may have. The kernel's rule and the second door
keep them apart from people."""


def test_the_guarantee_imports_its_own_rooms_and_the_ground() -> None:
    found = {
        (module_of(path).removeprefix("dpproxy."), node.module.removeprefix("dpproxy."))
        for room in GUARANTEE
        for path in files_of(room)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dpproxy.")
    }
    assert {(file, name) for file, name in found if name.split(".")[0] not in {*GUARANTEE, *GROUND, *REPORTS}} == OTHERS


def counted() -> dict[str, int]:
    """The figures of the sentence in docs/concepts/promise.md, by the words before or after them."""
    rooms = [path for room in ROOMS for path in files_of(room)]
    door = [Path(file) for name, file in imported(DOOR).items() if name.split(".")[0] == "dpproxy"]
    return {
        r"`dpproxy/ledger`, ([\d,]+) lines": sum(map(lines, rooms)),
        r"lines \(([\d,]+) without": sum(map(code, rooms)),
        r"of ours that it imports, is ([\d,]+) lines": sum(map(lines, door)),
        r"`dpproxy/records`, ([\d,]+) lines": sum(map(lines, files_of("records"))),
    }


def said(page: str, pattern: str) -> int:
    found = re.search(pattern, re.sub(r"\s+", " ", (ROOT / page).read_text()))
    assert found, f"{page} does not say {pattern}"
    return int(found[1].replace(",", ""))


def test_the_promise_says_how_much_there_is_to_read() -> None:
    """Within a tenth: a reader decides by it whether to begin."""
    for pattern, number in counted().items():
        assert abs(said("docs/concepts/promise.md", pattern) / number - 1) < 0.1, f"{pattern}: there are {number}"


def test_the_architecture_page_says_the_same() -> None:
    (_, number), *_ = counted().items()
    assert abs(said("docs/architecture.md", r"below `dpproxy/`: ([\d,]+) lines") / number - 1) < 0.1
    kernel = files_of("kernel")
    assert abs(said("docs/architecture.md", r"`kernel/`: ([\d,]+) lines") / sum(map(lines, kernel)) - 1) < 0.02
    assert abs(said("docs/architecture.md", r"lines \(([\d,]+) without docstrings") / sum(map(code, kernel)) - 1) < 0.02


def test_the_kernel_is_read_in_an_afternoon() -> None:
    assert sum(map(code, files_of("kernel"))) < 1_800


def test_the_guarantee_is_read_in_two_days() -> None:
    assert sum(lines(path) for room in GUARANTEE for path in files_of(room)) < 10_500

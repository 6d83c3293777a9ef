"""What dpproxy needs is declared once as a range, and what it is tested with once as a version.

Knows: pyproject.toml, constraints.txt, the imports of `dpproxy`. Must not know: what the packages do. pyproject.toml has ranges,
so that dpproxy can be installed beside other things; constraints.txt has pins, so that everybody tests the same. Tools of who
works on dpproxy stand without a version, which is in constraints.txt.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT: Final = Path(__file__).resolve().parents[1]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: Final = PROJECT["optional-dependencies"]
TOOLS: Final = ("docs", "containers", "dev")
USED: Final = [Requirement(line) for name in EXTRAS if name not in TOOLS for line in EXTRAS[name]] + [
    Requirement(line) for line in PROJECT["dependencies"]
]
WITHOUT_A_VERSION: Final = [Requirement(line) for name in TOOLS for line in EXTRAS[name]]


def pins(text: str) -> dict[str, Version]:
    lines = (line.split("==") for line in text.splitlines())
    return {canonicalize_name(name): Version(version) for name, version in lines}


PINS: Final = pins((ROOT / "constraints.txt").read_text())


def problem_of(requirement: Requirement, tested: dict[str, Version]) -> str:
    """What is wrong with a range, or nothing: it begins at the tested version and has an end that is another one."""
    pin = tested.get(canonicalize_name(requirement.name))
    bounds = {bound.operator: Version(bound.version) for bound in requirement.specifier}
    if pin is None:
        return "has no pin"
    if set(bounds) != {">=", "<"}:
        return "is no range"
    if pin not in requirement.specifier:
        return "does not hold its pin"
    return "" if bounds[">="] == pin else "begins at a version that is not tested"


@pytest.mark.parametrize("requirement", USED, ids=str)
def test_a_range_begins_at_what_is_tested(requirement: Requirement) -> None:
    assert problem_of(requirement, PINS) == ""


@pytest.mark.parametrize("tool", WITHOUT_A_VERSION, ids=str)
def test_a_tool_has_its_version_in_one_place(tool: Requirement) -> None:
    assert not tool.specifier
    assert canonicalize_name(tool.name) in PINS


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("lib>=1.2.0,<2", ""),
        ("lib==1.2.0", "is no range"),
        ("lib>=1.2.0", "is no range"),
        ("lib>=1.1,<2", "begins at a version that is not tested"),
        ("lib>=1.3,<2", "does not hold its pin"),
        ("other>=1,<2", "has no pin"),
    ],
)
def test_wrong_ranges_are_seen(line: str, problem: str) -> None:
    assert problem_of(Requirement(line), pins("lib==1.2.0")) == problem


def late_imports(node: ast.AST) -> Iterator[ast.Constant]:
    """The names that `import_module` and `find_spec` take."""
    match node:
        case ast.Call(func=ast.Attribute(attr="import_module" | "find_spec"), args=[ast.Constant() as name, *_]):
            yield name


@cache
def imported() -> tuple[tuple[str, str], ...]:
    """Packages that `dpproxy` imports from elsewhere, with the file."""
    return tuple(_imported())


def _imported() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "dpproxy").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [arg.value for arg in late_imports(node)]
            for name in {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"dpproxy"}:
                yield name, path.relative_to(ROOT).as_posix()


ABSENT: Final = {"pysail": "pysail", "pyspark": "pyspark-client", "grpc": "grpcio"}
"""What extras bring that need not be installed where the tests run: the package, and what brings it."""


def test_what_is_imported_is_declared() -> None:
    """And not brought along by something else, which may drop it."""
    declared = {canonicalize_name(requirement.name) for requirement in USED}
    bring = packages_distributions()
    assert [
        f"{path}: {package}"
        for package, path in imported()
        if not declared & {canonicalize_name(name) for name in bring.get(package, [ABSENT.get(package, "")])}
    ] == []


def test_what_is_declared_is_imported() -> None:
    """Beside what pyspark-client asks for and does not declare itself."""
    for_others = {"protobuf", "googleapis-common-protos", "grpcio-status", "pandas", "zstandard", "pysail"}
    bring = packages_distributions()
    used = {canonicalize_name(name) for package, _ in imported() for name in bring.get(package, [ABSENT.get(package, package)])}
    assert {canonicalize_name(requirement.name) for requirement in USED} - used - for_others == set()
    assert len(used) > 15

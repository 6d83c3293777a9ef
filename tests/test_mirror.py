"""Every file of ours has tests of its own: `test_<file>.py` in its room's folder, or fixtures of its name.

Knows: names of files. Must not know: what the tests say. `dpproxy/plan/bind/joins.py` is tested by `tests/plan/bind/test_joins.py` or by
`tests/plan/fixtures/bind/joins.yaml`; what `tests/plan` holds besides is about the whole planner. Who changes a file finds what to
run, and what nobody tests is seen here. Files with nothing but imports, a docstring and dunder names are exempt.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE, TESTS = ROOT / "dpproxy", ROOT / "tests"


def files() -> Iterator[str]:
    """Our files that hold code, below `dpproxy`."""
    for path in sorted(SOURCE.rglob("*.py")):
        if _has_code(path):
            yield path.relative_to(SOURCE).as_posix()


def _has_code(path: Path) -> bool:
    body = ast.parse(path.read_text()).body
    plain = (ast.Import, ast.ImportFrom)
    return any(not isinstance(part, plain) and not _is_text(part) and not _is_dunder(part) for part in body)


def _is_text(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)


def _is_dunder(part: ast.stmt) -> bool:
    return isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name) and part.targets[0].id.startswith("__")


def own_tests(file: str, root: Path = TESTS) -> list[Path]:
    """The tests of a file, by its name and room: of `engines/__init__.py` `plan/test_engines.py`, of `cli.py` `test_cli.py`."""
    *rooms, name = file.removesuffix("/__init__.py").removesuffix(".py").split("/")
    if not rooms:
        return [*root.glob(f"test_{name}.py"), *root.glob(f"{name}/test_{name}.py")]
    fixtures = root.joinpath(rooms[0], "fixtures", *rooms[1:], f"{name}.yaml")
    folder = root.joinpath(*rooms)
    named = [path for path in _tests(root).get(f"test_{name}.py", ()) if path.is_relative_to(folder)]
    return [*named, *([fixtures] if fixtures.exists() else [])]


@cache
def _tests(root: Path) -> dict[str, list[Path]]:
    """All files of tests, by name."""
    found: dict[str, list[Path]] = {}
    for path in root.rglob("test_*.py"):
        found.setdefault(path.name, []).append(path)
    return found


def test_every_file_has_its_tests() -> None:
    without = [file for file in files() if not own_tests(file)]
    assert without == [], f"no test_<file>.py and no fixtures for {without}"


def test_names_are_looked_for_where_they_belong(tmp_path: Path) -> None:
    for name in (
        "plan/bind/test_joins.py",
        "plan/fixtures/bind/values.yaml",
        "sql/test_trees.py",
        "test_cli.py",
        "demo/test_demo.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    tested = ("plan/bind/joins.py", "plan/bind/values.py", "sql/trees.py", "cli.py", "demo.py")
    assert all(own_tests(file, tmp_path) for file in tested)
    assert not any(
        own_tests(file, tmp_path)
        for file in ("sql/joins.py", "plan/outer/joins.py", "sql/values.py", "trees.py", "plan/model.py")
    )


def test_files_are_found() -> None:
    """A list of no files would pass everything above."""
    assert {"plan/bind/joins.py", "cli.py", "engines/__init__.py"} <= set(files())
    assert "plan/bind/__init__.py" not in set(files())

"""Every room has a folder of tests and every file on the ground a file of tests.

Knows: names of folders. Must not know: what the tests say. `dpproxy/kernel` is tested in `tests/kernel`, `dpproxy/plan/bind`
in `tests/plan/bind` or by fixtures of `tests/plan/fixtures/bind`. A test file may be about several files of its room.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE, TESTS = ROOT / "dpproxy", ROOT / "tests"


def rooms(source: Path = SOURCE) -> Iterator[str]:
    """Folders below `source` that hold files of code, by their path."""
    for init in sorted(source.rglob("__init__.py")):
        room = init.parent.relative_to(source).as_posix()
        if room != "." and any(path.name != "__init__.py" for path in init.parent.glob("*.py")):
            yield room


def room_tests(room: str, tests: Path = TESTS) -> list[Path]:
    """The test files of a room, and its fixtures."""
    parts = room.split("/")
    fixtures = tests.joinpath(parts[0], "fixtures", *parts[1:])
    return [*tests.joinpath(*parts).glob("test_*.py"), *(fixtures.glob("*.yaml") if len(parts) > 1 else ())]


def test_every_room_has_its_tests() -> None:
    assert [room for room in rooms() if not room_tests(room)] == []


def test_every_file_on_the_ground_has_its_tests() -> None:
    names = {path.stem for path in TESTS.rglob("test_*.py")}
    ground = [path.stem for path in sorted(SOURCE.glob("*.py")) if path.stem != "__init__"]
    assert [name for name in ground if f"test_{name}" not in names] == []


def test_rooms_are_found(tmp_path: Path) -> None:
    """A list of no rooms would pass everything above."""
    assert {"plan/bind", "kernel", "ledger", "wire"} <= set(rooms())
    for name in ("source/hall/__init__.py", "source/hall/door.py", "source/empty/__init__.py", "tests/other/test_door.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert list(rooms(tmp_path / "source")) == ["hall"]
    assert room_tests("hall", tmp_path / "tests") == []

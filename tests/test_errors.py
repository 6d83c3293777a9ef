"""SQLSTATEs stand in `dpproxy/errors.py` alone, under PostgreSQL's names: no other file spells one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from dpproxy import errors

ROOT = Path(errors.__file__).parent
CLASSES = [
    "00",
    "01",
    "02",
    "03",
    "08",
    "09",
    "0A",
    "0B",
    "0F",
    "0L",
    "0P",
    "0Z",
    "20",
    "21",
    "22",
    "23",
    "24",
    "25",
    "26",
    "27",
    "28",
    "2B",
    "2D",
    "2F",
    "34",
    "38",
    "39",
    "3B",
    "3D",
    "3F",
    "40",
    "42",
    "44",
    "53",
    "54",
    "55",
    "57",
    "58",
    "72",
    "F0",
    "HV",
    "P0",
    "XX",
]
"""The first two characters of PostgreSQL's SQLSTATEs (its appendix A)."""
SQLSTATE = re.compile(f"(?:{'|'.join(CLASSES)})[0-9A-Z]{{3}}")


def spelled(text: str) -> list[str]:
    """The strings of a file that are SQLSTATEs as a whole."""
    if not SQLSTATE.search(text):
        return []
    strings = (n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return [s for s in strings if SQLSTATE.fullmatch(s)]


def names() -> dict[str, str]:
    """The names of `dpproxy.errors` and the SQLSTATE of each."""
    found = {name: value for name, value in vars(errors).items() if name.isupper() and isinstance(value, str)}
    assert len(found) > 40
    return found


def test_no_file_spells_an_sqlstate() -> None:
    paths = [path for path in sorted(ROOT.rglob("*.py")) if path != Path(errors.__file__)]
    found = {str(path.relative_to(ROOT)): spelled(path.read_text()) for path in paths}
    assert {path: states for path, states in found.items() if states} == {}, "use its name, of dpproxy.errors"
    assert len(found) > 300


def test_an_sqlstate_is_found_where_it_is_spelled() -> None:
    assert spelled('raise Refusal("0A000", "no")') == ["0A000"]
    assert spelled('KNOWN = {"42P01": "53300", "count": "10000"}') == ["42P01", "53300"]
    assert spelled('HINT = "SQLSTATE 42P01"') == []


def test_names_stand_for_sqlstates_each_for_one() -> None:
    assert all(SQLSTATE.fullmatch(value) for value in names().values())
    assert len(set(names().values())) == len(names())


def test_every_name_is_used() -> None:
    texts = [p.read_text() for p in ROOT.rglob("*.py") if p != Path(errors.__file__)]
    unused = [n for n in names() if not any(re.search(rf"\b{n}\b", text) for text in texts)]
    assert unused == []

"""Codes of problems: each has a kind, each is used, and what rests on exact data says so by its name."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

from dpproxy.policy.problems import CODES, Code

ROOT = Path(__file__).resolve().parents[2] / "dpproxy"


def test_each_code_has_a_kind() -> None:
    assert set(CODES) == set(get_args(Code))
    assert all(kind.meaning.endswith(".") for kind in CODES.values())


def test_each_code_is_used() -> None:
    words = set()
    for path in (p for room in ("policy", "review", "serve", "authoring") for p in (ROOT / room).glob("*.py")):
        if path.name != "codes.py":
            words |= {
                n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant) and isinstance(n.value, str)
            }
    assert set(CODES) - words == set()


def test_exact_ones_by_name() -> None:
    assert {code for code, kind in CODES.items() if kind.exact} == {code for code in CODES if code.startswith("data-")}

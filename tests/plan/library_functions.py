"""The functions that generated SQL calls, and those that docs/how-to/postgresql.md says an engine must have."""

from __future__ import annotations

import re
from pathlib import Path

DOC = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "postgresql.md"
_WORDS = """
    and any as between by case cast coalesce count decimal distinct else end exists extract filter first from full greatest group
    having in interval is join last least left like not null nullif nulls on or order over partition right row rows select sum
    then unbounded union values when where with
"""
SYNTAX = frozenset(_WORDS.split())
"""Words that a parenthesis may follow and that are no functions of a library."""


def listed() -> set[str]:
    """The functions of the document: those in backquotes between its two marks."""
    text = DOC.read_text()
    part = text[text.index("<!-- functions -->") : text.index("<!-- /functions -->")]
    return set(re.findall(r"`([a-z_0-9]+)`", part))


def used(sql: str) -> set[str]:
    plain = re.sub(r"'([^']|'')*'|\"([^\"]|\"\")*\"", "''", sql)
    return {name.lower() for name in re.findall(r"\b([A-Za-z_][A-Za-z_0-9]*)\(", plain)} - SYNTAX


def named(sql: str) -> set[str]:
    """The functions of a text, without what the planner itself names."""
    return {name for name in used(sql) if not re.fullmatch(r"[a-z]\d*|declared|strays|dpproxy_.*", name)}

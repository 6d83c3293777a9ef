"""What the generated SQL asks of an engine that calls itself PostgreSQL is what docs/postgresql.md lists, and no more."""

from __future__ import annotations

import re
from pathlib import Path

import plan_harness
import pytest
from fixture_cases import ACCEPTED
from plan_harness import queries, values_of
from test_engine_postgres import EXPRESSIONS, ODD, WHOLE

from dpproxy.errors import Refusal
from dpproxy.policy.catalog import Catalog

DOC = Path(__file__).resolve().parents[2] / "docs" / "postgresql.md"
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
    return {name for name in used(sql) if not re.fullmatch(r"[a-z]\d*|declared|dpproxy_.*", name)}


def test_every_function_is_listed(monkeypatch: pytest.MonkeyPatch, shop_catalog: Catalog) -> None:
    monkeypatch.setattr(plan_harness, "engine", "postgres")
    texts = []
    for case in ACCEPTED:
        made = case.plan(shop_catalog)
        texts += [text for m in made.measurements for text in queries(m, values_of(made, case.values))]
    for sql in [*WHOLE, *(f"SELECT count(*) FROM orders WHERE ({e}) IS NOT NULL" for e in (*EXPRESSIONS, *ODD))]:
        try:
            made = plan_harness.plan(sql, shop_catalog)
        except Refusal:
            continue
        texts += [text for m in made.measurements for text in queries(m, values_of(made))]
    found = {name for text in texts for name in named(text)}
    assert found <= listed(), "what the generated SQL needs of an engine is documented"
    assert len(found) > 30

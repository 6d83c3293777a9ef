"""Regular expressions as functions: what PostgreSQL matches, and a refusal of what engines would match otherwise."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from constant_calls import Args, is_postgresqls, is_refused

from dpproxy.errors import Refusal
from dpproxy.plan.functions import patterns
from dpproxy.tree.expr import Column, Lit, Ref

CALLS: list[tuple[str, Args]] = [
    ("regexp_like", (("text", 'abc'), ("text", '^a.c$'),)),
    ("regexp_like", (("text", 'ABC'), ("text", 'b'), ("text", 'i'),)),
    ("regexp_like", (("text", 'abc'), ("text", 'x|y'),)),
    ("regexp_replace", (("text", 'banana'), ("text", 'a'), ("text", 'o'),)),
    ("regexp_replace", (("text", 'banana'), ("text", '[an]+'), ("text", '-'), ("text", 'g'),)),
    ("regexp_replace", (("text", 'Banana'), ("text", '(b)(a)'), ("text", '\\2\\1'), ("text", 'i'),)),
    ("regexp_substr", (("text", 'a1b22'), ("text", '[0-9]+'),)),
    ("regexp_substr", (("text", 'abc'), ("text", '[0-9]+'),)),
    ("regexp_count", (("text", 'banana'), ("text", 'an'),)),
    ("regexp_count", (("text", ''), ("text", 'a'),)),
]  # fmt: skip
REFUSED: list[tuple[str, Args, str]] = [
    ("regexp_like", (("text", 'a'), ("text", '(a)\\1'),), "0A000"),
    ("regexp_like", (("text", 'a'), ("text", 'a'), ("text", 'x'),), "0A000"),
    ("regexp_replace", (("text", 'a'),), "0A000"),
    ("regexp_like", (("text", 'a'), ("text", '('),), "2201B"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), CALLS)
def test_they_are_postgresqls(name: str, args: Args, postgres: psycopg.Connection[Any]) -> None:
    is_postgresqls(name, args, postgres)


@pytest.mark.parametrize(("name", "args", "sqlstate"), REFUSED)
def test_what_is_refused(name: str, args: Args, sqlstate: str) -> None:
    is_refused(name, args, sqlstate)


def test_every_function_is_tried() -> None:
    assert set(patterns.FUNCTIONS) == {name for name, _ in CALLS}


@pytest.mark.parametrize(("pattern", "named"), [("^[[:alpha:]]+$", "[[:alpha:]"), (r"\bcat", r"\b"), (r"cat\y", r"\y"), ("(?i)cat", "(?i)"),
                                                ("cat(?=s)", "(?="), (r"(a)\1", r"\1"), ("a++", "++")])  # fmt: skip
def test_what_is_not_taken_of_a_pattern_is_named(pattern: str, named: str) -> None:
    with pytest.raises(Refusal) as refused:
        patterns.regex("regex", Ref("text", Column(1, "note", "text")), Lit("unknown", pattern))
    assert refused.value.hint is not None
    assert refused.value.hint.endswith(f" Not taken: `{named}`.")

"""Text functions of the allow-list: the same texts as PostgreSQL makes, or the same refusal."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from constant_calls import Args, is_postgresqls, is_refused

from dpproxy.plan.functions import texts

CALLS: list[tuple[str, Args]] = [
    ("concat_ws", (("text", '-'), ("text", 'a'), ("text", None), ("text", 'b'),)),
    ("concat_ws", (("text", ''), ("text", 'a'), ("text", 'b'),)),
    ("format", (("text", '%s: %s (100%%)'), ("text", 'a'), ("text", 'b'),)),
    ("format", (("text", 'x%sy'), ("text", None),)),
    ("translate", (("text", 'gift'), ("text", 'gi'), ("text", 'G'),)),
    ("overlay", (("text", 'abcdef'), ("text", 'XX'), ("int4", '2'),)),
    ("overlay", (("text", 'abcdef'), ("text", 'XX'), ("int4", '2'), ("int4", '3'),)),
    ("overlay", (("text", 'abc'), ("text", 'XX'), ("int4", '9'), ("int4", '1'),)),
    ("repeat", (("text", 'ab'), ("int4", '3'),)),
    ("repeat", (("text", 'ab'), ("int4", '0'),)),
    ("repeat", (("text", 'ab'), ("int4", '-1'),)),
    ("chr", (("int4", '65'),)),
    ("chr", (("int4", '233'),)),
    ("initcap", (("text", 'hello wORLD-x'),)),
    ("ascii", (("text", 'é'),)),
    ("ascii", (("text", ''),)),
    ("octet_length", (("text", 'é日'),)),
]  # fmt: skip
REFUSED: list[tuple[str, Args, str]] = [
    ("format", (("text", '%s %s'), ("text", 'a'),), "22023"),
    ("overlay", (("text", 'abc'), ("text", 'x'), ("int4", '0'),), "22011"),
    ("chr", (("int4", '0'),), "54000"),
    ("repeat", (("text", 'a'),), "0A000"),
    ("format", (("text", '%I'), ("text", 'a'),), "0A000"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), CALLS)
def test_they_are_postgresqls(name: str, args: Args, postgres: psycopg.Connection[Any]) -> None:
    is_postgresqls(name, args, postgres)


@pytest.mark.parametrize(("name", "args", "sqlstate"), REFUSED)
def test_what_is_refused(name: str, args: Args, sqlstate: str) -> None:
    is_refused(name, args, sqlstate)


def test_every_function_is_tried() -> None:
    assert set(texts.FUNCTIONS) <= {name for name, _ in CALLS}

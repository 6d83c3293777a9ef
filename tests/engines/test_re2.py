r"""Patterns mean on DuckDB what they mean in PostgreSQL: generated patterns over generated texts, letters of many scripts among them."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator

import duckdb
import psycopg
import pytest
from scratch_postgres import scratch_server

from dpproxy.engines.duckdb import DuckDB
from dpproxy.engines.duckdb_operations import translated
from dpproxy.errors import Refusal
from dpproxy.plan.functions.patterns import regex, regexp_count, regexp_matched, regexp_replace, regexp_substr
from dpproxy.tree.expr import Expr, Lit

ATOMS = (
    r"\w",
    r"\W",
    r"\d",
    r"\D",
    r"\s",
    r"\S",
    r"[\w.]",
    r"[^\w]",
    r"[^\d\s]",
    r"[\s,-]",
    "[a-z]",
    "[^a]",
    "a",
    "ß",
    "é",
    ".",
    r"\.",
    "[À-ÿ]",
    "s",
    "K",
    "[k-s]",
    "[^-K]",
    "µ",
)
LETTERS = "aZ09_.-, ßẞsSſkK\u212aµÅ\u212béÄñДжλ中ひ한٣²½ⅧⓐªÅ\u00a0\u2003\u0085\n\t‿€"


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[psycopg.Connection]:
    with (
        scratch_server(tmp_path_factory.mktemp("patterns")) as server,
        psycopg.connect(server.conninfo(), autocommit=True) as connection,
    ):
        yield connection


def pattern(rng: random.Random) -> str:
    atoms = [rng.choice(ATOMS) + rng.choice(("", "", "+", "*", "?", "{2}")) for _ in range(rng.randint(1, 3))]
    text = "".join(atoms)
    text = rng.choice((text, text, f"({text})", f"{text}|{rng.choice(ATOMS)}"))
    return rng.choice(("", "^")) + text + rng.choice(("", "$"))


def forms(text: Lit, form: Lit) -> Iterator[tuple[str, Expr]]:
    """Each function as PostgreSQL spells it, and the expression that is made of it; those that are refused left out."""
    for sql, made in (
        ("%s ~ %s", lambda: regex("regex", text, form)),
        ("%s ~* %s", lambda: regex("iregex", text, form)),
        ("(regexp_match(%s, %s, 'i'))[1]", lambda: regexp_matched((text, form, Lit("text", "i")))),
        ("regexp_substr(%s, %s)", lambda: regexp_substr((text, form))),
        ("regexp_count(%s, %s)", lambda: regexp_count((text, form))),
        ("regexp_replace(%s, %s, '#', 'gi')", lambda: regexp_replace((text, form, Lit("text", "#"), Lit("text", "gi")))),
        ("regexp_replace(%s, %s, '#', 'g')", lambda: regexp_replace((text, form, Lit("text", "#"), Lit("text", "g")))),
    ):
        try:
            yield sql, made()
        except Refusal:
            continue


def test_generated_patterns_match_what_postgresql_matches(postgres: psycopg.Connection) -> None:
    rng, seen = random.Random(37), dict.fromkeys(("~", "~*", "match", "substr", "count", "replace"), 0)
    engine, duck = DuckDB(), duckdb.connect()
    for _ in range(400):
        form, text = pattern(rng), "".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 6)))
        for sql, made in forms(Lit("text", text), Lit("text", form)):
            (wanted,) = postgres.execute(f"SELECT {sql}".encode(), (text, form)).fetchall()[0]
            (value,) = duck.execute(f"SELECT {engine.expr(made, {})}").fetchall()[0]
            assert value == wanted, (sql, form, text)
            seen[next(name for name in reversed(seen) if name in sql)] += 1
    assert min(seen.values()) > 40, seen


@pytest.mark.parametrize("name", ["d", "s"])
def test_digits_and_spaces_are_postgresqls_of_all_of_unicode(name: str, postgres: psycopg.Connection) -> None:
    assert differing(f"\\{name}", postgres) == []


def test_letters_differ_in_combining_marks_alone(postgres: psycopg.Connection) -> None:
    outside = [letter for letter, category in differing(r"\w", postgres) if category[0] != "M"]
    assert len(outside) < 100, outside[:20]


def differing(form: str, postgres: psycopg.Connection) -> list[tuple[str, str]]:
    """Characters of the basic plane that a class holds on one side alone, with their categories."""
    letters = [chr(i) for i in range(1, 0x10000) if not 0xD800 <= i < 0xE000 and unicodedata.category(chr(i)) != "Cn"]
    asked = "SELECT x ~ %s FROM unnest(%s::text[]) WITH ORDINALITY AS u(x, n) ORDER BY n"
    there = [row[0] for row in postgres.execute(asked, (form, letters)).fetchall()]
    ours = "SELECT regexp_matches(x, ?, 's') FROM (SELECT unnest(?) AS x)"
    here = [row[0] for row in duckdb.connect().execute(ours, [translated(form), letters]).fetchall()]
    return [(x, unicodedata.category(x)) for x, a, b in zip(letters, there, here, strict=True) if a != b]

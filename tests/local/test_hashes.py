"""Hash functions of sketches: vectors that must never change, and the same integers in an engine's SQL."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest

from dpproxy.local.hashes import PRIME, number, polynomial, puzzle_piece
from tests.worlds.planning import postgres, scratch

__all__ = ["postgres", "scratch"]

PLANES = [0x41, 0xE9, 0x4E2D, 0x1F602, 0x20000, 0x30000, 0xE0041, 0xF0000, 0x10FFFD]
"""A character of each plane that has any, private ones included."""


@pytest.mark.parametrize(
    ("text", "integer", "piece", "cells"),
    [
        ("", 1672528963, 152, (35, 365, 348)),
        ("north", 1547067002, 212, (929, 480, 936)),
        ("\U0001f602", 1489482554, 139, (97, 949, 572)),
        ("e\u0301", 1058174588, 15, (391, 60, 183)),
        ("\x00", 1848904604, 255, (961, 822, 666)),
    ],
)
def test_vectors(text: str, integer: int, piece: int, cells: tuple[int, ...]) -> None:
    """What stored reports mean: a change here makes every old report wrong."""
    hashed = tuple(polynomial("emoji-2026", j, 1024)(number(text)) for j in (0, 1, 1023))
    assert (number(text), puzzle_piece(text), hashed) == (integer, piece, cells)


def texts(count: int) -> list[str]:
    """Texts of all planes, of up to 40 characters."""
    dice = np.random.default_rng(41)
    firsts = np.array(PLANES)[dice.integers(0, len(PLANES), (count, 40))] + dice.integers(0, 2, (count, 40))
    return ["".join(map(chr, row[:length])) for row, length in zip(firsts.tolist(), dice.integers(0, 41, count), strict=True)]


DUCKDB = f"('0x' || substr(sha256(v), 1, 8))::BIGINT % {PRIME}"
POSTGRES = f"('x00000000' || substr(encode(sha256(convert_to(v, 'UTF8')), 'hex'), 1, 8))::bit(64)::bigint % {PRIME}"


def rows_of(integer: str) -> str:
    """SQL that hashes each text of `unnest` to its integer and to cells of three functions."""
    functions = [polynomial("s", j, 1024) for j in range(3)]
    cells = ", ".join(f"(({f.a} * x + {f.b}) % {PRIME} * x + {f.c}) % {PRIME} % {f.cells}" for f in functions)
    return f"SELECT x, {cells} FROM (SELECT {integer} AS x FROM (SELECT unnest(TEXTS) AS v) AS texts) AS integers"


def test_engines_hash_alike(postgres: psycopg.Connection[Any]) -> None:
    """DuckDB's SQL and PostgreSQL's, of 10,000 texts of all planes and three functions."""
    values = texts(10_000)
    hashed = [(number(v), *(polynomial("s", j, 1024)(number(v)) for j in range(3))) for v in values]
    with duckdb.connect() as connection:
        assert connection.execute(rows_of(DUCKDB).replace("TEXTS", "?"), [values]).fetchall() == hashed
    query = rows_of(POSTGRES).replace("%", "%%").replace("TEXTS", "%s::text[]")
    assert postgres.execute(query.encode(), [values]).fetchall() == hashed


def test_cells_are_uniform_and_functions_independent() -> None:
    """Over functions of a seed: two texts share a cell of m with a chance of 1 / m, three with 1 / m^2."""
    functions, m = 20_000, 8
    a, b, c = (np.array([polynomial("s", j, m)(number(text)) for j in range(functions)]) for text in ("a", "b", "c"))
    assert np.bincount(a).min() > functions / m * 0.9
    for shared, chance in (((a == b), 1 / m), ((a == b) & (b == c), 1 / m**2)):
        assert abs(shared.mean() - chance) < 5 * (chance / functions) ** 0.5

"""Functions of candidates' texts, held against DuckDB's over generated texts, and where the two engines differ against PostgreSQL's."""

from __future__ import annotations

import random

import duckdb
import pytest

from dpproxy.plan.outer.candidate_texts import TextError, computed

LETTERS = "abAB %_\\é"


def test_generated_texts_have_the_values_that_an_engine_gives() -> None:
    chance = random.Random(41)
    asked: list[tuple[str, list[str | int]]] = []
    for _ in range(400):
        text, part, other = ("".join(chance.choices(LETTERS, k=chance.randrange(7))) for _ in range(3))
        start, count = chance.randrange(1, 6), chance.randrange(5)
        asked += [("lower", [text]), ("upper", [text]), ("length", [text]), ("left", [text, count]), ("right", [text, count])]
        asked += [("substring", [text, start, count]), ("strpos", [text, part]), ("starts_with", [text, part])]
        asked += [("trim", [text, part]), ("ltrim", [text, part]), ("rtrim", [text, part]), ("concat", [text, part, other])]
        asked += [("replace", [text, part or "a", other]), ("like", [text, part.replace("\\", "%"), "!"])]
        asked += [("ilike", [text, part.replace("\\", "_"), "!"])]
    with duckdb.connect() as engine:
        for op, values in asked:
            call = f"? {op} ? ESCAPE ?" if op.endswith("like") else f"{op}({', '.join('?' * len(values))})"
            row = engine.execute(f"SELECT {call}", values).fetchone()
            assert row is not None
            assert computed(op, values) == row[0], (op, values)


POSTGRES: tuple[tuple[str, list[str | int], str | int | bool], ...] = (
    ("left", ["abc", -1], "ab"), ("right", ["abc", -1], "bc"), ("right", ["abc", 0], ""), ("substring", ["abc", -1, 3], "a"),
    ("substring_from", ["abc", 0], "abc"), ("like", ["a%c", "a\\%_"], True), ("like", ["abc", "a\\%_"], False),
    ("like", ["a\\b", "a\\b", ""], True), ("replace", ["abc", "", "x"], "abc"), ("like", ["", "%%"], True),
)  # fmt: skip


@pytest.mark.parametrize(("op", "values", "value"), POSTGRES)
def test_values_are_those_of_postgres(op: str, values: list[str | int], value: object) -> None:
    assert computed(op, values) == value


@pytest.mark.parametrize(("op", "values"), [("like", ["a", "a\\"]), ("substring", ["abc", 1, -1]), ("upper", ["ß"])])
def test_what_has_no_value_everywhere_has_none(op: str, values: list[str | int]) -> None:
    with pytest.raises(TextError):
        computed(op, values)

"""Functions of texts on Sail, beside what PostgreSQL says."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from small_expressions import call, column, ref

from dpproxy.engines import spark_texts as texts
from dpproxy.engines.spark import Spark
from dpproxy.engines.spark_types import quote

T, M, N = ref(column(1, "text")), ref(column(2, "int4")), ref(column(3, "int4"))
VALUES = ["", "abc", "a-b-c", "é\u4e2d\U0001f600-x", "Straße", "ΑΣ ΑΣΑ", "ﬁn", " pad ", "a'b\\c", "İi", "ᾳ"]
PLACES = [-9, -1, 0, 1, 2, 7, 2**31 - 1, -(2**31)]
CAPITALS = {"ᾳ": "ᾼ"}
CALLS = {
    "left": call("left", T, M, type_="text"), "right": call("right", T, M, type_="text"),
    "from": call("substring_from", T, M, type_="text"), "substring": call("substring", T, M, N, type_="text"),
    "upper": call("upper", T, type_="text"), "lower": call("lower", T, type_="text"), "length": call("length", T, type_="int4"),
    "reverse": call("reverse", T, type_="text"),
}  # fmt: skip


def wanted(text: str, m: int, n: int) -> tuple[object, ...]:
    """What PostgreSQL says."""
    left = text[:m] if m >= 0 else text[: max(len(text) + m, 0)]
    right = text[max(len(text) - m, 0) :] if m >= 0 else text[-m:]
    end = max(m + n, 1)
    upper = "".join(
        letter if len(letter.upper()) > 1 and letter not in CAPITALS else CAPITALS.get(letter, letter.upper()) for letter in text
    )
    lower = "".join({"\u0130": "i"}.get(letter, letter.lower()) for letter in text)
    return left, right, text[max(m, 1) - 1 :], text[max(m, 1) - 1 : end - 1], upper, lower, len(text), text[::-1]


def test_each_text_at_each_place(sail_session: Any) -> None:
    """Negative lengths, for which PostgreSQL raises, are the callers' to keep away."""
    rows = [(t, m, n) for t in VALUES for m in PLACES for n in (0, 1, 3, 2**31 - 1)]
    values = ", ".join(f"({i}, {quote(t)}, {m}, {n})" for i, (t, m, n) in enumerate(rows))
    items = ", ".join(f"{Spark().expr(e, {1: 't', 2: 'm', 3: 'n'})} AS {name}_" for name, e in CALLS.items())
    found = sail_session.sql(f"SELECT {items} FROM (VALUES {values}) AS x(i, t, m, n) ORDER BY i").toArrow().to_pylist()
    for row, told in zip(rows, found, strict=True):
        assert tuple(told.values()) == wanted(*row), row


@pytest.mark.parametrize(
    ("pattern", "escape", "made"),
    [
        ("a%", "\\", "a%"),
        ("a\\%", "\\", "a\\%"),
        ("a\\b", "\\", "ab"),
        ("a#%", "#", "a\\%"),
        ("a\\b", "", "a\\\\b"),
        ("##", "#", "#"),
    ],
)
def test_patterns_are_written_anew(pattern: str, escape: str, made: str) -> None:
    assert texts.pattern(pattern, escape) == quote(made)


def test_several_values_as_one_text(ask_spark: Any) -> None:
    pairs = [("'1'", "'2'"), ("'12'", "''"), ("NULL", "'-'"), ("'-'", "NULL"), ("''", "'12'")]
    found = ask_spark(f"array({', '.join(texts.told_apart(pair) for pair in pairs)})")
    assert len(set(found)) == len(pairs)
    assert None not in found


def test_letters_set_aside_are_no_letters() -> None:
    assert 90 < len(texts.apart()) < sys.maxunicode - texts.ASIDE
    assert all(len(capital) == 1 for capital in texts.apart().values())

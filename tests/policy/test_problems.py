"""Problems: each once, in the order of the file, with a word for what was probably meant."""

from __future__ import annotations

import random

import pytest

from dpproxy.policy.problems import Mark, PolicyError, Problem, suggestion

PROBLEMS = [
    Problem("p.yaml", line, column, what, "x", "yaml")
    for line, column, what in ((2, 1, "b"), (2, 1, "a"), (10, 1, "c"), (2, 10, "d"))
]


def test_in_the_order_of_the_file_and_once() -> None:
    for seed in range(5):
        shuffled = random.Random(seed).sample([*PROBLEMS, *PROBLEMS], 8)
        assert [p.what for p in PolicyError(shuffled).problems] == ["a", "b", "d", "c"]


def test_as_editors_name_places() -> None:
    error = PolicyError(PROBLEMS[:1])
    assert str(error) == "p.yaml:2:1: b; fix: x"
    assert str(PolicyError(PROBLEMS)).count("\n") == 3
    assert Mark(2, 10) < Mark(10, 1)


@pytest.mark.parametrize(
    ("word", "known", "says"),
    [
        ("resolutoin", ["range", "resolution"], "did you mean `resolution`?"),
        ("zzz", ["b", "a"], "use one of `a`, `b`"),
        ("zzz", [], "remove it"),
        ("zzz", [f"n{i:02}" for i in range(23)], "and 3 more"),
    ],
)
def test_suggestions(word: str, known: list[str], says: str) -> None:
    assert suggestion(word, known).endswith(says)

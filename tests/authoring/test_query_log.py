"""Questions are read from a log as they are from tests; lines that are none are all told, at their places."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpproxy.authoring.cases import Asked, Question, of_cases, read_cases, read_log
from dpproxy.policy.problems import PolicyError


def log(folder: Path, text: str) -> Path:
    path = folder / "log.jsonl"
    path.write_text(text)
    return path


def test_a_line_is_a_question(tmp_path: Path) -> None:
    text = """
{"role": "analyst", "query": "SELECT 1", "per_day": 20, "set": {"dpproxy.epsilon": 0.5}, "name": "one"}
{"role": "clerk", "query": "SELECT 2"}
"""
    assert read_log(log(tmp_path, text)) == (
        Asked(Question("analyst", "SELECT 1", (("dpproxy.epsilon", "0.5"),)), "one", 20),
        Asked(Question("clerk", "SELECT 2"), "SELECT 2", 1),
    )


def test_tests_are_questions() -> None:
    text = "tests:\n  - { name: all, role: analyst, query: SELECT 1, set: { dpproxy.epsilon: 1 }, accept: {} }\n"
    asked = of_cases(read_cases(text, Path("town.test.yaml")).cases, 10)
    assert asked == (Asked(Question("analyst", "SELECT 1", (("dpproxy.epsilon", "1"),)), "all", 10),)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("{", [1]),
        ('{"role": "a"}\n\n[1]', [1, 3]),
        ('\n{"role": "a", "query": 3}', [2]),
        ('{"role": "a", "query": "b", "per_day": "x"}', [1]),
    ],
)
def test_lines_that_are_no_questions(text: str, lines: list[int], tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="this line is no question") as caught:
        read_log(log(tmp_path, text))
    assert [problem.line for problem in caught.value.problems] == lines


def test_an_empty_log(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="there are no questions"):
        read_log(log(tmp_path, "\n"))

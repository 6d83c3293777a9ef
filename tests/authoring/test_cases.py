"""Test files are read like policies: with places, and every problem at once."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from dpproxy.authoring.cases import Accept, cases_beside, policy_beside, read_cases
from dpproxy.policy.problems import Mark, PolicyError

GOOD = """
tests:
  - name: by   region
    role: analyst
    query: SELECT 1
    set: { dpproxy.epsilon: 0.5, TimeZone: "Europe/Berlin" }
    accept: { epsilon: 0.5, delta: 1e-9, columns: [a, b], error: { count(*): 40 } }
  - { role: intern, query: SELECT 2, refuse: rows of }
  - { role: intern, query: SELECT 3, refuse: {} }
  - { role: intern, query: SELECT 4, accept: {} }
"""


def test_what_a_file_says() -> None:
    file = read_cases(GOOD, Path("here/shop.test.yaml"))
    first, second, third, fourth = file.cases
    assert file.policy == Path("here/shop.yaml")
    assert (first.name, first.role, first.query, first.at) == ("by region", "analyst", "SELECT 1", Mark(3, 5))
    assert first.settings == {"dpproxy.epsilon": "0.5", "TimeZone": "Europe/Berlin"}
    assert first.accept == Accept(Decimal("0.5"), Decimal("1e-9"), ("a", "b"), {"count(*)": Decimal(40)})
    assert [c.refuse for c in (second, third)] == ["rows of", ""]
    assert (fourth.accept, fourth.refuse, fourth.name) == (Accept(), None, "SELECT 4")


def test_another_policy() -> None:
    text = "policy: ../other.yaml\ntests: [{ role: a, query: b, accept: {} }]\n"
    assert read_cases(text, Path("tests/x.test.yaml")).policy == Path("tests/../other.yaml")


def test_names_go_both_ways() -> None:
    assert cases_beside(Path("a.b/shop.yaml")) == Path("a.b/shop.test.yaml")
    assert policy_beside(Path("a.test.b/shop.test.yml")) == Path("a.test.b/shop.yml")


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("tests: []", 1, "there are no tests"),
        ("test: []", 1, "unknown key `test`"),
        ("tests:\n  - { role: a, accept: {} }", 2, "has no `query`"),
        ("tests:\n  - { role: a, query: b }", 2, "one of `accept` and `refuse`"),
        ("tests:\n  - { role: a, query: b, accept: {}, refuse: x }", 2, "one of `accept` and `refuse`"),
        ("tests:\n  - { role: a, query: b, accept: { epsilon: much } }", 2, "`epsilon` must be a number"),
        ("tests:\n  - { role: a, query: b, accept: { error: 3 } }", 2, "`error` must be a mapping"),
        ("tests:\n  - { role: a, query: b, accept: {}, set: { x: [1] } }", 2, "a setting cannot be a list"),
        ("tests:\n  - { role: a, query: b, acept: {} }", 2, "unknown key `acept`"),
        ("tests: 3", 1, "must be a list"),
    ],
)
def test_mistakes(text: str, line: int, what: str) -> None:
    with pytest.raises(PolicyError, match=what) as caught:
        read_cases(text, Path("x.test.yaml"))
    assert caught.value.problems[0].line == line

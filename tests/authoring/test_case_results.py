"""Verdicts held against what tests expect, and the same told three ways."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from dpproxy.authoring.cases import TestFile, as_junit, as_text, read_cases, results, updated
from dpproxy.review.verdicts import Bench

COUNT = "SELECT region, count(*) AS n FROM people GROUP BY region"


def file_of(*cases: str) -> TestFile:
    return read_cases("tests:\n" + "".join(f"  - {case}\n" for case in cases), Path("town.test.yaml"))


def failures(bench: Bench, case: str) -> tuple[str, ...]:
    (result,) = results(file_of(case), bench)
    return result.failures


@pytest.mark.parametrize(
    "rest",
    [
        "accept: {}",
        "accept: { epsilon: 0.5, delta: 0, columns: [region, n], error: { count(*): 9 } }",
        "set: { dpproxy.epsilon: 1 }, accept: { epsilon: 1, error: { count(*): 5 } }",
    ],
)
def test_what_holds(rest: str, bench: Bench) -> None:
    assert failures(bench, f"{{ role: analyst, query: '{COUNT}', {rest} }}") == ()


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("refuse: {}", "is answered for epsilon 0.5, and should be refused"),
        ("accept: { epsilon: 0.4 }", "costs epsilon 0.5, more than 0.4"),
        ("accept: { columns: [region] }", "has the columns region, n, not region"),
        ("accept: { error: { count(*): 3 } }", "is off by up to"),
        ("accept: { error: { sum(x): 3 } }", "has no error of `sum(x)` that is known beforehand; known of: count(*)"),
        ("set: { dpproxy.epsilon: 2 }, accept: {}", "is refused"),
    ],
)
def test_what_fails(rest: str, said: str, bench: Bench) -> None:
    (failure,) = failures(bench, f"{{ role: analyst, query: '{COUNT}', {rest} }}")
    assert said in failure


@pytest.mark.parametrize("reason", ["rows of single", "42501", "{}"])
def test_refusals_by_reason(reason: str, bench: Bench) -> None:
    assert failures(bench, f"{{ role: analyst, query: SELECT region FROM people, refuse: {reason} }}") == ()
    (failure,) = failures(bench, "{ role: analyst, query: SELECT region FROM people, refuse: budget }")
    assert "for another reason (42501:" in failure


def test_text_and_junit(bench: Bench) -> None:
    file = file_of(f"{{ role: analyst, query: '{COUNT}', accept: {{}} }}", f"{{ role: intern, query: '{COUNT}', refuse: {{}} }}")
    found = results(file, bench)
    assert as_text(file, found).splitlines()[-1] == "1 of 2 hold"
    suite = ElementTree.fromstring(as_junit([(file, found)]).encode()).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [len(case) for case in suite] == [0, 1]


def test_an_update_makes_all_hold_and_keeps_comments(bench: Bench) -> None:
    text = (
        "# about the town\ntests:\n"
        f"  - {{ role: analyst, query: '{COUNT}', accept: {{ epsilon: 0.1, error: {{ count(*): 1 }} }} }}  # dear\n"
        "  - role: analyst\n    query: SELECT region FROM people\n    accept: {}\n"
        f"  - {{ role: intern, query: '{COUNT}', refuse: budget }}\n"
        f"  - {{ role: intern, query: '{COUNT}', accept: {{}} }}\n"
    )
    path = Path("town.test.yaml")
    found = results(read_cases(text, path), bench)
    assert [bool(r.failures) for r in found] == [True, True, True, False]
    anew = updated(text, found)
    assert "# about the town" in anew
    assert "# dear" in anew
    again = results(read_cases(anew, path), bench)
    assert not any(r.failures for r in again)
    assert again[3].case == found[3].case or again[3].case.accept == found[3].case.accept

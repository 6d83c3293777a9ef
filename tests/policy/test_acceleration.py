"""What `accelerate` may say, and what is wrong where it says something else."""

from __future__ import annotations

import pytest

from dpproxy.policy.model import Accelerate
from tests.policy.good import GOOD, loaded, problems

POSTGRES = GOOD.replace("duckdb: shop.duckdb", "postgres: postgresql://reader@db/shop")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("auto", Accelerate()),
        ("off", Accelerate("off")),
        ("on", Accelerate("on")),
        ("{ mode: on, disk: 20GB }", Accelerate("on", 20 * 1000**3)),
        ("{ mode: auto, disk: 1.5 GiB, folder: copies }", Accelerate("auto", 3 * 1024**3 // 2, "/data/copies")),
        ("{ mode: on, queries: [SELECT 1, SELECT 2] }", Accelerate("on", queries=("SELECT 1", "SELECT 2"))),
        ("{ mode: off, disk: 4096 bytes, folder: /fast }", Accelerate("off", 4096, "/fast")),
    ],
)
def test_what_may_be_said(said: str, meant: Accelerate) -> None:
    assert loaded(f"{GOOD}\naccelerate: {said}\n").policy.accelerate == meant


def test_nothing_said_is_auto() -> None:
    assert loaded().policy.accelerate == Accelerate("auto", None, None)


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("onn", "`accelerate` cannot be `onn`"),
        ("true", "`accelerate` cannot be `true`"),
        ("[on]", "an accelerate mapping must be a mapping, not a list"),
        ("{ disk: 20GB }", "an accelerate mapping has no `mode`"),
        ("{ mode: on, disk: 20 }", "`disk` cannot be `20`"),
        ("{ mode: on, disk: 20% }", "`disk` cannot be `20%`"),
        ("{ mode: on, queries: SELECT 1 }", "`queries` must be a list, not `SELECT 1`"),
        ("{ mode: on, queries: [[]] }", "query must be text, not a list"),
        ("{ mode: on, size: 20GB }", "unknown key `size` in an accelerate mapping"),
    ],
)
def test_what_is_wrong(said: str, what: str) -> None:
    (problem,) = problems(f"{GOOD}\naccelerate: {said}\n")
    assert problem.what == what


def test_a_server_has_no_copy_but_an_extract() -> None:
    (problem,) = problems(f"{POSTGRES}\naccelerate: on\n")
    assert problem.what == "there are prepared copies of DuckDB files alone"
    assert problem.fix.startswith("write `extract`")
    assert not problems(f"{POSTGRES}\naccelerate: auto\n")
    extract = loaded(f"{POSTGRES}\naccelerate: {{ mode: extract, disk: 20GB }}\n").policy.accelerate
    assert extract == Accelerate("extract", 20 * 1000**3)
    (problem,) = problems(f"{GOOD}\naccelerate: extract\n")
    assert (problem.what, problem.fix) == ("extracts are made of PostgreSQL databases alone", "write `on`")

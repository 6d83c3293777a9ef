"""Where PostgreSQL's own parser reads a statement otherwise than dpproxy, dpproxy refuses it.

Real statements, mutants of them, and small ones of nothing but doubtful expressions. What PostgreSQL does not read is no case: the
facade says so before anybody plans.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

pytest.importorskip("pglast", reason="PostgreSQL's own parser is not installed: pip install pglast")

from ruamel.yaml import YAML

from dpproxy.sql.dialect import FaithfulPostgres
from dpproxy.sql.statements import parse
from tests.sql.postgres_reading import NotPostgres, difference, first_difference, read
from tests.sql.statement_mutants import alone, mutant
from tests.sql.test_misreadings import ALIKE, MISREAD, lines

FIXTURES = Path(__file__).parents[1] / "plan" / "fixtures"
CHOSEN = ("accept_functions", "accept_outer", "accept_parentheses", "accept_top")


def of_fixtures() -> list[str]:
    cases = (case for name in CHOSEN for case in YAML(typ="safe").load(FIXTURES / f"{name}.yaml")["cases"])
    return [case["sql"] for case in cases if "sql" in case]


def of_corpus(shared: Path) -> list[str]:
    entries = map(json.loads, (shared / "corpus" / "open.jsonl").read_text().splitlines())
    return [entry["sql"].strip().rstrip(";") for entry in entries]


def disagreements(sqls: list[str], chance: random.Random, number: int) -> list[str]:
    """Judge so many mutants that PostgreSQL reads, half of them of `sqls`."""
    found, judged = [], 0
    while judged < number:
        sql = alone(chance) if judged % 2 else mutant(chance, chance.choice(sqls))
        try:
            differs = difference(sql)
        except NotPostgres:
            continue
        judged += 1
        found += [f"{sql}\n{differs}"] if differs else []
    return found


def test_fixtures_and_their_mutants_are_read_alike() -> None:
    sqls = of_fixtures()
    assert len(sqls) > 50
    assert disagreements([sql for sql in sqls if len(sql) < 500], random.Random(3), 300) == []


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.long)])
def test_real_statements_are_read_alike(every: int, shared: Path) -> None:
    sqls, judged = of_corpus(shared)[::every], 0
    for sql in sqls:
        try:
            assert difference(sql) is None, sql
            judged += 1
        except NotPostgres:
            continue
    assert judged > len(sqls) * 0.9


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_twenty_thousand_mutants_are_read_alike(seed: int, shared: Path) -> None:
    sqls = [sql for sql in of_corpus(shared) + of_fixtures() if len(sql) < 1500]
    found = disagreements(sqls, random.Random(seed), 5_000)
    assert found == [], "\n\n".join(found)


@pytest.mark.parametrize("expression", lines(ALIKE))
def test_what_is_said_to_be_read_alike_is(expression: str) -> None:
    assert difference(f"SELECT {expression}, count(*) FROM t") is None


def test_each_misreading_would_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the refusals the comparison sees most of them; the others are refused since their like is misread."""
    monkeypatch.setattr("dpproxy.sql.statements.refuse_misread", lambda tree: None)
    monkeypatch.setattr("dpproxy.sql.guard._check_operator", lambda *arguments: None)
    seen = [e for e in lines(MISREAD) if _differs(f"SELECT {e}, count(*) FROM t")]
    assert len(seen) > 25, set(lines(MISREAD)) - set(seen)


def _differs(sql: str) -> bool:
    try:
        return difference(sql) is not None
    except NotPostgres:
        return False


@pytest.mark.parametrize(
    ("left", "right"), [("a + b * c", "(a + b) * c"), ("NOT a = b", "(NOT a) = b"), ("x LIKE 'a'", "x ILIKE 'a'"), ("1.5", "1.6")]
)
def test_trees_that_differ_are_told_apart(left: str, right: str) -> None:
    assert first_difference(read(f"SELECT {left}"), read(f"SELECT {right}"))


def test_a_parser_with_another_precedence_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: as if `+` bound as tightly as `*`."""
    factor, term = FaithfulPostgres.Parser.FACTOR, FaithfulPostgres.Parser.TERM
    monkeypatch.setattr(FaithfulPostgres.Parser, "FACTOR", {**factor, **term})
    monkeypatch.setattr("dpproxy.sql.statements.refuse_misread", lambda tree: None)
    assert difference("SELECT a + b * c") is not None
    parse("SELECT a + b * c")

"""Statements of every shape are made of a policy; nearly all of them are answered; files are read in two forms."""

from __future__ import annotations

from pathlib import Path

from dpproxy.audit.bench import AuditBench
from dpproxy.audit.statements import generated, read_statements
from dpproxy.review.verdicts import Answered


def test_shapes_of_the_small_policy(small: AuditBench) -> None:
    made = generated(small.loaded.policy, small.bench.catalog)
    shapes = {s.shape for s in made}
    assert {"count", "undeclared key", "null key", "having", "percentile", "full join", "distinct values", "top list"} <= shapes
    assert {"window", "grouping sets", "rows of each unit", "staged", "exists", "union", "two keys"} <= shapes
    answered = [isinstance(small.bench.verdict(s.role, s.sql), Answered) for s in made]
    assert sum(answered) > 0.9 * len(made)


def test_statements_of_a_file(tmp_path: Path) -> None:
    sql, log = tmp_path / "asked.sql", tmp_path / "asked.jsonl"
    sql.write_text("SELECT count(*) FROM people; -- again\nSELECT 1;")
    assert [(s.role, s.sql.split()[1]) for s in read_statements(sql, "r")] == [("r", "count(*)"), ("r", "1")]
    log.write_text('{"role": "a", "query": "SELECT 2", "set": {"dpproxy.epsilon": "2"}, "name": "two"}\n')
    (one,) = read_statements(log, "r")
    assert (one.role, one.sql, one.shape, one.settings) == ("a", "SELECT 2", "two", (("dpproxy.epsilon", "2"),))

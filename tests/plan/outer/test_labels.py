"""What keys and aggregates are called: as they were written, or by the output that returns them."""

from __future__ import annotations

import re

import pytest
from fixture_cases import ACCEPTED
from sqlglot import exp

from dpproxy.plan.outer.select_keys import Labels
from dpproxy.policy.catalog import Catalog
from dpproxy.sql.statements import parse
from dpproxy.sql.trees import aggregate_calls

ONCE = "sum(dpproxy_once.v0) FILTER(WHERE dpproxy_once.n0 = 1)"


@pytest.mark.parametrize(
    ("sql", "labels"),
    [
        ("SELECT sum(a * 2) AS total, count(*) FROM t", ["sum(a * 2)", "count(*)"]),
        (f"SELECT {ONCE} AS total, count(dpproxy_once.a0) AS n FROM t", ["total", "n"]),
        (f'SELECT round({ONCE} / 7) AS "Revenue, EUR" FROM t', ["Revenue, EUR"]),
        (f"SELECT 1 FROM t HAVING {ONCE} > 3", ["a computed expression"]),
        ("SELECT dpproxy_first(x) AS x FROM t", ["x"]),
    ],
)
def test_labels(sql: str, labels: list[str]) -> None:
    select = parse(sql)
    assert isinstance(select, exp.Select)
    made = Labels(select)
    nodes = [n for part in (*select.expressions, select.args.get("having")) for n in aggregate_calls(part)]
    assert [made.of(n) for n in nodes or [e.unalias() for e in select.expressions]] == labels


def test_what_is_told_names_nothing_of_ours(shop_catalog: Catalog) -> None:
    """Of all statements that are accepted, those that were written another way among them."""
    for case in ACCEPTED:
        made = case.known_plan(shop_catalog)
        (ours,) = (i for i, line in enumerate(made.explain) if line.strip().startswith("Post-processing"))
        told = list(made.explain[:ours])
        told += [typical.label for typical in made.typical] + list(made.hidden)
        assert not [line for line in told if re.search(r"\bdpproxy_[a-z]", line)], case.sql

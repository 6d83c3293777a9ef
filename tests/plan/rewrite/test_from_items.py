"""Items taken out of FROM: their columns' meanings stand where their names stood, and the rows stay the same. Tried in an engine."""

from __future__ import annotations

import duckdb
import pytest
from sqlglot import exp

from dpproxy.plan.rewrite.from_items import meets_each_row, put_columns
from dpproxy.sql.dialect import to_sql
from dpproxy.sql.statements import parse


def select(sql: str) -> exp.Select:
    tree = parse(sql)
    assert isinstance(tree, exp.Select)
    return tree


@pytest.mark.parametrize(
    ("join", "meets"),
    [
        (", u", True), ("CROSS JOIN u", True), ("JOIN u ON TRUE", True), ("LEFT JOIN u ON TRUE", True), ("JOIN u ON a = b", False), ("JOIN u USING (a)", False),
        ("NATURAL JOIN u", False), ("RIGHT JOIN u ON TRUE", False), ("FULL JOIN u ON TRUE", False), ("JOIN u ON FALSE", False),
    ],
)  # fmt: skip
def test_what_meets_each_row(join: str, meets: bool) -> None:
    assert meets_each_row(select(f"SELECT 1 FROM t {join}").args["joins"][0]) == meets


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a, s FROM t CROSS JOIN LATERAL (SELECT a + 1 AS s) x",
        "SELECT x.s * 2 AS d, x.s FROM t CROSS JOIN LATERAL (SELECT a + 1 AS s) x WHERE x.s > 2",
        "SELECT s, count(*) FROM t CROSS JOIN LATERAL (SELECT a + 1 AS s) x GROUP BY x.s ORDER BY x.s",
        "SELECT a AS s FROM t CROSS JOIN LATERAL (SELECT -a AS s) x ORDER BY s",
        "SELECT -s AS n FROM t CROSS JOIN LATERAL (SELECT a + 1 AS s) x ORDER BY s + 0",
        "SELECT (SELECT count(*) FROM v WHERE b < x.s) AS n FROM t CROSS JOIN LATERAL (SELECT a + 1 AS s) x",
        "SELECT t.a FROM t CROSS JOIN LATERAL (SELECT a + 1 AS s) x WHERE s IN (SELECT b AS s FROM v)",
    ],
)
def test_the_rows_stay_the_same(sql: str) -> None:
    engine = duckdb.connect()
    engine.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1), (2), (2), (5)) q(a)")
    engine.execute("CREATE TABLE v AS SELECT * FROM (VALUES (2), (6)) q(b)")
    written = select(sql)
    (item,) = written.args["joins"]
    meaning = item.this.this.unnest().expressions[0]
    put_columns(written, item, "x", {"s": meaning.this})
    written.set("joins", [])
    assert "LATERAL" not in to_sql(written)
    told = []
    for text in (sql, to_sql(written)):
        found = engine.execute(text)
        told.append(([column[0] for column in found.description or ()], found.fetchall()))
    assert told[0] == told[1]
    assert told[0][1]

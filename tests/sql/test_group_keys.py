"""Keys of GROUP BY as they are written, and a SELECT that is put over a subquery."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dpproxy.sql.dialect import to_sql
from dpproxy.sql.group_keys import group_keys, regrouped
from dpproxy.sql.statements import parse


def select(query: str) -> exp.Select:
    tree = parse(query)
    assert isinstance(tree, exp.Select)
    return tree


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("SELECT count(*) FROM t", []),
        ("SELECT a, b + 1 AS c, count(*) FROM t GROUP BY 1, c", ["a", "b + 1"]),
        ("SELECT t.a, count(*) FROM t GROUP BY a, upper(b)", ["a", "UPPER(b)"]),
        ("SELECT a FROM t GROUP BY CUBE (a)", None),
        ("SELECT a FROM t GROUP BY a, ROLLUP (b)", None),
    ],
)
def test_keys(query: str, keys: list[str] | None) -> None:
    found = group_keys(select(query))
    assert (None if found is None else [to_sql(k).replace("upper", "UPPER") for k in found]) == keys


def test_regrouped() -> None:
    tree = select("SELECT t.a, 1 + a AS more, sum(s.v) AS n FROM t GROUP BY a, b HAVING b > 1 ORDER BY n, t.a DESC LIMIT 3")
    keys = group_keys(tree)
    assert keys is not None
    regrouped(tree, keys, select("SELECT a AS k0, b AS k1, v FROM t"), "s")
    assert to_sql(tree) == (
        'SELECT s.k0 AS "a", 1 + s.k0 AS "more", sum(s.v) AS "n" FROM (SELECT a AS k0, b AS k1, v FROM t) AS s GROUP BY s.k0, s.k1 '
        "HAVING s.k1 > 1 ORDER BY n, s.k0 DESC LIMIT 3"
    )

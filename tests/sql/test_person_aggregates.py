"""GoogleSQL's aggregates in plain SQL, with its meaning: checked by text, and on rows by DuckDB."""

from __future__ import annotations

import duckdb
import pytest

from dpproxy.errors import Refusal
from dpproxy.sql.privacy_clauses import written

UNITS = frozenset({("t", "id"), ("orders", "buyer")})
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column=id)"
ROWS = "(VALUES (1, 'a', 5), (1, 'a', 7), (1, 'b', 1), (2, 'a', 1), (2, 'a', NULL), (3, 'b', NULL)) AS t(id, g, x)"


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        # person 1 has 12 in group a, of which 10 count; person 3 has no value, and no 1 either
        (f"{CLAUSE} g, SUM(x, contribution_bounds_per_group => (2, 10)) FROM {ROWS} GROUP BY g", [("a", 12), ("b", 2)]),
        (f"{CLAUSE} g, COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM {ROWS} GROUP BY 1", [("a", 2), ("b", 2)]),
        (f"{CLAUSE} g AS k, AVG(x) FROM {ROWS} GROUP BY k", [("a", 3.5), ("b", 1)]),
        (f"{CLAUSE} upper(g), AVG(x), SUM(x), COUNT(x) FROM {ROWS} GROUP BY upper(g)", [("A", 3.5, 13, 3), ("B", 1, 1, 1)]),
        (f"{CLAUSE} AVG(x) FILTER (WHERE g = 'a'), COUNT(*) FROM {ROWS} HAVING COUNT(*) > 3", [(3.5, 6)]),
        (
            f"WITH t AS (SELECT * FROM {ROWS}) SELECT g, ANON_SUM(x CLAMPED BETWEEN 0 AND least(3, 9)) FROM t GROUP BY g",
            [("a", 4), ("b", 1)],
        ),
        (f"SELECT g, ANON_VAR_POP(x CLAMPED BETWEEN 0 AND 6) FROM {ROWS} WHERE g = 'b' GROUP BY g", [("b", 0)]),
    ],
)
def test_on_rows(query: str, rows: list[tuple[object, ...]]) -> None:
    made = written(query, UNITS)
    assert made is not None
    with duckdb.connect() as connection:
        assert sorted(connection.execute(made.query).fetchall()) == rows


def test_names_of_outputs_stay() -> None:
    made = written(f"{CLAUSE} g, t.x % 2, AVG(x), SUM(x) AS s FROM t GROUP BY t.g, t.x % 2 ORDER BY s, g", UNITS)
    assert made is not None
    with duckdb.connect() as connection:
        found = connection.execute(made.query.replace("FROM t ", f"FROM {ROWS} ")).description
    assert [name for name, *_ in found] == ["g", "?column?", "avg", "s"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (f"{CLAUSE} AVG(x), PERCENTILE_CONT(x, 0.5) FROM t", "is of rows"),
        (f"{CLAUSE} AVG(x), COUNT(DISTINCT g) FROM t", "DISTINCT beside bounds"),
        (f"{CLAUSE} g, AVG(x) FROM t GROUP BY ROLLUP (g)", "GROUPING SETS"),
        ("SELECT ANON_AVG(x) FROM (SELECT * FROM t) s", "privacy_unit_column"),
        ("SELECT ANON_AVG(a.x) FROM t a JOIN t b ON a.id = b.id", "privacy_unit_column"),
        ("SELECT ANON_MEDIAN(x) FROM t", "anon_median() is not supported"),
        (f"{CLAUSE} PERCENTILE_CONT(x) FROM t", "of this form"),
        (f"{CLAUSE} SUM(x, report_format => JSON) FROM t", "the argument report_format"),
        ("SELECT ANON_QUANTILES(x, y CLAMPED BETWEEN 0 AND 1) FROM t", "quantiles of this number"),
    ],
)
def test_refused_by_name(query: str, said: str) -> None:
    with pytest.raises(Refusal) as caught:
        written(query, UNITS)
    assert caught.value.sqlstate == "0A000"
    assert said in caught.value.message

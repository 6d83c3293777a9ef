"""Rows the facade hands to a measurement: many of them are read as few are."""

from __future__ import annotations

import json

import duckdb
import pytest

from dpproxy import engines
from dpproxy.plan.context import MAX_STAGED_ROWS
from dpproxy.plan.outer.staged_rows import rows_as_json
from dpproxy.sql.template import TooManyRows

TYPES = ("int8", "text", "numeric", "float8", "bool", "date", "varchar")
ROWS: list[list[str | None]] = [
    ["1", 'it\'s "so" \\ ü\n[', "1.50", "NaN", "true", "2024-02-29", ""],
    [None, None, None, None, None, None, None],
    ["-9223372036854775807", "null", "-0.001", "1e300", "f", "1999-12-31", "{}"],
]


def given(rows: list[list[str | None]]) -> str:
    return engines.literal("duckdb", f"rows({','.join(TYPES)})", json.dumps(rows))


def test_many_rows_are_read_as_few_are() -> None:
    few, many = given(ROWS), given(ROWS * engines.MANY_ROWS)
    assert few.startswith("(VALUES")
    assert "from_json" in many
    names = ", ".join(f"c{i}" for i in range(len(TYPES)))
    with duckdb.connect() as data:
        said = [data.execute(f"SELECT DISTINCT {names} FROM {text} AS v({names}) ORDER BY 1").fetchall() for text in (few, many)]
        kinds = [data.execute(f"DESCRIBE SELECT * FROM {text} AS v({names})").fetchall() for text in (few, many)]
    assert len(said[0]) == len(ROWS)
    assert str(said[0]) == str(said[1])
    assert [k[1].replace("INTEGER", "BIGINT") for k in kinds[0]] == [k[1] for k in kinds[1]]


def test_each_of_many_is_checked() -> None:
    rows = [*ROWS * engines.MANY_ROWS, ["1", "a", "1", "1", "t", "yesterday", ""]]
    with pytest.raises(ValueError, match="type date"):
        given(rows)
    with pytest.raises(TooManyRows, match="more than 100,000 rows"):
        given([ROWS[1]] * (MAX_STAGED_ROWS + 1))


@pytest.mark.parametrize(("rows", "most", "handed"), [(3, 3, True), (4, 3, False), (0, 3, True)])
def test_the_facade_hands_over_no_more_than_was_counted_on(rows: int, most: int, handed: bool) -> None:
    """The query that makes such rows, in DuckDB's words, which has no function of that name for JSON."""
    sql = rows_as_json(f"SELECT n FROM range({rows}) AS r(n)", ["c0"], "c0::text", most)
    with duckdb.connect() as data:
        data.execute("CREATE MACRO json_build_array(x) AS json_array(x); CREATE MACRO json_agg(x) AS json_group_array(x)")
        (said,) = data.execute(f"SELECT {sql}".replace("'[]'", "'[]'::json")).fetchone() or ("",)
    if handed:
        assert engines.literal("duckdb", "rows(int8)", said)
        assert len(json.loads(said)) == rows
        return
    with pytest.raises(TooManyRows, match=f"more than {most} rows"):
        engines.literal("duckdb", "rows(int8)", said)

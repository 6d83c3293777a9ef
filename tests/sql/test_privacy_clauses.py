"""GoogleSQL's clause and Snowflake's intervals in our words: what is asked of settings, what is refused, what is left alone."""

from __future__ import annotations

import pytest

from dpproxy.errors import Refusal
from dpproxy.sql.privacy_clauses import written

UNITS = frozenset({("t", "id")})


@pytest.mark.parametrize(
    ("query", "found", "asked"),
    [
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=.5, delta=1e-6, max_groups_contributed=2) a, count(*) FROM t GROUP BY a",
            "SELECT a, count(*) FROM t GROUP BY a",
            {"dpproxy.epsilon": "0.5", "delta": "0.000001", "dpproxy.groups": "2"},
        ),
        ("SELECT WITH ANONYMIZATION OPTIONS (kappa=NULL) count(*) FROM t", "SELECT count(*) FROM t", {}),
        ("select with differential_privacy count(*) from t", "SELECT count(*) FROM t", {}),
        (
            "SELECT n FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) count(*) AS n FROM t) AS x",
            "SELECT n FROM (SELECT count(*) AS n FROM t) AS x",
            {"dpproxy.epsilon": "1"},
        ),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1e20) count(*) FROM t", "SELECT count(*) FROM t", {"dpproxy.epsilon": "1000000000"}),
        ("SELECT sum(a) AS s, DP_INTERVAL_LOW(s) FROM t", "SELECT sum(a) AS s, dpproxy.low(sum(a)) AS dp_interval_low FROM t", {}),
        ("SELECT dp_interval_high(sum(a)) / 2 FROM t", "SELECT dpproxy.high(sum(a)) / 2 FROM t", {}),
    ],
)  # fmt: skip
def test_written(query: str, found: str, asked: dict[str, str]) -> None:
    made = written(query, UNITS)
    assert made is not None
    assert (made.query, dict(made.asked)) == (found, asked)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM t",
        "SELECT anonymization, 'WITH DIFFERENTIAL_PRIVACY' FROM t",
        "SELECT * FROM dp_interval_low",
        "SELECT this IS NO SQL anonymization FROM",
    ],
)
def test_left_alone(query: str) -> None:
    assert written(query, UNITS) is None


@pytest.mark.parametrize(
    ("options", "sqlstate", "said"),
    [
        ("epsilon=0", "22023", "epsilon must be a number above 0"),
        ("epsilon=NaN", "22023", "epsilon must be a number above 0"),
        ("delta=x", "22023", "delta must be a number above 0"),
        ("privacy_unit_column=a", "22023", "must name the privacy unit"),
        ("privacy_unit_column=a || id", "22023", "must name the privacy unit"),
        ("max_rows_contributed=1", "0A000", "the option max_rows_contributed"),
        ("group_selection_strategy=PUBLIC_GROUPS", "0A000", "group_selection_strategy = PUBLIC_GROUPS"),
    ],
)
def test_options_that_mean_something_else(options: str, sqlstate: str, said: str) -> None:
    with pytest.raises(Refusal) as caught:
        written(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) a, count(*) FROM t GROUP BY a", UNITS)
    assert caught.value.sqlstate == sqlstate
    assert said in caught.value.message
    assert caught.value.hint is not None or sqlstate == "22023"


def test_a_threshold_is_no_privacy() -> None:
    with pytest.raises(Refusal, match="AGGREGATION_THRESHOLD is not supported"):
        written("SELECT WITH AGGREGATION_THRESHOLD OPTIONS(threshold=3) a, count(*) FROM t GROUP BY a", UNITS)
    assert written("SELECT aggregation_threshold FROM t", UNITS) is None


def test_a_column_that_is_no_key_is_named() -> None:
    with pytest.raises(Refusal, match='column "a" must appear in the GROUP BY clause') as caught:
        written("SELECT WITH DIFFERENTIAL_PRIVACY a, count(*, contribution_bounds_per_group => (0, 1)) FROM t", UNITS)
    assert caught.value.sqlstate == "42803"


def test_one_clause_a_statement() -> None:
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) count(*) FROM t"
    with pytest.raises(Refusal, match="one privacy clause"):
        written(f"{clause} UNION ALL {clause}", UNITS)

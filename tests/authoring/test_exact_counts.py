"""What a policy does to the data, counted by the engine and by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path

import duckdb
import pytest

from dpproxy.authoring.checking import Depth, findings
from dpproxy.authoring.exact_counts import percent

from .worlds import BASE, TABLES, VERIFIER

FACTS = """
INSERT INTO customers VALUES (100, 'west', 1900, true, '2021-01-01', 'x'), (101, NULL, 2020, true, '2035-01-01', 'x');
INSERT INTO orders SELECT 1000 + i, 3, TIMESTAMP '2030-01-01', 2000, 7, 'toys' FROM range(40) AS t(i);
INSERT INTO order_items VALUES (1000, 999999, 1, 2, 'x', NULL, NULL);
"""


@pytest.fixture
def said(tmp_path: Path) -> dict[str, str]:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute(TABLES + FACTS)
    path = tmp_path / "p.yaml"
    text = BASE.replace("VERIFIER", VERIFIER).replace("delta: 1e-6", "delta: 0.00005").replace("delta: 1e-7", "delta: 2e-5")
    path.write_text(text.replace("rows_per_group: 10", "rows_per_group: 20"))
    found = asyncio.run(findings([path], Depth.DATA))
    return {f"{p.code}:{p.line}": p.what for p in found}


def test_everything_is_counted(said: dict[str, str]) -> None:
    """22 customers; 100 orders, 43 of them one customer's; 91 items."""
    assert said == {
        "data-beyond-range:12": "4.5 % of the values of `born` are below its range, 4.5 % above",
        "data-undeclared:11": "9.1 % of the rows of `customers` have a `region` that is not declared: they are in no group by it",
        "data-beyond-range:14": "0 % of the values of `signup` are below its range, 4.5 % above",
        "data-cut:18": "5 % of customers have more than 20 rows in `orders`: a count of all rows misses 23 %",
        "data-beyond-range:22": "0 % of the values of `ts` are below its range, 40 % above",
        "data-beyond-range:23": "0 % of the values of `amount` are below its range, 40 % above",
        "data-undeclared:24": "40 % of the rows of `orders` have a `items` that is not declared: they are in no group by it",
        "data-null-unit:27": "1.1 % of the rows of `order_items` belong to no customer: they are in no answer",
    }


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ("", "data-open:18: a customer has up to 43 rows in `orders`, and intervals of counts and sums are open above"),
        (
            "    rows_at_most: 20\n",
            "data-beyond-rows:19: 5 % of customers have more than `rows_at_most: 20` rows in `orders`, up to 43",
        ),
        ("    rows_at_most: 43\n", ""),
    ],
)
def test_the_greatest_number_of_rows_is_told(stated: str, said: str, tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute(TABLES + FACTS)
    text, path = BASE.replace("VERIFIER", VERIFIER), tmp_path / "p.yaml"
    line = next(line for line in text.splitlines(keepends=True) if "rows_per_group: 10" in line)
    path.write_text(text.replace(line, "    bounds: { rows: 10 }\n" + stated, 1))
    found = [p for p in asyncio.run(findings([path], Depth.DATA)) if p.code in ("data-open", "data-beyond-rows")]
    assert [f"{p.code}:{p.line}: {p.what}"[: len(said)] for p in found] == [said][: bool(said)]


def test_delta_against_people(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute(TABLES + "INSERT INTO customers (customer_id) SELECT 100 + i FROM range(9980) AS t(i)")
    path = tmp_path / "p.yaml"
    path.write_text(BASE.replace("VERIFIER", VERIFIER).replace("delta: 1e-6", "delta: 0.00002"))
    told = [p for p in asyncio.run(findings([path], Depth.DATA)) if p.code == "data-small"]
    assert [(p.line, p.what) for p in told] == [
        (5, "the dataset's delta is 0.00002, which is not far below 1 / 10,000, the number of customers")
    ]


def test_a_key_on_a_path_that_repeats_is_no_count_but_an_error(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute(TABLES.replace("order_id INTEGER PRIMARY KEY", "order_id INTEGER"))
        connection.execute("INSERT INTO orders SELECT * FROM orders WHERE order_id < 15")
    path = tmp_path / "p.yaml"
    path.write_text(BASE.replace("VERIFIER", VERIFIER))
    for depth in (Depth.SHAPES, Depth.DATA):
        (told,) = [p for p in asyncio.run(findings([path], depth)) if p.severity == "error"]
        assert (told.code, told.line) == ("not-unique", 27)
        assert "`orders.order_id`, on the path from `order_items` to its customer, is not unique: up to 2 rows" in told.what


def test_percent() -> None:
    assert [percent(a, b) for a, b in ((0, 5), (1, 100_000), (1, 3), (5, 5), (9, 5), (0, 0))] == [
        "0 %", "0.001 %", "33 %", "100 %", "100 %", "0 %",
    ]  # fmt: skip


REPORTS = """
CREATE TABLE moods (id INTEGER PRIMARY KEY, name VARCHAR);
INSERT INTO moods VALUES (0, 'good'), (1, 'bad');
CREATE TABLE pulse (likes BOOLEAN, mood_r BIGINT, drink VARCHAR, claim SMALLINT, n BIGINT);
INSERT INTO pulse VALUES (true, 0, 'tea', 1, 5), (false, 2862, 'tea', 2, 5), (true, 2863, 'tea', 2, 5), (true, -1, 'gin', 1, 5),
  (true, 7, 'tea', 3, -1);
"""
OF_REPORTS = """
version: 1
dataset: pulse
backend: { duckdb: pulse.duckdb }
privacy_unit: { name: device }
tables:
  moods: { public: true }
  pulse:
    reports: { epsilon: 9, keep: 1d, rows: cells }
    columns:
      likes: { randomised: { by: rr, epsilon: 1 } }
      mood:
        randomised: { by: pgr, base: 53, dimension: 3, values: { table: moods.name }, count: 3, claims: { 1: { epsilon: 2 }, 2: { epsilon: 4 } } }
        from: mood_r
      drink: { randomised: { by: krr, values: [tea, ale], epsilon: 1 } }
roles: { analyst: {} }
users: {}
"""


def test_reports_outside_their_space_are_counted(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "pulse.duckdb")) as connection:
        connection.execute(REPORTS)
    path = tmp_path / "p.yaml"
    path.write_text(OF_REPORTS)
    found = [p for p in asyncio.run(findings([path], Depth.DATA)) if p.code == "data-reports"]
    wrong = "of 5 rows of `pulse` hold in"
    assert sorted(p.what for p in found) == [
        f"1 {wrong} `drink` what krr never reports",
        f"1 {wrong} `likes` a cell of no number of reports",
        f"1 {wrong} `mood` a claim of no known number",
        f"1 {wrong} `mood` what pgr never reports by claim 1",
        f"1 {wrong} `mood` what pgr never reports by claim 2",
        "`moods` lists 2 values, and `mood` has a claim about 3",
    ]
    assert all(p.severity == "error" for p in found)

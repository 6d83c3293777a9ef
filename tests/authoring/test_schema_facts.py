"""Conditions and types of a schema as domains and ranges; what is not understood says nothing."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dpproxy.authoring.schema_facts import Facts, read_facts
from dpproxy.sql.template import Dialect


@pytest.mark.parametrize(
    ("dialect", "condition", "expected"),
    [
        ("duckdb", "(sex IN ('F', 'M'))", {"sex": Facts(("F", "M"))}),
        ("duckdb", "(grade IN (1, 2, 3))", {"grade": Facts((1, 2, 3))}),
        ("duckdb", "(age BETWEEN 0 AND 120)", {"age": Facts(low=Decimal(0), high=Decimal(120))}),
        ("duckdb", "((age >= -1) AND (age <= 120.5))", {"age": Facts(low=Decimal(-1), high=Decimal("120.5"))}),
        ("postgres", "((sex = ANY (ARRAY['F'::text, 'M'::text])))", {"sex": Facts(("F", "M"))}),
        ("postgres", "((age >= (0)::numeric) AND (age <= (120)::numeric))", {"age": Facts(low=Decimal(0), high=Decimal(120))}),
        ("duckdb", "(a < b)", {}),
        ("duckdb", "((a IN ('x')) OR (b > 3))", {}),
        ("duckdb", "(length(a) < 10)", {}),
        ("duckdb", "this is ( no condition", {}),
    ],
)
def test_conditions(dialect: Dialect, condition: str, expected: dict[str, Facts]) -> None:
    found = read_facts([("main", "t", "", "", condition)], dialect)
    assert {column: facts for (_, _, column), facts in found.items()} == expected


def test_types() -> None:
    rows = [
        ("main", "t", "mood", "ENUM('sad', 'it''s ok')", ""),
        ("main", "t", "price", "DECIMAL(8,2)", ""),
        ("main", "t", "n", "DECIMAL(18,0)", ""),
    ]
    assert read_facts(rows, "duckdb") == {
        ("main", "t", "mood"): Facts(("sad", "it's ok")),
        ("main", "t", "price"): Facts(resolution=Decimal("0.01"), largest=Decimal("999999.99")),
        ("main", "t", "n"): Facts(),
    }


def test_what_is_known_of_one_column_adds_up() -> None:
    rows = [("s", "t", "p", "DECIMAL(8,2)", ""), ("s", "t", "", "", "(p >= 0)"), ("s", "t", "", "", "(p <= 9)")]
    assert read_facts(rows, "duckdb") == {
        ("s", "t", "p"): Facts((), Decimal(0), Decimal(9), Decimal("0.01"), Decimal("999999.99"))
    }

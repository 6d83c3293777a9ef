"""Checks made before a charge, on plans alone."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from dpproxy.errors import Refusal
from dpproxy.plan.model import Plan
from dpproxy.privacy.loss import ZERO
from dpproxy.session.private_statement import all_formats, check_withheld, inner_text
from dpproxy.sql.statements import split
from dpproxy.table_terms import TableName


@dataclass
class Big:
    withheld: frozenset[TableName]


@pytest.mark.parametrize(
    ("outer", "refused"),
    [
        ("SELECT * FROM unnest($1::text[]) AS m(big) JOIN big ON true", True),
        ('SELECT * FROM "public"."big" AS b', True),
        ("SELECT * FROM Big", True),
        ("SELECT big FROM unnest($1::text[]) AS big(x)", False),
        ("SELECT * FROM bigger JOIN s.big ON true", False),
        ("SELECT * FROM small", False),
    ],
)
def test_a_withheld_table_is_not_read_after_a_charge(outer: str, refused: bool) -> None:
    plan = Plan((), outer, 0, (), (), ZERO, ())
    dataset = Big(frozenset({TableName("public", "big")}))
    if refused:
        with pytest.raises(Refusal, match="too large"):
            check_withheld(plan, dataset)  # type: ignore[arg-type]
    else:
        check_withheld(plan, dataset)  # type: ignore[arg-type]


def test_positions_are_kept_by_spaces() -> None:
    text = "SELECT 1; /* é */ COPY (SELECT count(*) FROM people) TO STDOUT"
    (_, copied) = split(text, frozenset({"people"}))
    assert inner_text(copied).index("SELECT") == text.index("SELECT count")
    assert inner_text(copied).strip() == "SELECT count(*) FROM people"


def test_formats_of_all_parameters() -> None:
    assert all_formats((), 2, 1) == [0, 0, 0]
    assert all_formats((1,), 2, 1) == [1, 1, 0]
    assert all_formats((1, 0), 2, 2) == [1, 0, 0, 0]
    assert all_formats((1,), 0, 1) == [0]

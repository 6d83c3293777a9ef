"""Which expressions are constants, and which must never be taken for one."""

from __future__ import annotations

import pytest

from dpproxy.errors import Refusal
from dpproxy.sql.constants import constants, replaced
from dpproxy.sql.effort import counted

PUBLIC = frozenset({"shops"})
MONTH = ("text", "month")


@pytest.mark.parametrize(
    "written",
    [
        "'month'::varchar::varchar", "lower('MONTH')", "'mon' || 'th'", "CASE WHEN true THEN 'month' ELSE 'day' END",
        "pg_catalog.lower('MONTH')", "coalesce(NULL, 'month')", "(SELECT min(name) FROM shops)",
        "(SELECT unit FROM p)", "(SELECT s.name FROM shops AS s WHERE s.id = 1)",
    ],
)  # fmt: skip
def test_every_spelling_becomes_the_literal(written: str) -> None:
    query = f"WITH p AS (SELECT 'month' AS unit) SELECT date_trunc({written}, t) AS m, count(*) FROM people GROUP BY 1"
    found = constants(query, PUBLIC)
    assert len(found.texts) == 1
    assert "SELECT date_trunc('month', t) AS m, " in replaced(query, PUBLIC, {found.texts[0]: MONTH})


@pytest.mark.parametrize(
    "written",
    [
        "random()", "now()", "current_date", "'today'::date", "lower(name)", "(SELECT max(name) FROM people)", "$1", "lower($1)",
        "(SELECT max(s.name) FROM shops AS s, people AS q)", "(SELECT s.name FROM shops AS s WHERE s.id = people.shop)",
        "(SELECT count(*) FROM r)", "(SELECT random())", "pg_backend_pid()", "dpproxy.text_form('a')", "sum(1)", "current_user",
        "(SELECT min(id) FROM shops WHERE opened < now())", "age('2020-01-01'::timestamp)",
        "(SELECT max(name) FROM shops WHERE id IN (SELECT shop FROM people))", "row_number() OVER ()",
        "(SELECT max(x) FROM (SELECT name AS x FROM people) AS shops)",
    ],
)  # fmt: skip
def test_what_depends_on_rows_clock_or_dice_is_none(written: str) -> None:
    query = f"WITH r AS (SELECT * FROM people) SELECT f({written}) AS m FROM people"
    assert constants(query, PUBLIC).texts == ()


def test_a_name_that_hides_a_public_table_is_not_read_as_the_table() -> None:
    query = "WITH shops AS (SELECT name FROM people) SELECT f((SELECT max(name) FROM shops)) FROM people"
    assert constants(query, PUBLIC).texts == ()


def test_places_in_a_result_stay_as_they_are() -> None:
    assert constants("SELECT 1 + 1 AS a, count(*) FROM people GROUP BY 1 + 1 ORDER BY 2 + 1", PUBLIC).texts == ()


def test_columns_of_one_row_are_constants_unless_joined_from_outside() -> None:
    query = "WITH p(unit) AS (SELECT 'month') SELECT f(p.unit) AS m FROM people CROSS JOIN p"
    assert constants(query, PUBLIC).columns
    assert "f('month') AS m" in replaced(query, PUBLIC, {})
    assert not constants(query.replace("CROSS JOIN p", "LEFT JOIN p ON x = 1"), PUBLIC).columns
    assert not constants(query.replace("'month'", "region FROM people"), PUBLIC).columns


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (("int4", "3"), "f(3)"), (("int4", "-3"), "f((-3))"), (("int8", "3"), "f(CAST('3' AS BIGINT))"),
        (("numeric", "0.50"), "f(0.50)"), (("bool", "true"), "f(TRUE)"), (("text", None), "f(CAST(NULL AS TEXT))"),
        (("text", "it's"), "f('it''s')"), (("float8", "0.5"), "f(CAST('0.5' AS DOUBLE PRECISION))"),
    ],
)  # fmt: skip
def test_values_keep_their_types(value: tuple[str, str | None], written: str) -> None:
    query = "SELECT f(1 + 1) AS m FROM people"
    assert replaced(query, PUBLIC, {"1 + 1": value}) == f"SELECT {written} AS m FROM people"


@pytest.mark.parametrize("value", [f"'{'x' * 1_000}'", " || ".join(["'x'"] * 100)], ids=["long", "of many parts"])
def test_constants_do_not_make_a_statement_too_long_to_be_planned(value: str) -> None:
    """One may stand in it often: what would be too long is not written."""
    query = f"WITH c AS (SELECT {value} AS v) SELECT sum(x) FROM people, c WHERE y IN ({', '.join(['c.v'] * 200)})"
    with pytest.raises(Refusal):
        constants(query, PUBLIC)


def test_values_do_not_make_it_too_long_either() -> None:
    query = f"SELECT sum(x) FROM people WHERE y IN ({', '.join(['z || lower(name)', 'lower(7)'] * 20)})"
    found = constants(query, PUBLIC)
    assert found.texts == ("lower(7)",)
    assert replaced(query, PUBLIC, {"lower(7)": ("text", "7")}).count("'7'") == 20
    with pytest.raises(Refusal):
        replaced(query, PUBLIC, {"lower(7)": ("text", "x" * 10_000)})


def test_looking_for_constants_counts_steps() -> None:
    """A chain of operands is looked through anew below each of them."""
    terms = " + ".join(["x", *map(str, range(200))])
    with pytest.raises(Refusal, match="too complex"):
        counted(lambda: constants(f"SELECT {', '.join([f'sum({terms})'] * 4)} FROM people", PUBLIC))

"""Questions to be paid for, and what their answers become."""

from __future__ import annotations

from dpproxy.authoring.draft import Decisions
from dpproxy.authoring.measured_ranges import WIDE, measured, questions, searching
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable, TableName

PEOPLE, VISITS = TableName("public", "people"), TableName("public", "visits")
CATALOG = Catalog(
    {
        PEOPLE: CatalogTable(
            PEOPLE, ("main", "people"), (CatalogColumn("person_id", "p", "int4"), CatalogColumn("age", "a", "int4"))
        ),
        VISITS: CatalogTable(
            VISITS,
            ("main", "visits"),
            (CatalogColumn("person_id", "p", "int4"), CatalogColumn("day", "d", "date"), CatalogColumn("ward_id", "w", "int4")),
        ),
    }
)
DECIDED = Decisions((PEOPLE, "person_id"), "person")


def test_questions_are_of_what_nobody_decided() -> None:
    assert [q.about for q in questions(CATALOG, DECIDED)] == [(PEOPLE, "age"), (VISITS, "day"), VISITS]
    known = Decisions((PEOPLE, "person_id"), "person", ranges={(PEOPLE, "age"): ("0", "9")}, bounds={VISITS: (3, 3)})
    assert [q.about for q in questions(CATALOG, known)] == [(VISITS, "day")]
    assert searching(CATALOG, known).ranges[PEOPLE, "age"] == ("0", "9")
    assert searching(CATALOG, DECIDED).ranges[PEOPLE, "age"] == WIDE


def test_answers_are_rounded_outwards() -> None:
    found = measured(
        CATALOG, DECIDED, {(PEOPLE, "age"): ["17", "1234"], (VISITS, "day"): ["2021-03-04", "2024-05-06"], VISITS: ["123"]}, "1"
    )
    assert found.ranges == {(PEOPLE, "age"): ("17", "1300"), (VISITS, "day"): ("2021-01-01", "2024-12-31")}
    assert found.bounds == {VISITS: (130, 10)}
    assert "epsilon 1" in found.origin


def test_an_empty_range_is_none() -> None:
    found = measured(CATALOG, DECIDED, {(PEOPLE, "age"): ["-15", "-15"]}, "1")
    assert found.ranges[PEOPLE, "age"] == ("-15", "-14")

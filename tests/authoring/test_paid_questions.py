"""Questions to be paid for: what nobody has decided, each person once, along the path to the unit."""

from __future__ import annotations

from decimal import Decimal

from dpproxy.authoring.draft import Decisions
from dpproxy.authoring.paid_questions import WIDE, ends, questions, searching
from dpproxy.authoring.schema_facts import Facts
from dpproxy.policy.catalog import Catalog
from tests.worlds.clinic import CATALOG, DECIDED, DRUGS, PEOPLE, VISITS

FACTS = {("main", "people", "sex"): Facts(("F", "M")), ("main", "visits", "cost"): Facts(low=Decimal(0), high=Decimal(9))}


def told(decisions: Decisions, facts: dict[tuple[str, str, str], Facts] | None = None) -> list[tuple[str, object]]:
    asked = [*questions(CATALOG, decisions, facts or {}), *ends(CATALOG, decisions, facts or {})]
    return [(q.aim, q.about[1] if isinstance(q.about, tuple) else str(q.about)) for q in asked]


def test_questions_are_of_what_nobody_decided() -> None:
    """Not of keys, of what is named like a person's, of what the schema says."""
    everything = told(DECIDED)
    assert everything == [
        ("people", "people"), ("people", "visits"), ("people", "drugs"),
        ("values", "sex"), ("values", "age"), ("values", "ward"), ("values", "drug"),
        ("rows", "visits"), ("groups", "visits"), ("rows", "drugs"), ("groups", "drugs"),
        ("ends", "age"), ("ends", "day"), ("ends", "cost"), ("ends", "ward"),
    ]  # fmt: skip
    assert ("values", "sex") not in told(DECIDED, FACTS)
    assert ("ends", "cost") not in told(DECIDED, FACTS)
    known = Decisions(
        DECIDED.unit, "person", ranges={(PEOPLE, "age"): ("0", "9")}, values={(VISITS, "ward"): (1, 2)}, bounds={VISITS: (3, 3)},
        left_out=frozenset({DRUGS}),
    )  # fmt: skip
    assert told(known) == [("people", "people"), ("people", "visits"), ("values", "sex"), ("ends", "day"), ("ends", "cost")]


def test_search_begins_from_the_type() -> None:
    assert searching(CATALOG, DECIDED, {}).ranges[PEOPLE, "age"] == WIDE
    assert (VISITS, "day") not in searching(CATALOG, DECIDED, {}).ranges, "a draft has centuries there"
    assert (VISITS, "cost") not in searching(CATALOG, DECIDED, FACTS).ranges


def test_a_person_counts_once_and_paths_are_joined() -> None:
    asked = {(q.aim, q.about): q.sql for q in [*questions(CATALOG, DECIDED, {}), *ends(CATALOG, DECIDED, {})]}
    assert asked["values", (DRUGS, "drug")] == (
        'SELECT t0."drug", count(DISTINCT t1."person_id") FROM "public"."drugs" AS t0 JOIN "public"."visits" AS t1'
        ' ON t0."visit" = t1."visit" GROUP BY 1 ORDER BY 1'
    )
    assert 'FROM (SELECT t0."person_id" AS person, min(t0."day") AS low, max(t0."day") AS high' in asked["ends", (VISITS, "day")]
    assert asked["ends", (PEOPLE, "age")].endswith('FROM "public"."people" AS t0'), "one row a person"
    assert 'least(count(DISTINCT t0."ward"), 1000)' in asked["groups", VISITS]


def test_a_catalog_without_anything_to_ask() -> None:
    alone = Catalog({PEOPLE: CATALOG.tables[PEOPLE]})
    assert [
        q.aim
        for q in questions(alone, Decisions(DECIDED.unit, "person", hidden=frozenset({(PEOPLE, "sex"), (PEOPLE, "age")})), {})
    ] == ["people"]

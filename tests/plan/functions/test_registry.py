"""The allow-list: one builder a name, whatever room it is from, and names that PostgreSQL has or that are our own."""

from __future__ import annotations

from collections import Counter

import pytest
from small_expressions import column, ref

from dpproxy.errors import Refusal
from dpproxy.plan.functions import instants, numbers, patterns, scalars, text_parts, texts, time_formats, times
from dpproxy.plan.functions.registry import BUILDERS, builder, called, names
from dpproxy.plan.operations import catalogue
from dpproxy.sql.trees import AGGREGATES

ROOMS = (scalars, text_parts, texts, numbers, times, time_formats, instants, patterns)


def test_no_room_takes_anothers_name() -> None:
    """A dict would keep the last one, and say nothing."""
    built = [name for room in ROOMS for name in room.FUNCTIONS]
    counts = Counter([*built, *(name for name, _ in catalogue.functions())])
    assert [name for name, count in counts.items() if count > 1] == []
    assert set(counts) == names()
    assert all(BUILDERS[name] is room.FUNCTIONS[name] for room in ROOMS for name in room.FUNCTIONS)


def test_names_are_folded_and_are_no_aggregates() -> None:
    assert all(name == name.lower() for name in names())
    assert not names() & AGGREGATES


@pytest.mark.parametrize(
    "name",
    [
        "random",
        "now",
        "pg_sleep",
        "nextval",
        "current_setting",
        "pg_read_file",
        "query_to_xml",
        "lo_import",
        "setseed",
        "clock_timestamp",
        "dblink",
    ],
)
def test_what_reads_more_than_its_arguments_is_not_there(name: str) -> None:
    assert builder(name) is None


ANY_NUMBER = {"coalesce", "concat", "greatest", "least", "num_nulls", "num_nonnulls"}


@pytest.mark.parametrize("name", sorted(names() - ANY_NUMBER))
def test_too_many_arguments_are_refused(name: str) -> None:
    """Forty columns of a type that no function takes: never an error of another kind."""
    with pytest.raises(Refusal):
        called(name, [ref(column(i, "json")) for i in range(40)])

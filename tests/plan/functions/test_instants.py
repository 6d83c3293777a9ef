"""Functions of instants look at the instant itself, wherever the session's clocks are."""

from __future__ import annotations

import pytest

from dpproxy.errors import Refusal
from dpproxy.plan.functions.instants import ZONED, at_time_zone, of_instant, shifted_instant
from dpproxy.plan.functions.operators import minus, plus
from dpproxy.plan.functions.time_zones import instant, local_time
from dpproxy.tree.expr import Call, Hole, Lit

PARIS = "Europe/Paris"
INSTANT, STAMP = Hole("timestamptz", 0), Hole("timestamp", 1)
DAY, HOUR, BOTH = Lit("interval", "0 1 0"), Lit("interval", "0 0 3600000000"), Lit("interval", "0 1 3600000000")


def test_days_are_added_to_what_clocks_show_and_hours_to_the_instant() -> None:
    assert shifted_instant(plus, INSTANT, DAY, PARIS) == plus(INSTANT, DAY)
    assert shifted_instant(plus, INSTANT, HOUR, PARIS) == local_time(plus(instant(INSTANT, PARIS), HOUR), PARIS)
    assert shifted_instant(plus, INSTANT, HOUR, None) == plus(INSTANT, HOUR)
    with pytest.raises(Refusal, match="both days and hours"):
        shifted_instant(plus, INSTANT, BOTH, PARIS)


def test_a_text_is_what_postgresql_takes_it_for() -> None:
    word, day = Lit("unknown", "2024-01-31"), Lit("unknown", "1 day")
    assert shifted_instant(plus, day, INSTANT, PARIS) == plus(INSTANT, DAY)
    midnight = instant(Lit("timestamptz", "2024-01-31 00:00:00"), PARIS)
    assert shifted_instant(minus, INSTANT, word, PARIS) == minus(instant(INSTANT, PARIS), midnight)
    with pytest.raises(Refusal, match="arithmetic of timestamptz and int4"):
        shifted_instant(plus, INSTANT, Lit("int4", "5"), PARIS)


def test_the_epoch_is_the_instants_own() -> None:
    assert of_instant("epoch", INSTANT, PARIS) == instant(INSTANT, PARIS)
    assert of_instant("hour", INSTANT, PARIS) == INSTANT
    assert of_instant("epoch", STAMP, PARIS) == STAMP


def test_at_time_zone_turns_one_into_the_other() -> None:
    there = at_time_zone(STAMP, Lit("unknown", PARIS), None)
    back = at_time_zone(INSTANT, Lit("unknown", PARIS), None)
    assert isinstance(there, Call)
    assert isinstance(back, Call)
    assert (there.type, there.op) == ("timestamptz", "to_utc")
    assert (back.type, back.op) == ("timestamp", "from_utc")


@pytest.mark.parametrize("zone", ["CET", "+02", "Europe/Nowhere"])
def test_a_zone_that_engines_may_read_otherwise(zone: str) -> None:
    with pytest.raises(Refusal, match="the time zone"):
        at_time_zone(INSTANT, Lit("unknown", zone), None)


def test_bins_of_instants_need_utc() -> None:
    with pytest.raises(Refusal, match="date_bin"):
        ZONED["date_bin"]([DAY, INSTANT, Lit("timestamp", "2024-01-01 00:00:00")], PARIS)

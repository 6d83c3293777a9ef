"""How closely texts look at the clock: rather too closely than not closely enough."""

from __future__ import annotations

import pytest

from dpproxy.sql.repeatability import Reading, reading, shown


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("SELECT count(*) FROM orders", "none"),
        ("SELECT count(*) FROM known WHERE snowfall > 1", "none"),
        ("SELECT count(*) FROM orders WHERE day >= CURRENT_DATE - 90", "day"),
        ("SELECT count(*) FROM orders WHERE day >= 'yesterday'", "day"),
        ("SELECT count(*) FROM orders WHERE age(day) < '1 year'", "day"),
        ("SELECT count(*) FROM orders WHERE day >= pg_catalog.now() - interval '1 day'", "moment"),
        ("SELECT count(*) FROM orders WHERE day >= Current_Timestamp AND day < current_date", "moment"),
        ("SELECT localtimestamp(0)", "moment"),
    ],
)
def test_what_a_text_reads(text: str, read: Reading) -> None:
    assert reading(text) == read


def test_no_more_is_shown_than_is_read() -> None:
    clock = "2024-05-17 10:11:12.131415"
    assert [shown(clock, read) for read in ("none", "day", "moment")] == [None, "2024-05-17", clock]
    assert shown(None, "moment") is None

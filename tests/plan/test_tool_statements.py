"""What tools send: an independent set, found in their sources, tests and logs, with these tables in place of theirs.

Knows: `tool_statements`, where each statement stands below its origin. Planning them all takes a second; `test_exactness` and
`test_sensitivity` execute some of them, and all in long mode.
"""

from __future__ import annotations

import fixture_pins
import plan_harness
from fixture_cases import TOOLS, Case
from plan_harness import Shop

from dpproxy.errors import Refusal
from dpproxy.policy.catalog import Catalog


def outcome(case: Case, catalog: Catalog, empty: Shop) -> object:
    """What is measured, or where and why it is refused, as the fixtures write it."""
    try:
        return fixture_pins.pinned(case.known(catalog), case.values, empty)
    except Refusal as refusal:
        query = plan_harness.statement(case.sql, plan_harness.policy(case.policy)).query
        at = query[refusal.position - 1 :] if refusal.position else ""
        said = case.refuse or {"says": "", "at": ""}
        as_said = said["says"] in refusal.message and at.startswith(said["at"])
        return (
            case.refuse if as_said and said.get("sqlstate") == refusal.sqlstate else (refusal.sqlstate, refusal.message, at[:20])
        )


def test_what_becomes_of_each(shop_catalog: Catalog) -> None:
    empty = Shop(1, 0)
    found = {str(case): (outcome(case, shop_catalog, empty), case.accept or case.refuse) for case in TOOLS}
    assert {name: pair for name, pair in found.items() if pair[0] != pair[1]} == {}


def test_there_are_enough_of_them_and_most_are_answered() -> None:
    assert len(TOOLS) >= 165
    assert len({case.file for case in TOOLS}) == 4
    assert sum(case.accept is not None for case in TOOLS) > 0.9 * len(TOOLS)

"""No text of a megabyte takes two seconds or 200 MB to be read and planned: long ones are refused at once, others have caps.

Long mode tries every form of `hostile_texts` at many lengths, each form in a process of its own, and every two nested forms in turn.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from multiprocessing.connection import Connection

import plan_harness
import pytest
from hostile_texts import NESTED, forms, pairs, sized

from dpproxy.answers.plan_cache import PlanCache, plans_for
from dpproxy.errors import Refusal
from dpproxy.policy.catalog import Catalog
from tests.worlds.work import calls

MEGABYTE = 1_000_000
LENGTHS = (2_000, 8_000, 20_000, 40_000, 64_000, MEGABYTE)
NUMBERS = (3, 6, 12, 24, 48, 100, 128, 250)  # up to the caps
SECONDS, ROOM = 2.0, 200 << 20
STATEMENTS = 20  # of one text; each next one is planned in its turn


def planned(plans: PlanCache, text: str) -> list[str]:
    """The SQLSTATEs of a text's statements, read and planned as a session has them read and planned."""
    role, said = plan_harness.policy().roles["analyst"], []
    try:
        for statement in plans.split(text, role)[:STATEMENTS]:
            try:
                if statement.private:
                    plans.plan(statement, role, {"search_path": '"$user", public'}, ())
                said.append("00000")
            except Refusal as refusal:
                said.append(refusal.sqlstate)
    except Refusal as refusal:
        return [refusal.sqlstate]
    return said


@pytest.fixture
def plans(shop_catalog: Catalog) -> PlanCache:
    return plans_for(plan_harness.policy(), shop_catalog, "duckdb")


@pytest.mark.parametrize(
    "name", ["parentheses", "comments", "list: columns", "list: statements", "list: long string", "chain: sum", "list: spaces"]
)
def test_a_megabyte_is_refused_at_once(name: str, plans: PlanCache) -> None:
    text = sized(forms()[name], MEGABYTE)
    said: list[str] = []
    calls(lambda: said.extend(planned(plans, text)), 1_000)
    assert said in (["54001"], ["54000"], ["42601"])


@pytest.mark.parametrize("name", ["cases in windows", "calls in subqueries of IN", "cases in subqueries of IN"])
def test_two_forms_in_turn(name: str, plans: PlanCache) -> None:
    for n in (2, 4, 8, 14):
        calls(lambda n=n: planned(plans, pairs()[name](n)), 1_000_000)  # type: ignore[misc]


@pytest.mark.parametrize("name", ["sums of tests", "last days", "months between months"])
def test_what_is_written_in_other_words_ends(name: str, plans: PlanCache) -> None:
    """It is longer and nested more deeply than what was sent, and may be nested too deeply."""
    said: list[str] = []
    calls(lambda: said.extend(planned(plans, forms()[name](16))), 2_000_000)
    assert said in (["54001"], ["42883"])


def _measured(texts: list[str], catalog: Catalog, told: Connection) -> None:
    """In a process of its own: seconds of the processor of the dearest text, and how much the process grew."""
    plans = plans_for(plan_harness.policy(), catalog, "duckdb")
    planned(plans, "SELECT count(*) FROM orders")
    before, dearest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, (0.0, "")
    for text in texts:
        began = time.process_time()
        planned(plans, text)
        dearest = max(dearest, (time.process_time() - began, text[:100]))
    told.send((*dearest, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024))


def measured(texts: list[str], catalog: Catalog) -> tuple[float, str, int]:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_measured, args=(texts, catalog, theirs))
    process.start()
    try:
        if not ours.poll(120):
            return float("inf"), "it does not end", 0
        found: tuple[float, str, int] = ours.recv()
        return found
    finally:
        process.kill()
        process.join()


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(forms()))
def test_no_form_is_dear(name: str, shop_catalog: Catalog) -> None:
    form = forms()[name]
    texts = [sized(form, length) for length in LENGTHS] + [form(n) for n in NUMBERS]
    seconds, text, bytes_ = measured(texts, shop_catalog)
    assert seconds < SECONDS, text
    assert bytes_ < ROOM


@pytest.mark.long
@pytest.mark.parametrize("outer", sorted(NESTED))
def test_no_two_nested_forms_are_dear(outer: str, shop_catalog: Catalog) -> None:
    """All pairs with this form around are tried, whichever fail."""
    dear = {}
    for name, form in pairs().items():
        if name.endswith(f" in {outer}"):
            seconds, text, bytes_ = measured([form(n) for n in (2, 4, 6, 9, 12)], shop_catalog)
            if seconds >= SECONDS or bytes_ >= ROOM:
                dear[name] = (round(seconds, 1), bytes_ >> 20, text)
    assert dear == {}

"""Declared groups: there are no more of them than claimed, and every row with declared values is in one.

How many groups a key can make decides how many of them one unit may change without any being picked, so the claim is held
against data: all values that columns can hold, declared or not, in one unit's rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import key_grammar
import pytest
from each_engine import ENGINES, Engine
from key_harness import Cover

from dpproxy.engines.postgres_casts import _FORMATS
from dpproxy.plan.operations import times
from dpproxy.plan.operations.catalogue import CATALOGUE
from dpproxy.plan.operations.operation import Operation
from dpproxy.plan.properties import cardinality, cells, domain_parts, narrowing
from dpproxy.policy.catalog import Catalog
from dpproxy.tree.expr import Call, Cast, Column, Expr, Lit, Ref, SeriesDomain, children


@pytest.fixture
def cover(engine: Engine) -> Cover:
    made: Cover = engine.once("cover", lambda: Cover(engine.shop(3, 0)))
    return made


Asked = tuple[tuple[str, ...], str, bool]
"""Keys, a condition of the rows, and whether NULL is declared."""


def judged(cover: Cover, catalog: Catalog, statements: list[Asked]) -> int:
    """How many of the statements were accepted. Fails with all problems of all of them."""
    found = [(asked, cover.problems(*asked, catalog)) for asked in statements]
    assert not (wrong := [(asked, problems) for asked, problems in found if problems]), wrong
    return sum(problems is not None for _, problems in found)


@pytest.mark.parametrize("each", [2, pytest.param(1, marks=pytest.mark.long)], ids=["every other form", "every form"])
def test_every_form_of_key(cover: Cover, engine: Engine, shop_catalog: Catalog, each: int) -> None:
    """Domains are the planner's, whatever the engine: what one leaves out is tried on the other."""
    chosen = list(key_grammar.every_form())[ENGINES.index(engine.dialect) % each :: each]
    forms: list[Asked] = [((text,), "", True) for text in chosen]
    assert judged(cover, shop_catalog, forms) > 0.8 * len(forms)


def _random(seed: int, count: int) -> list[Asked]:
    rng = random.Random(seed)
    return [(*key_grammar.statement(rng.choice), rng.random() < 0.5) for _ in range(count)]


def test_random_keys(cover: Cover, shop_catalog: Catalog) -> None:
    assert judged(cover, shop_catalog, _random(1, 100)) > 50


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_random_keys_by_the_thousand(seed: int, cover: Cover, shop_catalog: Catalog) -> None:
    judged(cover, shop_catalog, _random(100 + seed, 1000))


def test_hours_of_a_date_are_listed_as_days(cover: Cover, shop_catalog: Catalog) -> None:
    """A series of moments in a date's place made `due - 1` no expression of the engine's: charged, and never answered."""
    key = "extract(minute FROM date_bin('6 hours', due::timestamp, TIMESTAMP '2023-12-31 12:00:00'))::int IS DISTINCT FROM 4"
    assert judged(cover, shop_catalog, [((f"({key})",), "due - 1 < DATE '2024-01-20'", True)]) == 1


def test_codes_without_a_count() -> None:
    """What prints more than is known here has no count, whatever else is printed beside it."""
    column = Column(1, "ts", "timestamp")
    known = [f"%{c}" for c in "YymdHMSbBaA"]
    assert set(known) == set(_FORMATS), "a code is printed that nothing is known of"
    for code in ("%j", "%f", "%U", "%s", "%Y-%j", "%m-%j"):
        printed = Call("text", "strftime", (Ref("timestamp", column), Lit("text", code)))
        assert cardinality.most_values(printed, [(column, SeriesDomain(0, 999, "day"))], []) is None


# --- planted bugs: what was wrong once, or nearly so, put back

Replaced = tuple[object, str, object]
"""A file and a name in it, or the catalogue and an operation; what takes its place."""


def _without_null(row: Operation) -> Operation:
    """The row of which one value less is counted: NULL."""
    rule = row.count
    assert rule is not None
    return replace(row, count=lambda *given: None if (found := rule(*given)) is None else found - 1)


def _one_step_is_enough(expr: Expr, column: Column) -> str | None:
    """One step unknown among several did not matter."""
    found = GRANULARITY(expr, column)
    if found is None and isinstance(expr, Call) and expr.op == "concat":
        steps = [GRANULARITY(child, column) for child in children(expr)]
        return next((s for s in steps if s is not None), None)
    return found


def _casts_have_few(key: Expr) -> int | None:
    return 10 if isinstance(key, Cast) else FORM(key)


def _outer(change: int, of: Callable[..., int]) -> Callable[..., int]:
    return lambda *given: of(*given) + change


GRANULARITY, FORM = cells.looks_at, cardinality._form_outputs
PLANTED: dict[str, tuple[Replaced, Asked]] = {
    "NULL is not counted among what is printed": (
        (CATALOGUE, "strftime", _without_null(CATALOGUE["strftime"])), (("to_char(ts, 'DD')",), "", True)),
    "a bin less": ((times, "_steps", _outer(-1, times._steps)), (("date_bin('10 days', due::timestamp, '2024-01-03')",), "", True)),
    "a whole number less": ((cardinality, "_whole", _outer(-1, cardinality._whole)), (("(qty + 1)",), "", True)),
    "a cast has few values": ((cardinality, "_form_outputs", _casts_have_few), (("qty::text",), "", False)),
    "one step is enough": ((cells, "looks_at", _one_step_is_enough), (("concat(to_char(ts, 'Mon'), to_char(ts, 'MI'))",), "", False)),
    "minutes are hours": ((CATALOGUE, "strftime", replace(CATALOGUE["strftime"], step=times.of_hours)), (("to_char(ts, 'HH24:MI')",), "", False)),
    "bins of hours hold them, wherever they begin": ((CATALOGUE, "date_bin", replace(CATALOGUE["date_bin"], step=times.of_hours)), (("date_bin('15 minutes', ts, '2024-01-01')",), "", False)),
    "stray values make no groups": ((domain_parts, "trial", lambda *_: None), (("CASE WHEN qty > 20 THEN 1 ELSE 0 END",), "", True)),
    "NULL is no test's result": ((narrowing, "may_be_null", lambda *_: False), (("(ts < TIMESTAMP '2024-03-05 10:30')",), "", True)),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(name: str, cover: Cover, shop_catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    (where, attribute, planted), asked = PLANTED[name]
    assert cover.problems(*asked, shop_catalog) == []
    if isinstance(where, dict):
        monkeypatch.setitem(where, attribute, planted)
    else:
        monkeypatch.setattr(where, attribute, planted)
    assert cover.problems(*asked, shop_catalog)

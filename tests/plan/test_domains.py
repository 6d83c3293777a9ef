"""Declared groups: there are no more of them than claimed, and every row with declared values is in one.

How many groups a key can make decides how many of them one unit may change without any being picked, so the claim is held
against data: all values that columns can hold, declared or not, in one unit's rows.
"""

from __future__ import annotations

import random

import key_grammar
import pytest
from each_engine import Engine
from key_harness import Cover

from dpproxy.policy.catalog import Catalog


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


def test_every_form_of_key(cover: Cover, shop_catalog: Catalog) -> None:
    forms: list[Asked] = [((text,), "", True) for text in key_grammar.every_form()]
    assert judged(cover, shop_catalog, forms) > 0.8 * len(forms)


def _random(seed: int, count: int) -> list[Asked]:
    rng = random.Random(seed)
    return [(*key_grammar.statement(rng.choice), rng.random() < 0.5) for _ in range(count)]


def test_random_keys(cover: Cover, shop_catalog: Catalog) -> None:
    assert judged(cover, shop_catalog, _random(1, 150)) > 75


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_random_keys_by_the_thousand(seed: int, cover: Cover, shop_catalog: Catalog) -> None:
    judged(cover, shop_catalog, _random(100 + seed, 1000))

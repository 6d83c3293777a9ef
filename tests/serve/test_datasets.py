"""What is fixed when a dataset is opened."""

from __future__ import annotations

import uuid
from pathlib import Path

from dpproxy.serve.datasets import pick_key
from tests.worlds.town import town

ASKED = "SELECT shop, count(*) FROM visits GROUP BY shop"


async def test_groups_are_chosen_by_a_key_of_the_ledger(tmp_path: Path) -> None:
    """Told to no client, and the same after a restart: what was paid for is found again."""
    async with town(tmp_path) as world:
        key = str(pick_key(world.ledger.identity("town")))
        async with world.client() as client:
            first = await client.ask(ASKED)
            assert f"hash({key}, u, k0)" in world.backend.asked[-1]
            assert key not in await client.explain("SELECT shop, sum(paid) FROM visits GROUP BY shop")
        spent = world.account()
        await world.reopen()
        async with world.client() as client:
            assert await client.ask(ASKED) == first
        assert world.account() == spent


def test_keys_fit_both_engines_and_differ() -> None:
    keys = {pick_key(str(uuid.UUID(int=i))) for i in range(200)}
    assert len(keys) == 200
    assert all(0 <= key < 2**63 for key in keys)
    assert max(keys) > 2**62

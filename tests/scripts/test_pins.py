"""`scripts/pins`: what a fixture says of its measurements is written anew; all else of its file stays as it is."""

from __future__ import annotations

from pathlib import Path

import pins
import plan_harness
import pytest
from plan_harness import Shop

from dpproxy.policy.catalog import Catalog
from tests.worlds.planning import shop_catalog

__all__ = ["shop_catalog"]
FILES = ("accept_top.yaml", "bind/group_facts.yaml", "measure/selections.yaml")


@pytest.mark.parametrize("name", FILES)
def test_wrong_numbers_are_mended(name: str, tmp_path: Path, shop_catalog: Catalog) -> None:
    path = tmp_path / Path(name).name
    text = (plan_harness.FIXTURES / name).read_text()
    wrong = (
        text.replace("l0: 1", "l0: 7")
        .replace("l0: 8", "l0: 1")
        .replace("clamps: [0..", "clamps: [1..")
        .replace("paid, void", "void")
    )
    assert wrong != text
    path.write_text(wrong)
    pins.write(path, shop_catalog, Shop(1, 0))
    assert path.read_text() == text

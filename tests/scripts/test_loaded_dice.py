"""The dice of `scripts/loaded_dice.py`: what they replace is there, and is what the product uses."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.worlds.spark_servers import MISSING

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "loaded_dice.py"


@pytest.fixture
def dice() -> ModuleType:
    spec = importlib.util.spec_from_file_location("loaded_dice", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_replaced_is_there(dice: ModuleType) -> None:
    assert [name for module, name, _ in dice.REPLACED if not hasattr(module, name)] == []
    assert {name for _, name, _ in dice.REPLACED} == {"release", "choose", "extreme_rank", "Compiler", "_accelerator"}


def test_the_dice_add_nothing_and_leave_no_choice_to_chance(dice: ModuleType) -> None:
    with pytest.raises(AssertionError, match="chance"):
        dice.NoNoise().entropy(8)


def test_sessions_name_the_tables_of_their_own_address(dice: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason=MISSING)
    from dpproxy.backends import spark_session

    ran: list[Any] = []
    monkeypatch.setattr(spark_session, "opened", lambda config, key: SimpleNamespace(sql=lambda text: ran.append((key, text))))
    (tmp_path / "tables.json").write_text(json.dumps({"sc://a:1/;data=x": ["one", "two"], "sc://a:1/;data=y": ["three"]}))
    dice.name_tables(tmp_path / "tables.json")
    spark_session.opened(SimpleNamespace(url="sc://a:1/;data=x"), 7)  # type: ignore[arg-type]
    assert ran == [(7, "one"), (7, "two")]

"""The demo's shop with a twenty-fifth of its orders: as many columns, groups and kinds of people, made in a second."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from dpproxy import demo

PASSWORD: Final = "ada"
"""Of the demo's user, who has the same name."""


def small_shop(path: Path) -> None:
    fewer = {str(demo.ORDERS): "40000", str(demo.CUSTOMERS + 1): "4001"}
    small = [(what, re.sub("|".join(fewer), lambda found: fewer[found[0]], sql)) for what, sql in demo.STEPS]
    assert sum(was != now for (_, was), (_, now) in zip(demo.STEPS, small, strict=True)) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "STEPS", small)
        demo.make_shop(path)

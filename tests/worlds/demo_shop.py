"""The demo's shop with a twenty-fifth of its orders: as many columns, groups and kinds of people, made in a second."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from dpproxy import demo_data

PASSWORD: Final = "ada"
"""Of the demo's user, who has the same name."""


def small_shop(path: Path) -> None:
    fewer = {str(demo_data.ORDERS): "40000", str(demo_data.CUSTOMERS + 1): "4001"}
    small = [(what, re.sub("|".join(fewer), lambda found: fewer[found[0]], sql)) for what, sql in demo_data.STEPS]
    assert sum(was != now for (_, was), (_, now) in zip(demo_data.STEPS, small, strict=True)) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_data, "STEPS", small)
        demo_data.make_shop(path)

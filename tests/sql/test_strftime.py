"""strftime's formats that to_char has too, and those it has not."""

from __future__ import annotations

import pytest

from dpproxy.sql.translation import as_to_char


@pytest.mark.parametrize(
    ("form", "found"),
    [
        ("%Y-%m", 'YYYY"-"MM'),
        ("week %V of %G", '"week "IW" of "IYYY'),
        ("%B", "FMMonth"),
        ("%U", None),
        ("%Y%", None),
        ("100%%", None),
        ('%Y"', None),
        ("", None),
    ],
)
def test_format(form: str, found: str | None) -> None:
    assert as_to_char(form) == found

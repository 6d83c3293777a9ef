"""Booleans are what PostgreSQL takes for them."""

from __future__ import annotations

import pytest

from dpproxy.sql.settings import boolean

ON = ("t", "tr", "tru", "true", "TRUE", "y", "ye", "yes", "Yes", "on", "ON", "1")
OFF = ("f", "fa", "fal", "fals", "false", "n", "no", "N", "of", "off", "OFF", "0")
NEITHER = ("", "o", "banana", "truer", "offf", "10", "01", " on", "on ", "nope", "-", "yess", "tf")


@pytest.mark.parametrize(("text", "value"), [*((t, True) for t in ON), *((t, False) for t in OFF), *((t, None) for t in NEITHER)])
def test_what_a_text_says(text: str, value: bool | None) -> None:
    assert boolean(text) is value

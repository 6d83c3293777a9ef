"""Booleans are what PostgreSQL takes for them, in every setting alike."""

from __future__ import annotations

import pytest

from dpproxy.errors import Refusal
from dpproxy.plan.settings import session_settings
from dpproxy.sql.booleans import boolean, setting

ON = ("t", "tr", "tru", "true", "TRUE", "y", "ye", "yes", "Yes", "on", "ON", "1")
OFF = ("f", "fa", "fal", "fals", "false", "n", "no", "N", "of", "off", "OFF", "0")
NEITHER = ("", "o", "banana", "truer", "offf", "10", "01", " on", "on ", "nope", "-", "yess", "tf")


@pytest.mark.parametrize("text", ON)
def test_true(text: str) -> None:
    assert boolean(text) is True
    assert setting("dpproxy.notices", text, False) is True
    assert session_settings({"dpproxy.other": text}).other is True


@pytest.mark.parametrize("text", OFF)
def test_false(text: str) -> None:
    assert boolean(text) is False
    assert setting("dpproxy.notices", text, True) is False
    assert session_settings({"dpproxy.other": text}).other is False


@pytest.mark.parametrize("text", NEITHER)
def test_no_boolean(text: str) -> None:
    assert boolean(text) is None
    for asked in (lambda: setting("dpproxy.notices", text, True), lambda: session_settings({"dpproxy.other": text})):
        with pytest.raises(Refusal, match="requires a Boolean value") as refused:
            asked()
        assert refused.value.sqlstate == "22023"


def test_unset_is_what_the_setting_says_it_is() -> None:
    assert setting("dpproxy.notices", None, True) is True
    assert session_settings({}).other is False

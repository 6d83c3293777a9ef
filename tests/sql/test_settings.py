"""Settings: what a text of each means, which texts are refused, and that one row is enough for a setting."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

import dpproxy
from dpproxy.errors import Refusal
from dpproxy.plan.context import session_settings
from dpproxy.session.description import SELECT_LIST
from dpproxy.sql import settings
from dpproxy.sql.settings import NAMES, OWN, SETTINGS, Setting

from .test_booleans import NEITHER, OFF, ON

SECONDS = {
    "700ms": 0.7, "2s": 2.0, "10min": 600.0, "3h": 10800.0, "1d": 86400.0, "250us": 0.00025, "30": 0.03, "0": None, "soon": None,
}  # fmt: skip
VALUES: list[tuple[Setting[object], str | None, object]] = [
    (settings.EPSILON, None, None),
    (settings.EPSILON, "0.5", 500_000),
    (settings.EPSILON, " 1e-6 ", 1),
    (settings.CONFIDENCE, None, Decimal("0.95")),
    (settings.CONFIDENCE, "0.5", Decimal("0.5")),
    (settings.ROWS, None, None),
    (settings.ROWS, "3", 3),
    (settings.GROUPS, " 20 ", 20),
    (settings.REUSE, None, "exact"),
    (settings.REUSE, "Derive", "derive"),
    (settings.REUSE, "off", "off"),
    *((settings.ACCURACY, text, value) for text, value in [("2%", 0.02), (" 2 % ", 0.02), ("0.02", 0.02), ("50%", 0.5)]),
    *((settings.ACCURACY, text, None) for text in (None, "off", "")),
    *((setting, text, True) for text in ON for setting in (settings.OTHER, settings.NOTICES, settings.CONSISTENT)),
    *((setting, text, False) for text in OFF for setting in (settings.OTHER, settings.NOTICES, settings.CONSISTENT)),
    (settings.OTHER, None, False),
    (settings.NOTICES, None, True),
    (settings.CONSISTENT, None, True),
    (settings.TIME_ZONE, None, None),
    (settings.TIME_ZONE, "Etc/UTC", None),
    (settings.TIME_ZONE, "Europe/Paris", "Europe/Paris"),
    (settings.SEARCH_PATH, None, ("public",)),
    (settings.SEARCH_PATH, '"$user", Public, "A ""b"""', ("$user", "public", 'A "b"')),
    (settings.CLIENT_ENCODING, "LATIN1", "LATIN1"),
    (settings.STATEMENT_TIMEOUT, None, None),
    (settings.STATEMENT_TIMEOUT, "", None),
    *((settings.STATEMENT_TIMEOUT, text, value) for text, value in SECONDS.items()),
]
NUMBERS = ("", "two", "NaN", "infinity", "-1", "0", "1e400", "0x1", "1,5")
WRONG = {
    settings.EPSILON: (*NUMBERS, "1e-7", "2e9"),
    settings.ACCURACY: ("0", "0%", "-1%", "60%", "1", "NaN", "infinity", "two", "%", "2%%", "1e-9"),
    settings.CONFIDENCE: (*NUMBERS, "1", "0.4", "0.99999"),
    settings.ROWS: (*NUMBERS, "1.5", "10000000000"),
    settings.GROUPS: (*NUMBERS, "1.5", "10000000000"),
    settings.OTHER: NEITHER,
    settings.NOTICES: NEITHER,
    settings.CONSISTENT: NEITHER,
    settings.REUSE: ("on", "derived", "exactly", "nein"),
}


@pytest.mark.parametrize(("setting", "text", "value"), VALUES, ids=[f"{s.name}={t}" for s, t, _ in VALUES])
def test_what_a_text_means(setting: Setting[object], text: str | None, value: object) -> None:
    found = setting.read({setting.name: text})
    assert found == (pytest.approx(value) if isinstance(value, float) else value)
    assert type(found) is type(value)
    assert text is not None or setting.read({}) == value


def test_each_of_ours_has_texts_that_are_refused() -> None:
    assert set(WRONG) == set(OWN)


@pytest.mark.parametrize("setting", OWN, ids=lambda setting: setting.name)
def test_a_wrong_text_is_a_refusal_that_names_the_setting(setting: Setting[object]) -> None:
    for text in WRONG[setting]:
        with pytest.raises(Refusal) as refused:
            setting.read({setting.name: text})
        assert refused.value.sqlstate == "22023", text
        assert setting.name in refused.value.message
        assert f"RESET {setting.name}" in (refused.value.hint or "").replace("RESET it", f"RESET {setting.name}")


def test_a_plan_sees_what_it_looks_at() -> None:
    seen = session_settings({"dpproxy.epsilon": "0.5", "dpproxy.other": "on", "dpproxy.groups": "2", "TimeZone": "Europe/Paris"})
    assert (seen.epsilon, seen.other, seen.groups, seen.zone) == (500_000, True, 2, "Europe/Paris")
    with pytest.raises(Refusal, match=r"dpproxy\.rows must be a whole number"):
        session_settings({"dpproxy.rows": "many"})


def test_the_facade_is_asked_for_each() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert [name for name in NAMES if f"'{name}'" not in SELECT_LIST] == []


def test_every_setting_has_a_reader() -> None:
    """A setting that is offered and that nobody reads would be a promise that is not kept."""
    constants = {name: value for name, value in vars(settings).items() if isinstance(value, Setting)}
    assert {setting.name for setting in constants.values()} == set(NAMES)
    assert len(constants) == len(SETTINGS)
    rooms = Path(dpproxy.__file__).parent.rglob("*.py")
    texts = "\n".join(path.read_text() for path in rooms if path.name != "settings.py")
    assert [name for name in constants if not re.search(rf"\b{name}\.read\(", texts)] == []

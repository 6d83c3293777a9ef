"""The session's custom settings as the planner reads them: texts in, checked values out.

Knows: the names and ranges of `dpproxy.*` settings. Must not know: connections. A value that can't be read is a refusal,
never a default: an analyst who mistypes an epsilon must not spend another.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

from dpproxy.amounts import MICRO
from dpproxy.errors import INVALID_PARAMETER_VALUE, Refusal
from dpproxy.plan.context import Clock, Settings
from dpproxy.sql.booleans import setting
from dpproxy.sql.clock import CLOCK


def session_settings(values: Mapping[str, str | None]) -> Settings:
    """Settings by their PostgreSQL names; unset ones are None. Raises Refusal 22023."""
    return Settings(
        epsilon=_epsilon(values.get("dpproxy.epsilon")),
        confidence=_confidence(values.get("dpproxy.confidence")),
        search_path=_search_path(values.get("search_path")),
        other=setting("dpproxy.other", values.get("dpproxy.other"), unset=False),
        zone=_zone(values.get("TimeZone")),
        rows=_bound("dpproxy.rows", values.get("dpproxy.rows")),
        groups=_bound("dpproxy.groups", values.get("dpproxy.groups")),
        clock=_clock(values.get(CLOCK)),
    )


def _clock(text: str | None) -> Clock | None:
    """A day, or a day and its time, in ISO's form."""
    return None if text is None else Clock(dt.datetime.fromisoformat(text), day_alone=len(text) == len("2000-01-01"))


_UTC = {"utc", "gmt", "uct", "zulu", "universal", "greenwich", "etc/utc", "etc/gmt", "etc/uct", "etc/zulu", "etc/universal"}


def _zone(text: str | None) -> str | None:
    return None if text is None or text.lower() in _UTC else text


def _default(name: str) -> str:
    return f"RESET {name} goes back to the policy's own."


def _decimal(name: str, text: str) -> Decimal:
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite():
        raise Refusal(INVALID_PARAMETER_VALUE, f'{name} must be a number, not "{text[:40]}"', hint=_default(name))
    return value


def _epsilon(text: str | None) -> int | None:
    if text is None:
        return None
    value = _decimal("dpproxy.epsilon", text)
    micro = int(value * MICRO)
    if value <= 0 or micro < 1 or value > 10**9:
        raise Refusal(INVALID_PARAMETER_VALUE, "dpproxy.epsilon must be at least 0.000001", hint=_default("dpproxy.epsilon"))
    return micro


def _bound(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text.strip()):
        raise Refusal(
            INVALID_PARAMETER_VALUE, f'{name} must be a whole number of at least 1, not "{text[:40]}"', hint=_default(name)
        )
    return int(text)


def _confidence(text: str | None) -> Decimal:
    if text is None:
        return Decimal("0.95")
    value = _decimal("dpproxy.confidence", text)
    if not Decimal("0.5") <= value <= Decimal("0.9999"):
        raise Refusal(
            INVALID_PARAMETER_VALUE, "dpproxy.confidence must lie between 0.5 and 0.9999", hint=_default("dpproxy.confidence")
        )
    return value


def _search_path(text: str | None) -> tuple[str, ...]:
    """Schemas in order; the implicit ones and "$user" hold no table of the dataset."""
    if text is None:
        return ("public",)
    names = re.findall(r'"((?:[^"]|"")*)"|([^,\s"]+)', text)
    return tuple(quoted.replace('""', '"') if quoted else plain.lower() for quoted, plain in names)

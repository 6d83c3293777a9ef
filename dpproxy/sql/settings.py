"""The settings of a session: what each is called, what may be written, what it does, and what a text of it means.

Knows: texts as PostgreSQL shows them, ranges. Must not know: connections, policies, plans. A setting is one row: SET and start-up
packets are held against `SETTINGS`, the facade is asked for their values, and the page of settings is made from them. Whoever
needs a value has the row read it. A text that cannot be read is a refusal, never a default: an analyst who mistypes an epsilon
must not spend another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final, Generic, Literal, TypeVar, cast, get_args

from dpproxy.amounts import MICRO
from dpproxy.errors import INVALID_PARAMETER_VALUE, Refusal

# Booleans as texts: PostgreSQL's spellings, and no others.
#
# Knows: what PostgreSQL takes for a boolean. Must not know: what settings mean, columns. Every setting and constant that is on
# or off is read here, so that no two of them take a word for different things.


_WORDS: Final = (("true", True), ("false", False), ("yes", True), ("no", False))
_WHOLE: Final = {"1": True, "0": False, "on": True, "off": False, "of": False}


def boolean(text: str) -> bool | None:
    """Return what a text says, which may be cut short where that is clear; None where it is no boolean."""
    word = text.lower()
    if word in _WHOLE:
        return _WHOLE[word]
    return next((value for whole, value in _WORDS if word and whole.startswith(word)), None)


T_co = TypeVar("T_co", covariant=True)
ReuseMode = Literal["exact", "derive", "off"]
"""How stored answers are used: for the same question, to compute others from them too, or not at all."""

_MOST_EPSILON: Final = 10**9  # far beyond what any policy allows: larger numbers are mistakes
_SHOWN: Final = 40  # characters of a wrong value that a message repeats: enough to recognise it


@dataclass(frozen=True)
class Setting(Generic[T_co]):
    """A setting of the session. `values`: what may be written, for the page. `meaning`: what it does. `parse`: its text (None:
    unset) to its value; raises Refusal 22023."""

    name: str
    values: str
    meaning: str
    parse: Callable[[str | None], T_co]

    def read(self, settings: Mapping[str, str | None]) -> T_co:
        """Return the value among a session's settings, which are texts by name. Raises Refusal 22023."""
        return self.parse(settings.get(self.name))


def _default(name: str) -> str:
    return f"RESET {name} goes back to the policy's own."


def _decimal(name: str, text: str) -> Decimal:
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite():
        raise Refusal(INVALID_PARAMETER_VALUE, f'{name} must be a number, not "{text[:_SHOWN]}"', hint=_default(name))
    return value


def _epsilon(text: str | None) -> int | None:
    """In micro-epsilon, rounded down; None for the role's own."""
    if text is None:
        return None
    value = _decimal("dpproxy.epsilon", text)
    micro = int(value * MICRO)
    if value <= 0 or micro < 1 or value > _MOST_EPSILON:
        raise Refusal(INVALID_PARAMETER_VALUE, "dpproxy.epsilon must be at least 0.000001", hint=_default("dpproxy.epsilon"))
    return micro


def _accuracy(text: str | None) -> float | None:
    """The typical error that is wanted, as a part of the value: `2%`, `2 %` or `0.02`; None for a price instead."""
    if text is None or text.strip().lower() in ("", "off"):
        return None
    bare = text.strip()
    try:
        value = Decimal(bare.removesuffix("%").strip()) / (100 if bare.endswith("%") else 1)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or not Decimal("0.000001") <= value <= Decimal("0.5"):
        raise Refusal(
            INVALID_PARAMETER_VALUE,
            f'dpproxy.accuracy must lie between 0.0001% and 50%, not "{text[:_SHOWN]}"',
            hint="SET dpproxy.accuracy = '5%'; RESET it for a price of your own.",
        )
    return float(value)


def _confidence(text: str | None) -> Decimal:
    if text is None:
        return Decimal("0.95")
    value = _decimal("dpproxy.confidence", text)
    if not Decimal("0.5") <= value <= Decimal("0.9999"):
        raise Refusal(
            INVALID_PARAMETER_VALUE, "dpproxy.confidence must lie between 0.5 and 0.9999", hint=_default("dpproxy.confidence")
        )
    return value


def _bound(name: str, text: str | None) -> int | None:
    """None for the policy's own."""
    if text is None:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text.strip()):
        message = f'{name} must be a whole number of at least 1, not "{text[:_SHOWN]}"'
        raise Refusal(INVALID_PARAMETER_VALUE, message, hint=_default(name))
    return int(text)


def _switch(name: str, text: str | None, unset: bool) -> bool:
    """On or off, in PostgreSQL's words, and so is what is said of others."""
    value = unset if text is None else boolean(text)
    if value is None:
        message = f'parameter "{name}" requires a Boolean value'
        raise Refusal(INVALID_PARAMETER_VALUE, message, hint=f"SET {name} = on, or off; or RESET {name}.")
    return value


def _reuse(text: str | None) -> ReuseMode:
    value = (text or "exact").lower()
    if value not in get_args(ReuseMode):
        message = f'dpproxy.reuse must be one of exact, derive, off, not "{value[:_SHOWN]}"'
        raise Refusal(INVALID_PARAMETER_VALUE, message, hint="RESET dpproxy.reuse.")
    return cast(ReuseMode, value)


_UTC: Final = {
    "utc",
    "gmt",
    "uct",
    "zulu",
    "universal",
    "greenwich",
    "etc/utc",
    "etc/gmt",
    "etc/uct",
    "etc/zulu",
    "etc/universal",
}


def _zone(text: str | None) -> str | None:
    """None for UTC."""
    return None if text is None or text.lower() in _UTC else text


def _search_path(text: str | None) -> tuple[str, ...]:
    """Schemas in order; the implicit ones and "$user" hold no table of the dataset."""
    if text is None:
        return ("public",)
    names = re.findall(r'"((?:[^"]|"")*)"|([^,\s"]+)', text)
    return tuple(quoted.replace('""', '"') if quoted else plain.lower() for quoted, plain in names)


def _as_it_is(text: str | None) -> str | None:
    return text


_SECONDS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _seconds(text: str | None) -> float | None:
    """A time as PostgreSQL shows it (`700ms`, `10min`); None for none, which it shows as 0."""
    match = re.fullmatch(r"(\d+)(us|ms|s|min|h|d)?", text or "")
    if match is None or not int(match[1]):
        return None
    return int(match[1]) * _SECONDS[match[2] or "ms"]


EPSILON: Final = Setting(
    "dpproxy.epsilon",
    "0.000001 up to the role's `max_epsilon`; unset: the policy's `epsilon`",
    "what one statement may cost. Twice as much halves the noise",
    _epsilon,
)
ACCURACY: Final = Setting(
    "dpproxy.accuracy",
    "`2%`, `0.02`, up to `50%`; unset: off",
    "the typical error that is wanted, instead of a price. A first, cheap answer tells how large the groups are; then the least "
    "epsilon that reaches the error is charged, and no more in all than one query may cost. It counts noise alone, not what "
    "bounds cut. For statements of counts, sums and averages",
    _accuracy,
)
CONFIDENCE: Final = Setting(
    "dpproxy.confidence",
    "0.5 to 0.9999; unset: 0.95",
    "of the intervals of EXPLAIN, `dpproxy.low` and `dpproxy.high`",
    _confidence,
)
ROWS: Final = Setting(
    "dpproxy.rows",
    "a whole number; unset: the policy's",
    "rows of one person that count; tighter than the policy's bound, never looser. Less noise, more cut of active people",
    lambda text: _bound("dpproxy.rows", text),
)
GROUPS: Final = Setting(
    "dpproxy.groups",
    "a whole number; unset: the policy's",
    "groups that one person may be in; tighter than the policy's bound, never looser",
    lambda text: _bound("dpproxy.groups", text),
)
OTHER: Final = Setting(
    "dpproxy.other",
    "`on`, `off`; unset: off",
    "where groups must pass a threshold to be shown: put what is in none of them into one more row. It is a measurement of its "
    "own within the same charge",
    lambda text: _switch("dpproxy.other", text, unset=False),
)
REUSE: Final = Setting(
    "dpproxy.reuse",
    "`exact`, `derive`, `off`; unset: `exact`",
    "`exact`: the same question again is the same answer at no charge. `derive`: also compute answers from stored ones: coarser "
    "groups, filters on group keys, means of sums and counts. `off`: measure and pay anew",
    _reuse,
)
NOTICES: Final = Setting(
    "dpproxy.notices",
    "`on`, `off`; unset: on",
    "the NOTICE after each answer: charge, what is left, typical error, what bounds may have cut",
    lambda text: _switch("dpproxy.notices", text, unset=True),
)
CONSISTENT: Final = Setting(
    "dpproxy.consistent",
    "`on`, `off`; unset: on",
    "where all values of a column that devices randomised are counted: move the estimates so that none is below 0 and they "
    "add up to the reports. `off`: show each as it was estimated",
    lambda text: _switch("dpproxy.consistent", text, unset=True),
)
OWN: Final[tuple[Setting[object], ...]] = (EPSILON, ACCURACY, CONFIDENCE, ROWS, GROUPS, OTHER, CONSISTENT, REUSE, NOTICES)
"""Settings that PostgreSQL does not have."""

TIME_ZONE: Final = Setting(
    "TimeZone",
    "a zone's name",
    "`UTC` or a zone's full name (`Europe/Paris`): how columns of type timestamptz are read, and what `current_date` is",
    _zone,
)
SEARCH_PATH: Final = Setting("search_path", "schemas", "where tables are looked for", _search_path)
CLIENT_ENCODING: Final = Setting(
    "client_encoding",
    "an encoding's name",
    "`UTF8` and `SQL_ASCII` for private tables; encodings of one byte a character while the statement is ASCII",
    _as_it_is,
)
STATEMENT_TIMEOUT: Final = Setting(
    "statement_timeout",
    "a time",
    "ends the waiting, not what was charged: that runs to its end and is kept, and asking again costs nothing",
    _seconds,
)
POSTGRES: Final[tuple[Setting[object], ...]] = (TIME_ZONE, SEARCH_PATH, CLIENT_ENCODING, STATEMENT_TIMEOUT)
"""PostgreSQL's own that matter here."""

SETTINGS: Final[tuple[Setting[object], ...]] = (*OWN, *POSTGRES)
NAMES: Final = tuple(setting.name for setting in SETTINGS)

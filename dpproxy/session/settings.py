"""The session's settings as the facade holds them, read just before they matter.

Knows: names of settings. Must not know: what the planner makes of them. They are read from the facade at each private
statement since only it knows what SET, SET LOCAL, ROLLBACK and RESET have done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from dpproxy.errors import UNDEFINED_OBJECT, Refusal
from dpproxy.session.encodings import decoded
from dpproxy.sql.statements import Statement

NAMES = (
    "dpproxy.epsilon",
    "dpproxy.confidence",
    "dpproxy.reuse",
    "dpproxy.other",
    "dpproxy.accuracy",
    "dpproxy.rows",
    "dpproxy.groups",
    "dpproxy.notices",
    "TimeZone",
    "search_path",
    "client_encoding",
    "statement_timeout",
)

SELECT_LIST = ", ".join(f"pg_catalog.current_setting('{name}', true)" for name in NAMES)

Settings = Mapping[str, str | None]
"""By name; None when unset (an empty text is what a placeholder is left with after ROLLBACK)."""


def read_settings(values: Sequence[bytes | None]) -> Settings:
    """Raises Refusal when the client's encoding would garble what the proxy adds."""
    encoding = (values[NAMES.index("client_encoding")] or b"").decode()
    return MappingProxyType(dict(zip(NAMES, (text or None for text in decoded(values, encoding)), strict=True)))


_SET = re.compile(r"""(?i)set\s+(?:(?:session|local)\s+)?("?dpproxy"?\s*\.\s*"?(?P<name>\w+)"?)""")


def check_name(statement: Statement) -> None:
    """Raises Refusal for SET of what is no setting of the proxy's: PostgreSQL lets every name with a prefix be set."""
    found = _SET.match(statement.text) if statement.kind == "other" else None
    name = f"dpproxy.{found['name'].lower()}" if found else NAMES[0]
    if found and name not in NAMES:
        known = ", ".join(n for n in NAMES if n.startswith("dpproxy."))
        at = statement.offset + found.start(1) + 1
        raise Refusal(UNDEFINED_OBJECT, f'unrecognized configuration parameter "{name}"', at, hint=f"There are {known}.")


_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(value: str | None) -> float | None:
    """A time as PostgreSQL shows it (`700ms`, `10min`); None for none, which it shows as 0."""
    found = re.fullmatch(r"(\d+)(us|ms|s|min|h|d)?", value or "")
    if found is None or not int(found[1]):
        return None
    return int(found[1]) * _SECONDS[found[2] or "ms"]


def is_off(value: str | None) -> bool:
    """PostgreSQL's spellings of a false boolean."""
    return value is not None and value.lower() in ("off", "false", "no", "0", "f", "n", "of")

"""The session's settings as the facade holds them, read just before they matter.

Knows: names of settings (`sql.settings`). Must not know: what is made of them. They are read from the facade at each private
statement since only it knows what SET, SET LOCAL, ROLLBACK and RESET have done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from dpproxy.answers.dataset import Settings
from dpproxy.errors import FEATURE_NOT_SUPPORTED, INVALID_PARAMETER_VALUE, UNDEFINED_OBJECT, Refusal
from dpproxy.session.encodings import decoded
from dpproxy.sql.repeatability import CLOCK
from dpproxy.sql.settings import CLIENT_ENCODING, NAMES, OWN
from dpproxy.sql.statements import Statement

HIDING = """SELECT pg_catalog.min(own.name::pg_catalog.text) FROM (
SELECT typname FROM pg_catalog.pg_type WHERE typnamespace = pg_catalog.pg_my_temp_schema() AND typtype <> 'b' UNION ALL
SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = pg_catalog.pg_my_temp_schema() AND relkind = 'S') AS own(name)
WHERE EXISTS (SELECT FROM pg_catalog.pg_type AS t JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
WHERE t.typname = own.name AND n.nspname !~ '^pg_(toast_)?temp_')"""
"""A type or relation of the session's own that hides one of PostgreSQL's or of the policy: temporary ones come first. Each
relation but a sequence has a type of its name; base types are the arrays of these."""

LONGEST: Final = 10_000
"""Characters of a setting that are looked at: the facade keeps as many as it has memory for, and each statement asks anew."""

_CLOCK_SQL = "pg_catalog.to_char(LOCALTIMESTAMP, 'YYYY-MM-DD HH24:MI:SS.US')"
SELECT_LIST = ", ".join(
    (
        *(f"pg_catalog.left(pg_catalog.current_setting('{name}', true), {LONGEST + 1})" for name in NAMES),
        _CLOCK_SQL,
        "pg_catalog.pg_my_temp_schema()",
    )
)
WIDTH = len(NAMES) + 2
"""Columns of it."""


def read_settings(values: Sequence[bytes | None]) -> Settings:
    """Return them by name, with when the transaction began (`sql.repeatability.CLOCK`).

    An empty text, which is what a placeholder is left with after ROLLBACK, is None too.

    Raises Refusal when the client's encoding would garble what the proxy adds, and for a value that was cut (`LONGEST`).
    """
    encoding = (values[NAMES.index(CLIENT_ENCODING.name)] or b"").decode()
    texts = decoded(values[:-1], encoding)
    for name, text in zip(NAMES, texts, strict=False):
        if text is not None and len(text) > LONGEST:
            told = f'private tables can only be queried while "{name}" has at most {LONGEST:,} characters'
            raise Refusal(INVALID_PARAMETER_VALUE, told, hint=f"RESET {name}, or set it to less.")
    return MappingProxyType(dict(zip((*NAMES, CLOCK), (text or None for text in texts), strict=True)))


_SET = re.compile(r"""(?i)set\s+(?:(?:session|local)\s+)?("?dpproxy"?\s*\.\s*"?(?P<name>\w+)"?)""")


def check_name(statement: Statement) -> None:
    """Raises Refusal for SET of what is no setting of the proxy's: PostgreSQL lets every name with a prefix be set."""
    found = _SET.match(statement.text) if statement.kind == "other" else None
    name = f"dpproxy.{found['name'].lower()}" if found else NAMES[0]
    if found and name not in NAMES:
        known = ", ".join(setting.name for setting in OWN)
        at = statement.offset + found.start(1) + 1
        raise Refusal(UNDEFINED_OBJECT, f'unrecognized configuration parameter "{name}"', at, hint=f"There are {known}.")


_OPTION = re.compile(r"(?:-c\s*|--)((?:[^\s=\\]|\\.)+)=")


def misnamed(given: Mapping[str, str]) -> str | None:
    """Return the first name in a start-up packet that SET would refuse, as a parameter or in `options`."""
    names = [*given, *(name.replace("-", "_") for name in _OPTION.findall(given.get("options", "")))]
    plain = (name.replace("\\", "").lower() for name in names)
    return next((name for name in plain if name.startswith("dpproxy.") and name not in NAMES), None)


def has_temporary(values: Sequence[bytes | None]) -> bool:
    """Whether the session has, or had, anything temporary: then `HIDING` is to be asked."""
    return values[-1] != b"0"


def check_hiding(name: bytes | None) -> None:
    """Raises Refusal where names do not mean to PostgreSQL what they mean to the planner, by the answer to `HIDING`: it is
    PostgreSQL that checks that a function is given what it is for."""
    if name is not None:
        shown = name.decode(errors="replace")
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            f'private tables can only be queried while nothing temporary hides a type or table of its name, as "{shown}" does',
            hint="Drop it, or give it another name.",
        )

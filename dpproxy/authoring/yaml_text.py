"""Scalars and names as YAML that every reader understands alike, and that policies read back as they were.

Knows: which texts YAML takes for something else. Must not know: policies. What is not plainly a word is put in double quotes, as
JSON would; a name with capitals is quoted twice, once for SQL and once for YAML.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal

from dpproxy.policy.names import quote_name
from dpproxy.table_terms import TableName

_WORD = re.compile(r"[A-Za-z_][\w .+/<>=$-]*[\w+$]\Z|[A-Za-z_]\Z", re.ASCII)
_TAKEN = re.compile(r"(?:true|false|yes|no|on|off|null|y|n|nan|inf)\Z", re.IGNORECASE)
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_$]*\Z")


def scalar(value: str | int | bool | Decimal) -> str:
    """Return a scalar that is read back as it is."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Decimal():
            return format(value, "f")
    return value if _WORD.match(value) and not _TAKEN.match(value) else json.dumps(value, ensure_ascii=False)


def written_name(name: TableName, bare: bool = False) -> str:
    """Return a table's or column's name as a key of a policy; `bare`: to be put in quotes by who uses it."""
    parts = [_part(part) for part in ((name.schema, name.name) if name.schema != "public" else (name.name,))]
    text = ".".join(parts)
    return text if bare else scalar(text)


def _part(name: str) -> str:
    folds = name != name.lower() and re.match(r"[A-Za-z_][A-Za-z0-9_$]*\Z", name) is not None
    plain = _PLAIN_NAME.match(name) is not None or ("." not in name and '"' not in name and not folds)
    return name if plain else quote_name(name)

"""Names of tables and columns as a policy spells them.

Knows: PostgreSQL's rules for identifiers. Must not know: YAML, engines. A plain identifier is folded to lower case,
as PostgreSQL folds it in a query; a name with spaces or other signs is kept; a part in double quotes is kept exactly.
DuckDB's default schema `main` is PostgreSQL's `public`.
"""

from __future__ import annotations

import re

from dpproxy.table_terms import TableName

MAX_NAME = 63  # PostgreSQL's NAMEDATALEN - 1, in bytes: longer names are cut there and would collide
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*\Z", re.ASCII)
_QUOTED = re.compile(r'"((?:[^"]|"")+)"')


def quote_name(name: str, quote: str = '"') -> str:
    """Return an identifier as SQL has it exactly; `quote`: the engine's own mark."""
    return quote + name.replace(quote, quote * 2) + quote


def written(*parts: str) -> str:
    """Return a name, or several with dots between, as a policy is to have it, for messages that say what to write."""
    text = ".".join(part if fold(part) == part and not set(part) & set('."') else quote_name(part) for part in parts)
    return "'" + text.replace("'", "''") + "'" if '"' in text else text


def written_place(table: TableName, column: str) -> str:
    """Return a table's column in the same way."""
    return written(*((table.name,) if table.schema == "public" else (table.schema, table.name)), column)


def fold(name: str) -> str:
    """Return one identifier in PostgreSQL's spelling."""
    return name.lower() if _PLAIN.match(name) else name


def split(text: str) -> tuple[str, ...] | None:
    """Return the parts of a dotted name, each in PostgreSQL's spelling. None when it is not a name."""
    parts: list[str] = []
    rest = text
    while True:
        quoted = _QUOTED.match(rest)
        if quoted:
            parts.append(quoted[1].replace('""', '"'))
            rest = rest[quoted.end() :]
        else:
            word, _, _ = rest.partition(".")
            if not word or '"' in word:
                return None
            parts.append(fold(word))
            rest = rest[len(word) :]
        if not rest:
            break
        if not rest.startswith("."):
            return None
        rest = rest[1:]
    return tuple(parts) if all(valid(p) for p in parts) else None


def valid(name: str) -> bool:
    """Return whether PostgreSQL can hold the name: not empty, not too long, no control characters."""
    return 0 < len(name.encode("utf-8", "replace")) <= MAX_NAME and name.isprintable()


def table(text: str) -> TableName | None:
    """Read `name` or `schema.name`. Returns None when the text is neither."""
    parts = split(text)
    if parts is None or len(parts) > 2:
        return None
    schema = parts[0] if len(parts) == 2 else "public"
    return TableName("public" if schema == "main" else schema, parts[-1])


def column(text: str) -> str | None:
    parts = split(text)
    return parts[0] if parts is not None and len(parts) == 1 else None


def table_column(text: str) -> tuple[TableName, str] | None:
    """Read `table.column` or `schema.table.column`. Returns None when the text is neither."""
    parts = split(text)
    if parts is None or not 2 <= len(parts) <= 3:
        return None
    schema = parts[0] if len(parts) == 3 else "public"
    return TableName("public" if schema == "main" else schema, parts[-2]), parts[-1]

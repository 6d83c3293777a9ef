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
_PLURALS = {
    "person": "people", "child": "children", "man": "men", "woman": "women", "wife": "wives", "staff": "staff", "crew": "crew",
    "offspring": "offspring", "personnel": "personnel",
}  # fmt: skip
"""Of nouns for people, those that no rule makes."""
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


def plural(noun: str) -> str:
    """Return the plural of what a policy calls its unit, as in customers, households of a city, companies."""
    head, of, rest = noun.partition(" of ")
    before, space, last = head.rpartition(" ")
    return before + space + _plural(last) + of + rest


def _plural(word: str) -> str:
    low = word.lower()
    if low == "person":
        return f"{word}s"  # each counted by itself, as no people are
    if low in _PLURALS or low in _PLURALS.values():
        return _PLURALS.get(low, word)
    if re.search(r"[^aeiou]y$", low):
        return f"{word[:-1]}ies"
    return f"{word}es" if re.search(r"(?:s|x|z|ch|sh)$", low) else f"{word}s"


def singular(word: str) -> str:
    """Return one of what a table is called after, as in person of people; the word itself where it is one."""
    one = next((one for one, many in _PLURALS.items() if word.lower() == many), None)
    if one is not None:
        return one
    if word.endswith(("series", "species")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-1] if word.endswith(("movies", "cookies")) else f"{word[:-3]}y"
    if re.search(r"(?:ss|us|x|z|ch|sh)es$", word) and not word.endswith(("houses", "causes")):
        return word[:-2]
    return word[:-1] if re.search(r"[^siu]s$", word) else word


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

"""Names in back quotes, as MySQL and GoogleSQL write them, in double quotes.

Knows: where strings, names and comments of a text begin and end. Must not know: statements, policies. PostgreSQL has no use for a
back quote outside of strings, so a text that has one comes from elsewhere: what stands there in double quotes is a string. A name
that is one plain word does not depend on its capitals there, and has none here, as PostgreSQL's own plain names.
"""

from __future__ import annotations

import re
from typing import Final

_PIECES: Final = re.compile(
    r"""
      (?P<kept>'(?:[^']|'')*+(?:'|\Z) | --[^\n]* | /\*.*?(?:\*/|\Z) | \$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z))
    | `(?P<name>[^`]+)`
    | "(?P<text>(?:[^"]|"")*+)(?:"|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
"""What is open to the end is read to the end, so that no text is read twice."""
_WORD: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def in_double_quotes(text: str) -> str:
    """Return a client's text with such names in double quotes; one without them as it is."""
    if "`" not in text or not any(piece["name"] for piece in _PIECES.finditer(text)):
        return text
    return _PIECES.sub(_written, text)


def _written(piece: re.Match[str]) -> str:
    if piece["kept"] is not None:
        return piece["kept"]
    if piece["name"] is None:
        return "'" + piece["text"].replace('""', '"').replace("'", "''") + "'"
    name = piece["name"]
    return '"' + (name.lower() if _WORD.fullmatch(name) else name.replace('"', '""')) + '"'

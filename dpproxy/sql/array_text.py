"""PostgreSQL's text form of arrays, taken apart.

Knows: its quoting. Must not know: types, engines.
"""

from __future__ import annotations

import re


def array_items(text: str) -> list[str | None]:
    """Return the elements of a one-dimensional array literal. Raises ValueError for other arrays."""
    body = text.strip()
    if not (body.startswith("{") and body.endswith("}")):
        raise ValueError("not a one-dimensional array")
    items: list[str | None] = []
    for match in _ITEM.finditer(body[1:-1]):
        quoted, plain = match.groups()
        if quoted is not None:
            items.append(re.sub(r"\\(.)", r"\1", quoted))
        elif plain:
            if "{" in plain:
                raise ValueError("not a one-dimensional array")
            items.append(None if plain.upper() == "NULL" else plain)
    return items


_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,]+)')

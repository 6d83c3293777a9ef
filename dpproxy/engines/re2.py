r"""Regular expressions of PostgreSQL in the words of RE2, which DuckDB has.

Knows: what `\w`, `\d` and `\s` are in each. Must not know: expressions. RE2's are of ASCII; PostgreSQL's letters and spaces are
Unicode's, its digits are 0 to 9 (in `C.UTF-8`, which the facade has). A class is a set of Unicode's categories here, so that
`'Straße' ~ '^\w+$'` is true on both. What no category tells apart differs: signs of vowels above and below a letter are letters
in PostgreSQL, not here. Other constructs are the same in both; the allow-list refuses what is not.
"""

from __future__ import annotations

import re
from typing import Final

_CLASSES: Final = {
    "w": r"\p{L}\p{Nl}\p{Mc}_0-9\x{24B6}-\x{24E9}",
    "d": "0-9",
    "s": r"\t-\r\x{85}\p{Z}",
}
_PART: Final = re.compile(r"\\(.)|(\[\^?)|(\])", re.DOTALL)


def translated(pattern: str) -> str:
    """The pattern in RE2's syntax: each class of characters spelled out, within brackets or alone."""
    out, at, inside = "", 0, False
    for part in _PART.finditer(pattern):
        out += pattern[at : part.start()] + _spelled(part, inside)
        at = part.end()
        inside = part[3] is None and (inside or part[2] is not None)
    return out + pattern[at:]


def _spelled(part: re.Match[str], inside: bool) -> str:
    letter = part[1]
    if letter is None or letter.lower() not in _CLASSES:
        return part[0]
    if inside:
        return _CLASSES[letter]
    return f"[{'^' if letter.isupper() else ''}{_CLASSES[letter.lower()]}]"

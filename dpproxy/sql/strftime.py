"""strftime's formats in PostgreSQL's words, and the parts of a date that other engines have as functions.

Knows: both formats. Must not know: policies, engines. `strftime(x, '%Y-%m')` is `to_char(x, 'YYYY-MM')`.
"""

from __future__ import annotations

import re

FIELDS = {
    "Y": "YYYY", "y": "YY", "m": "MM", "d": "DD", "H": "HH24", "I": "HH12", "M": "MI", "S": "SS", "j": "DDD",
    "b": "Mon", "B": "FMMonth", "a": "Dy", "A": "FMDay", "p": "AM", "u": "ID", "V": "IW", "G": "IYYY",
}  # fmt: skip
"""What PostgreSQL prints in the same way."""
PARTS = ("year", "quarter", "month", "day", "hour", "minute")
_PIECE = re.compile(r"%(.)|([^%]+)", re.DOTALL)


def as_to_char(form: str) -> str | None:
    """Return the format of to_char that prints the same; None where there is none."""
    pieces = []
    for match in _PIECE.finditer(form):
        field, text = match.groups()
        if field is not None and field not in FIELDS:
            return None
        if text is not None and ('"' in text or "\\" in text):
            return None
        pieces.append(FIELDS[field] if field is not None else f'"{text}"')
    return "".join(pieces) if pieces and form.count("%") == sum(m.group(1) is not None for m in _PIECE.finditer(form)) else None

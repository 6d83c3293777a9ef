"""PostgreSQL's template patterns of times, taken to pieces as to_char takes them.

Knows: every keyword of to_char, in the order in which PostgreSQL tries them, and what may stand before and behind one. Must not
know: expressions, engines. Keywords are told apart by case ('Mm' is two letters), the longest comes first ('SSSS' is no 'SS'
twice), and every character that begins no keyword stands for itself. What PostgreSQL knows and nobody here prints is a field
all the same, so that a caller refuses it by name instead of reading it as two others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_WORDS = (
    "A.D. A.M. AD AM B.C. BC CC DAY DDD DD DY Day Dy D FF1 FF2 FF3 FF4 FF5 FF6 FX HH24 HH12 HH IDDD ID IW IYYY IYY IY I J MI MM "
    "MONTH MON MS Month Mon OF P.M. PM Q RM SSSSS SSSS SS TZH TZM TZ US WW W Y,YYY YYYY YYY YY Y"
)
_UPPER = _WORDS.split()
_LOWER = [word.lower() for word in _UPPER if word not in ("Day", "Dy", "Month", "Mon")]
KEYWORDS = (*_UPPER, *_LOWER)
"""In PostgreSQL's order: of those with one beginning the longer is first."""
_MARKS = re.compile(r"[-/:., _()0-9]+")
"""Characters that begin no keyword."""
_BEFORE = ("FM", "fm", "TM", "tm")
_BEHIND = ("SP", "TH", "th")


@dataclass(frozen=True)
class Field:
    """A keyword as it is written, with the modifiers before and behind it ('' for none)."""

    word: str
    before: str = ""
    behind: str = ""

    @property
    def text(self) -> str:
        return self.before + self.word + self.behind


def fields(form: str) -> Iterator[Field | str]:
    """The fields of a format and the texts between them. Raises ValueError for a backslash, whose meaning has changed with
    PostgreSQL's versions, and for a quotation that does not end."""
    if "\\" in form:
        raise ValueError("backslash")
    at = 0
    while at < len(form):
        if form[at] == '"':
            end = form.find('"', at + 1)
            if end < 0:
                raise ValueError("quotation")
            yield form[at + 1 : end]
            at = end + 1
            continue
        before = _first(_BEFORE, form, at)
        at += len(before)
        word = _first(KEYWORDS, form, at)
        if word:
            at += len(word)
            behind = _first(_BEHIND, form, at)
            yield Field(word, before, behind)
            at += len(behind)
        elif at < len(form) and (not before or form[at] != '"'):
            run = _MARKS.match(form, at)
            yield run[0] if run else form[at]
            at += len(run[0]) if run else 1


def _first(words: Sequence[str], form: str, at: int) -> str:
    return next((word for word in words if form.startswith(word, at)), "")

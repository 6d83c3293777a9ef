"""Booleans as texts: PostgreSQL's spellings, and no others.

Knows: what PostgreSQL takes for a boolean. Must not know: what settings mean, columns. Every setting and constant that is on or
off is read here, so that no two of them take a word for different things.
"""

from __future__ import annotations

from typing import Final

_WORDS: Final = (("true", True), ("false", False), ("yes", True), ("no", False))
_WHOLE: Final = {"1": True, "0": False, "on": True, "off": False, "of": False}


def boolean(text: str) -> bool | None:
    """Return what a text says, which may be cut short where that is clear; None where it is no boolean."""
    word = text.lower()
    if word in _WHOLE:
        return _WHOLE[word]
    return next((value for whole, value in _WORDS if word and whole.startswith(word)), None)

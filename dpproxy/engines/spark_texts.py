"""Functions of texts as Spark SQL: as PostgreSQL has them, on Spark and on Sail.

Knows: how both count characters, their letters. Must not know: expressions. Spark compares texts by their bytes in UTF-8, as the
other engines do here. Spark writes a capital of some letters with two (ß as SS) and the last sigma of a word in its own form:
those letters are set aside, by code points that no text uses, and put back. Patterns of LIKE are checked and written anew, since
Spark raises for an escape before an ordinary letter. Lengths and places are INT to Spark; what is beyond is held there.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from dpproxy.engines.spark_types import INT32, quote, written

ASIDE = 0x10F000
"""Code points for private use, of which no character is made."""


@cache
def apart() -> dict[str, str]:
    """Letters whose capital Spark writes in another way, and the capital that stands for one letter by one."""
    letters = (chr(c) for c in range(128, 0x10000) if not 0xD800 <= c <= 0xDFFF)
    several = {c: c.title() if len(c.title()) == 1 else c for c in letters if len(c.upper()) > 1}
    return {**several, "\u1e9e": "\u00df"}  # PostgreSQL has no capital of the sharp s


def upper(text: str) -> str:
    letters, capitals = quote("".join(apart())), quote("".join(apart().values()))
    aside = quote("".join(chr(ASIDE + i) for i in range(len(apart()))))
    return f"translate(upper(translate({text}, {letters}, {aside})), {aside}, {capitals})"


def lower(text: str) -> str:
    return f"lower(translate({text}, '\u03a3\u0130', '\u03c3i'))"


def whole(text: str) -> str:
    """Spell a whole number as INT."""
    return f"CAST(least(greatest(CAST({text} AS BIGINT), {-INT32}L), {INT32}L) AS INT)"


def left(text: str, count: str) -> str:
    """Spell the first characters; of a negative count, all but the last."""
    n = whole(count)
    kept = f"CASE WHEN {n} < 0 THEN greatest(length({text}) + {n}, 0) ELSE {n} END"
    return f"substring({text}, 1, {kept})"


def right(text: str, count: str) -> str:
    n = whole(count)
    gone = f"CASE WHEN {n} < 0 THEN least(-({n}), length({text})) ELSE greatest(length({text}) - {n}, 0) END"
    return f"(CASE WHEN {n} IS NOT NULL THEN substring({text}, {gone} + 1) END)"


def substring(text: str, start: str, count: str | None = None) -> str:
    """Spell the characters from a place on; places before the first count, and have no character."""
    first = f"CAST(greatest({_held(start)}, 1L) AS INT)"
    if count is None:
        return f"(CASE WHEN {start} IS NOT NULL THEN substring({text}, {first}) END)"
    end = f"{_held(start)} + {_held(count)}"
    many = f"CAST(least(greatest({end} - greatest({_held(start)}, 1L), 0L), {INT32}L) AS INT)"
    return f"(CASE WHEN {start} IS NOT NULL AND {count} IS NOT NULL THEN substring({text}, {first}, {many}) END)"


def _held(text: str) -> str:
    return f"least(greatest(CAST({text} AS BIGINT), {-INT32}L), {INT32}L)"


def split_part(text: str, mark: str, place: str) -> str:
    return f"split_part({text}, {mark}, NULLIF({whole(place)}, 0))"


def pattern(text: str, escape: str) -> str:
    """Write a pattern of LIKE with a backslash before `%`, `_` and itself alone. `escape`: what does that in `text`, or empty."""
    made, marks = [], iter(text)
    for mark in marks:
        if escape and mark == escape:
            made.append(_plain(next(marks, escape)))
        else:
            made.append("\\\\" if mark == "\\" else mark)
    return quote("".join(made))


def _plain(mark: str) -> str:
    return f"\\{mark}" if mark in "%_\\" else mark


def told_apart(parts: Iterable[str]) -> str:
    """Spell several values as one text that is never NULL, and another for each of them."""
    each = (
        f"CASE WHEN {p} IS NULL THEN '-' ELSE concat({written(f'length({written(p)})')}, ':', {written(p)}) END" for p in parts
    )
    return f"concat({', '.join(each)})"

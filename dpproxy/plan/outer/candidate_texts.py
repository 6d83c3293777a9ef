"""Functions of texts as PostgreSQL computes them, for candidates that a policy lists.

Knows: Python texts. Must not know: expressions, SQL. Letters have their other case by Unicode; where its rules differ by language
or place a `TextError` says why there is no value. Nothing here takes longer than the text is long times the pattern.
"""

from __future__ import annotations

from collections.abc import Callable

LONGEST = 10_000
"""Characters of a text that is made of candidates."""


class TextError(ValueError):
    """A function that has no value for a text. Its text says what it is."""


def lower(text: str) -> str:
    return "".join(_other_case(letter, letter.lower()) for letter in text)


def upper(text: str) -> str:
    return "".join(_other_case(letter, letter.upper()) for letter in text)


def _other_case(letter: str, other: str) -> str:
    """Raise TextError for letters beyond ASCII whose other case is several letters or not theirs alone: rules differ there."""
    if letter.isascii() or (letter != "Σ" and len(other) == 1 and (other == letter or other.swapcase() == letter)):
        return other
    raise TextError(f"the other case of `{letter}`")


def left(text: str, count: int) -> str:
    return text[:count]


def right(text: str, count: int) -> str:
    return text[-count or len(text) :]


def substring(text: str, start: int, count: int | None = None) -> str:
    if count is not None and count < 0:
        raise TextError("a substring of negative length")
    first = max(start - 1, 0)
    return text[first:] if count is None else text[first : max(start - 1 + count, 0)]


def replaced(text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


def concatenated(*texts: str) -> str:
    return "".join(texts)


def place(text: str, part: str) -> int:
    return text.find(part) + 1


def like(text: str, pattern: str, escape: str = "\\") -> bool:
    """Tell whether a text is like a pattern: `_` is any letter, `%` any letters, and what follows `escape` is itself."""
    if len(escape) > 1:
        raise TextError("an escape of several letters")
    parts = _parts(pattern, escape)
    at = part = 0
    star, kept = -1, 0
    while at < len(text):
        if part < len(parts) and parts[part] is not ANY and parts[part] in (ONE, text[at]):
            at, part = at + 1, part + 1
        elif part < len(parts) and parts[part] is ANY:
            star, kept, part = part, at, part + 1
        elif star >= 0:
            kept += 1
            at, part = kept, star + 1
        else:
            return False
    return all(rest is ANY for rest in parts[part:])


ANY, ONE = "any letters", "a letter"


def _parts(pattern: str, escape: str) -> list[str]:
    found, letters = list[str](), iter(pattern)
    for letter in letters:
        if escape and letter == escape:
            following = next(letters, None)
            if following is None:
                raise TextError("a pattern that ends in its escape")
            found.append(following)
        else:
            found.append(ANY if letter == "%" else ONE if letter == "_" else letter)
    return found


def ilike(text: str, pattern: str, escape: str = "\\") -> bool:
    return like(lower(text), lower(pattern), lower(escape))


FUNCTIONS: dict[str, Callable[..., str | int | bool]] = {
    "lower": lower, "upper": upper, "left": left, "right": right, "substring": substring, "substring_from": substring,
    "length": len, "strpos": place, "starts_with": str.startswith, "concat": concatenated, "replace": replaced,
    "trim": str.strip, "ltrim": str.lstrip, "rtrim": str.rstrip, "like": like, "ilike": ilike,
}  # fmt: skip
"""Operations of the catalogue (`plan.operations`), by name. Arguments are texts and whole numbers."""


def computed(op: str, values: list[str | int]) -> str | int | bool:
    """Return the value of a function of `FUNCTIONS`. Raises TextError."""
    found = FUNCTIONS[op](*values)
    if isinstance(found, str) and len(found) > LONGEST:
        raise TextError("a text of so many letters")
    return found

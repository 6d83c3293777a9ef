"""Patterns over texts: LIKE, SIMILAR TO and regular expressions that PostgreSQL and RE2 read alike, in linear time.

Knows: both syntaxes. Must not know: engines, tables. Whether a pattern matches is the same question everywhere; WHAT it matches
is not: PostgreSQL takes the longest of alternatives, RE2 the first. So functions that use the matched text (replace, extract,
count) take patterns for which both are the same: single characters and classes with greedy quantifiers in a row, groups
that are not quantified, or alternatives that are plain words none of which begins with another. In a pattern of the
whole text (`^...$`) a plain word may be optional, when what is before it can match in one way only: what is matched is then
all of the text, and both take the word where the rest lets them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from dpproxy.errors import INVALID_ESCAPE_SEQUENCE, INVALID_REGULAR_EXPRESSION, UNDEFINED_FUNCTION, Refusal
from dpproxy.plan.functions.operators import coerce, literal_text
from dpproxy.plan.refusals import OTHER_ARGUMENTS, OTHER_TYPE, unsupported
from dpproxy.sql.types import TEXTS
from dpproxy.tree.expr import Call, Expr, Hole, Lit

MAX_PATTERN = 200  # characters
MAX_GROUPS = 10
_IN_CLASS = r"[^\[\]\\\-]"
_CLASS = rf"\[\^?-?(?:{_IN_CLASS}-{_IN_CLASS}|{_IN_CLASS}|\\[dws.])*-?\]"
_REPEAT = r"(?:[*+?]|\{\d{1,2}(?:,\d{0,2})?\})\??"
_ESCAPE = r"\\[.dwsDWS$^()\[\]{}|*+?/\\-]"
# no look-around, no back references
_TOKEN = re.compile(rf"(?P<atom>{_ESCAPE}|{_CLASS}|[^\\()*+?{{}}|\[\]^$])|(?P<repeat>{_REPEAT})|(?P<mark>[()|^$])")
MAX_STATES = 1_000
"""Characters of a pattern with its repetitions written out: RE2 refuses more of `((a{99}){99})`, PostgreSQL 100,000."""
_ATOM = rf"(?:[^\\()*+?{{}}|\[\]^$]|{_ESCAPE}|{_CLASS})"
_ONE_WAY = re.compile(rf"^\^?(?:{_ATOM}(?:[*+?]|\{{\d{{1,2}}(?:,\d{{0,2}})?\}})?(?![?+*])|[()](?![*+?{{]))*\$?$")
_LETTER = r"(?:[^\\()*+?{}|\[\]^$.]|\\[.\-/])"
_OPTIONAL_WORD = re.compile(rf"^\^((?:{_LETTER}\??)*)\((?:\?:)?({_LETTER}+)\)\?(?![?+*])(.*)\$$")
_SPECIAL = re.compile(r"[.^$*+?(){}|\[\]\\]")
_WORDS = re.compile(r"^[\w \-]+(?:\|[\w \-]+)*$")
_CONSTRUCT = re.compile(r"\[\[[:.=][^\]]*[:.=]\]|\(\?(?:[!<=]+|[a-zA-Z]+\))|\\[bByYmMAZ<>1-9pPQEuxc]|\[[<>]|\*\*\*[:=]?|[*+?}]\+")
"""Constructs that PostgreSQL and RE2 read differently, or that one of them lacks."""
_SIMPLER = "Use LIKE, or a pattern without look-around and back references."
_ONLY = "Use a pattern of characters, classes and greedy quantifiers, without alternatives and quantified groups."


def like(op: str, value: Expr, pattern: Expr, escape: Expr | None = None) -> Expr:
    pattern = coerce(pattern, "text")
    if not isinstance(pattern, Lit | Hole) and escape is not None:
        raise unsupported(r"ESCAPE with a pattern that is not a constant", r"Leave it out: `\` is the escape character.")
    if pattern.type not in (*TEXTS, "unknown"):
        raise Refusal(
            UNDEFINED_FUNCTION, f"operator does not exist: {value.type} {'~~' if op == 'like' else '~~*'} {pattern.type}"
        )
    if isinstance(pattern, Lit):
        mark = literal_text(escape, "ESCAPE") if escape is not None else "\\"
        text = pattern.text or ""
        if mark and (len(text) - len(text.rstrip(mark))) % 2:
            raise Refusal(INVALID_ESCAPE_SEQUENCE, "LIKE pattern must not end with escape character")
    args = (value, pattern) if escape is None else (value, pattern, coerce(escape, "text"))
    return Call("bool", op, args)


def regex(op: str, value: Expr, pattern: Expr) -> Expr:
    """Tell whether a text matches; `op` is regex or iregex."""
    return Call("bool", op, (_text(value), Lit("text", _safe(pattern))))


def _text(value: Expr) -> Expr:
    value = coerce(value, "text")
    if value.type not in TEXTS:
        raise unsupported(f"a regular expression over {value.type}", OTHER_TYPE)
    return value


def _safe(pattern: Expr) -> str:
    text = literal_text(coerce(pattern, "text"), "a regular expression")
    if pattern.type not in (*TEXTS, "unknown"):
        raise unsupported(f"a regular expression of type {pattern.type}", OTHER_TYPE)
    plain = text.replace("(?:", "(")  # the one construct with `(?` that both know
    if len(text) > MAX_PATTERN or "(?" in plain or text.count("(") > MAX_GROUPS or not 0 <= _states(plain) <= MAX_STATES:
        found = _CONSTRUCT.search(text)
        named = found[0] if found else text[:40]
        raise unsupported("this regular expression", f"{_SIMPLER} Not taken: `{named}`.")
    try:
        re.compile(text)
    except re.error as error:
        raise Refusal(INVALID_REGULAR_EXPRESSION, "invalid regular expression") from error
    return text


def _states(text: str) -> int:
    """How long the pattern is with its repetitions written out; -1 when it is not of the common syntax.

    What an engine does not take must not reach it: PostgreSQL compiles a pattern when the first row comes to it, so that an
    error would say that there is such a row.
    """
    sizes, last, at = [0], -1, 0  # of the groups that are open; of what a repetition would repeat, -1 for nothing
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return -1
        at, mark = match.end(), match["mark"]
        if match["repeat"]:
            if last < 0:
                return -1
            sizes[-1] += last * (_times(match["repeat"]) - 1)
            last = -1
        elif match["atom"]:
            sizes[-1], last = sizes[-1] + 1, 1
        elif mark == "(":
            sizes, last = [*sizes, 0], -1
        elif mark == ")":
            if len(sizes) == 1:
                return -1
            last = sizes.pop() + 1
            sizes[-1] += last
        else:
            last = -1
    return sum(sizes)


def _times(repeat: str) -> int:
    """How often `*`, `{2,5}` and their like write their operand out, one more where there is no end."""
    numbers = [int(n) for n in re.findall(r"\d+", repeat)]
    return max([1, *numbers]) + (repeat[0] in "*+" or ("," in repeat[:-1] and len(numbers) == 1))


def _unambiguous(pattern: Expr) -> str:
    """A pattern whose match is the same text everywhere, and never empty."""
    text = _safe(pattern)
    words = text.split("|") if _WORDS.match(text) else []
    apart = bool(words) and not any(a is not b and b.startswith(a) for a in words for b in words)
    if not (apart or _ONE_WAY.match(_without_optional_word(text).replace("(?:", "("))):
        raise unsupported("taking what this regular expression matches", _ONLY)
    if re.search(text, "") is not None:
        raise unsupported("taking what a regular expression matches that matches nothing at all", _ONLY)
    return text


def _without_optional_word(text: str) -> str:
    """The pattern with its optional word made a part of it, where that decides nothing else; else as it is."""
    found = _OPTIONAL_WORD.match(text)
    if found is None or text.endswith("\\$"):
        return text
    before, word, rest = found.groups()
    letters = re.findall(rf"{_LETTER}\??", before)
    sure = all(not a.endswith("?") or a[:-1] != b.removesuffix("?") for a, b in pairwise(letters))
    open_end = bool(letters) and letters[-1].endswith("?")
    return f"^{before}{word}{rest}$" if sure and not open_end else text


def similar(value: Expr, pattern: Expr) -> Expr:
    """Bind SIMILAR TO: the whole text, with % and _ of LIKE and the operators of regular expressions."""
    text = literal_text(coerce(pattern, "text"), "a SIMILAR TO pattern")
    out, at = "", 0
    while at < len(text):
        char = text[at]
        if char == "[" and (end := text.find("]", at + 2)) > 0:
            out, at = out + text[at : end + 1], end + 1
            continue
        if char == "\\" and at + 1 < len(text):
            at += 1
            out += _SPECIAL.sub(r"\\\g<0>", text[at])
        else:
            out += {"%": ".*", "_": ".", ".": "\\.", "^": "\\^", "$": "\\$"}.get(char, char)
        at += 1
    return regex("regex", value, Lit("text", f"^({out})$"))


# --- functions


def _flags(args: Sequence[Expr], at: int, known: str) -> str:
    """Flags given as argument `at`: a subset of `known`, each once."""
    text = literal_text(coerce(args[at], "text"), "the flags of a regular expression") if len(args) > at else ""
    if set(text) - set(known):
        raise unsupported(
            f"a regular expression with flags '{text}'", f"Flags are {', '.join(known)}: x ~* 'pattern' takes no notice of case."
        )
    return "".join(sorted(set(text)))


def _arguments(name: str, args: Sequence[Expr], least: int, most: int) -> None:
    if not least <= len(args) <= most:
        raise unsupported(f"`{name}` with {len(args)} arguments", OTHER_ARGUMENTS)


def regexp_like(args: Sequence[Expr]) -> Expr:
    _arguments("regexp_like", args, 2, 3)
    return regex("iregex" if _flags(args, 2, "i") else "regex", args[0], args[1])


def _groups(pattern: str) -> int:
    """How many groups capture."""
    return pattern.count("(") - pattern.count("\\(") - pattern.count("(?:")


def regexp_replace(args: Sequence[Expr]) -> Expr:
    _arguments("regexp_replace", args, 3, 4)
    pattern = _unambiguous(args[1])
    by = literal_text(coerce(args[2], "text"), "the replacement of `regexp_replace`")
    used = re.findall(r"\\(.?)", by)
    if any(not u.isdigit() or u == "0" or int(u) > _groups(pattern) for u in used):
        raise unsupported("this replacement of `regexp_replace`", r"Use plain text and \1 to \9 for groups of the pattern.")
    flags = Lit("text", _flags(args, 3, "gi"))
    return Call("text", "regexp_replace", (_text(args[0]), Lit("text", pattern), Lit("text", by), flags))


def regexp_substring(value: Expr, pattern: Expr, flags: str = "") -> Expr:
    """Bind substring(text from pattern): the first group where there is one, else the whole match; NULL without a match."""
    text = _unambiguous(pattern)
    group = int(_groups(text) > 0)
    return Call("text", "regexp_extract", (_text(value), Lit("text", text), Lit("int4", str(group)), Lit("text", flags)))


def regexp_substr(args: Sequence[Expr]) -> Expr:
    _arguments("regexp_substr", args, 2, 2)
    found = regexp_substring(args[0], args[1])
    assert isinstance(found, Call)
    if found.args[2] != Lit("int4", "0"):
        raise unsupported("`regexp_substr` with groups", "Use substring(text from pattern), which yields the first group.")
    return found


def regexp_matched(args: Sequence[Expr]) -> Expr:
    """Bind (regexp_match(text, pattern))[1]."""
    _arguments("regexp_match", args, 2, 3)
    return regexp_substring(args[0], args[1], _flags(args, 2, "i"))


def regexp_count(args: Sequence[Expr]) -> Expr:
    _arguments("regexp_count", args, 2, 2)
    pattern = _unambiguous(args[1])
    if pattern[0] == "^" or pattern[-1] == "$":
        raise unsupported("counting matches at the ends of a text", "Use CASE WHEN x ~ pattern THEN 1 ELSE 0 END.")
    return Call("int4", "regexp_count", (_text(args[0]), Lit("text", pattern)))


FUNCTIONS = {
    "regexp_like": regexp_like, "regexp_replace": regexp_replace, "regexp_substr": regexp_substr, "regexp_count": regexp_count,
}  # fmt: skip

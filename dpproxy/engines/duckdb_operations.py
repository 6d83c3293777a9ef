"""DuckDB's spelling of operators and functions, total by construction: NULL where DuckDB would raise.

Knows: the planner's operations, in which of DuckDB's types each computes, and the domains of DuckDB's functions. Must not know:
aggregates, measurements, policies. An operation is spelled by the template of its row (`plan.operations.catalogue`) where its
operands need no thought, and by a method of this file where they do. An operation whose operands could make DuckDB raise is
widened or guarded. `engines.duckdb` adds types, aggregates and what measurements need.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from dpproxy.engines.base import Engine, Names, check_number, held_number, quote
from dpproxy.engines.doubles import decimal_operation
from dpproxy.plan.operations.operation import constant
from dpproxy.plan.properties.facts import LARGEST, facts, fits_int4
from dpproxy.plan.properties.text_growth import CUTS
from dpproxy.sql.types import FLOATS, INTEGERS
from dpproxy.tree.expr import Call, Expr, Hole, InList, Lit, Ref
from dpproxy.tree.interval import Interval

# Regular expressions of PostgreSQL in the words of RE2, which DuckDB has.
#
# Knows: what `\w`, `\d` and `\s` are in each. Must not know: expressions. RE2's are of ASCII; PostgreSQL's letters and spaces
# are Unicode's, its digits are 0 to 9 (in `C.UTF-8`, which the facade has). A class is a set of Unicode's categories here, so
# that `'Straße' ~ '^\w+$'` is true on both. What no category tells apart differs: signs of vowels above and below a letter are
# letters in PostgreSQL, not here. Other constructs are the same in both; the allow-list refuses what is not.


_CLASSES: Final = {
    "w": r"\p{L}\p{Nl}\p{Mc}_0-9\x{24B6}-\x{24E9}",
    "d": "0-9",
    "s": r"\t-\r\x{85}\p{Z}",
}
_PART: Final = re.compile(r"\\(.)|(\[\^?)|(\])", re.DOTALL)
_CASED: Final = re.compile(r"\\.|(?P<open>\[\^?-?)|(?P<range>[^\]\\\[]-[^\]\\\[])|.", re.DOTALL)
_FEW_LETTERS: Final = 512
"""Of a range in brackets: their other cases are listed."""


def translated(pattern: str) -> str:
    """The pattern in RE2's syntax: each class of characters spelled out, within brackets or alone."""
    out, at, inside = "", 0, False
    for part in _PART.finditer(pattern):
        out += pattern[at : part.start()] + _spelled(part, inside)
        at = part.end()
        inside = part[3] is None and (inside or part[2] is not None)
    return out + pattern[at:]


def without_case(pattern: str) -> str:
    """The pattern with each letter in both cases, as PostgreSQL takes no notice of them: RE2 by itself matches `s` with an old
    form of it, U+017F, and `k` with the sign of kelvin."""
    out, inside = "", False
    for part in _CASED.finditer(pattern):
        text, range_ = part[0], part["range"]
        inside = part["open"] is not None or (inside and text != "]")
        if range_ is not None and inside:
            out += text + _other_cases(ord(text[0]), ord(text[2]))
        elif range_ is not None:
            out += "".join(map(_either, text))
        elif len(text) > 1 or len(_cases(text)) == 1:
            out += text
        else:
            out += _cases(text) if inside else _either(text)
    return out


def _either(letter: str) -> str:
    cases = _cases(letter)
    return f"[{cases}]" if len(cases) > 1 else letter


def _other_cases(first: int, last: int) -> str:
    """The letters beyond a range that are other cases of some in it."""
    if last - first >= _FEW_LETTERS:
        return ""
    found = sorted({ord(o) for n in range(first, last + 1) for o in _cases(chr(n))} - {*range(first, last + 1)})
    runs = [[n for _, n in run] for _, run in groupby(enumerate(found), lambda pair: pair[1] - pair[0])]
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" if len(run) > 1 else chr(run[0]) for run in runs)


def _cases(letter: str) -> str:
    """A letter, and its lower and upper case where each is one letter."""
    return "".join(dict.fromkeys(c for c in (letter, letter.lower(), letter.upper()) if len(c) == 1))


def _spelled(part: re.Match[str], inside: bool) -> str:
    letter = part[1]
    if letter is None or letter.lower() not in _CLASSES:
        return part[0]
    if inside:
        return _CLASSES[letter]
    return f"[{'^' if letter.isupper() else ''}{_CLASSES[letter.lower()]}]"


# In which of DuckDB's types a value is computed.
#
# Knows: PostgreSQL's types, DuckDB's, and spans of values. Must not know: how operations are spelled. Whole numbers are BIGINT
# or, where their span may pass it, HUGEINT or DOUBLE; NUMERIC computes as DOUBLE, but columns keep their own type until
# computed with.


INT64 = 2**63 - 1
NARROW = 2**32
INT128 = 2**126  # below HUGEINT's 2**127 - 1, so that a sum of two still fits

TYPES = {
    "int2": "BIGINT", "int4": "BIGINT", "int8": "BIGINT", "numeric": "DOUBLE", "float4": "DOUBLE", "float8": "DOUBLE",
    "text": "VARCHAR", "varchar": "VARCHAR", "bpchar": "VARCHAR", "unknown": "VARCHAR", "bool": "BOOLEAN", "date": "DATE",
    "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP", "interval": "INTERVAL", "uuid": "UUID", "time": "TIME",
}  # fmt: skip
NARROW_TYPES = {"int2": "SMALLINT", "int4": "INTEGER"}
"""Of whole numbers below 64 bits, what a cast to them is tried with."""


def adds_in_64_bits(lo: int, hi: int, shift: int) -> bool:
    """Tell whether a unit's values, which lie within [lo, hi] once `shift` is subtracted, are added up in 64 bits."""
    return max(abs(lo + shift), abs(hi + shift)) < NARROW


def representation(expr: Expr) -> str:
    """Return the DuckDB type in which an integer expression is computed."""
    return narrowest(facts(expr).span) if expr.type in INTEGERS else TYPES.get(expr.type, "VARCHAR")


def narrowest(span: Interval) -> str:
    """Return the narrowest type in which whole numbers of a span are computed."""
    if span.within(INT64):
        return "BIGINT"
    if span.within(INT128):
        return "HUGEINT"
    return "DOUBLE"


def one_kind(exprs: Sequence[Expr]) -> bool:
    """Say whether these are columns of one of DuckDB's own types of numbers: their values need not be doubles to be compared."""
    kinds = {e.column.exact if isinstance(e, Ref) else "" for e in exprs}
    return len(kinds) == 1 and "" not in kinds


INT32 = LARGEST["int4"]
_FEW = range(2, 5)
"""Items of a list with which DuckDB compares one by one: its planner writes the operand as many times, and those of nested lists
multiply where no text shows it. So do its macros for NULLIF and SPLIT_PART. What is written out here is seen by `MAX_TEXT`."""


class DuckDBOperations(Engine):
    """What of the engine spells operators and functions."""

    def __init__(self, cut: int = CUTS[0]) -> None:
        self.cut = cut

    def number(self, expr: Expr, names: Names, as_: str) -> str:
        """Spell `expr` as BIGINT, HUGEINT or DOUBLE; `as_` is never narrower than its representation. Raises Refusal."""
        check_number(expr)
        text = self.expr(expr, names)
        if isinstance(expr, Lit) and expr.type in INTEGERS and as_ == "BIGINT":
            return text
        if isinstance(expr, Lit) and as_ == "DOUBLE" and expr.type not in INTEGERS:
            return text
        return f"CAST({text} AS {as_})"

    def operand(self, arg: Expr, call: Call, names: Names, form: str) -> str:
        """Of DuckDB: `f` DOUBLE, `i` BIGINT, `m` TIMESTAMP, `p` a place of 32 bits, `r` a constant pattern for RE2, `q` one that
        takes no notice of case, `x` one whose flags are the last argument, `v` as one of the result's type where not all are
        columns of one type."""
        match form:
            case "f":
                return self.number(arg, names, "DOUBLE")
            case "i":
                text = self.expr(arg, names)
                return text if isinstance(arg, Ref | Lit) else f"TRY_CAST({text} AS BIGINT)"
            case "m":
                return f"TRY_CAST({self.expr(arg, names)} AS TIMESTAMP)"
            case "p":
                text = self.expr(arg, names)
                return text if fits_int4(arg) else held_number(text, -INT32, INT32)
            case "r":
                return quote(translated(constant(arg)))
            case "q":
                return quote(translated(without_case(constant(arg))))
            case "x" if "i" in constant(call.args[-1]):
                return quote(f"(?-i){translated(without_case(constant(arg)))}")
            case "x":
                return quote(translated(constant(arg)))
            case "v":
                return self.expr(arg, names) if one_kind(call.args) else self.as_type(arg, call.type, names)
        return super().operand(arg, call, names, form)

    def spell_arithmetic(self, expr: Call, names: Names) -> str:
        op, args = expr.op, expr.args
        width = "DOUBLE"
        if expr.type in INTEGERS:
            order = ("BIGINT", "HUGEINT", "DOUBLE")
            needed = [narrowest(facts(expr).span), *(representation(a) for a in args)]
            width = max(needed, key=lambda t: order.index(t) if t in order else 2)
        texts = [self.number(a, names, width) for a in args]
        if width == "BIGINT" and all(isinstance(a, Lit) for a in args):  # DuckDB takes small constants for INT32
            texts[0] = f"CAST({texts[0]} AS BIGINT)"
        if len(texts) == 1:
            return f"(-{texts[0]})" if op == "neg" else f"{op}({texts[0]})"
        if expr.type == "numeric":
            return decimal_operation(op, texts[0], texts[1], facts(expr).grid)
        if op in ("/", "int/", "%"):
            sign = op
            if op == "int/":
                if width == "DOUBLE":
                    return f"trunc({texts[0]} / NULLIF({texts[1]}, 0))"
                sign = "//"
            return f"({texts[0]} {sign} NULLIF({texts[1]}, 0))"
        return f"({texts[0]} {op} {texts[1]})"

    def in_list(self, expr: InList, names: Names) -> str:
        """Few items are compared one by one, as DuckDB would."""
        if isinstance(expr.arg, Ref) or len(expr.items) not in _FEW:
            return super().in_list(expr, names)
        sign, both = ("<>", " AND ") if expr.negated else ("=", " OR ")
        left = self.comparable(expr.arg, expr.items[0], names)
        return f"({both.join(f'{left} {sign} {self.comparable(item, expr.arg, names)}' for item in expr.items)})"

    def spell_rounded(self, expr: Call, names: Names) -> str:
        args = expr.args
        value = self.number(args[0], names, "DOUBLE")
        digits = self.expr(args[1], names) if len(args) > 1 else "0"
        if args[0].type in FLOATS and len(args) == 1:
            return f"round_even({value}, 0)"  # PostgreSQL rounds float8 half to even, numeric half away from zero
        return f"round({value}, {digits})"

    def spell_truncated(self, expr: Call, names: Names) -> str:
        args = expr.args
        value = self.number(args[0], names, "DOUBLE")
        if len(args) == 1:
            return f"trunc({value})"
        scale = f"CAST(1e{int(self.expr(args[1], names))} AS DOUBLE)"
        # numeric computes as DOUBLE here: 0.29 * 100 is a little less than 29 and must still be 29
        return f"(trunc(round({value} * {scale}, 6)) / {scale})"

    def spell_shifted(self, expr: Call, names: Names, sign: str) -> str:
        args = expr.args
        ts = f"TRY_CAST({self.expr(args[0], names)} AS TIMESTAMP)"
        guard = f"{ts} BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31'"
        interval = self.expr(args[1], names)
        if not isinstance(args[1], Lit):
            guard += f" AND {interval} BETWEEN INTERVAL (-4000) YEAR AND INTERVAL (4000) YEAR"
        return f"(CASE WHEN {guard} THEN {ts} {sign} {interval} END)"

    def spell_like(self, expr: Call, names: Names, word: str) -> str:
        args = expr.args
        value, pattern = self.expr(args[0], names), self.expr(args[1], names)
        escape = self.expr(args[2], names) if len(args) > 2 else None
        if isinstance(args[1], Hole):
            return f"(CASE WHEN NOT contains({pattern}, '\\') THEN {value} {word} {pattern} END)"
        if not isinstance(args[1], Lit):
            return self.like_of_row(word, value, pattern)
        if escape is None and "\\" in (args[1].text or ""):
            escape = "'\\'"
        return f"({value} {word} {pattern}{f' ESCAPE {escape}' if escape else ''})"

    def comparable(self, expr: Expr, other: Expr, names: Names) -> str:
        text = self.expr(expr, names)
        numbers = (*INTEGERS, "numeric", *FLOATS)
        if expr.type in numbers and other.type in numbers:
            if one_kind((expr, other)):
                return text
            if expr.type in INTEGERS and other.type in INTEGERS:
                return text
            return self.number(expr, names, "DOUBLE")
        times = ("date", "timestamp", "timestamptz")
        if expr.type in times and other.type in times and expr.type != other.type:
            return f"TRY_CAST({text} AS TIMESTAMP)"
        return text

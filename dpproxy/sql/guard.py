"""What is too much to parse, decided on tokens before the parser sees them.

Knows: the tokenizer (linear in the text). Must not know: policies. sqlglot's parser is exponential on some short texts
(nested ARRAY[, runs of JOIN without ON) and recursive on deep ones, so everything is capped first. The
caps are far above what BI tools send: the largest statement of the corpus has 2,100 tokens and 12 levels.
"""

from __future__ import annotations

import itertools
import re

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpproxy.errors import FEATURE_NOT_SUPPORTED, STATEMENT_TOO_COMPLEX, SYNTAX_ERROR, Refusal
from dpproxy.sql.dialect import FaithfulPostgres

MAX_LENGTH = 64 * 1024
MAX_TOKENS = 8_000
MAX_DEPTH = 24  # brackets; the parser recurses about 20 Python frames a level
MAX_ARRAY_DEPTH = 4  # nested ARRAY[...] is exponential in sqlglot 30
MAX_SUBSCRIPTS = 6  # of one array: PostgreSQL's MAXDIM; sqlglot looks through all of them at each
MAX_JOINS = 40
MAX_BARE_JOINS = 6  # JOIN before its ON/USING: exponential in sqlglot 30
MAX_CHAIN = 1_000  # operands of one AND/OR/NOT/|| chain: each is a level of recursion for visitors
MAX_AGGREGATES = 256  # a BI tool's widest has 84; each is planned in a few milliseconds, measured, and given noise
MAX_BRANCHES = 128  # SELECTs: of UNIONs, CTEs and subqueries together
_AGGREGATES = {"count", "sum", "avg", "min", "max", "mode", "median", "corr", "covar_pop", "covar_samp", "percentile_cont"}
_AGGREGATES |= {"percentile_disc", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp", "count_if"}
_AGGREGATES |= {
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
}
SHORTER = "Pass a long list as one array: x = ANY ($1), or x = ANY ('{1,2,3}')."

_OPEN = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSE = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_CHAIN = {
    TokenType.ARROW,
    TokenType.DARROW,
    TokenType.AND,
    TokenType.OR,
    TokenType.DPIPE,
    TokenType.PLUS,
    TokenType.DASH,
    TokenType.STAR,
}


_CALL = re.compile(rf"(?i)\b(?:{'|'.join(sorted(_AGGREGATES))})\s*\(")
_QUOTING = re.compile(r"""['"$]|--|/\*""")


def refuse_wide(text: str) -> None:
    """Raise Refusal for a text with more aggregates than a statement may have, before it is taken apart into tokens, which takes
    several times as long. A text that quotes or comments is left to `check`: names in there are none of calls."""
    if len(text) > MAX_LENGTH or _QUOTING.search(text):
        return
    calls = list(itertools.islice(_CALL.finditer(text), MAX_AGGREGATES + 1))
    if len(calls) > MAX_AGGREGATES and ";" not in text.rstrip().removesuffix(";"):
        raise _too_complex(f"has more than {MAX_AGGREGATES} aggregates", calls[-1].end())


def too_long() -> Refusal:
    """Return what is said of a text that is too long to be taken apart."""
    return Refusal(STATEMENT_TOO_COMPLEX, f"statement is longer than {MAX_LENGTH} characters", hint=SHORTER)


def tokenize(text: str) -> list[Token]:
    """Return the tokens of one client text. Raises Refusal for what no statement needs."""
    if len(text) > MAX_LENGTH:
        raise too_long()
    if "\x00" in text:
        raise Refusal(SYNTAX_ERROR, "statement contains a NUL character")
    try:
        tokens = list(FaithfulPostgres().tokenize(text))
    except TokenError as error:
        raise Refusal(SYNTAX_ERROR, "statement could not be read: unterminated string or comment") from error
    if len(tokens) > MAX_TOKENS:
        raise Refusal(STATEMENT_TOO_COMPLEX, f"statement has more than {MAX_TOKENS} tokens", hint=SHORTER)
    return tokens


def check(tokens: list[Token], text: str) -> None:
    """Raise Refusal for nesting the parser should not be given."""
    depth = arrays = joins = bare = aggregates = branches = 0
    not_run = chain = subscripts = 0
    array_at: list[bool] = []
    for i, token in enumerate(tokens):
        kind = token.token_type
        if kind in _OPEN:
            is_array = kind == TokenType.L_BRACKET
            subscripts = subscripts + 1 if is_array and i > 0 and tokens[i - 1].token_type == TokenType.R_BRACKET else 0
            aggregates += kind == TokenType.L_PAREN and i > 0 and tokens[i - 1].text.lower() in _AGGREGATES
            array_at.append(is_array)
            arrays += is_array
            depth += 1
        elif kind in _CLOSE and array_at:
            arrays -= array_at.pop()
            depth -= 1
        elif kind == TokenType.JOIN:
            joins += 1
            natural_or_cross = any(t.token_type in (TokenType.CROSS, TokenType.NATURAL) for t in tokens[max(0, i - 3) : i])
            bare += not natural_or_cross
        elif kind in (TokenType.ON, TokenType.USING):
            bare = max(0, bare - 1)
        elif kind == TokenType.SELECT:
            branches += 1
        not_run = not_run + 1 if kind == TokenType.NOT else 0
        chain += kind in _CHAIN
        if depth > MAX_DEPTH or not_run > MAX_DEPTH or arrays > MAX_ARRAY_DEPTH or subscripts >= MAX_SUBSCRIPTS:
            raise _too_complex("is nested too deeply", token.start + 1)
        if joins > MAX_JOINS or bare > MAX_BARE_JOINS:
            raise _too_complex("has too many joins", token.start + 1)
        if aggregates > MAX_AGGREGATES:
            raise _too_complex(f"has more than {MAX_AGGREGATES} aggregates", token.start + 1)
        if branches > MAX_BRANCHES:
            raise _too_complex(f"has more than {MAX_BRANCHES} SELECTs", token.start + 1)
        if chain > MAX_CHAIN:
            raise _too_complex("has too many operators", token.start + 1)
        _hazard(token, text)
        if text[token.start] in _SIGNS:
            _check_operator(tokens, i, text)


_SIGNS = frozenset("+-*/<>=~!@#%^&|`?")  # what PostgreSQL makes operators of
_LONG = frozenset("~!@#%^&|`?")  # a longer operator ends in + or - only if it holds one of these


def _operator(signs: str) -> str:
    """The operator that PostgreSQL reads at the beginning of signs: all of them, but for signs of numbers behind (`a=-1`)."""
    while len(signs) > 1 and signs[-1] in "+-" and _LONG.isdisjoint(signs):
        signs = signs[:-1]
    return signs


_OTHERWISE = {"??", "<=>", "==", "~~", "~~*", "!~~", "!~~*"}
"""Operators that sqlglot takes for something else, or binds as it binds the words that mean the same."""
_PUT_TOGETHER = {"!~", "!~*", "<<", ">>"}
"""Operators of which sqlglot's parser makes one of several tokens."""


def _check_operator(tokens: list[Token], at: int, text: str) -> None:
    """Raise Refusal where sqlglot reads several operators and PostgreSQL one, as `-~` or `!!`."""
    begin, end = tokens[at].start, tokens[at].end + 1
    if text[begin - 1] in _SIGNS and at and tokens[at - 1].end + 1 == begin:
        return  # in the middle of signs
    last = at
    while text[end : end + 1] in _SIGNS and last + 1 < len(tokens) and tokens[last + 1].start == end:
        last += 1
        end = tokens[last].end + 1
    run = text[begin:end]
    if run in _PUT_TOGETHER or (len(run) == 1 and last == at) or not _SIGNS.issuperset(run):
        return
    read = 0
    for token in tokens[at : last + 1]:
        if read < len(run) and token.start == begin + read:
            read += len(_operator(run[read:]))
        if run in _OTHERWISE or token.end + 1 != begin + read:
            raise Refusal(
                FEATURE_NOT_SUPPORTED,
                f"operator `{run}` is not supported over private tables",
                position=begin + 1,
                hint="PostgreSQL reads signs side by side as one operator: put spaces between several.",
            )


def _too_complex(what: str, at: int) -> Refusal:
    return Refusal(
        STATEMENT_TOO_COMPLEX,
        f"statement {what}",
        position=at,
        hint="Split it, or use CTEs.",
    )


def _hazard(token: Token, text: str) -> None:
    """Spellings that sqlglot reads differently from PostgreSQL: never guess at a private statement's meaning."""
    source = text[token.start : token.end + 1]
    if source[:2] in ("|/",) or source[:3] == "||/" or source in ("@", "{"):
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            f"operator `{source}` is not supported over private tables",
            position=token.start + 1,
            hint="Use the function instead: sqrt(x), cbrt(x), abs(x).",
        )
    after = text[token.end + 1 : token.end + 2]
    adjoined = token.token_type == TokenType.NUMBER and (after.isalnum() or after == "_")
    if adjoined or source[:2].lower() in ("0x", "0b", "0o"):
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            "a number in this notation is not supported over private tables",
            position=token.start + 1,
            hint="Write it in decimal digits, without separators.",
        )
    if source.lower() == "u" and text[token.end + 1 : token.end + 2] == "&" and text[token.end + 2 : token.end + 3] in "\"'":
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            'U&"..." names and strings are not supported over private tables',
            position=token.start + 1,
            hint="Write the character itself.",
        )

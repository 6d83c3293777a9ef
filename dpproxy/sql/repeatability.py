"""Whether a query gives the same rows again as long as nothing else happens in its session.

Knows: trees, which forms PostgreSQL computes without looking at clock, dice or state. Must not know: sessions, plans. Names of
functions are the server's to judge: the caller says which of them are immutable. What is not known changes.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final, Literal

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, INSUFFICIENT_PRIVILEGE, Refusal
from dpproxy.sql.dialect import ident
from dpproxy.sql.guard import tokenize
from dpproxy.sql.nodes import nodes
from dpproxy.sql.statements import Statement, parse, words_of

IMMUTABLE: Final = """SELECT pg_catalog.string_agg(proname, ' ') FROM (SELECT proname FROM pg_catalog.pg_proc
WHERE pronamespace = 'pg_catalog'::pg_catalog.regnamespace AND prokind <> 'p'
GROUP BY proname HAVING pg_catalog.bool_and(provolatile = 'i')) AS _"""
"""Asks for the names whose functions of PostgreSQL's own are all immutable."""

_BY_SETTINGS: Final = frozenset(("date_trunc", "date_part", "to_char", "concat", "concat_ws", "format", "array_to_string"))
"""Functions that depend on settings of the session, which are the same while nothing happens in it, and on nothing else."""
_SYNTAX: Final = frozenset(("coalesce", "greatest", "grouping", "least", "nullif"))
"""Syntax that looks like functions."""
_SCHEMAS: Final = frozenset(("", "pg_catalog"))
_FORMS: Final = (
    exp.Cast, exp.Coalesce, exp.Greatest, exp.Least, exp.Nullif, exp.Extract, exp.Trim, exp.Substring, exp.StrPosition,
    exp.Overlay, exp.Case, exp.If, exp.Connector, exp.SubqueryPredicate, exp.Array, exp.Unnest,
)  # fmt: skip
_CLOCK: Final = re.compile(r"(?i)\b(now|today|tomorrow|yesterday)\b")
"""Texts that are times when they are cast to one."""


def steady(query: str, immutable: frozenset[str]) -> bool:
    """Return whether a query gives the same rows again as long as nothing else happens in its session. `immutable`: the names of
    functions that depend on nothing but their arguments."""
    if 'u&"' in query.lower():  # a name in disguise
        return False
    try:
        tree = parse(query)
    except Refusal:
        return False
    return all(_same_again(node, immutable) for node in nodes(tree))


def _same_again(node: exp.Expr, immutable: frozenset[str]) -> bool:
    if isinstance(node, exp.Literal):
        return not (node.is_string and _CLOCK.search(node.this))
    if isinstance(node, exp.Anonymous):
        name = str(node.this).lower() if isinstance(node.this, str) else ident(node.this)
        return name in immutable or name in _BY_SETTINGS or name in _SYNTAX
    if isinstance(node, exp.Dot):
        return not isinstance(node.expression, exp.Func) or ident(node.this) in _SCHEMAS
    return not isinstance(node, (exp.Func, exp.TableSample, exp.Into, exp.Lock)) or isinstance(node, _FORMS)


# How closely a text looks at the clock: not at all, at the day, or at the time of day.
#
# Knows: PostgreSQL's names of the time. Must not know: what they mean in a statement. A plan holds what these names came to, so
# it is good for as long as they come to the same. Words are looked for wherever they stand, in names and texts too: whoever
# takes a text for one that looks at the clock plans it once more than needed, and nothing worse.


CLOCK: Final = "transaction start"
"""The name, among a session's settings, of when its transaction began: a time of its own time zone."""

Reading = Literal["none", "day", "moment"]
CLOSENESS: Final[tuple[Reading, ...]] = ("none", "day", "moment")

_MOMENT = re.compile(r"(?i)\b(now|current_timestamp|localtimestamp|transaction_timestamp|statement_timestamp)\b")
_DAY = re.compile(r"(?i)\b(current_date|today|yesterday|tomorrow|age)\b")


def reading(text: str) -> Reading:
    """Say how closely a text looks at the clock."""
    return "moment" if _MOMENT.search(text) else "day" if _DAY.search(text) else "none"


def shown(clock: str | None, read: Reading) -> str | None:
    """Return as much of an ISO time as is looked at."""
    if clock is None or read == "none":
        return None
    return clock if read == "moment" else clock.partition(" ")[0]


# Statements that reach beyond the session that makes them: to other sessions, or to those that come later.
#
# Knows: tokens. Must not know: policies. PostgreSQL would allow each of these to a role that may do nothing else, and sessions
# of one role would see what others did. Statements are told by their first words, behind whatever comments; nothing of the kind
# can stand inside another statement, since analysts have no language for functions, and rules are here.


_MESSAGES = "Sessions cannot send each other messages here."
_SETTINGS = "Use SET in your session."
_NO_POLICY = "privacy policies are not made or shown by statements"
_POLICY = (
    "A policy is a YAML file that the proxy reads, kept by whoever runs it (docs/policies). What yours says is in "
    "dpproxy.policy, dpproxy.tables and dpproxy.budget."
)
_BEYOND: Final[dict[tuple[str, ...], tuple[str, str, str]]] = {
    ("LISTEN",): (FEATURE_NOT_SUPPORTED, "LISTEN is not supported", _MESSAGES),
    ("NOTIFY",): (FEATURE_NOT_SUPPORTED, "NOTIFY is not supported", _MESSAGES),
    ("ALTER", "ROLE"): (INSUFFICIENT_PRIVILEGE, "permission denied to alter role", _SETTINGS),
    ("ALTER", "USER"): (INSUFFICIENT_PRIVILEGE, "permission denied to alter role", _SETTINGS),
    ("ALTER", "GROUP"): (INSUFFICIENT_PRIVILEGE, "permission denied to alter role", _SETTINGS),
    ("ALTER", "DEFAULT"): (INSUFFICIENT_PRIVILEGE, "permission denied to alter default privileges", ""),
    ("DROP", "OWNED"): (INSUFFICIENT_PRIVILEGE, "permission denied to drop objects", "DISCARD TEMP drops temporary tables."),
    ("REASSIGN", "OWNED"): (INSUFFICIENT_PRIVILEGE, "permission denied to reassign objects", ""),
    ("CREATE", "PRIVACY"): (FEATURE_NOT_SUPPORTED, _NO_POLICY, _POLICY),
    ("CREATE", "OR", "REPLACE", "PRIVACY"): (FEATURE_NOT_SUPPORTED, _NO_POLICY, _POLICY),
    ("ALTER", "PRIVACY"): (FEATURE_NOT_SUPPORTED, _NO_POLICY, _POLICY),
    ("DROP", "PRIVACY"): (FEATURE_NOT_SUPPORTED, _NO_POLICY, _POLICY),
    ("DESCRIBE", "PRIVACY"): (FEATURE_NOT_SUPPORTED, _NO_POLICY, _POLICY),
    ("DESC", "PRIVACY"): (FEATURE_NOT_SUPPORTED, _NO_POLICY, _POLICY),
    ("SHOW", "PRIVACY"): (FEATURE_NOT_SUPPORTED, _NO_POLICY, _POLICY),
    ("CREATE", "RULE"): (FEATURE_NOT_SUPPORTED, "CREATE RULE is not supported", ""),
    ("CREATE", "OR", "REPLACE", "RULE"): (FEATURE_NOT_SUPPORTED, "CREATE RULE is not supported", ""),
}
BEYOND_WORDS: Final = (b"listen", b"notify", b"alter", b"owned", b"rule", b"privacy")
"""A text that holds none of them, in small letters, is no such statement."""
_LONGEST: Final = max(map(len, _BEYOND))


def check_allowed(statement: Statement) -> None:
    """Raise Refusal for a statement that reaches beyond its session."""
    if statement.kind != "other" or not any(word in statement.text.lower() for word in _TEXTS):
        return
    every = words_of(tokenize(statement.text))
    if every[0] == "ALTER" and any(
        pair == ("PRIVACY", "POLICY") for pair in pairwise(every)
    ):  # ALTER TABLE t ADD PRIVACY POLICY p
        every = ["ALTER", "PRIVACY"]
    words = tuple(every[:_LONGEST])
    for size in range(1, _LONGEST + 1):
        found = _BEYOND.get(words[:size])
        if found is not None:
            sqlstate, told, hint = found
            raise Refusal(sqlstate, told, statement.offset + 1, hint=hint or None)


_TEXTS: Final = tuple(word.decode() for word in BEYOND_WORDS)

"""Statements that reach beyond the session that makes them: to other sessions, or to those that come later.

Knows: tokens. Must not know: policies. PostgreSQL would allow each of these to a role that may do nothing else, and sessions
of one role would see what others did. Statements are told by their first words, behind whatever comments; nothing of the
kind can stand inside another statement, since analysts have no language for functions, and rules are here.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from dpproxy.errors import FEATURE_NOT_SUPPORTED, INSUFFICIENT_PRIVILEGE, Refusal
from dpproxy.sql.guard import tokenize
from dpproxy.sql.statements import Statement, words_of

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

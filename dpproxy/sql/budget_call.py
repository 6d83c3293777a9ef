"""Snowflake's table function over the budget, as a table of ours.

Knows: tokens. Must not know: budgets. `TABLE(SNOWFLAKE.DATA_PRIVACY.ESTIMATE_REMAINING_DP_AGGREGATES('t'))` is no SQL of
PostgreSQL's; what it answers is in the table `dpproxy.estimate_remaining_dp_aggregates`, which takes its place. The table that it
names does not matter: budgets here are of roles and users, over all tables.
"""

from __future__ import annotations

from typing import Final

from dpproxy.sql.guard import tokenize
from dpproxy.sql.statements import words_of

NAME: Final = "estimate_remaining_dp_aggregates"
_QUALIFIED: Final = ["SNOWFLAKE", ".", "DATA_PRIVACY", "."]


def as_table(text: str) -> str:
    """Return a client's text with each such call written as the table. Raises Refusal for a text that no statement needs."""
    if NAME not in text.lower():
        return text
    tokens = tokenize(text)
    words = words_of(tokens)
    for at in reversed([i for i, word in enumerate(words) if word == NAME.upper()]):
        first = at - len(_QUALIFIED) if words[max(at - len(_QUALIFIED), 0) : at] == _QUALIFIED else at
        last = at + 3  # the name, a bracket, what it names, a bracket
        if words[at + 1 : at + 2] != ["("] or words[last : last + 1] != [")"]:
            continue
        if words[max(first - 2, 0) : first] == ["TABLE", "("] and words[last + 1 : last + 2] == [")"]:
            first, last = first - 2, last + 1
        text = f"{text[: tokens[first].start]}dpproxy.{NAME}{text[tokens[last].end + 1 :]}"
    return text

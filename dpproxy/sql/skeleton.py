"""Our own texts as trees, parsed once a form: formulas differ in their numbers and in the columns they are of.

Knows: sqlglot's parser, what numbers and columns of measurements look like in our texts. Must not know: aggregates. Parsing was
a third of planning. A text's numbers and columns are replaced by stand-ins, what is left is parsed and remembered, and each
copy has the text's own again. A stand-in that the parser did not keep as it stands (it counts `x[1]` from 0) says that the form
is not the same for all numbers: such a text is parsed as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

import sqlglot
from sqlglot import exp

from dpproxy.sql.dialect import FaithfulPostgres, copied
from dpproxy.sql.effort import step

FORMS = 4096  # remembered: those of all aggregates are some hundreds

_SPOT = re.compile(
    r"""'[^']*' | "[^"]*"                                       # as they stand
    | \bdpproxy_m[0-9]+\.(?P<column>[a-z][0-9]+(?:_[0-9]+)?)\b  # a released column
    | (?<![\w.$])(?P<number>[0-9]+(?:\.[0-9]+)?)(?![\w.])""",
    re.VERBOSE,
)


def parse_expression(sql: str) -> exp.Expr:
    """Return one of our own texts as a tree, which is the caller's own."""
    step(1 + len(sql) // 4)
    spots: dict[str, str] = {}

    def stand_in(found: re.Match[str]) -> str:
        kind = found.lastgroup
        if kind is None:
            return found.group()
        text = found.group(kind)
        name = f"spot{len(spots)}" if kind == "column" else f"9{len(spots):09}"
        spots[name] = text
        return found.group().removesuffix(text) + name

    form = _parsed_form(_SPOT.sub(stand_in, sql), tuple(spots))
    return copied(parsed(sql)) if form is None else copied(form, spots)


@lru_cache(maxsize=FORMS)
def _parsed_form(text: str, spots: tuple[str, ...]) -> exp.Expr | None:
    """The tree of a form; None when its stand-ins are not in it, each once."""
    found = parsed(text)
    texts = Counter(value for node in found.walk() for value in node.args.values() if isinstance(value, str))
    return found if all(texts[spot] == 1 for spot in spots) else None


def parsed(text: str) -> exp.Expr:
    """Return the tree that the parser makes of our own text; positions in it are removed, since they are none of the client's
    text."""
    found = sqlglot.parse_one(text, read=FaithfulPostgres)
    for node in found.walk():
        node.meta.clear()
    return found

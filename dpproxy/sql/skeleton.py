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

from dpproxy.sql.dialect import FaithfulPostgres, Written, copied, to_sql
from dpproxy.sql.effort import step

FORMS = 4096  # remembered: those of all aggregates are some hundreds

_SPOT = re.compile(
    r"""'[^']*' | "[^"]*"                                       # as they stand
    | \bdpproxy_m[0-9]+\.(?P<column>[a-z][0-9]+(?:_[0-9]+)?)\b  # a released column
    | \b(?P<name>k[0-9]+|dpproxy_m[0-9]+_[0-9]+)\b               # a key, and the arrays of a grouping set
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
        name = f"9{len(spots):09}" if kind == "number" else f"spot{len(spots)}"
        spots[name] = text
        return found.group().removesuffix(text) + name

    form = _parsed_form(_SPOT.sub(stand_in, sql), tuple(spots))
    return copied(parsed(sql)) if form is None else copied(form, spots)


def written(sql: str, call: str) -> Written:
    """Return one of our own texts as it stands, with its calls of the function `call`, of whole numbers, as trees."""
    step(1 + len(sql) // 200)
    found = list(re.finditer(rf"\b{call}\(([0-9, ]+)\)", sql))
    ends = [0, *(place for one in found for place in one.span()), len(sql)]
    arguments = ([exp.Literal.number(n.strip()) for n in one[1].split(",")] for one in found)
    calls = [exp.Anonymous(this=call, expressions=numbers) for numbers in arguments]
    return Written(texts=[sql[a:b] for a, b in zip(ends[::2], ends[1::2], strict=True)], expressions=calls)


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


# Functions that make rows: which they are, and a list of theirs as an item of FROM.
#
# Knows: sqlglot's trees. Must not know: policies, engines. PostgreSQL lets them stand among the outputs of a SELECT, where each
# call multiplies the row it stands in; in FROM they are a table.


_NAME = "dpproxy_part"
ROW_MAKERS = {
    "unnest", "regexp_split_to_table", "string_to_table", "generate_series", "generate_subscripts",
    "json_array_elements_text", "jsonb_array_elements_text",
}  # fmt: skip


def as_rows(query: exp.Expr) -> exp.Expr:
    """Return `SELECT unnest(list)` of no table as `SELECT * FROM unnest(list)`; any other query as it is."""
    select = query.unnest() if isinstance(query, exp.Subquery) else query
    if not isinstance(select, exp.Select) or any(value for key, value in select.args.items() if key != "expressions"):
        return query
    calls = [e.unalias() for e in select.expressions]
    made = len(calls) == 1 and isinstance(calls[0], exp.Anonymous) and calls[0].name.lower() in ROW_MAKERS
    if not made or calls[0].find(exp.Column, exp.Query):
        return query
    return parse_expression(f"SELECT * FROM {to_sql(calls[0])} AS {_NAME}({_NAME})")

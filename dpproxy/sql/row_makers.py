"""Functions that make rows: which they are, and a list of theirs as an item of FROM.

Knows: sqlglot's trees. Must not know: policies, engines. PostgreSQL lets them stand among the outputs of a SELECT, where each
call multiplies the row it stands in; in FROM they are a table.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.sql.dialect import to_sql
from dpproxy.sql.skeleton import parse_expression

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

"""The rows of one generated query on a connection to DuckDB.

Knows: texts of queries, DuckDB's Python interface and what it holds up. Must not know: where connections come from, what a query
measures. That a text is one SELECT is looked at here, though nothing else is generated: it is the wall behind the planner's.
"""

from __future__ import annotations

import re
import warnings
from typing import Any, Final

import duckdb
import pyarrow as pa

from dpproxy.backends.base import BackendError

PARSED_AT_ONCE: Final = 16_000
"""Characters of a query that DuckDB parses for Python in some milliseconds."""
_QUERY = re.compile(r"\s*(SELECT|WITH)\b")
_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|;""")

warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)  # see `as_table`


def as_table(connection: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    """Return the rows of a query of ours. Raises duckdb.Error, BackendError.

    It is run as a statement, not as a relation (`connection.sql`): a relation is bound twice, which costs several milliseconds of
    a generated query, as much as small tables do. The copy of the rows that DuckDB warns of costs 10 nanoseconds a row.
    """
    table: pa.Table = connection.execute(_one_query(connection, query)).to_arrow_table()
    return table


def _one_query(connection: duckdb.DuckDBPyConnection, text: str) -> Any:
    """Return what to execute of a text that is one SELECT, parsed or not. Raises duckdb.Error, BackendError for any other.

    `extract_statements` keeps the interpreter's lock while it parses, three microseconds a byte of a long list, and nothing
    else in this process goes on meanwhile. So a long text is judged by its first word and by what stands outside of its quotes.
    """
    if len(text) > PARSED_AT_ONCE:
        if _QUERY.match(text) and not any(found[0] == ";" for found in _QUOTED.finditer(text)):
            return text
    else:
        statements = connection.extract_statements(text)
        if [statement.type for statement in statements] == [duckdb.StatementType.SELECT]:
            return statements[0]
    raise BackendError("a generated statement is not a query")

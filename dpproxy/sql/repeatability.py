"""Whether a query gives the same rows again as long as nothing else happens in its session.

Knows: trees, which forms PostgreSQL computes without looking at clock, dice or state. Must not know: sessions, plans. Names of
functions are the server's to judge: the caller says which of them are immutable. What is not known changes.
"""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from dpproxy.errors import Refusal
from dpproxy.sql.dialect import ident
from dpproxy.sql.nodes import nodes
from dpproxy.sql.statements import parse

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

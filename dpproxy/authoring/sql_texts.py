"""SQL within a policy: views that PostgreSQL could not read, an epoch that reads private tables.

Knows: the planner, the data's shape. Must not know: rows of private tables. Whether a view may be asked is not judged here: a
statement over it decides that.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dpproxy.answers import public_tables
from dpproxy.backends.base import Backend
from dpproxy.errors import SYNTAX_ERROR, UNDEFINED_COLUMN, UNDEFINED_TABLE
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.load import Loaded
from dpproxy.policy.model import Policy
from dpproxy.policy.names import quote_name
from dpproxy.policy.problems import PolicyError, Problem, suggestion
from dpproxy.reuse.data_epoch import epoch_query
from dpproxy.review.verdicts import Bench, Refused, relations
from dpproxy.serve.data_checks import beside
from dpproxy.serve.datasets import check_epoch
from dpproxy.sql.statements import parse
from dpproxy.table_terms import TableName

UNREADABLE = (SYNTAX_ERROR, UNDEFINED_COLUMN, UNDEFINED_TABLE)
"""SQLSTATEs of texts that are wrong, rather than not allowed."""


async def wrong_texts(loaded: Loaded, catalog: Catalog, backend: Backend) -> list[Problem]:
    """Return what is wrong with the SQL of a policy that fits the catalog. Raises BackendError."""
    known, _ = await public_tables.read(loaded.policy, catalog, backend)
    bench = Bench(loaded.policy, known, backend.dialect)
    return [*_epoch(loaded, bench), *_views(loaded, bench)]


def _epoch(loaded: Loaded, bench: Bench) -> tuple[Problem, ...]:
    query = epoch_query(loaded.policy)
    try:
        if query is not None:
            check_epoch(loaded, bench.plans, query)
    except PolicyError as error:
        return error.problems
    return ()


def _views(loaded: Loaded, bench: Bench) -> Iterator[Problem]:
    for name, sql in loaded.policy.views.items():
        wrong = _wrong(loaded.policy, name, sql)
        if wrong is not None:
            yield beside(loaded, ("views", str(name)), f"view `{name}` cannot be read: {wrong[0]}", wrong[1], "view")
            continue
        role = next((r.name for r in loaded.policy.roles.values() if r.tables is None or name in r.tables), None)
        if role is not None:
            verdict = bench.verdict(role, f"SELECT count(*) FROM {quote_name(name.schema)}.{quote_name(name.name)}")
            if isinstance(verdict, Refused) and verdict.sqlstate in UNREADABLE:
                what = f"view `{name}` cannot be read: {verdict.message}"
                yield beside(loaded, ("views", str(name)), what, "write a SELECT over the policy's tables", "view")


def _wrong(policy: Policy, view: TableName, sql: str) -> tuple[str, str] | None:
    """What a view is that can be none, and what to write; None for all that a statement over it will tell."""
    try:
        tree = parse(sql)
    except Exception:  # the parser's; what cannot be parsed is told as a statement over it is
        return None
    if not isinstance(tree, exp.Query):
        return "it is no query", "write a SELECT over the policy's tables"
    known = {*policy.tables, *policy.views} - {view}
    unknown = next((name for name in relations(tree) if name not in known), None)
    if unknown == view:
        return "it reads itself", "write a SELECT over the policy's tables"
    if unknown is not None:
        return f"there is no table or view `{unknown}` in the policy", suggestion(str(unknown), map(str, known))
    return None

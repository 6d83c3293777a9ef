"""A rule: windows that the query names, written where they are used.

Knows: sqlglot's trees, before they are analysed. Must not know: engines. `sum(x) OVER w ... WINDOW w AS (PARTITION BY g)`
is `sum(x) OVER (PARTITION BY g)`; `OVER (w ORDER BY t)` adds an order, or a frame, to what `w` says, and a named window may begin
with another one's name. PostgreSQL has checked that no such name adds what is there already.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.plan.known_tables import KnownTables
from dpproxy.sql.dialect import copied, ident
from dpproxy.sql.nodes import every

_PARTS = ("partition_by", "order", "spec")


def apply(tree: exp.Expr, tables: KnownTables) -> bool:
    """Write named windows out; whether there were any.

    Before: `SELECT avg(n) FROM (SELECT lag(x) OVER w AS n FROM t WINDOW w AS (PARTITION BY g ORDER BY y)) s`
    After: `SELECT avg(n) FROM (SELECT lag(x) OVER (PARTITION BY g ORDER BY y) AS n FROM t) s`
    """
    found = [_written_out(select) for select in every(tree, exp.Select) if select.args.get("windows")]
    return any(found)


def _written_out(select: exp.Select) -> bool:
    named: dict[str, exp.Window] = {}
    for window in select.args["windows"]:
        _filled(window, named)
        named[ident(window.this)] = window
    used = [w for w in select.find_all(exp.Window) if w.find_ancestor(exp.Select) is select and w not in named.values()]
    for window in used:
        _filled(window, named)
    select.set("windows", None)
    return True


def _filled(window: exp.Window, named: dict[str, exp.Window]) -> None:
    """Give a window what the one it names says; a name that is not there is left, and refused."""
    base = named.get(ident(window.args.get("alias")))
    if base is None:
        return
    for part in _PARTS:
        given = base.args.get(part)
        if given and not window.args.get(part):
            window.set(part, [copied(p) for p in given] if isinstance(given, list) else copied(given))
    window.set("alias", None)

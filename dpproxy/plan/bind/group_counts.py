"""Groups of which only the number is asked: `SELECT count(*) FROM (SELECT DISTINCT a, b FROM t) s`, and with GROUP BY.

Knows: sqlglot's query nodes. Must not know: noise, engines. Released group by group, only those that enough people share would be
counted; as COUNT(DISTINCT (a, b)) their number is one measurement. The outer query says that it counts (`mark`), the inner
one, when it turns out to be a measurement, becomes that count (`as_count`), and the outer one reads it (`read`). It is no rule
of `rewrite`: only binding knows which query is a measurement, so `queries` marks and reads, and `select` counts.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.sql.output_names import output_name
from dpproxy.sql.trees import contains_aggregate, counts_rows

COUNTED, NUMBER = "dpproxy_counted", "dpproxy_number"
_ONLY = {"expressions", "from_", "with_", "kind", "hint", "operation_modifiers"}


def mark(select: exp.Select) -> exp.Select | None:
    """Return the subquery of which `select` asks only the number of rows, marked so; None when it asks for more."""
    if any(value for key, value in select.args.items() if key not in _ONLY):
        return None
    source = select.args.get("from_")
    item = source.this if source is not None else None
    inner = item.this if isinstance(item, exp.Subquery) and not item.args.get("joins") else None
    if not isinstance(inner, exp.Select) or not select.expressions or not all(map(_counts, select.expressions)):
        return None
    inner.meta[COUNTED] = True
    return inner


def _counts(node: exp.Expr) -> bool:
    """An expression over COUNT(*) alone."""
    counts = [n for n in node.find_all(exp.Anonymous) if counts_rows(n)]
    others = [n for n in node.find_all(exp.Anonymous, exp.Window, exp.Filter, exp.Query) if not counts_rows(n)]
    return bool(counts) and not others and node.find(exp.Column) is None


def as_count(select: exp.Select, keys: list[exp.Expr]) -> exp.Select:
    """Return the query of groups by `keys`, as a query of their number where that is what is asked."""
    if not select.meta.pop(COUNTED, False) or any(select.args.get(k) for k in ("having", "limit", "offset", "fetch", "windows")):
        return select
    if any(contains_aggregate(e) or e.find(exp.Star, exp.Window, exp.Query) for e in select.expressions) or not keys:
        return select
    if select.args.get("group") is not None and select.args.get("distinct") is not None:
        return select
    row = exp.Anonymous(this="ROW", expressions=[k.copy() for k in keys])
    count = exp.Anonymous(this="count", expressions=[exp.Distinct(expressions=[row])])
    for key in ("group", "distinct", "order"):
        select.set(key, None)
    select.set("expressions", [exp.alias_(count, NUMBER)])
    select.meta[NUMBER] = True
    return select


def read(select: exp.Select, inner: exp.Select | None) -> None:
    """COUNT(*) of the outer query becomes the number that was measured, where it was."""
    if inner is None or not inner.meta.get(NUMBER):
        return
    alias = select.args["from_"].this.args.get("alias")
    named = [e if isinstance(e, exp.Alias) else exp.alias_(e, output_name(e), quoted=True) for e in select.expressions]
    select.set("expressions", named)
    for node in [n for e in named for n in e.find_all(exp.Anonymous)]:  # those of WITH count other rows
        if counts_rows(node):
            table = alias.this.copy() if alias is not None else None
            node.replace(exp.Anonymous(this="max", expressions=[exp.Column(this=exp.to_identifier(NUMBER), table=table)]))

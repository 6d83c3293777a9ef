"""Functions, types and clauses of other engines, in PostgreSQL's words.

Knows: trees. Must not know: policies, plans. Analysts come from DuckDB, MySQL, SQLite and GoogleSQL; what PostgreSQL has no
function, type or clause of that name for, and only that, is written as it would be there: `median(x)`, `if(a, b, c)`,
`datediff('day', a, b)`, `count_if(c)`, `monthname(d)`, `CAST(x AS DOUBLE)`, `sum(a > b)`, `GROUP BY ALL`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import sqlglot
from sqlglot import exp

from dpproxy.errors import STATEMENT_TOO_COMPLEX, Refusal
from dpproxy.sql.dialect import FaithfulPostgres, copied, ident, to_sql
from dpproxy.sql.nodes import every
from dpproxy.sql.statements import keep, parse

WORDS = (
    "median", "quantile_", "datediff", "date_diff", "monthname", "dayname", "count_if", "countif", "ifnull", "nvl", "iif",
    "last_day", "dayof", "weekofyear", "approx_count_distinct", "group by all", "as double", "::double", "as string",
    "::string", "as datetime", "::datetime", "if(", "sum(", "interval ", "safe_divide", "safe_multiply", "safe_add",
    "safe_subtract", "as int32", "as int64",
)  # fmt: skip
"""Words in lower case: a text that holds none of them has nothing to be written otherwise."""
_HINT = re.compile("|".join(re.escape(w).replace(r"\ ", r"\s+") for w in WORDS), re.IGNORECASE)
_PREDICATES = (
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.And, exp.Or, exp.Not,
)  # fmt: skip
_SPELLED = re.compile(r"(?i)(\bas|::)\s*(double(?!\s+precision)|string|datetime|int32|int64)\b|\binterval\s+\d+\s+[a-z]")
"""Spellings that a tree no longer tells from PostgreSQL's own."""
Texts = Sequence[str]
WRITTEN = 100_000
"""Characters that are written and read again at most: some functions name an argument twice, which doubles with each level."""


def hinted(query: str) -> bool:
    return _HINT.search(query) is not None


def translated(query: str, tree: exp.Expr) -> bool:
    """Rewrite what is borrowed in place; whether there was any. Raises Refusal where it gets too long."""
    length = 0
    conditional = re.search(r"(?i)\bif\s*\(", query) is not None and tree.find(exp.If) is not None
    changed = conditional or _SPELLED.search(query) is not None
    for call in reversed(every(tree, exp.Anonymous)):  # inner ones first
        written = _written(call)
        if written is not None:
            length += len(written)
            if length > WRITTEN:
                said = "statement is too complex to be written in PostgreSQL's words"
                raise Refusal(STATEMENT_TOO_COMPLEX, said, hint="Ask for less at a time.")
            made = sqlglot.parse_one(written, read=FaithfulPostgres)
            bare = isinstance(call.parent, exp.Window)  # no engine takes a function in brackets for one before OVER
            call.replace(made if bare else exp.Paren(this=made))
            changed = True
    for select in every(tree, exp.Select):
        changed = _grouped_by_all(select) or changed
    return changed


def _written(call: exp.Anonymous) -> str | None:
    name, count = call.name.lower(), len(call.expressions)
    if name == "sum":
        return _sum_of_test(call)
    arity, write = _CALLS.get(name, (-1, None))
    return write([to_sql(a) for a in call.expressions]) if write is not None and count == arity else None


def _sum_of_test(call: exp.Anonymous) -> str | None:
    of = call.expressions[0].unnest() if len(call.expressions) == 1 else None
    return f"sum(CAST(({to_sql(call.expressions[0])}) AS int4))" if isinstance(of, _PREDICATES) else None


def _difference(a: Texts) -> str | None:
    """Boundaries crossed between two instants."""
    part, begin, end = a[0].strip("'").lower(), f"({a[1]})", f"({a[2]})"
    years = f"(EXTRACT(YEAR FROM CAST({end} AS timestamp)) - EXTRACT(YEAR FROM CAST({begin} AS timestamp)))"
    if part in ("day", "days", "d"):
        return f"CAST(CAST({end} AS date) - CAST({begin} AS date) AS int8)"
    if part in ("year", "years", "month", "months"):
        months = f"(EXTRACT(MONTH FROM CAST({end} AS timestamp)) - EXTRACT(MONTH FROM CAST({begin} AS timestamp)))"
        return f"CAST({years} AS int8)" if part.startswith("year") else f"CAST(12 * {years} + {months} AS int8)"
    if part in ("hour", "hours", "minute", "minutes"):
        seconds = 3600 if part.startswith("hour") else 60
        since = (f"floor(EXTRACT(EPOCH FROM CAST({x} AS timestamp)) / {seconds})" for x in (end, begin))
        return f"CAST({' - '.join(since)} AS int8)"
    return None


def _quantile(kind: str) -> Callable[[Texts], str]:
    return lambda a: f"percentile_{kind}({a[1]}) WITHIN GROUP (ORDER BY {a[0]})"


_Writer = Callable[[Texts], str | None]
_CALLS: dict[str, tuple[int, _Writer]] = {
    "median": (1, lambda a: f"percentile_cont(0.5) WITHIN GROUP (ORDER BY {a[0]})"),
    "quantile_cont": (2, _quantile("cont")), "quantile_disc": (2, _quantile("disc")),
    "datediff": (3, _difference), "date_diff": (3, _difference),
    "monthname": (1, lambda a: f"to_char({a[0]}, 'FMMonth')"), "dayname": (1, lambda a: f"to_char({a[0]}, 'FMDay')"),
    "count_if": (1, lambda a: f"count(*) FILTER (WHERE {a[0]})"), "countif": (1, lambda a: f"count(*) FILTER (WHERE {a[0]})"),
    "ifnull": (2, lambda a: f"coalesce({a[0]}, {a[1]})"), "nvl": (2, lambda a: f"coalesce({a[0]}, {a[1]})"),
    "iif": (3, lambda a: f"CASE WHEN {a[0]} THEN {a[1]} ELSE {a[2]} END"),
    "last_day": (1, lambda a: f"CAST(date_trunc('month', {a[0]}) + INTERVAL '1 month' - INTERVAL '1 day' AS date)"),
    "dayofweek": (1, lambda a: f"CAST(EXTRACT(DOW FROM {a[0]}) AS int8)"),
    "dayofmonth": (1, lambda a: f"CAST(EXTRACT(DAY FROM {a[0]}) AS int8)"),
    "dayofyear": (1, lambda a: f"CAST(EXTRACT(DOY FROM {a[0]}) AS int8)"),
    "weekofyear": (1, lambda a: f"CAST(EXTRACT(WEEK FROM {a[0]}) AS int8)"),
    "safe_divide": (2, lambda a: f"CAST({a[0]} AS double precision) / nullif(CAST({a[1]} AS double precision), 0)"),
    "safe_multiply": (2, lambda a: f"({a[0]}) * ({a[1]})"), "safe_add": (2, lambda a: f"({a[0]}) + ({a[1]})"),
    "safe_subtract": (2, lambda a: f"({a[0]}) - ({a[1]})"),
    "approx_count_distinct": (1, lambda a: f"count(DISTINCT {a[0]})"),
}  # fmt: skip


def _grouped_by_all(select: exp.Select) -> bool:
    """GROUP BY ALL: by every item of the SELECT list that has no aggregate in it."""
    group = select.args.get("group")
    if group is None or not group.args.get("all") or group.expressions:
        return False
    plain = [i + 1 for i, e in enumerate(select.expressions) if not _aggregated(e)]
    if any(e.is_star for e in select.expressions):
        return False
    items = [exp.Literal.number(i) for i in plain]
    select.set("group", exp.Group(expressions=items) if items else None)
    return True


_AGGREGATES = {
    "count", "sum", "avg", "min", "max", "percentile_cont", "percentile_disc", "stddev", "stddev_samp", "stddev_pop", "variance",
    "var_samp", "var_pop", "corr", "covar_pop", "covar_samp", "string_agg", "array_agg", "bool_and", "bool_or", "mode", "every",
    "json_agg", "jsonb_agg", "any_value",
}  # fmt: skip


def _aggregated(item: exp.Expr) -> bool:
    return any(call.name.lower() in _AGGREGATES for call in item.find_all(exp.Anonymous))


# Output names in HAVING and in expressions of ORDER BY, where PostgreSQL knows none and other engines do.
#
# Knows: trees. Must not know: policies, plans. `SELECT a, count(*) AS n FROM t GROUP BY a HAVING n > 10` is an error in
# PostgreSQL and plain in MySQL, SQLite and DuckDB, which analysts come from. The name is replaced by what it stands for, where
# PostgreSQL would only say that it does not exist: no table has a column of that name, and no other output is called so.


MAX_NODES = 10_000  # that may take the place of names
FOREIGN = (*WORDS, "having")
"""What a text that reads public tables alone must hold, in lower case, to be looked at."""
_CLAUSE = re.compile(r"(?i)\bhaving\b|\border\s+by\b")


def spelled_out(query: str, columns: frozenset[str], tables: frozenset[str] | None = None) -> str:
    """Return the query with such names replaced, or as it is. What other engines call otherwise is replaced as well
    (`translation`).

    `columns`: names of all columns of all tables. `tables`: where given, a query that reads others is left alone. Raises Refusal.
    """
    borrows = hinted(query)
    if not borrows and not _CLAUSE.search(query):
        return query
    tree = parse(query)
    if tables is not None and not _reads_only(tree, tables):
        return query
    written = borrows and translated(query, tree)
    outputs = Counter(ident(a.args["alias"]) for a in every(tree, exp.Alias))
    names = {n for n, count in outputs.items() if count == 1 and n not in columns}
    changed = [_replaced(select, names) for select in every(tree, exp.Select)] if names else []
    if written or any(changed):
        return to_sql(tree)
    keep(query, tree)
    return query


def _reads_only(tree: exp.Expr, tables: frozenset[str]) -> bool:
    known = tables | {ident(cte.args["alias"].this) for cte in every(tree, exp.CTE)}
    found = every(tree, exp.Table)
    return bool(found) and all(isinstance(t.this, exp.Identifier) and ident(t.this) in known for t in found)


def _replaced(select: exp.Select, names: set[str]) -> bool:
    meant = {ident(e.args["alias"]): e.this for e in select.expressions if isinstance(e, exp.Alias)}
    meant = {name: value for name, value in meant.items() if name in names}
    places = [select.args["having"].this] if select.args.get("having") is not None else []
    order = select.args.get("order")
    terms = [o.this if isinstance(o, exp.Ordered) else o for o in (order.expressions if order is not None else ())]
    places += [t for t in terms if not isinstance(t, exp.Column)]
    found = [c for place in places for c in _columns(place) if ident(c.this) in meant]
    sizes = {name: sum(1 for _ in value.walk()) for name, value in meant.items()} if found else {}
    if sum(sizes[ident(column.this)] for column in found) > MAX_NODES:
        return False
    for column in found:
        column.replace(exp.Paren(this=copied(meant[ident(column.this)])))
    return bool(found)


def _columns(node: exp.Expr) -> list[exp.Column]:
    """Names without a table in an expression; not those of subqueries in it."""
    if isinstance(node, exp.Query):
        return []
    if isinstance(node, exp.Column):
        return [node] if not node.args.get("table") and not isinstance(node.this, exp.Star) else []
    return [c for child in node.iter_expressions() for c in _columns(child)]


# strftime's formats in PostgreSQL's words, and the parts of a date that other engines have as functions.
#
# Knows: both formats. Must not know: policies, engines. `strftime(x, '%Y-%m')` is `to_char(x, 'YYYY-MM')`.


FIELDS = {
    "Y": "YYYY", "y": "YY", "m": "MM", "d": "DD", "H": "HH24", "I": "HH12", "M": "MI", "S": "SS", "j": "DDD",
    "b": "Mon", "B": "FMMonth", "a": "Dy", "A": "FMDay", "p": "AM", "u": "ID", "V": "IW", "G": "IYYY",
}  # fmt: skip
"""What PostgreSQL prints in the same way."""
PARTS = ("year", "quarter", "month", "day", "hour", "minute")
_PIECE = re.compile(r"%(.)|([^%]+)", re.DOTALL)


def as_to_char(form: str) -> str | None:
    """Return the format of to_char that prints the same; None where there is none."""
    pieces = []
    for match in _PIECE.finditer(form):
        field, text = match.groups()
        if field is not None and field not in FIELDS:
            return None
        if text is not None and ('"' in text or "\\" in text):
            return None
        pieces.append(FIELDS[field] if field is not None else f'"{text}"')
    return "".join(pieces) if pieces and form.count("%") == sum(m.group(1) is not None for m in _PIECE.finditer(form)) else None

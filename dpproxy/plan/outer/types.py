"""Types of released queries, read off the trees the facade will run: a staged value must be typed before it exists.

Knows: sqlglot trees made by `outer`, the types of released columns and public tables. Must not know: data. Only what can
enter a predicate or a join below a measurement is typed: numbers, text, times, booleans. The rest is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from dpproxy.plan.context import Context
from dpproxy.plan.operations.catalogue import function, operation
from dpproxy.plan.operations.operation import Like
from dpproxy.plan.refusals import unsupported
from dpproxy.policy.catalog import published_type
from dpproxy.sql.dialect import ident
from dpproxy.sql.output_names import output_name
from dpproxy.sql.translation import PARTS
from dpproxy.sql.trees import mentions, sources_of
from dpproxy.sql.types import FLOATS, INTEGERS, NUMBERS, TIMES, arithmetic, common, type_name

Columns = tuple[tuple[str, str], ...]  # names and types, in order; a query may give one name to two columns


class TreeTypes:
    """This tells the types of expressions over released rows. `ctes`: trees of released CTEs by name."""

    def __init__(self, context: Context, ctes: Mapping[str, exp.Expr], recursive: exp.Expr | None = None) -> None:
        self._context, self._ctes, self._recursive = context, ctes, recursive

    def scalar(self, tree: exp.Expr) -> str:
        """Return the type of the only column of a query. Raises Refusal."""
        columns = self.columns(tree)
        if len(columns) != 1:
            raise unsupported("a scalar subquery of this form", "Cast its result: (SELECT ...)::numeric.")
        return columns[0][1]

    def columns(self, tree: exp.Expr) -> Columns:
        """Return the output columns of a released query with their types; "" for a type not known."""
        inner = tree.unnest() if isinstance(tree, exp.Subquery) else tree
        if isinstance(inner, exp.SetOperation):
            left = self.columns(inner.this)
            if self._recursive is inner:
                return left  # PostgreSQL's rule: the types are those of the part that does not refer to itself
            right = self.columns(inner.expression)
            return tuple((n, common([t, r]) if t and r else "") for (n, t), (_, r) in zip(left, right, strict=False))
        if not isinstance(inner, exp.Select):
            raise unsupported("a released query of this form")
        local = dict(self._ctes)
        for cte in inner.args["with_"].expressions if inner.args.get("with_") is not None else ():
            local[ident(cte.args["alias"].this)] = cte.this
        scoped = TreeTypes(self._context, local)
        items = [scoped._source(node) for node in sources_of(inner)]
        sources = dict(items)
        found: list[tuple[str, str]] = []
        for node in inner.expressions:
            if isinstance(node, exp.Star):
                found += _all_columns(inner, [columns for _, columns in items])
            elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
                found += sources.get(ident(node.args.get("table")), ())
            else:
                found.append((output_name(node), scoped._type(node.unalias(), sources)))
        return tuple(found)

    def _source(self, node: exp.Expr) -> tuple[str, Columns]:
        alias_node = node.args.get("alias")
        alias = ident(alias_node.this) if alias_node is not None else ""
        names = [ident(c) for c in alias_node.args.get("columns") or ()] if alias_node is not None else []
        columns = self._source_columns(node)
        if names:
            columns = tuple((n, columns[i][1] if i < len(columns) else "") for i, n in enumerate(names))
        return alias or (ident(node.this) if isinstance(node, exp.Table) else ""), columns

    def _source_columns(self, node: exp.Expr) -> Columns:
        if isinstance(node, exp.Subquery):
            return self.columns(node.this)
        if isinstance(node, exp.Unnest):
            return self._unnested(node)
        if isinstance(node, exp.Table | exp.Lateral) and isinstance(node.this, exp.Anonymous):
            alias = node.args.get("alias")
            name = ident(alias.this) if alias is not None else str(node.this.this).lower()
            return ((name, self._set_returned(node.this, {})),)
        if isinstance(node, exp.Lateral):
            return self.columns(node.this)
        if isinstance(node, exp.Values):
            rows = [list(row.expressions) for row in node.expressions]
            types = [[self._type(e, {}) for e in column] for column in zip(*rows, strict=True)]
            return tuple((f"column{i + 1}", common(t) if all(t) else "") for i, t in enumerate(types))
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            name = ident(node.this)
            if name in self._ctes and not node.args.get("db"):
                body, others = self._ctes[name], {k: v for k, v in self._ctes.items() if k != name}
                return TreeTypes(self._context, others, body if mentions(body, name) else None).columns(body)
            policy = self._context.find(ident(node.args.get("db")), name)
            if policy is not None and policy.kind.shown:
                return tuple((c.name, published_type(policy, c)) for c in self._context.catalog.tables[policy.name].columns)
        return ()

    def _unnested(self, node: exp.Unnest) -> Columns:
        """`unnest(array, ...) [WITH ORDINALITY]`: one array takes the name of the alias."""
        alias = node.args.get("alias")
        name = ident(alias.this) if alias is not None and len(node.expressions) == 1 else ""
        types = [self._element(a, {}) for a in node.expressions]
        found = tuple((name or f"c{i}", t) for i, t in enumerate(types))
        return (*found, ("ordinality", "int8")) if node.args.get("offset") else found

    def _element(self, array: exp.Expr, sources: dict[str, Columns]) -> str:
        """The type of an array's elements."""
        inner = array.unnest() if isinstance(array, exp.Paren) else array
        if isinstance(inner, exp.Cast):
            return (type_name(inner.to) or "").removesuffix("[]")
        if isinstance(inner, exp.Array):
            types = [self._type(e, sources) for e in inner.expressions]
            return common(types) if types and all(types) else ""
        name = str(inner.this).lower() if isinstance(inner, exp.Anonymous) else ""
        if name == "enum_range":
            return self._type(inner.expressions[0], sources)
        return "text" if name in ("string_to_array", "regexp_split_to_array") else ""

    def _set_returned(self, call: exp.Anonymous, sources: dict[str, Columns]) -> str:
        """The type of a function that returns a set of one column."""
        name = str(call.this).lower()
        types = [self._type(a, sources) for a in call.expressions]
        if name == "generate_series" and types:
            if all(t in NUMBERS for t in types):
                return "numeric" if "numeric" in types else "int8" if "int8" in types else "int4"
            return "timestamp" if "timestamp" in types[:2] else "timestamptz"
        if name == "unnest" and call.expressions:
            return self._element(call.expressions[0], sources)
        return "text" if name in ("string_to_table", "regexp_split_to_table") else ""

    def _type(self, node: exp.Expr, sources: dict[str, Columns]) -> str:
        """PostgreSQL's type of an expression, "" when not known."""
        if isinstance(node, exp.Cast):
            return type_name(node.to) or self._context.enumeration(node.to) or ""
        if isinstance(node, exp.Paren | exp.Neg):
            return self._type(node.this, sources)
        if isinstance(node, exp.Column):
            table, name = ident(node.args.get("table")), ident(node.this)
            places = [sources.get(table, ())] if table else list(sources.values())
            return next((t for columns in places for n, t in columns if n == name), "")
        if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod):
            a, b = self._type(node.this, sources), self._type(node.expression, sources)
            return arithmetic(a, b) if a in NUMBERS and b in NUMBERS else _shifted(node, a, b)
        if isinstance(node, exp.Interval):
            return "interval"
        if isinstance(node, exp.DPipe):
            return "text"
        if isinstance(node, exp.Predicate | exp.And | exp.Or | exp.Not):
            return "bool"
        if isinstance(node, exp.Literal):
            return "text" if node.is_string else ("int4" if node.this.isdigit() else "numeric")
        if isinstance(node, exp.Boolean):
            return "bool"
        if isinstance(node, exp.Subquery):
            return self.scalar(node)
        if isinstance(node, exp.Filter | exp.WithinGroup):
            return self._type(node.this, sources)
        if isinstance(node, exp.Window):
            return self._type(node.this, sources)
        if isinstance(node, exp.Case):
            parts = [branch.args["true"] for branch in node.args["ifs"]]
            parts += [node.args["default"]] if node.args.get("default") is not None else []
            types = [self._type(p, sources) for p in parts if not isinstance(p, exp.Null)]
            return common(types) if types and all(types) else ""
        if isinstance(node, exp.Anonymous):
            return self._function(node, sources)
        return _NODES.get(type(node), "")

    def _function(self, node: exp.Anonymous, sources: dict[str, Columns]) -> str:
        name = str(node.this).lower()
        if name in ("generate_series", "unnest", "string_to_table", "regexp_split_to_table"):
            return self._set_returned(node, sources)
        types = [self._type(a, sources) for a in node.expressions]
        first = types[0] if types else ""
        if name in ("greatest", "least", "coalesce"):
            return common(types) if all(types) else ""
        if name in ("count", "row_number", "rank", "dense_rank"):
            return "int8"
        if name in ("min", "max", "any_value", "first_value", "last_value", "nth_value", "lag", "lead", "nullif"):
            return first
        if name in ("sum", "avg"):
            wide = (
                {"int2": "int8", "int4": "int8", "int8": "numeric"}
                if name == "sum"
                else dict.fromkeys(("int2", "int4", "int8"), "numeric")
            )
            return wide.get(first, first)
        if name in ("round", "trunc", "floor", "ceil", "trim_scale"):
            return "numeric" if len(types) > 1 or first == "numeric" else "float8"
        if name == "date_trunc":
            return "timestamp" if types[-1] == "timestamp" else "timestamptz"
        if name in ("now", "date"):
            return "timestamptz" if name == "now" else "date"
        if name in ("mod", "power") and len(types) == 2 and all(t in NUMBERS for t in types):
            widest = arithmetic(*types)
            return widest if name == "mod" or widest == "numeric" else "float8"
        if name in _LIKE_ITS_ARGUMENT and first in NUMBERS:
            return first if first in ("numeric", *FLOATS) else _LIKE_ITS_ARGUMENT[name]
        row = function(name)
        if row is not None and isinstance(row.result, str):
            return row.result
        if row is not None and first in NUMBERS:
            return "float8" if row.result is not Like.OPERAND and first in INTEGERS else first
        return _RESULTS.get(name) or ("text" if operation(name).result_kind == "t" else "")


def _all_columns(select: exp.Select, items: Sequence[Columns]) -> Columns:
    """What `*` stands for, of the columns of each item of FROM: those that USING or NATURAL merges come first, once."""
    found = items[0] if items else ()
    for join, right in zip(select.args.get("joins") or (), items[1:], strict=True):
        merged = [ident(c) for c in join.args.get("using") or ()]
        if join.args.get("method") == "NATURAL":
            names = {n for n, _ in right}
            merged = [n for n, _ in found if n in names]
        first = [(n, common(types) if all(types := [_type_of(n, found), _type_of(n, right)]) else "") for n in merged]
        found = (*first, *(c for c in found if c[0] not in merged), *(c for c in right if c[0] not in merged))
    return found


def _type_of(name: str, columns: Columns) -> str:
    """Return the type of the first column of a name, "" where there is none."""
    return next((type_ for n, type_ in columns if n == name), "")


_RESULTS = (
    dict.fromkeys(PARTS, "int4")
    | dict.fromkeys(("btrim", "chr", "string_agg", "substr", "to_char"), "text")
    | dict.fromkeys(("ntile", "width_bucket"), "int4")
    | dict.fromkeys(("percent_rank", "cume_dist", "date_part", "percentile_cont", "corr"), "float8")
    | dict.fromkeys(("bool_and", "bool_or", "every"), "bool")
    | {"justify_hours": "interval"}
)
_LIKE_ITS_ARGUMENT = dict.fromkeys(
    ("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop"), "numeric"
) | dict.fromkeys(("log", "sign"), "float8")
"""Of numeric and floats what they are given; what they make of whole numbers."""
_NODES: dict[type[exp.Expr], str] = {
    exp.Extract: "numeric", exp.Substring: "text", exp.Trim: "text", exp.StrPosition: "int4", exp.CurrentDate: "date",
    exp.CurrentTimestamp: "timestamptz", exp.Localtimestamp: "timestamp", exp.GroupConcat: "text",
}  # fmt: skip


def _shifted(node: exp.Expr, a: str, b: str) -> str:
    """Arithmetic with times: a date and days, or a time and an interval; "" for other."""
    if isinstance(node, exp.Add) and b in TIMES:
        a, b = b, a
    if not isinstance(node, exp.Add | exp.Sub) or a not in TIMES:
        return ""
    if b == "interval":
        return "timestamptz" if a == "timestamptz" else "timestamp"
    if a == "date" and b in INTEGERS:
        return "date"
    return "int4" if isinstance(node, exp.Sub) and a == b == "date" else ""

"""A rule: parts of a text between separators, and what a regular expression takes of it, written without arrays.

Knows: sqlglot's trees, before they are analysed. Must not know: policies, engines. `(regexp_split_to_array(x, ','))[2]` is
`split_part(x, ',', 2)` where there are two parts; `'a' = ANY (string_to_array(x, ','))` looks for `,a,` in `,x,`. An item of FROM
or an output that has a row for each part is a join with the numbers of parts. Their number has to be bounded, and the statement
says by how much: `unnest((string_to_array(x, ','))[1:10])`. `(regexp_matches(x, '(a+)'))[1]` is `substring(x from '(a+)')` of the
rows that match.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from dpproxy.plan.known_tables import KnownTables
from dpproxy.plan.rewrite.from_items import meets_each_row, put, put_columns, whole_number
from dpproxy.sql.dialect import copied, ident
from dpproxy.sql.nodes import every
from dpproxy.sql.trees import function_name

ITEM, NUMBER = "dpproxy_p", "dpproxy_n"
MOST: Final = 100
"""Parts of a text that are rows of their own."""
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_GROUP = re.compile(r"(?<!\\)\((?!\?)")


def apply(tree: exp.Expr, tables: KnownTables) -> bool:
    """Write such parts by functions of texts; whether there were any.

    Before: `SELECT t.part, count(*) FROM events e CROSS JOIN LATERAL unnest((string_to_array(e.page, '/'))[1:3]) AS t(part)
    GROUP BY t.part`
    After: `SELECT split_part(e.page, '/', t.dpproxy_n), count(*) FROM events e CROSS JOIN generate_series(1, 3) AS t(dpproxy_n)
    WHERE e.page <> '' AND t.dpproxy_n <= length(e.page) - length(replace(e.page, '/', '')) + 1 GROUP BY ...`
    """
    found = [_matched(node) for node in every(tree, exp.Bracket)]
    found += [_part(node) for node in every(tree, exp.Bracket)]
    found += [_contained(node) for node in every(tree, exp.EQ)]
    for select in every(tree, exp.Select):
        found += [_joined(select, join, tables) for join in list(select.args.get("joins") or ())]
        found.append(_listed(select))
    return any(found)


@dataclass(frozen=True)
class _Parts:
    """The parts of a text. `of_nothing`: how many parts the empty text has."""

    text: exp.Expr
    separator: str
    of_nothing: int

    @staticmethod
    def of(node: exp.Expr, *names: str) -> _Parts | None:
        """Return the parts that a call makes, by one of these functions."""
        call = node.unnest()
        name = function_name(call) if isinstance(call, exp.Anonymous) else ""
        if name not in names or len(call.expressions) != 2:
            return None
        text, by = call.expressions
        plain = isinstance(by, exp.Literal) and by.is_string and len(by.this) == 1
        if not plain or (name.startswith("regexp") and _SPECIAL.search(by.this)) or text.find(exp.Query) is not None:
            return None
        return _Parts(text, by.this, int(name.startswith("regexp")))

    def exists(self, number: exp.Expr) -> exp.Expr:
        """Return whether there is a part of that number; NULL, or false, of no text."""
        without = _call("replace", copied(self.text), exp.Literal.string(self.separator), exp.Literal.string(""))
        between = exp.Sub(this=_call("length", copied(self.text)), expression=_call("length", without))
        enough = exp.LTE(this=number, expression=exp.Add(this=between, expression=exp.Literal.number(1)))
        if self.of_nothing:
            return enough
        return exp.and_(exp.NEQ(this=exp.Paren(this=copied(self.text)), expression=exp.Literal.string("")), enough, copy=False)

    def part(self, number: exp.Expr) -> exp.Expr:
        return _call("split_part", copied(self.text), exp.Literal.string(self.separator), number)


def _call(name: str, *args: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(args))


# --- values


def _subscript(node: exp.Bracket) -> int | None:
    """The number of the element, from 1: sqlglot counts from 0."""
    number = whole_number(node.expressions[0]) if len(node.expressions) == 1 else None
    return None if number is None else number + 1


def _part(node: exp.Bracket) -> bool:
    """An element; of `string_to_array`, binding knows it."""
    number, parts = _subscript(node), _Parts.of(node.this, "regexp_split_to_array")
    if number is None or parts is None:
        return False
    there = exp.If(this=parts.exists(exp.Literal.number(number)), true=parts.part(exp.Literal.number(number)))
    put(node, exp.Paren(this=exp.Case(ifs=[there])))
    return True


def _contained(test: exp.EQ) -> bool:
    value, array = test.this.unnest(), test.expression
    parts = _Parts.of(array.this, "string_to_array", "regexp_split_to_array") if isinstance(array, exp.Any) else None
    if parts is None or not isinstance(value, exp.Literal) or not value.is_string or not value.this:
        return False
    by = parts.separator
    if by in value.this:
        return False
    text = exp.DPipe(
        this=exp.DPipe(this=exp.Literal.string(by), expression=exp.Paren(this=copied(parts.text))),
        expression=exp.Literal.string(by),
    )
    place = _call("strpos", text, exp.Literal.string(f"{by}{value.this}{by}"))
    put(test, exp.Paren(this=exp.GT(this=place, expression=exp.Literal.number(0))))
    return True


def _matched(node: exp.Bracket) -> bool:
    """The group of a regular expression where there is a row for a match: rows without one are left out."""
    call = node.this.unnest()
    name = function_name(call) if isinstance(call, exp.Anonymous) else ""
    if name != "regexp_matches" or len(call.expressions) != 2 or _subscript(node) != 1:
        return False
    text, pattern = call.expressions
    if not isinstance(pattern, exp.Literal) or not pattern.is_string or len(_GROUP.findall(pattern.this)) != 1:
        return False
    shown = node.parent if isinstance(node.parent, exp.Alias) else node
    select = shown.parent
    if not isinstance(select, exp.Select) or shown.arg_key != "expressions" or select.args.get("from_") is None:
        return False
    select.where(exp.RegexpLike(this=exp.Paren(this=copied(text)), expression=copied(pattern)), copy=False)
    put(node, exp.Substring(this=copied(text), start=copied(pattern)))
    return True


# --- rows


def _rows(node: exp.Expr) -> tuple[_Parts, int] | None:
    """The parts that are rows, and how many of them at most: `unnest((string_to_array(x, ','))[1:10])`."""
    node = node.unnest()
    named = isinstance(node, exp.Unnest) or (isinstance(node, exp.Anonymous) and function_name(node) == "unnest")
    if not named or len(node.expressions) != 1 or node.args.get("offset"):
        return None
    sliced = node.expressions[0].unnest()
    part = sliced.expressions[0] if isinstance(sliced, exp.Bracket) and len(sliced.expressions) == 1 else None
    if not isinstance(part, exp.Slice) or whole_number(part.this) != 1:
        return None
    parts, most = _Parts.of(sliced.this, "string_to_array", "regexp_split_to_array"), whole_number(part.expression)
    return None if parts is None or most is None or not 1 <= most <= MOST else (parts, most)


def _series(name: str, most: int) -> exp.Expr:
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True), columns=[exp.to_identifier(NUMBER, quoted=True)])
    return exp.Table(this=_call("generate_series", exp.Literal.number(1), exp.Literal.number(most)), alias=alias)


def _joined(select: exp.Select, join: exp.Join, tables: KnownTables) -> bool:
    """An item of FROM."""
    item = join.this
    inner = item.this if isinstance(item, exp.Lateral | exp.Table) else item
    found = _rows(inner) if isinstance(inner, exp.Unnest | exp.Anonymous) else None
    alias = item.args.get("alias")
    if found is None or not meets_each_row(join) or (join.side or "") or alias is None or alias.this is None:
        return False
    parts, most = found
    name, columns = ident(alias.this), [ident(c) for c in alias.args.get("columns") or ()]
    number = exp.column(NUMBER, table=name, quoted=True)
    (column,) = columns or [name]
    exists = parts.exists(copied(number))
    if len(columns) > 1 or not put_columns(select, join, name, {column: parts.part(number)}, tables):
        return False
    join.set("this", _series(name, most))
    join.set("kind", "CROSS")
    join.set("on", None)
    select.where(exists, copy=False)
    return True


def _listed(select: exp.Select) -> bool:
    """An output that is a row for each part."""
    found = [(e, rows) for e in select.expressions if (rows := _rows(e.unalias())) is not None]
    if len(found) != 1 or select.args.get("from_") is None:
        return False
    ((shown, (parts, most)),) = found
    number = exp.column(NUMBER, table=ITEM, quoted=True)
    exists = parts.exists(copied(number))
    put(shown.unalias(), parts.part(number))
    select.append("joins", exp.Join(this=_series(ITEM, most), kind="CROSS"))
    select.where(exists, copy=False)
    return True

"""Trees of sqlglot's that are not what PostgreSQL makes of the same text: a statement that has one is refused.

Knows: sqlglot's trees, PostgreSQL's grammar (gram.y, its table of precedences). Must not know: policies. The facade judges
whether a text is right, not whether it was understood: where sqlglot binds an operator otherwise, both are content, and the
answer is another. So each tree is held against the precedences: between an operator and an operand stands a bracket, or the
operand binds tighter. Nothing here knows how sqlglot parses. `tests/sql/test_postgres_reading.py` compares both parsers over
thousands of mutants of real statements; what differs otherwise is named below, on tokens in `sql.guard`, or read rightly in
`sql.dialect`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.sql.dialect import has_brackets, position

OR, AND, NOT, IS, COMPARISON, MATCH, OPERATOR, SUM, PRODUCT, POWER, ZONE, COLLATE, SIGN = range(1, 14)
"""From loose to tight. `OPERATOR` is every operator that has no precedence of its own."""

_LEVELS: dict[type[exp.Expr], int] = {
    exp.Or: OR, exp.And: AND, exp.Not: NOT,
    exp.Is: IS, exp.NullSafeEQ: IS, exp.NullSafeNEQ: IS,
    exp.EQ: COMPARISON, exp.NEQ: COMPARISON, exp.GT: COMPARISON, exp.GTE: COMPARISON, exp.LT: COMPARISON, exp.LTE: COMPARISON,
    exp.Between: MATCH, exp.In: MATCH, exp.Like: MATCH, exp.ILike: MATCH, exp.SimilarTo: MATCH, exp.Escape: MATCH,
    exp.BitwiseNot: OPERATOR, exp.StartsWith: OPERATOR, exp.MatchAgainst: OPERATOR,
    exp.Add: SUM, exp.Sub: SUM, exp.Mul: PRODUCT, exp.Div: PRODUCT, exp.Mod: PRODUCT,
    exp.Pow: POWER, exp.AtTimeZone: ZONE, exp.Collate: COLLATE, exp.Neg: SIGN,
}  # fmt: skip

_LAST: dict[type[exp.Expr], str] = {exp.Between: "high", exp.AtTimeZone: "zone"}  # the arguments that hold the last operand
_NUMBER = re.compile(r"[\d.]+(e[-+]?\d+)?", re.IGNORECASE)
_PREFIX = (exp.Not, exp.Neg, exp.BitwiseNot)
_NO_OPERATORS = (exp.Dot, exp.Kwarg, exp.PropertyEQ, exp.Slice)


def level(node: exp.Expr) -> int | None:
    """Return how tightly an operator binds; None of what is none."""
    known = _LEVELS.get(type(node))
    if known is None and isinstance(node, exp.Binary) and not isinstance(node, _NO_OPERATORS):
        return OPERATOR
    return known


def _without(node: exp.Expr) -> exp.Expr:
    """What stands in brackets that the text has not."""
    while isinstance(node, exp.Paren) and not has_brackets(node):
        node = node.this
    return node


def _left(node: exp.Expr) -> exp.Expr | None:
    """The operand that an operator begins with."""
    if isinstance(node, exp.MatchAgainst):
        return _without(node.expressions[0])
    return None if level(node) is None or isinstance(node, _PREFIX) else _without(node.this)


def _right(node: exp.Expr) -> exp.Expr | None:
    """The operand that an operator ends with."""
    if level(node) is None or isinstance(node, exp.In | exp.Is):
        return None
    if isinstance(node, (*_PREFIX, exp.MatchAgainst)):
        found = node.this
    else:
        found = node.args.get(_LAST.get(type(node), "expression"))
    return _without(found) if isinstance(found, exp.Expr) else None


def _edge(node: exp.Expr | None, end: Callable[[exp.Expr], exp.Expr | None]) -> Iterator[int]:
    """How tightly the operators bind whose operand is at this end of a text."""
    while node is not None:
        operand = end(node)
        if operand is None:
            return
        yield level(node) or 0
        node = operand


def _loose(node: exp.Expr, own: int) -> bool:
    """Whether an operand would not stay with its operator. Those of one level are read from the left, `NOT NOT` from the right;
    comparisons in a row are an error."""
    before, behind = _left(node), _right(node)
    least = own + (own in (IS, COMPARISON, MATCH))
    escapes = isinstance(node, exp.Escape)  # `a LIKE b ESCAPE c` is one operator of three operands
    if before is not None and not escapes and any(other < least for other in _edge(before, _right)):
        return True
    least = own + (own not in (NOT, SIGN))
    return any(other < least for other in _edge(behind, _left))


def _quantified(node: exp.Any | exp.All) -> bool:
    """`x = ANY (a) || b` is (x = ANY (a)) || b: behind ANY stands one array or query, in brackets."""
    compared = isinstance(node.parent, exp.Binary) and node.arg_key == "expression"
    return not compared or not isinstance(node.this, (exp.Paren, exp.Query, exp.Tuple))


def _called_quantifier(node: exp.Anonymous) -> bool:
    """ALL of an array, which sqlglot takes for a function, is what an operator compares with, and nothing else."""
    all_ = node.name.lower() in ("any", "all", "some") and not isinstance(node.this, exp.Identifier)
    return all_ and not (isinstance(node.parent, exp.Binary) and node.arg_key == "expression")


def _of_cast(node: exp.Expr) -> bool:
    """`x::int[1]` casts to an array type, `x::a.b` to a type of a schema."""
    return isinstance(node.this, exp.Cast)


def _is(node: exp.Is) -> bool:
    """`IS NORMALIZED`, `IS DOCUMENT`, ...: no comparisons with columns."""
    return not isinstance(node.expression, (exp.Null, exp.Boolean, exp.JSON))


def _collation(node: exp.Collate) -> bool:
    """Behind COLLATE stands a name; what follows is of the whole."""
    return not isinstance(node.expression, (exp.Column, exp.Identifier, exp.Var))


def _json(node: exp.Binary) -> bool:
    """A text without a type is not said to be JSON; `x -> 1.5` is no path of the text '1.5', and `x -> ''` is not x."""
    if isinstance(node.this, exp.Literal):
        return True
    return any(not key.name or _NUMBER.fullmatch(key.name) for key in node.expression.find_all(exp.JSONPathKey))


def _modifier(node: exp.DataTypeParam) -> bool:
    """`x::int8 (y)`: what stands in brackets behind a type is a number."""
    return not isinstance(node.this, exp.Literal)


def _field(node: exp.Extract) -> bool:
    """EXTRACT('a b' FROM x): a field is a word, and printed as one."""
    return not node.name.isidentifier()


def _join(node: exp.Join) -> bool:
    """`a JOIN b CROSS JOIN c ON d` joins a with b CROSS JOIN c: the condition is of the first join."""
    conditions = node.args.get("on") is not None or bool(node.args.get("using"))
    if node.kind == "CROSS" or node.method == "NATURAL":
        return conditions
    return bool(node.side) and not conditions


_MISREAD: dict[type[exp.Expr], Callable[..., bool]] = {
    exp.All: _quantified,
    exp.Anonymous: _called_quantifier,
    exp.Any: _quantified,
    exp.Bracket: _of_cast,
    exp.Collate: _collation,
    exp.DataTypeParam: _modifier,
    exp.Dot: _of_cast,
    exp.Extract: _field,
    exp.Is: _is,
    exp.Join: _join,
    exp.JSONBExtract: _json,
    exp.JSONBExtractScalar: _json,
    exp.JSONExtract: _json,
    exp.JSONExtractScalar: _json,
}


def refuse_misread(tree: exp.Expr) -> None:
    """Raise Refusal where PostgreSQL reads something else than this tree."""
    for node in tree.walk():  # up to the first, which is at the top of a long chain
        own, misread = level(node), _MISREAD.get(type(node))
        if (own is not None and _loose(node, own)) or (misread is not None and misread(node)):
            raise Refusal(
                FEATURE_NOT_SUPPORTED,
                "PostgreSQL reads this otherwise than dpproxy would",
                position=position(node),
                hint="Put brackets around what belongs together.",
            )

"""The less common special forms of SQL as expressions the engines have: quantifiers, rows, subscripts, bits, named arguments.

Knows: sqlglot's node classes, the allow-list. Must not know: engines, noise. Arrays exist below a measurement only as constants
that are compared with, or as the parts of a text that a subscript or a length takes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from sqlglot import exp

from dpproxy.errors import INVALID_TEXT_REPRESENTATION, SYNTAX_ERROR, Refusal
from dpproxy.plan.bind.scope import Scope
from dpproxy.plan.functions import instants, numbers, operators, patterns, plain, scalars, texts, times
from dpproxy.plan.functions.operators import coerce
from dpproxy.plan.functions.registry import called
from dpproxy.plan.refusals import CONSTANT, unsupported
from dpproxy.sql.dialect import ident, to_sql
from dpproxy.sql.types import array_items, type_name
from dpproxy.table_terms import Enumeration
from dpproxy.tree.expr import Call, Case, Cast, Expr, InList, Lit

MAX_QUANTIFIED = 1_000  # elements of an array that each become a comparison


class Binder(Protocol):
    def bind(self, node: exp.Expr, scope: Scope) -> Expr: ...

    def enumeration(self, type_: exp.DataType) -> Enumeration | None: ...

    def zone(self, *values: Expr, made: bool = False) -> str | None: ...


_CONSTANT_NODES = (
    exp.Literal, exp.Parameter, exp.Null, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Interval, exp.Var, exp.Paren, exp.Neg,
    exp.DPipe, exp.Mul,
)  # fmt: skip


def of_constants_alone(node: exp.Expr) -> bool:
    """Tell whether an expression is made of constants and parameters alone, by operators: one value for all rows, which the
    facade can tell."""
    return all(isinstance(part, _CONSTANT_NODES) for part in node.walk())


# --- arrays of constants, and quantifiers over them


def quantifier(node: exp.Expr | None) -> tuple[bool, exp.Expr] | None:
    """(whether it is ALL, what it ranges over) of ANY, SOME and ALL; None for anything else."""
    if isinstance(node, exp.Any | exp.All):
        inner = node.this
        return isinstance(node, exp.All), inner.unnest() if isinstance(inner, exp.Paren) else inner
    if isinstance(node, exp.Anonymous) and str(node.this).lower() in ("all", "any", "some") and len(node.expressions) == 1:
        return str(node.this).lower() == "all", node.expressions[0]
    return None


def elements(binder: Binder, node: exp.Expr, scope: Scope) -> list[Expr] | None:
    """Return the elements of ARRAY[...] or of an array constant; None for other arrays."""
    if isinstance(node, exp.Paren):
        return elements(binder, node.this, scope)
    if isinstance(node, exp.Array):
        return [binder.bind(e, scope) for e in node.expressions]
    target = _elements_type(binder, node.to) if isinstance(node, exp.Cast) else None
    inner = node.this if isinstance(node, exp.Cast) and target is not None else node
    if target is not None and isinstance(inner, exp.Array):
        return [operators.coerce(e, target) for e in elements(binder, inner, scope) or ()]
    if not (isinstance(inner, exp.Literal) and inner.is_string):
        return None
    try:
        items: list[Expr] = [Lit("unknown", item) for item in array_items(inner.this)]
    except ValueError:
        raise Refusal(INVALID_TEXT_REPRESENTATION, f'malformed array literal: "{inner.this}"') from None
    return [operators.coerce(e, target) for e in items] if target is not None else items


def _elements_type(binder: Binder, array: exp.DataType) -> str | None:
    """The type of the elements of an array; None for what is none, or one of unknown elements."""
    name = type_name(array)
    if name is not None:
        return name[:-2] if name.endswith("[]") else None
    of = array.expressions[0] if array.is_type("array") and array.expressions else None
    return binder.enumeration(of) if isinstance(of, exp.DataType) else None


def quantified(op: str, value: Expr, items: Sequence[Expr], every: bool) -> Expr:
    """Bind value op ANY (items), or ALL."""
    if (op, every) in (("=", False), ("<>", True)) and items:
        found = []
        for item in items:
            test = operators.compare("=", value, item)
            assert isinstance(test, Call)
            value, other = test.args
            found.append(other)
        return InList("bool", value, tuple(found), every)
    return combined([operators.compare(op, value, item) for item in items], every)


def combined(tests: Sequence[Expr], every: bool) -> Expr:
    if not tests:
        return Lit("bool", "true" if every else "false")
    if len(tests) > MAX_QUANTIFIED:
        raise unsupported("an array of this length", "Compare with a list instead: x IN (...), or x = ANY ($1).")
    return Call("bool", "and" if every else "or", tuple(tests)) if len(tests) > 1 else tests[0]


def like_any(binder: Binder, op: str, value: Expr, node: exp.Expr, scope: Scope, negated: bool) -> Expr | None:
    """LIKE ANY (ARRAY[...]) and its like; None when the right side is no quantifier."""
    found = quantifier(node)
    if found is None:
        return None
    items = elements(binder, found[1], scope)
    if items is None:
        raise unsupported("LIKE over this array", "List the patterns: LIKE ANY (ARRAY['a%', 'b%']).")
    tests = [patterns.like(op, value, item) for item in items]
    return combined([Call("bool", "not", (t,)) for t in tests] if negated else tests, found[0])


def membership(binder: Binder, node: exp.Binary, scope: Scope) -> Expr:
    raise unsupported(
        "this operator of arrays and ranges", "Compare with the elements: x IN ('a', 'b'), or x >= low AND x < high."
    )


# --- rows


def row(node: exp.Expr) -> list[exp.Expr] | None:
    """Return the fields of (a, b) or ROW(a, b); None for anything else."""
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    if isinstance(node, exp.Anonymous) and str(node.this).lower() == "row":
        return list(node.expressions)
    return None


def row_comparison(op: str, left: Sequence[Expr], right: Sequence[Expr]) -> Expr:
    """Field by field; of <, <=, >, >= the first fields that differ decide."""
    if len(left) != len(right):
        raise Refusal(SYNTAX_ERROR, "unequal number of entries in row expressions")
    pairs = list(zip(left, right, strict=True))
    if op in ("=", "<>"):
        equal = Call("bool", "and", tuple(operators.compare("=", a, b) for a, b in pairs))
        return equal if op == "=" else Call("bool", "not", (equal,))
    if op in ("is_distinct", "is_not_distinct"):
        same = Call("bool", "and", tuple(operators.compare("is_not_distinct", a, b) for a, b in pairs))
        return same if op == "is_not_distinct" else Call("bool", "not", (same,))
    *first, (a, b) = pairs
    result = operators.compare(op, a, b)
    for a, b in reversed(first):
        later = Call("bool", "and", (operators.compare("=", a, b), result))
        result = Call("bool", "or", (operators.compare(op[0], a, b), later))
    return result


def overlaps(binder: Binder, node: exp.Binary, scope: Scope) -> Expr:
    """Bind (s1, e1) OVERLAPS (s2, e2): each from its earlier end on, up to but without the later; one instant is itself."""
    sides = [row(node.this), row(node.expression)]
    if any(side is None or len(side) != 2 for side in sides):
        raise unsupported("this OVERLAPS", "Compare the ends: a < d AND c < b.")
    (a, b), (c, d) = ([binder.bind(e, scope) for e in side or ()] for side in sides)
    (a, b), (c, d) = _period(a, b), _period(c, d)
    known = [Call("bool", "is_null", (e,)) for e in (a, b, c, d)]
    first, last = _ends(a, b)
    other, final = _ends(c, d)
    whens = (
        (Call("bool", "or", tuple(known)), Lit("bool", None)),
        (operators.compare("=", first, other), Lit("bool", "true")),
        (operators.compare("<", first, other), operators.compare("<", other, last)),
    )
    return Case("bool", whens, operators.compare("<", first, final))


def _period(start: Expr, end: Expr) -> tuple[Expr, Expr]:
    start = coerce(start, end.type if end.type not in ("interval", "unknown") else "timestamp")
    return start, operators.plus(start, end) if end.type == "interval" else coerce(end, start.type)


def _ends(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    return scalars.FUNCTIONS["least"]((a, b)), scalars.FUNCTIONS["greatest"]((a, b))


# --- operators and forms


def similar(binder: Binder, node: exp.Binary, scope: Scope) -> Expr:
    return patterns.similar(binder.bind(node.this, scope), binder.bind(node.expression, scope))


def starts_with(binder: Binder, node: exp.Func, scope: Scope) -> Expr:
    return called("starts_with", (binder.bind(node.this, scope), binder.bind(node.expression, scope)))


def overlay(binder: Binder, node: exp.Overlay, scope: Scope) -> Expr:
    parts = [node.this, node.expression, node.args["from_"], node.args.get("for_")]
    return texts.overlay([binder.bind(p, scope) for p in parts if p is not None])


def collated(binder: Binder, node: exp.Collate, scope: Scope) -> Expr:
    """COLLATE "C" of what is not compared: the released keys are sorted so anyway."""
    name = node.expression.this if isinstance(node.expression, exp.Column) else node.expression
    if ident(name) not in ("C", "POSIX") or isinstance(node.parent, exp.Predicate):
        raise unsupported(f"`{to_sql(node)}`", "Leave COLLATE out, or sort the released result by it.")
    return operators.as_text(binder.bind(node.this, scope), "COLLATE")


_BITS: dict[type[exp.Expr], str] = {
    exp.BitwiseAnd: "bitand", exp.BitwiseOr: "bitor", exp.BitwiseXor: "bitxor", exp.BitwiseNot: "bitnot",
    exp.BitwiseRightShift: "bitright", exp.BitwiseLeftShift: "bitleft",
}  # fmt: skip


def bits(binder: Binder, node: exp.Expr, scope: Scope) -> Expr:
    operands = [node.this, *([node.args["expression"]] if node.args.get("expression") is not None else [])]
    return numbers.BITS[_BITS[type(node)]]([binder.bind(o, scope) for o in operands])


def at_time_zone(binder: Binder, node: exp.AtTimeZone, scope: Scope) -> Expr:
    value = binder.bind(node.this, scope)
    return instants.at_time_zone(value, binder.bind(node.args["zone"], scope), binder.zone(value, made=True))


def bracket(binder: Binder, node: exp.Bracket, scope: Scope) -> Expr:
    """Bind (regexp_match(text, pattern))[1] and (string_to_array(text, mark))[n]; sqlglot counts constants from 0. A SELECT of
    (regexp_matches(text, pattern))[1] alone is its first match, or NULL."""
    inner = node.this.unnest() if isinstance(node.this, exp.Paren) else node.this
    name = str(inner.this).lower() if isinstance(inner, exp.Anonymous) else ""
    index = node.expressions[0] if len(node.expressions) == 1 else None
    if name == "regexp_matches" and _alone(node):
        name = "regexp_match"
    if not isinstance(index, exp.Literal) or not index.this.isdigit() or name not in ("regexp_match", "string_to_array"):
        raise unsupported("this subscript", "Use CASE for a list of constants, split_part() for the parts of a text.")
    args = [binder.bind(a, scope) for a in inner.expressions]
    at = int(index.this) + 1
    if name == "string_to_array" and len(args) == 2:
        return texts.split_field(args[0], args[1], at)
    if name == "regexp_match" and at == 1:
        return patterns.regexp_matched(args)
    raise unsupported("this subscript")


def _alone(node: exp.Expr) -> bool:
    """Whether an expression is all that a SELECT without FROM returns."""
    above = node.parent
    while isinstance(above, exp.Paren | exp.Alias):
        above = above.parent
    if not isinstance(above, exp.Select) or len(above.expressions) != 1:
        return False
    return above.args.get("from_") is None and above.args.get("where") is None


def _parts_of_text(binder: Binder, args: Sequence[exp.Expr], scope: Scope, name: str) -> Expr:
    """array_length(string_to_array(text, mark), 1), and cardinality(), which is 0 where there is no part."""
    inner = args[0] if args else None
    if not (isinstance(inner, exp.Anonymous) and str(inner.this).lower() == "string_to_array" and len(inner.expressions) == 2):
        raise unsupported(f"`{name}` of this array", "List its elements: ARRAY[1, 2, 3].")
    value, mark = (binder.bind(a, scope) for a in inner.expressions)
    count = texts.split_count(value, mark)
    if name != "cardinality":
        return count
    empty = operators.compare("=", operators.as_text(value, name), Lit("text", ""))
    return Case("int4", ((empty, Lit("int4", "0")),), count)


def _width_bucket(binder: Binder, args: Sequence[exp.Expr], scope: Scope, name: str) -> Expr:
    if len(args) == 2:
        bounds = elements(binder, args[1], scope)
        if bounds is None:
            raise unsupported("`width_bucket` with thresholds that are not constant", CONSTANT)
        return numbers.thresholds(binder.bind(args[0], scope), bounds)
    return numbers.width_bucket([binder.bind(a, scope) for a in args])


def _make_interval(binder: Binder, args: Sequence[exp.Expr], scope: Scope, name: str) -> Expr:
    named = [(ident(a.this) or a.this.name, binder.bind(a.expression, scope)) for a in args if isinstance(a, exp.Kwarg)]
    if len(named) < len(args):
        raise unsupported("`make_interval` without named fields", "Name the field: make_interval(days => n).")
    return times.make_interval(named)


def _date_trunc(binder: Binder, args: Sequence[exp.Expr], scope: Scope, name: str) -> Expr:
    """With a zone: the zone's own midnight, as an instant."""
    bound = [binder.bind(a, scope) for a in args]
    if len(bound) != 3:
        return scalars.date_trunc(bound)
    session = binder.zone(made=True)
    local = instants.at_time_zone(Cast("timestamptz", plain.timestamp(bound[1], "`date_trunc`")), bound[2], session)
    return instants.at_time_zone(scalars.date_trunc((bound[0], local)), bound[2], session)


_Form = Callable[[Binder, Sequence[exp.Expr], Scope, str], Expr]
CALLS: dict[str, _Form] = {
    "width_bucket": _width_bucket, "make_interval": _make_interval, "date_trunc": _date_trunc,
    "array_length": _parts_of_text, "cardinality": _parts_of_text,
}  # fmt: skip
"""Functions whose arguments are more than values."""

HANDLERS: dict[type[exp.Expr], Callable[[Any, Any, Scope], Expr]] = {
    exp.SimilarTo: similar, exp.StartsWith: starts_with, exp.Overlay: overlay, exp.Collate: collated,
    exp.AtTimeZone: at_time_zone,
    exp.Bracket: bracket, exp.Overlaps: overlaps, exp.ArrayContainsAll: membership, exp.ArrayContainedBy: membership,
    exp.ArrayOverlaps: membership, **dict.fromkeys(_BITS, bits),
}  # fmt: skip

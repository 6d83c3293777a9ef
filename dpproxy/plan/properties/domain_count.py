"""How many declared groups there are, counted by trying: conditions leave fewer than all combinations of declared values.

Knows: expressions over constants, domains. Must not know: engines, public tables' rows. A unit reaches no more groups than there
are, so that noise follows this number. What is not known here of a condition is taken to hold. A key of unknown value ends the
count: there are then as many groups as combinations. The number is claimed, not believed: it is counted again in what the
backend returns, before noise is drawn (`privacy.measurement.Measurement.counted`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.constants import literal, stamp_of
from dpproxy.plan.operations.operation import Nulls, Test
from dpproxy.plan.properties.facts import literal_number
from dpproxy.sql.types import INTEGERS, TIMES
from dpproxy.tree.expr import (
    Call,
    Case,
    Cast,
    Column,
    Domain,
    Expr,
    InList,
    Lit,
    Ref,
    Relation,
    SeriesDomain,
    ValuesDomain,
    children,
    references,
)
from dpproxy.tree.measured import DeclaredPart
from dpproxy.tree.relation import Public, Values

MAX_TRIED = 2_000  # combinations: some milliseconds
Row = Mapping[int | str, Lit]
"""Values of columns, by their ids, and of expressions (`_name`)."""
EXACT = (*INTEGERS, "numeric")  # numbers that are compared as they are written
_TEXTS = ("text", "varchar")
_SMALL = 2**31  # below, a whole number is of each numeric type, as it is
_EPOCH = dt.datetime(1970, 1, 1)


def groups_of(part: DeclaredPart) -> int | None:
    """Return how many groups a part has at most; None where that is not known, or too much would have to be tried."""
    listed = _sources(part)
    if listed is None:
        return None
    keys = [key for _, key in part.keys]
    crossing, sources = list(part.conditions), []
    for rows in listed:
        mine = frozenset(rows[0]) if rows else frozenset()
        own = [c for c in crossing if _within(c, mine)]
        crossing = [c for c in crossing if c not in own]
        whole = [e for each in (*crossing, *keys) for e in _largest(each, mine)]
        kept = [row for row in rows if _may_hold(own, row)]
        sources.append([{**row, **_computed(whole, row)} for row in kept])
    if prod(map(len, sources)) > MAX_TRIED:
        return None
    found: set[tuple[str | None, ...]] = set()
    for combined in product(*sources):
        row = {i: value for each in combined for i, value in each.items()}
        if _may_hold(crossing, row):
            values = [_value(key, row) for key in keys]
            if None in values:
                return None
            found.add(tuple(value.text for value in values if value is not None))
    return len(found)


def _may_hold(conditions: Sequence[Expr], row: Row) -> bool:
    return not any(known is not None and known.text != "true" for known in (_value(c, row) for c in conditions))


def _within(expr: Expr, columns: frozenset[int | str]) -> bool:
    read = references(expr)
    return bool(read) and all(c.id in columns for c in read)


def _largest(expr: Expr, columns: frozenset[int | str]) -> Iterator[Expr]:
    """The largest parts of an expression that read one source alone: they are computed once for each of its rows."""
    if _within(expr, columns):
        yield expr
    else:
        for child in children(expr):
            yield from _largest(child, columns)


def _computed(exprs: Sequence[Expr], row: Row) -> dict[int | str, Lit]:
    found = ((_name(e), _value(e, row)) for e in exprs)
    return {name: value for name, value in found if value is not None}


def _name(expr: Expr) -> str:
    """What an expression's value is kept under: the expression itself, as long as it is there."""
    return str(id(expr))


def _sources(part: DeclaredPart) -> list[list[Row]] | None:
    """The rows of each source, as columns' values; None where they are not known, or very many."""
    sizes = [len(d.values) if isinstance(d, ValuesDomain) else getattr(d, "size", MAX_TRIED + 1) for _, d in part.columns]
    scans = [_constants(scan) for scan in part.scans]
    if None in scans or any(size > MAX_TRIED for size in sizes):
        return None
    beside = {s.column.id: s for s in part.strays}
    listed = [scan for scan in scans if scan is not None]
    for column, domain in part.columns:
        rows: list[dict[int | str, Lit]] = [{column.id: value} for value in _values(column, domain)]
        stray = beside.get(column.id)
        if stray is not None:
            rows = [{**row, stray.stray.id: Lit("bool", "false")} for row in rows]
            names = (column, *stray.tests)
            for texts in stray.rows:
                rows.append({stray.stray.id: Lit("bool", "true")})
                rows[-1].update((c.id, Lit(c.type, text)) for c, text in zip(names, texts, strict=True))
        listed.append([*rows])
    return listed


def _constants(scan: Relation) -> list[Row] | None:
    """The rows of a VALUES list."""
    node = scan.child if isinstance(scan, Public) else scan
    if not isinstance(node, Values):
        return None
    found: list[Row] = []
    for row in node.rows:
        cells: dict[int | str, Lit] = {c.id: cell for c, cell in zip(node.columns, row, strict=True) if isinstance(cell, Lit)}
        if len(cells) < len(row):
            return None
        found.append(cells)
    return found


def _values(column: Column, domain: Domain) -> Iterator[Lit]:
    if isinstance(domain, ValuesDomain):
        yield from (Lit(column.type, text) for text in domain.values)
    elif isinstance(domain, SeriesDomain):
        yield from (Lit(column.type, _text(column.type, domain.kind, n)) for n in range(domain.lo, domain.hi + 1))
        if domain.nulls:
            yield Lit(column.type, None)


def _text(type_: str, kind: str, number: int) -> str:
    if kind == "int":
        return str(number)
    if kind == "month":
        moment = dt.datetime(1970 + number // 12, number % 12 + 1, 1)
    else:
        moment = _EPOCH + (dt.timedelta(days=number) if kind == "day" else dt.timedelta(hours=number))
    return moment.date().isoformat() if type_ == "date" else moment.isoformat(sep=" ")


# --- values


def _value(expr: Expr, row: Row) -> Lit | None:
    """The constant an expression is in a row; None where it is not known."""
    if (known := row.get(_name(expr))) is not None:
        return known
    match expr:
        case Lit():
            return expr
        case Ref(column=column):
            return row.get(column.id)
        case InList(arg=arg, items=items, negated=False):
            return _value(Call("bool", "or", tuple(Call("bool", "=", (arg, item)) for item in items)), row)
        case Cast(arg=arg, length=()):
            return _cast(expr, _value(arg, row))
        case Case(whens=whens, default=default):
            return _case(whens, default, row, expr.type)
        case Call(op="and" | "or" as op, args=args):
            return _together([_value(a, row) for a in args], "false" if op == "and" else "true")
        case Call(op=op, args=args):
            operands = [_value(a, row) for a in args]
            return None if None in operands else _call(expr, op, [o for o in operands if o is not None])
        case _:
            return None


def _together(parts: Sequence[Lit | None], decides: str) -> Lit | None:
    """AND and OR: one operand may decide, whatever the others are."""
    texts = [p.text for p in parts if p is not None]
    if decides in texts:
        return Lit("bool", decides)
    if len(texts) < len(parts):
        return None
    return Lit("bool", None if None in texts else "true" if decides == "false" else "false")


def _case(whens: Sequence[tuple[Expr, Expr]], default: Expr | None, row: Row, type_: str) -> Lit | None:
    for test, result in whens:
        known = _value(test, row)
        if known is None:
            return None
        if known.text == "true":
            return _value(result, row)
    return _value(default, row) if default is not None else Lit(type_, None)


def _call(expr: Call, op: str, args: Sequence[Lit]) -> Lit | None:
    found = operation(op)
    if found.test is Test.NULL or op in ("is_true", "is_not_true"):
        return _tested(op, args[0].text)
    if found.nulls in (Nulls.OPERAND, Nulls.FIRST) and any(a.text is None for a in args):
        return Lit(expr.type, None)
    if op == "not":
        return Lit("bool", "false" if args[0].text == "true" else "true")
    if len(args) == 2 and found.test in (Test.EQUAL, Test.ORDER):
        return _compared(op, *args)
    try:
        return found.fold(expr.type, args) if found.fold is not None else None
    except (ValueError, OverflowError, ArithmeticError):
        return None


def _tested(op: str, text: str | None) -> Lit:
    tests = {"is_null": text is None, "is_not_null": text is not None, "is_true": text == "true", "is_not_true": text != "true"}
    return Lit("bool", "true" if tests[op] else "false")


def _compared(op: str, a: Lit, b: Lit) -> Lit | None:
    """A comparison. Which text is greater is the database's to say."""
    left, right = _ordered(a), _ordered(b)
    if left is None or right is None or op not in _TESTS:
        return None
    if left[0] != right[0] or (left[0] == "text" and op not in ("=", "<>")):
        return None
    return Lit("bool", "true" if _TESTS[op](left[1], right[1]) else "false")


_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip


def _ordered(constant: Lit) -> tuple[str, object] | None:
    """What a constant is compared as."""
    if constant.type in (*_TEXTS, "bool"):
        return "text", constant.text
    if constant.type in TIMES:
        stamp = stamp_of(constant)
        return None if stamp is None else ("time", stamp)
    known = constant.type in EXACT and constant.text is not None
    number = literal_number(constant.type, constant.text) if known and constant.text is not None else None
    return None if number is None else ("number", number)


def _cast(expr: Cast, arg: Lit | None) -> Lit | None:
    if arg is None or arg.text is None:
        return None if arg is None else Lit(expr.type, None)
    if expr.type == arg.type:
        return arg
    if expr.type in TIMES and (stamp := stamp_of(arg)) is not None:
        return literal(expr.type, stamp)
    whole = arg.type in INTEGERS and expr.type in (*INTEGERS, "numeric", "float8") and abs(int(arg.text)) < _SMALL
    return Lit(expr.type, arg.text) if whole else None

"""Instants by what stands for them: no engine enumerates microseconds, so the hours, days or months they fall in are tried.

Knows: expressions, steps of time. Must not know: relations, engines, data. A key that looks at days has one value on each, and
is tried on days. A condition may look closer: `ts::time >= '09:30'` says nothing of a day, and of an hour that some of it is
left. Such a condition is tried on the whole cell, from its first instant to its last, and holds where it may hold of one of them.
What is not known to rise with time within a cell is not tried at all. More groups are then listed than have rows; never fewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, timedelta

from dpproxy.plan.operations.catalogue import cut_to, later, operation
from dpproxy.plan.operations.operation import Step, Test
from dpproxy.sql.types import NUMBERS
from dpproxy.tree.expr import (
    Call,
    Cast,
    Column,
    Expr,
    InList,
    Lit,
    Ref,
    SeriesDomain,
    children,
    conjunction,
    rebuilt,
    references,
)

STEPS: tuple[Step, ...] = ("month", "day", "hour")
"""The coarser before the finer."""
MAX_LISTED = 100  # constants of a list that instants are compared with one by one
_EPOCH = date(1970, 1, 1)
_MOMENTS = ("date", "timestamp", "timestamptz")
_LAST: Mapping[Step, str] = {"month": "1 0 -1", "day": "0 0 86399999999", "hour": "0 0 3599999999"}
"""From the first instant of a cell to the last: months, days and microseconds."""
_SECONDS: Mapping[Step, int] = {"day": 86_400, "hour": 3_600}
_TEXT: Mapping[Step, int] = {"month": 7, "day": 10, "hour": 13}
"""Characters of an instant's text that all instants of a cell share."""
_LAST_YEAR = (date(9998, 12, 31) - _EPOCH).days
_INVERSE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def finest(steps: Iterable[Step | None]) -> Step | None:
    """Return the finest of steps, None where one is finer than all there are."""
    found: Step = "month"
    for step in steps:
        if step is None:
            return None
        found = max(found, step, key=STEPS.index)
    return found


def series(domain: SeriesDomain, step: Step) -> SeriesDomain:
    """Return a series of days by another step."""
    if step == "hour":
        return SeriesDomain(domain.lo * 24, domain.hi * 24 + 23, "hour", domain.nulls)
    if step == "month":
        return SeriesDomain(_month(domain.lo), _month(domain.hi), "month", domain.nulls)
    return domain


def _month(day: int) -> int:
    found = _EPOCH + timedelta(days=day)
    return (found.year - 1970) * 12 + found.month - 1


def days(domain: SeriesDomain) -> tuple[int, int]:
    """Return the first and the last day of a series of hours, days or months."""
    if domain.kind == "hour":
        return domain.lo // 24, domain.hi // 24
    if domain.kind == "month":
        first, after = (date(1970 + m // 12, m % 12 + 1, 1) for m in (domain.lo, domain.hi + 1))
        return (first - _EPOCH).days, (after - _EPOCH).days - 1
    return domain.lo, domain.hi


# --- what an expression looks at


def looks_at(expr: Expr, column: Column) -> Step | None:
    """Return the coarsest step whose instants of `column` make one value; None where it looks closer than at hours."""
    if column.id not in {c.id for c in references(expr)}:
        return "month"
    if isinstance(expr, Ref):
        return "day" if column.type == "date" else None
    if isinstance(expr, Call) and (step := _step(expr, column) or _of_seconds(expr, column) or _of_text(expr, column)):
        return step
    if isinstance(expr, Cast) and expr.type == "date" and _plain(expr.arg, column):
        return "day"
    return finest(looks_at(child, column) for child in children(expr))


def _step(call: Call, column: Column) -> Step | None:
    """What an operation on the instant itself looks at."""
    row = operation(call.op)
    if row.test is Test.NULL:
        return "month" if _plain(call.args[0], column) else None
    return row.step(call.args) if row.step is not None and _plain(call.args[row.moment], column) else None


def _plain(expr: Expr, column: Column) -> bool:
    while isinstance(expr, Cast) and expr.type in _MOMENTS:
        expr = expr.arg
    return isinstance(expr, Ref) and expr.column.id == column.id


def _of_seconds(call: Call, column: Column) -> Step | None:
    """FLOOR(seconds since 1970 / 86400), and whole seconds of no earlier instant divided as whole numbers."""
    match call:
        case Call(op="floor", args=(Call(op="/", args=(seconds, Lit(text=text))), *_)) if _epoch(seconds, column):
            return _of_size(text)
        case Call(op="int/", args=(Cast(arg=Call(op="floor", args=(seconds, *_))), Lit(text=text))) if _epoch(seconds, column):
            domain = column.domain
            return _of_size(text) if isinstance(domain, SeriesDomain) and domain.lo >= 0 else None
        case _:
            return None


def _epoch(expr: Expr, column: Column) -> bool:
    while isinstance(expr, Cast) and expr.type in ("numeric", "float8"):
        expr = expr.arg
    return isinstance(expr, Call) and expr.op == "epoch" and _plain(expr.args[0], column)


def _of_size(text: str | None) -> Step | None:
    size = int(text) if text is not None and text.isdigit() else 0
    return next((step for step, seconds in _SECONDS.items() if size and size % seconds == 0), None)


def _of_text(call: Call, column: Column) -> Step | None:
    """The first characters of an instant's text."""
    match call:
        case Call(op="left", args=(Cast(type="text", arg=arg), Lit(text=text))) if _written(arg, column):
            pass
        case Call(op="substring", args=(Cast(type="text", arg=arg), Lit(text="1"), Lit(text=text))) if _written(arg, column):
            pass
        case _:
            return None
    size = int(text) if text is not None and text.isdigit() else 99
    return next((step for step, shared in _TEXT.items() if size <= shared), None)


def _written(expr: Expr, column: Column) -> bool:
    """Whether its text begins with year, month, day and hour: of a date there are no hours to differ."""
    return expr.type in ("timestamp", "timestamptz") and _plain(expr, column) and isinstance(column.domain, SeriesDomain)


# --- conditions tried on whole cells


def tried(condition: Expr, steps: Mapping[int, Step]) -> Expr | None:
    """Return a condition that holds where the given one may hold of instants that cells stand for; None where it always may.
    `steps`: of the columns, by id, that cells stand for."""
    if not _closer(condition, steps):
        return condition
    match condition:
        case Call(op="and", args=args):
            return conjunction(tuple(t for a in args if (t := tried(a, steps)) is not None))
        case Call(op="or", args=args):
            parts = [tried(a, steps) for a in args]
            return None if None in parts else Call("bool", "or", tuple(p for p in parts if p is not None))
        case Call(op="not", args=(Call() as test,)):
            return _denied(test, steps)
        case Call(op=op, args=(left, right)) if op in _INVERSE:
            return _compared(op, left, right, steps)
        case InList(arg=arg, items=items, negated=False) if len(items) <= MAX_LISTED:
            return tried(Call("bool", "or", tuple(Call("bool", "=", (arg, item)) for item in items)), steps)
        case Call(op="like", args=(Cast(type="text", arg=arg) as text, Lit(text=str() as pattern))):
            return _begun(text, arg, pattern, steps)
        case _:
            return None


def _closer(expr: Expr, steps: Mapping[int, Step]) -> list[Column]:
    """The columns of which it looks closer than at cells."""
    columns = (c for c in references(expr) if c.id in steps)
    return [c for c in columns if (s := looks_at(expr, c)) is None or STEPS.index(s) > STEPS.index(steps[c.id])]


def _denied(test: Call, steps: Mapping[int, Step]) -> Expr | None:
    """NOT of a test."""
    if test.op in _INVERSE:
        return tried(Call("bool", _INVERSE[test.op], test.args), steps)
    if test.op in ("and", "or"):
        other = "or" if test.op == "and" else "and"
        return tried(Call("bool", other, tuple(Call("bool", "not", (a,)) for a in test.args)), steps)
    return tried(test.args[0], steps) if test.op == "not" else None


def _compared(op: str, left: Expr, right: Expr, steps: Mapping[int, Step]) -> Expr | None:
    """A comparison: the least of one side with the greatest of the other."""
    plain = _from_on(op, left, right, steps) or _from_on(operation(op).mirrored, right, left, steps)
    if plain is not None:
        return plain
    a, b = _ends(left, steps), _ends(right, steps)
    if a is None or b is None:
        return None
    match op:
        case "<" | "<=":
            return Call("bool", op, (a[0], b[1]))
        case ">" | ">=":
            return Call("bool", op, (a[1], b[0]))
        case "=":
            return Call("bool", "and", (Call("bool", "<=", (a[0], b[1])), Call("bool", "<=", (b[0], a[1]))))
        case _:
            return None


def _from_on(op: str, instant: Expr, start: Expr, steps: Mapping[int, Step]) -> Expr | None:
    """An instant that is not before another value: some instant of the hour from h on is >= x where h >= the hour x falls in."""
    if op not in (">", ">=") or not isinstance(instant, Ref) or instant.column.id not in steps or _closer(start, steps):
        return None
    if instant.type not in ("timestamp", "timestamptz") or start.type not in _MOMENTS:
        return None
    stamp = start if start.type in ("timestamp", "timestamptz") else Cast("timestamp", start)
    return Call("bool", ">=", (instant, cut_to("timestamp", Lit("text", steps[instant.column.id]), stamp)))


def _ends(expr: Expr, steps: Mapping[int, Step]) -> tuple[Expr, Expr] | None:
    """The least and the greatest value of an expression in a cell; None where they are not known."""
    closer = _closer(expr, steps)
    if not closer:
        return expr, expr
    (column, *others) = closer
    domain = column.domain
    if others or not _rises(expr, column, steps[column.id]):
        return None
    if not isinstance(domain, SeriesDomain) or days(domain)[1] > _LAST_YEAR:
        return None
    return expr, _with(expr, column, _last(column, steps[column.id]))


def _last(column: Column, step: Step) -> Expr:
    """The last instant of the cell that a column's value begins."""
    if column.type == "date":
        return Cast("date", later(Cast("timestamp", Ref("date", column)), "1 -1 0"))
    return later(Ref(column.type, column), _LAST[step])


def _with(expr: Expr, column: Column, value: Expr) -> Expr:
    if isinstance(expr, Ref):
        return value if expr.column.id == column.id else expr
    return rebuilt(expr, lambda e: _with(e, column, value))


def _rises(expr: Expr, column: Column, step: Step) -> bool:
    """Whether a value never falls within a cell."""
    if column.id not in {c.id for c in references(expr)}:
        return True
    match expr:
        case Ref():
            return True
        case Cast(type="time", arg=arg):
            return step != "month" and _plain(arg, column)
        case Cast(type=type_, arg=arg) if {type_, arg.type} <= {*_MOMENTS} or {type_, arg.type} <= {*NUMBERS}:
            return _rises(arg, column, step)
        case Call(op="hour" | "minute" as field, args=(arg,)):
            return _plain(arg, column) and step in (("hour",) if field == "minute" else ("day", "hour"))
        case Call(op=op, args=args):
            return _rising(op, args, column, step)
        case _:
            return False


def _rising(op: str, args: tuple[Expr, ...], column: Column, step: Step) -> bool:
    if op == "+":
        return all(_rises(a, column, step) for a in args)
    if op in ("*", "/", "int/"):
        factor = args[1]
        positive = isinstance(factor, Lit) and factor.text is not None and factor.text.replace(".", "", 1).isdigit()
        return positive and _rises(args[0], column, step)
    place = operation(op).rises
    others = [a for i, a in enumerate(args) if i != place]
    if place is None or any(column.id == c.id for a in others for c in references(a)):
        return False
    return args[place].type != "interval" and _rises(args[place], column, step)


def _begun(text: Cast, instant: Expr, pattern: str, steps: Mapping[int, Step]) -> Expr | None:
    """LIKE of an instant's text: what of the pattern is before any `%` is compared with what all instants of a cell share."""
    column = next((c for c in references(instant) if c.id in steps), None)
    fixed = pattern.split("%", 1)[0]
    if column is None or not _written(instant, column) or "\\" in pattern:
        return None
    size = min(len(fixed), _TEXT[steps[column.id]])
    first = Call("text", "left", (text, Lit("int4", str(size))))
    return Call("bool", "like", (first, Lit("text", fixed[:size]))) if size else None

"""What WHERE says of a value's bounds: `amount < 100` makes a sum of amounts cost a tenth of `range: [0, 1000]`.

Knows: conjuncts every row satisfies. Must not know: SQL, engines. A bound is only ever met with another: rows that satisfy
the condition lie in both, and what is summed is clamped to the result as it is to any bound.

And what it says of other tests: `amount > 200 AS large` is false in every such row, and never NULL (`outcomes`). That rests on
conditions alone, and on no range of the policy: a group is left out where no row can be in it, whatever rows there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.operation import Nulls, Test
from dpproxy.plan.properties.facts import facts, literal_number
from dpproxy.tree import interval as iv
from dpproxy.tree.expr import Call, Case, Cast, Column, Expr, InList, Lit, Ref, rebuilt, references
from dpproxy.tree.interval import OPEN, Interval


def narrowed_bound(expr: Expr, conditions: Sequence[Expr]) -> Interval:
    """Tell where the conditions leave an expression; open when they say nothing."""
    bound = OPEN
    for condition in conditions:
        bound = iv.meet(bound, _said(expr, condition))
    return bound


def _said(expr: Expr, condition: Expr) -> Interval:
    match condition:
        case Call(op=op, args=(left, right)) if _compares(op):
            if left == expr:
                return _side(op, right, expr.type)
            return _side(operation(op).mirrored, left, expr.type) if right == expr else OPEN
        case InList(arg=arg, items=items, negated=False) if arg == expr and items:
            return iv.hull([_side("=", item, expr.type) for item in items])
        case _:
            return OPEN


def _compares(op: str) -> bool:
    return op == "=" or operation(op).test is Test.ORDER


_KIND = {"date": "days", "timestamp": "seconds", "timestamptz": "seconds", "interval": "interval"}
"""What a value's number counts (`interval.number`); an instant is what the session's clocks show, as a timestamp is."""


_LEAST = {"date": Fraction(1), "timestamp": Fraction(1, 10**6), "timestamptz": Fraction(1, 10**6)}
"""What lies between a time and the next one."""
_BESIDE = {"<": -1, ">": 1}


def _side(op: str, constant: Expr, type_: str) -> Interval:
    """The values that stand in a comparison with a constant. Of other kinds than the expression's own nothing is said."""
    kinds = {_KIND.get(constant.type, "other"), _KIND.get(type_, "other")}
    same = len(kinds) == 1
    if not isinstance(constant, Lit) or constant.text is None or not same:
        return OPEN
    value = literal_number(constant.type, constant.text)
    if value is None:
        return OPEN
    value += _BESIDE.get(op, 0) * _LEAST.get(type_, Fraction(0))
    return Interval(value if op in ("=", ">", ">=") else None, value if op in ("=", "<", "<=") else None)


def narrowed_column(column: Column, expr: Expr, conditions: Sequence[Expr]) -> Column:
    """Return a column that holds the value of `expr`; identifiers have no bounds worth knowing."""
    if column.taint:
        return column
    met = iv.meet(column.bound, narrowed_bound(expr, conditions))
    return column if met == column.bound else replace(column, bound=met)


def compared_columns(condition: Expr) -> list[int]:
    """Return the columns that a condition compares as they are."""
    match condition:
        case Call(op=op, args=args) if _compares(op):
            return [arg.column.id for arg in args if isinstance(arg, Ref)]
        case InList(arg=Ref(column=column)):
            return [column.id]
        case _:
            return []


# --- what is NULL


def vanishes(expr: Expr, kept: frozenset[int]) -> bool:
    """Tell whether an expression is NULL where all columns but those `kept` are."""
    match expr:
        case Ref(column=column):
            return column.id not in kept
        case Lit(text=text):
            return text is None
        case Cast(arg=arg) | InList(arg=arg):
            return vanishes(arg, kept)
        case Case(whens=whens, default=default):
            results = all(not_true(test, kept) or vanishes(result, kept) for test, result in whens)
            return results and (default is None or vanishes(default, kept))
        case Call(op=op, args=args):
            nulls = operation(op).nulls
            if nulls in (Nulls.LOGIC, Nulls.ALL):
                return all(vanishes(a, kept) for a in args)
            return any(nulls.decides(i) and vanishes(a, kept) for i, a in enumerate(args))
        case _:
            return False


def not_true(test: Expr, kept: frozenset[int]) -> bool:
    """Tell whether a condition is false or NULL where all columns but those `kept` are NULL."""
    match test:
        case Call(op="and", args=args):
            return any(not_true(a, kept) for a in args)
        case Call(op="or", args=args):
            return all(not_true(a, kept) for a in args)
        case Call(op="is_not_null" | "is_true" | "is_false", args=args):
            return vanishes(args[0], kept)
        case _:
            return vanishes(test, kept)


# --- what other tests can be

Outcome = bool | None
EVERY: frozenset[Outcome] = frozenset({True, False, None})


def present(conditions: Sequence[Expr]) -> frozenset[int]:
    """Return the columns that are not NULL where all conditions are true."""
    read = ((condition, frozenset(c.id for c in references(condition))) for condition in conditions)
    return frozenset(i for condition, ids in read for i in ids if not_true(condition, ids - {i}))


def may_be_null(expr: Expr, here: frozenset[int], declared: bool = False) -> bool:
    """Tell whether a value may be NULL where the columns `here` are not; where it is `declared`, whether NULL is declared of it:
    not where it could only come from a column with a declared range, whose NULLs the policy has not declared."""
    match expr:
        case Ref(column=column):
            undeclared = declared and facts(expr).bound.closed and not column.nulls
            return column.nullable and not undeclared and column.id not in here
        case Lit(text=text):
            return text is None
        case Call(op=op, args=args):
            return _call_may_be_null(operation(op).nulls, args, here, declared)
        case InList(arg=arg, items=items):
            return any(may_be_null(e, here, declared) for e in (arg, *items))
        case _:
            return True


def _call_may_be_null(nulls: Nulls, args: Sequence[Expr], here: frozenset[int], declared: bool) -> bool:
    match nulls:
        case Nulls.NEVER:
            return False
        case Nulls.ALL:
            return all(may_be_null(a, here, declared) for a in args)
        case Nulls.DIVISOR if any(not isinstance(d, Lit) or d.text in (None, "0") for d in args[1:]):
            return True
        case Nulls.OTHERS | Nulls.FIRST_OR_OTHERS:
            return True
        case Nulls.FIRST:
            return may_be_null(args[0], here, declared)
        case _:
            return any(may_be_null(a, here, declared) for a in args)


def outcomes(test: Expr, conditions: Sequence[Expr]) -> frozenset[Outcome]:
    """Return which of true, false and NULL a test can be in rows that satisfy the conditions."""
    plain = [_unbounded(condition) for condition in conditions]
    return _outcomes(_unbounded(test), plain, present(plain))


def _unbounded(expr: Expr) -> Expr:
    """The same without what the policy, or an earlier condition, says of a column's bounds."""
    if isinstance(expr, Ref):
        return replace(expr, column=replace(expr.column, bound=OPEN, limited=None))
    return rebuilt(expr, _unbounded)


def _outcomes(test: Expr, conditions: Sequence[Expr], here: frozenset[int]) -> frozenset[Outcome]:
    if test in conditions:
        return frozenset({True})
    match test:
        case Call(op="not", args=(inner,)):
            return frozenset(None if o is None else not o for o in _outcomes(inner, conditions, here))
        case Call(op="and" | "or" as op, args=args):
            if len(args) > MOST_TESTS:
                return EVERY
            tests = [_outcomes(arg, conditions, here) for arg in args]
            return frozenset(_connected(op == "or", each) for each in product(*tests))
        case Call(op="is_null" | "is_not_null" as op, args=(inner,)):
            return frozenset({op == "is_not_null", op == "is_null"} if may_be_null(inner, here) else {op == "is_not_null"})
        case Call(op=op, args=(left, right)) if (_compares(op) or op == "<>") and _alike(left, right):
            found = _compared(op, _within(left, conditions), _within(right, conditions))
        case _:
            found = {True, False}
    return frozenset(found) | (frozenset({None}) if may_be_null(test, here) else frozenset())


MOST_TESTS = 6  # of one AND or OR: what they can be together is tried


def results(case: Case, conditions: Sequence[Expr]) -> list[Expr | None]:
    """Return the results that a CASE can have in rows that satisfy the conditions; None for that of a missing ELSE."""
    found: list[Expr | None] = []
    for test, result in case.whens:
        can = outcomes(test, conditions)
        found += [result] if True in can else []
        if can == {True}:
            return found
    return [*found, case.default]


def _connected(any_: bool, each: Sequence[Outcome]) -> Outcome:
    """OR, or AND, of three values."""
    return any_ if any_ in each else None if None in each else not any_


def _alike(left: Expr, right: Expr) -> bool:
    """Whether their values are counted in the same."""
    return _KIND.get(left.type, "other") == _KIND.get(right.type, "other")


def _within(expr: Expr, conditions: Sequence[Expr]) -> Interval:
    def bounded(part: Expr) -> Expr:
        if isinstance(part, Ref):
            return replace(part, column=replace(part.column, bound=narrowed_bound(part, conditions)))
        return rebuilt(part, bounded)

    return iv.meet(facts(bounded(expr)).bound, narrowed_bound(expr, conditions))


def _compared(op: str, a: Interval, b: Interval) -> set[Outcome]:
    """What a comparison can be of values that lie there."""
    if op in (">", ">="):
        op, a, b = operation(op).mirrored, b, a
    if op == "<>":
        return {not o for o in _compared("=", a, b)}
    lowest, highest = _before(a.hi, b.lo, op != "<"), _before(b.hi, a.lo, op == "<")
    if op == "=":
        apart = _before(a.hi, b.lo, False) or _before(b.hi, a.lo, False)
        same = a.closed and a.ends[0] == a.ends[1] and a == b
        return {False} if apart else {True} if same else {True, False}
    return {True} if lowest else {False} if highest else {True, False}


def _before(a: Fraction | None, b: Fraction | None, or_at: bool) -> bool:
    """Whether an end is surely before another."""
    return a is not None and b is not None and (a <= b if or_at else a < b)

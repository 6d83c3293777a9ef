"""The names of a measurement and of its parts: equal names mean equal exact values (answer reuse).

Knows: measurements in normal form, how they are compiled. Must not know: noise, stored answers, clients. The name of a part is
what the part would compile to if it stood alone: whatever makes a difference to the engine makes one to the name, also
what is added to the compiler later. Each column is named by itself, and keys in an order of their own, so that a
measurement of more columns, or of the same in another order, finds those of an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from dpproxy.plan.engines.base import parts
from dpproxy.plan.expr import Call, Expr, Hole, InList, Lit, Ref, conjunction, conjuncts
from dpproxy.plan.facts import facts
from dpproxy.plan.fanout import contribution
from dpproxy.plan.measure import BasisSpec, Compiled, Compiler
from dpproxy.plan.model import Accept, Names, Param, Text
from dpproxy.plan.relation import Filter, Rows
from dpproxy.plan.specs import Shape
from dpproxy.sql.types import INTEGERS

_COUNT = BasisSpec("count", None, None, "")
_ACCEPTED = (*INTEGERS, "text", "varchar", "date")  # types whose values have one text each

Keys = Sequence[tuple[str, Expr]]


def names(compiler: Compiler, keys: Keys, compiled: Compiled) -> Names:
    """The names of a compiled measurement's rows, keys and columns; the compiler's rows are in normal form."""
    rows = compiler.rows
    wider, accepted = _without_accepts(rows)
    all_rows = compiler if not accepted else compiler.over(wider)

    def key_name(key: tuple[str, Expr]) -> str:
        # counted, since a declared domain alone does not tell of what
        return all_rows.compiled([key], [_COUNT]).sql

    texts = [key_name(key) for key in keys]
    order = sorted(range(len(keys)), key=texts.__getitem__)
    by_name = [keys[i] for i in order]
    of_all = [all_rows.compiled((), [spec]).sql for spec in compiled.specs]
    own = of_all if not keys and all_rows is compiler else [compiler.compiled(by_name, [spec]).sql for spec in compiled.specs]
    columns = [f"{spec.kind}: {text}" for spec, text in zip(compiled.specs, own, strict=True)]
    totals = [_total(spec, text) for spec, text in zip(compiled.specs, of_all, strict=True)]
    mixes = [_mix(spec, lambda s: all_rows.compiled((), [s]).sql, compiled.shape) for spec in compiled.specs]
    additive = [s.kind in ("count", "sum") or (s.kind == "units" and compiled.shape.l0 == 1) for s in compiled.specs]
    for chosen in compiled.selections:
        side = compiler.compiled(by_name, (), (chosen,)).side[0]
        end = f"{'low' if chosen.side < 0 else 'high'} end ({chosen.confidence}) of " if chosen.side else ""
        which = [f"{end}{fraction}" for fraction in chosen.fractions] or ["mode"]
        columns += [f"{fraction} of {chosen.size}: {side}" for fraction in which]
        totals += [None] * len(which)
        additive += [False] * len(which)
        mixes += [()] * len(which)
    stepped = [i for i, spec in enumerate(compiled.specs) if spec.steps(compiled.shape) > 1]
    for i in stepped:
        columns += [f"{what} of {columns[i]}" for what in ("raw", "last step")]
        totals, additive, mixes = [*totals, None, None], [*additive, False, False], [*mixes, (), ()]
    return Names(
        parts(
            f"{compiler.compiled(by_name).sql} -- {replace(compiled.shape, dense=None)!r} {compiled.min_units}{_top(compiled)}"
        ),
        tuple(map(parts, texts)),
        tuple(map(parts, columns)),
        parts(f"{all_rows.compiled(()).sql} -- {contribution(wider, ())!r}"),
        tuple(None if total is None else parts(total) for total in totals),
        tuple(Accept(parts(key_name(("", ref))), ref.type, tuple(map(_value, values))) for ref, values in accepted),
        not stepped
        and compiled.top is None
        and (not keys or (compiled.shape.dense is not None and not compiled.shape.pick and not compiled.shape.norm)),
        tuple(additive),
        tuple(mixes),
    )


def _top(compiled: Compiled) -> str:
    """Which groups are there depends on the score they were chosen by."""
    top = compiled.top
    return "" if top is None else f" top {top.k} {compiled.specs[top.score].kind} {compiled.sql}"


def _total(spec: BasisSpec, text: str) -> str | None:
    return f"{spec.kind}: {text}" if spec.kind != "distinct" else None


def _mix(spec: BasisSpec, total: Callable[[BasisSpec], str], shape: Shape) -> tuple[tuple[Text, int], ...]:
    """sum(x - c) = sum(x) - c count(x), and the other way round; bounds on a unit's rows would cut the sides differently."""
    if spec.kind != "sum" or spec.value is None or shape.per_unit or shape.norm:
        return ()
    middle = spec.shift if spec.mean else (spec.lo + spec.hi) // 2
    if not middle:
        return ()
    away = middle if spec.mean else -middle
    center = Fraction(0) if spec.mean else middle * spec.grid
    other = replace(spec, lo=spec.lo + away, hi=spec.hi + away, center=center, mean=not spec.mean)
    count = BasisSpec("count", spec.value if facts(spec.value).nullable else None, spec.where, "")
    return (parts(f"sum: {total(other)}"), 1), (parts(f"count: {total(count)}"), -away)


def _value(constant: Expr) -> str | Param:
    if isinstance(constant, Hole):
        return Param(constant.index, constant.type)
    assert isinstance(constant, Lit)
    assert constant.text is not None
    return constant.text


def _without_accepts(rows: Rows) -> tuple[Rows, list[tuple[Ref, tuple[Expr, ...]]]]:
    """The rows without conditions that a column is one of some constants, to make a name of; these conditions."""
    if not isinstance(rows.node, Filter):
        return rows, []
    found = {c: accepted for c in conjuncts(rows.node.condition) if (accepted := _accepted(c)) is not None}
    rest = conjunction(tuple(c for c in conjuncts(rows.node.condition) if c not in found))
    node = rows.node.child if rest is None else replace(rows.node, condition=rest)
    conditions = tuple(c for c in rows.conditions if c not in found)
    return rows.rewritten(node, conditions, rows.unit), list(found.values())


def _accepted(condition: Expr) -> tuple[Ref, tuple[Expr, ...]] | None:
    match condition:
        case Call(op="=", args=(Ref() as ref, constant)):
            values: tuple[Expr, ...] = (constant,)
        case InList(arg=Ref() as ref, items=items, negated=False):
            values = items
        case _:
            return None
    if ref.type not in _ACCEPTED or ref.column.taint or any(v.type != ref.type for v in values):
        return None
    if not all(isinstance(v, Hole) or (isinstance(v, Lit) and v.text is not None) for v in values):
        return None
    return ref, values

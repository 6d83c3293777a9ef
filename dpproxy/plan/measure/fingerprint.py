"""The names of a measurement and of its parts: equal names mean equal exact values (answer reuse).

Knows: measurements in normal form, how they are compiled. Must not know: noise, stored answers, clients. The name of a part is
what the part would compile to if it stood alone: whatever makes a difference to the engine makes one to the name, also
what is added to the compiler later. Each column is named by itself, and keys in an order of their own, so that a
measurement of more columns, or of the same in another order, finds those of an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction

from dpproxy.plan.measure import coverage
from dpproxy.plan.measure.compiler import Compiled, Compiler
from dpproxy.plan.measure.specs import BasisSpec, Bounding, SelectionSpec
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.fanout import contribution
from dpproxy.privacy.measurement import Accept, KeyGroups, Names
from dpproxy.sql.template import Param, Text, split_holes
from dpproxy.sql.types import FLOATS, INTEGERS
from dpproxy.tree.expr import Call, Cast, Column, Expr, Hole, InList, Lit, Ref, Relation, conjunction, conjuncts, walk
from dpproxy.tree.relation import ContributionLimits, Filter, Rows

_COUNT = BasisSpec("count", None, None, "")
_ACCEPTED = (*INTEGERS, "text", "varchar", "date")  # types whose values have one text each

Keys = Sequence[tuple[str, Expr]]


@dataclass(frozen=True)
class _Column:
    """`name`, and the rest for answers added up, as in `Names`; as texts, whose holes are still in them."""

    name: str
    total: str | None = None
    additive: bool = False
    mix: tuple[tuple[Text, int], ...] = ()


def names(compiler: Compiler, keys: Keys, compiled: Compiled) -> Names:
    """Name a compiled measurement's rows, keys and columns; the compiler's rows are in normal form."""
    wider, accepted = _without_accepts(compiler.rows)
    all_rows = compiler if not accepted else compiler.over(wider)

    def key_name(key: tuple[str, Expr]) -> str:
        # counted, since a declared domain alone does not tell of what
        return all_rows.text([key], [_COUNT])

    texts = [key_name(key) for key in keys]
    by_name = [keys[i] for i in sorted(range(len(keys)), key=texts.__getitem__)]
    columns = _bases(compiler, all_rows, by_name, compiled) + _selections(compiler, by_name, compiled)
    columns += _steps(columns, compiled)
    groups, bounding = _groups(keys, all_rows, key_name), compiled.bounding
    bounds = _fields("Shape", replace(bounding, dense=None))
    return Names(
        rows=split_holes(f"{compiler.text(by_name)} -- {bounds}{_least(compiled)}{_top(compiled)}"),
        keys=tuple(map(split_holes, texts)),
        columns=tuple(split_holes(c.name) for c in columns),
        base=split_holes(f"{all_rows.text(())} -- {_fields('Limits', contribution(wider, ()))}"),
        totals=tuple(None if c.total is None else split_holes(c.total) for c in columns),
        accepts=tuple(Accept(split_holes(key_name(("", ref))), ref.type, tuple(map(_value, values))) for ref, values in accepted),
        groups=groups or (),
        complete=groups is not None and compiled.top is None and not bounding.norm and not bounding.pick,
        bound=bounding.rows if bounding.per_unit else 0,
        additive=tuple(c.additive for c in columns),
        mixes=tuple(c.mix for c in columns),
    )


def _bases(compiler: Compiler, all_rows: Compiler, by_name: Keys, compiled: Compiled) -> list[_Column]:
    """The basis columns, in order. `by_name`: the keys in an order of their own."""

    def total(spec: BasisSpec) -> str:
        return all_rows.text((), [spec])

    alone = not by_name and all_rows is compiler
    found = []
    for i, spec in enumerate(compiled.specs):
        of_all = total(spec)
        own = of_all if alone else compiler.text(by_name, [spec])
        beside = _beside(compiled.specs, i) if compiled.bounding.per_unit else ""
        additive, mix = spec.kind in ("count", "sum", "units"), _mix(spec, total, compiled.bounding)
        found.append(_Column(f"{spec.kind}: {own}{beside}", _total(spec, f"{of_all}{beside}"), additive, mix))
    return found


def _selections(compiler: Compiler, by_name: Keys, compiled: Compiled) -> list[_Column]:
    """The drawn columns of each selection."""
    found = []
    for chosen in compiled.selections:
        side = compiler.compiled(by_name, (), (chosen,)).side[0].text
        end = f"{'low' if chosen.side < 0 else 'high'} end ({chosen.confidence}) of " if chosen.side else ""
        which = [f"{end}{fraction}" for fraction in chosen.fractions] or ["mode"]
        found += [_Column(f"{fraction} of {chosen.size}: {side}") for fraction in which]
    return found


def _steps(columns: Sequence[_Column], compiled: Compiled) -> list[_Column]:
    """Columns released in addition to basis columns with steps."""
    stepped = [i for i, spec in enumerate(compiled.specs) if spec.steps(compiled.bounding) > 1]
    return [_Column(f"{what} of {columns[i].name}") for i in stepped for what in ("raw", "last step", "later steps")]


def _fields(name: str, value: Bounding | ContributionLimits) -> str:
    """Spell a value under a name that outlives its class's: stored answers are found by this text. Words to a reader are no part
    of it, so that they can be written better."""
    named = (f.name for f in fields(value) if f.compare and f.name not in ("greatest", "notes"))  # which change no column
    return f"{name}({', '.join(f'{field}={getattr(value, field)!r}' for field in named)})"


def _groups(keys: Keys, all_rows: Compiler, key_name: Callable[[tuple[str, Expr]], str]) -> tuple[KeyGroups, ...] | None:
    """What is known of the groups of each key over all rows; None where they are not declared."""
    dense = all_rows.dense([key for _, key in keys])
    if dense is None:
        return None if keys else ()
    found: dict[int, KeyGroups] = {}
    for part in dense.parts:
        columns = coverage.open_columns(dense, part)
        shown = {c.id for c in all_rows.rows.node.columns}  # the columns a key is made of may be below a GROUP BY
        names = tuple(split_holes(key_name(("", Ref(c.type, c)))) for c in columns if _nameable(c) and c.id in shown)
        unlimited = None if len(names) < len(columns) else names
        for index, key in part.keys:
            text = coverage.source(part, key, all_rows.speller)
            found[index] = KeyGroups(split_holes(text), unlimited, facts(keys[index][1]).constant)
    return tuple(found[i] for i in range(len(keys)))


def _least(compiled: Compiled) -> str:
    """`min_units` decides which undeclared groups there are; declared ones are all there, whoever asks."""
    undeclared = compiled.threshold is not None or (compiled.top is not None and compiled.bounding.dense is None)
    return f" {compiled.min_units}" if undeclared else ""


def _beside(specs: Sequence[BasisSpec], i: int) -> str:
    """The sum of a mean is cut by its count, if there is one (`bounding`), which counts a few more values."""
    if i >= len(specs) or specs[i].kind != "sum" or not specs[i].mean:
        return ""
    spec = specs[i]
    counts = (s for s in specs[:i] if s.kind == "count")
    return " beside its count" if any((s.value, s.where) == (spec.counted, spec.where) for s in counts) else ""


def _top(compiled: Compiled) -> str:
    """Which groups are there depends on the score they were chosen by."""
    top = compiled.top
    return "" if top is None else f" top {top.k} {compiled.specs[top.score].kind} {compiled.sql}"


def _total(spec: BasisSpec, text: str) -> str | None:
    return f"{spec.kind}: {text}" if not spec.distinct else None


def _mix(spec: BasisSpec, total: Callable[[BasisSpec], str], bounding: Bounding) -> tuple[tuple[Text, int], ...]:
    """sum(x - c) = sum(x) - c count(x), and the other way round; bounds on a unit's rows would cut the sides differently."""
    if spec.kind != "sum" or spec.value is None or bounding.per_unit or bounding.norm or _may_be_nan(spec.value):
        return ()
    middle = spec.shift if spec.mean else (spec.lo + spec.hi) // 2
    if not middle:
        return ()
    away = middle if spec.mean else -middle
    center = Fraction(0) if spec.mean else middle * spec.grid
    other = replace(spec, lo=spec.lo + away, hi=spec.hi + away, center=center, mean=not spec.mean)
    count = BasisSpec("count", spec.value if facts(spec.value).nullable else None, spec.where, "")
    return (split_holes(f"sum: {total(other)}"), 1), (split_holes(f"count: {total(count)}"), -away)


def _may_be_nan(value: Expr) -> bool:
    """NaN is counted and not summed. No arithmetic of whole numbers, or of decimals made of them, comes to it."""
    return any(e.type in FLOATS or (e.type == "numeric" and _unknown(e)) for e in walk(value))


def _unknown(number: Expr) -> bool:
    """A decimal from a table or a text: PostgreSQL's may be NaN."""
    return isinstance(number, Ref | Hole) or (isinstance(number, Cast) and number.arg.type not in (*INTEGERS, "numeric"))


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
    if not _nameable(ref.column) or any(v.type != ref.type for v in values):
        return None
    if not all(isinstance(v, Hole) or (isinstance(v, Lit) and v.text is not None) for v in values):
        return None
    return ref, values


def _nameable(column: Column) -> bool:
    """Whether a condition on the column can be told from texts of groups."""
    return column.id >= 0 and column.type in _ACCEPTED and not column.taint


# Whether a measurement looks at the time of day at which it is asked for: then it is another one each time it is asked.
#
# Knows: expressions, relations, which literals move (`plan.functions.constant_times`). Must not know: stored answers. A stored
# answer is found by what the measurement would compute, so one that ends at this very second finds none, and is charged anew.


MOVING = (
    "the time of day is in this query, so that asking again measures and charges again; "
    "compare with current_date or date_trunc('hour', now()) to have the answer kept"
)
"""What is said of such a measurement."""


def moves(value: object) -> bool:
    """Tell whether an expression, a relation, or anything that holds some has a constant that moves with the time of day."""
    if isinstance(value, Lit):
        return value.moving
    if isinstance(value, tuple | list):
        return any(map(moves, value))
    if isinstance(value, Column) or not isinstance(value, Expr | Relation | BasisSpec | SelectionSpec):
        return False
    return any(moves(getattr(value, field.name)) for field in fields(value) if field.name != "columns")

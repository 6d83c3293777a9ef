"""Joins: how relations with privacy types combine (PRIVACY.md section 2, the rows on joins).

Knows: conjuncts, units, foreign-key paths. Must not know: SQL text, engines. Two private sides join only when their units
are made equal by a conjunct: unit = unit, or along the policy's foreign-key path. Whatever the data, each row of the
result belongs to one unit, because the equality of the unit ids is part of the generated condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.bind import reported
from dpproxy.plan.bind.mandatory_matches import always_matched
from dpproxy.plan.bind.tables import canonical_key, reach_unit
from dpproxy.plan.context import Context, Counter
from dpproxy.plan.properties import row_keys, rows_per_value
from dpproxy.plan.properties.equivalence import EquivalenceClasses, equalities, same_values, strict
from dpproxy.plan.properties.fanout import MOST, overall_limits
from dpproxy.plan.properties.null_padding import nulled_column
from dpproxy.tree.expr import Call, Column, Expr, InQuery, Ref, Relation, conjunction, conjuncts, has_subquery, references
from dpproxy.tree.relation import (
    SINGLE,
    Contribution,
    ContributionLimits,
    Filter,
    Identity,
    Join,
    Padding,
    Project,
    Rows,
    RowsPerValue,
    Staged,
    is_public_alone,
)


def _ids(rows: Rows) -> frozenset[int]:
    return frozenset(c.id for c in rows.node.columns)


def _strict(conditions: Sequence[Expr], *parts: Rows) -> list[Expr]:
    """Conditions of a join or of WHERE, in which a unit's id is compared by plain equality: a row without one is nobody's, and is
    left out. What other conditions compare by equality is not NULL either."""
    filled = {c.id for p in parts for c in (p.unit, p.pending.column if p.pending is not None else None) if c is not None}
    filled |= {c.id for p in parts if not p.padded for pair in equalities(p.conditions) for c in pair}
    return strict(conditions, filled)


def join_inner(parts: list[Rows], conditions: Sequence[Expr], context: Context, counter: Counter) -> Rows:
    """Join all parts inwardly under `conditions` (of ON and WHERE). Raises Refusal when private parts are unrelated."""
    if len(parts) == 1:
        return parts[0]
    reported.check_joined(parts, conditions)
    given, conditions = parts, _strict(conditions, *parts)
    parts, unit_conditions = _relate(parts, list(conditions), context, counter)
    parts = _looked_up(parts, [*conditions, *unit_conditions])
    private = [p for p in parts if p.private]
    node = _chain(parts, [*conditions, *unit_conditions])
    used = tuple(c for c in (*conditions, *unit_conditions) if _within(c, node))
    base = private[0] if private else parts[0]
    return Rows(
        node=node,
        unit=base.unit if private else None,
        one=bool(private) and all(p.one for p in private) and len(private) == len(parts),
        conditions=tuple(dict.fromkeys((*(c for p in parts for c in p.conditions), *used, *_listed(parts, used)))),
        contribution=Contribution(
            _limits(private) if private else base.limits,
            tuple(b for p in parts for b in p.beside),
            per_value=_rows_per_value(given, parts, used),
            numbers=private[0].contribution.numbers if len(private) == 1 else (),
            sides=_sides(given, parts),
            unique=row_keys.of_joined(parts, used),
        ),
        identity=_identities(parts),
        padding=Padding(
            tuple(s for p in parts for s in p.publics), any(p.padded for p in parts), frozenset().union(*(p.kept for p in parts))
        ),
        reports=base.reports if private else None,
    )


def _listed(parts: Sequence[Rows], conditions: Sequence[Expr]) -> list[Expr]:
    """What an inner join with released rows says of the columns compared with theirs: their values are among these rows'."""
    found: list[Expr] = []
    for staged in (p.node for p in parts if isinstance(p.node, Staged)):
        mine = {c.id for c in staged.columns}
        pairs = []
        for condition in conditions:
            match condition:
                case Call(op="=", args=(Ref() as a, Ref() as b)) if (a.column.id in mine) != (b.column.id in mine):
                    pairs.append((b, a) if a.column.id in mine else (a, b))
        if pairs:
            found.append(InQuery("bool", tuple(a for a, _ in pairs), staged, tuple(b for _, b in pairs)))
    return found


def _identities(parts: Sequence[Rows]) -> Identity:
    """Of rows put side by side: a column names the unit it named, where an outer join leaves it a value."""
    return Identity(
        frozenset().union(*(p.determinants for p in parts)),
        tuple(t for p in parts for t in p.identity.tables),
        tuple(o for p in parts for o in p.identity.origins),
    )


def _rows_per_value(given: list[Rows], parts: list[Rows], conditions: Sequence[Expr]) -> tuple[RowsPerValue, ...]:
    """Along a path each row of the one side meets one of the other."""
    pairs = [(p, p.limits != g.limits) for g, p in zip(given, parts, strict=True) if p.private]
    return rows_per_value.of_joined(
        [(p, (RowsPerValue(frozenset(), 1),) if along else rows_per_value.known(p, conditions)) for p, along in pairs]
    )


def _looked_up(parts: list[Rows], conditions: Sequence[Expr]) -> list[Rows]:
    """A part with one row for each value of its keys, all of which other parts fix, adds no rows to theirs."""
    if not any(p.keyed for p in parts):
        return parts
    classes = EquivalenceClasses([*same_values(conditions), *(e for p in parts for e in equalities(p.conditions))])
    found = list(parts)
    fixed = {classes.find(i) for p in parts if p.private and not p.keyed for i in _ids(p)}
    waiting = [i for i, p in enumerate(parts) if p.keyed]
    while waiting:
        ready = [i for i in waiting if all(classes.find(k) in fixed for k in parts[i].keyed)]
        for i in ready:
            found[i] = parts[i].limited(SINGLE)
        ready = ready or waiting[:1]
        fixed |= {classes.find(k) for i in ready for k in _ids(parts[i])}
        waiting = [i for i in waiting if i not in ready]
    return found


def _sides(given: list[Rows], parts: list[Rows]) -> tuple[tuple[frozenset[int], int], ...]:
    """Along a path one side's rows choose the other's: then they are not told apart."""
    private = [p for p in parts if p.private]
    if len(private) < 2 or any(a.limits != b.limits for a, b in zip(given, parts, strict=True)):
        return ()
    sides = [p.contribution.sides or ((_ids(p) - _beside_ids(p), p.limits.groups),) for p in private]
    found = tuple((ids, groups) for side in sides for ids, groups in side if groups is not None)
    return found if len(found) == sum(map(len, sides)) else ()


def _beside_ids(rows: Rows) -> frozenset[int]:
    return frozenset().union(*(b.columns for b in rows.beside))


def _within(condition: Expr, node: Relation) -> bool:
    ids = {c.id for c in node.columns}
    return all(c.id in ids for c in references(condition)) and not has_subquery(condition)


def _chain(parts: list[Rows], conditions: Sequence[Expr]) -> Relation:
    """A left-deep chain; each condition is placed at the first join where all its columns are in scope, those without
    columns or with subqueries on top."""
    left: Relation = parts[0].node
    placed: set[int] = set()
    for part in parts[1:]:
        columns = (*left.columns, *part.node.columns)
        ids = {c.id for c in columns}
        mine = []
        for i, condition in enumerate(conditions):
            refs = references(condition)
            if i in placed or not refs or has_subquery(condition) or not all(c.id in ids for c in refs):
                continue
            placed.add(i)
            mine.append(condition)
        on = conjunction(tuple(mine))
        left = Join(columns, "inner" if on is not None else "cross", left, part.node, on)
    rest = conjunction(tuple(c for i, c in enumerate(conditions) if i not in placed))
    return left if rest is None else Filter(left.columns, left, rest)


def _relate(parts: list[Rows], conditions: list[Expr], context: Context, counter: Counter) -> tuple[list[Rows], list[Expr]]:
    """Give every private part its unit and check that all units are made equal."""
    parts = list(parts)
    equal = equalities(conditions)
    _follow_paths(parts, equal)
    parts = [reach_unit(p, context, counter) if p.pending is not None else p for p in parts]
    private = [i for i, p in enumerate(parts) if p.private]
    if len(private) < 2:
        return parts, []
    classes = EquivalenceClasses([*equal, *(e for p in parts for e in equalities(p.conditions))])
    extra: list[Expr] = []
    for a, i in enumerate(private):
        for j in private[a + 1 :]:
            left, right = parts[i].unit, parts[j].unit
            assert left is not None
            assert right is not None
            if classes.find(left.id) != classes.find(right.id) and _same_key(parts, i, j, equal, context):
                extra.append(Call("bool", "=", (Ref(left.type, left), Ref(right.type, right))))
                classes.union(left.id, right.id)
    units = [p.unit for p in parts if p.unit is not None]
    if len({classes.find(u.id) for u in units}) > 1:
        raise _unrelated(context)
    return parts, extra


def _same_key(parts: list[Rows], a: int, b: int, equal: list[tuple[Column, Column]], context: Context) -> bool:
    """The parts are joined on a key that fixes the unit on both sides (`a.order_id = b.order_id`): same unit, the same row."""
    left, right = _ids(parts[a]), _ids(parts[b])
    origin = {c.id: (table, name) for p in parts for table, c, name in (*p.identity.origins, *p.identity.tables)}
    for x, y in equal:
        if x.id in right and y.id in left:
            x, y = y, x
        keys = x.id in parts[a].determinants and y.id in parts[b].determinants
        if x.id in left and y.id in right and keys and x.id in origin and y.id in origin:
            return canonical_key(*origin[x.id], context) == canonical_key(*origin[y.id], context)
    return False


def _follow_paths(parts: list[Rows], equal: list[tuple[Column, Column]]) -> None:
    """A pending path is short-cut when the query itself joins its next table on the path's columns."""
    changed = True
    while changed:
        changed = False
        for i, part in enumerate(parts):
            pending = part.pending
            if pending is None or part.unit is not None:
                continue
            for j, parent in enumerate(parts):
                if i == j or parent.unit is None:
                    continue
                targets = {c.id for t, c, n in parent.identity.tables if t == pending.target and n == pending.target_column}
                if any(_joins(pending.column.id, targets, pair) for pair in equal):
                    parts[i] = part.of_parent(parent.unit)
                    parts[j] = parent if parent.one else parent.limited(SINGLE)
                    changed = True
                    break


def _joins(child: int, targets: set[int], pair: tuple[Column, Column]) -> bool:
    a, b = pair
    return (a.id == child and b.id in targets) or (b.id == child and a.id in targets)


def _unrelated(context: Context) -> Refusal:
    unit = context.policy.unit_name
    return Refusal(
        FEATURE_NOT_SUPPORTED,
        f"private tables can only be joined row by row of the same {unit}",
        hint=f"Join them on the {unit} id (`a.{context.policy.unit_column} = b.{context.policy.unit_column}`) "
        "or along the policy's foreign keys.",
    )


def summed_limits(a: ContributionLimits, b: ContributionLimits) -> ContributionLimits:
    """Return bounds of the rows of two relations together."""
    groups = None if a.groups is None or b.groups is None else min(a.groups + b.groups, MOST)
    greatest = None if a.greatest is None or b.greatest is None else a.greatest + b.greatest
    return ContributionLimits(min(a.rows + b.rows, MOST), groups, a.whole or b.whole, _names(a, b), greatest)


def _limits(private: list[Rows]) -> ContributionLimits:
    """One unit's rows multiply in a many-to-many join; a parent on the path of its child was set to (1, 1)."""
    rows, groups = 1, 1
    unlimited = False
    known = [1 if part.one else part.limits.greatest for part in private]
    greatest = None if None in known else prod(n for n in known if n is not None)
    for part in private:
        rows = min(rows * part.limits.rows, MOST)
        if part.limits.groups is None:
            unlimited = True
        else:
            groups = min(groups * part.limits.groups, MOST)
    whole, by = any(part.limits.whole for part in private), _names(*(part.limits for part in private))
    return ContributionLimits(rows, None if unlimited else groups, whole, by, greatest)


def _names(*limits: ContributionLimits) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for limit in limits for name in limit.by))


def join_left(left: Rows, right: Rows, on: Sequence[Expr], context: Context, counter: Counter) -> Rows:
    """Join `left LEFT JOIN right ON ...` by the privacy types of both sides."""
    reported.check_joined([left, right], on)
    if right.reports is not None:
        raise reported.outer_join(right.reports.table.name)
    on = _strict(on, left, right)
    if left.private and always_matched(left, right, on, context):
        return join_inner([left, right], on, context, counter)
    if not left.private and right.private:
        inner = join_inner([left, right], on, context, counter)
        # ON does not decide which of the left rows there are: it must not narrow the declared groups
        mine = _ids(left)
        narrowing = {c for c in on if all(r.id in mine for r in references(c))}
        conditions = tuple(c for c in inner.conditions if c not in narrowing)
        padding = replace(inner.padding, padded=True, kept=mine | right.kept)
        return inner.rewritten(inner.node, conditions, inner.unit).padding_of(padding)
    if left.private and right.private:
        return _left_private(left, right, on, context, counter)
    # outer row kept, columns of the public right side may be NULL: they are no key domain any more
    columns = (*left.node.columns, *map(nulled_column, right.node.columns))
    node = Join(columns, "left", left.node, right.node, conjunction(tuple(on)))
    beside = (*left.beside, *(replace(b, on=(*b.on, *right.conditions, *on)) for b in right.beside))
    if not left.private:
        padding = Padding(left.publics, left.padded or right.padded, left.kept | right.kept)
        return Rows(node=node, contribution=Contribution(beside=beside), padding=padding)
    known = replace(left.contribution, beside=beside, per_value=rows_per_value.known(left), keyed=frozenset())
    return Rows(
        node=node,
        unit=left.unit,
        pending=left.pending,
        conditions=left.conditions,
        contribution=known,
        identity=left.identity,
        padding=left.padding,
        reports=left.reports,
    )


def _left_private(left: Rows, right: Rows, on: Sequence[Expr], context: Context, counter: Counter) -> Rows:
    left = reach_unit(left, context, counter)
    related, extra = _relate([left, right], list(on), context, counter)
    left, right = related
    if right.keyed:
        plain = left.contributing(replace(left.contribution, keyed=frozenset()))
        right = _looked_up([plain, right], [*on, *extra])[1]
    columns = (*left.node.columns, *map(nulled_column, right.node.columns))
    node = Join(columns, "left", left.node, right.node, conjunction((*on, *extra)))
    return Rows(
        node=node,
        unit=left.unit,
        one=left.one and right.one,
        conditions=left.conditions,
        contribution=Contribution(
            _limits([left, right]),
            (*left.beside, *(replace(b, on=(*b.on, *right.conditions, *on)) for b in right.beside)),
            per_value=rows_per_value.of_joined([(left, rows_per_value.known(left)), (right, rows_per_value.known(right, on))]),
            unique=left.unique & row_keys.of_joined([left, right], [*on, *extra]),
        ),
        identity=_identities([left, right]),
        padding=left.padding,
    )


def join_full(left: Rows, right: Rows, on: Sequence[Expr], context: Context, counter: Counter) -> Rows:
    """Join `left FULL JOIN right` of private sides with equal units: a row belongs to the unit of whichever side it has.

    A condition on no column is refused: engines take one that is never true for no join at all, and some then fail.
    """
    on = _strict(on, left, right)
    if not all(references(c) or has_subquery(c) for c in on):
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            "FULL JOIN with a constant as a condition is not supported over private tables",
            hint="Join ON equal columns; what is to match nothing goes into UNION ALL.",
        )
    pathwise = [left, right]
    _follow_paths(pathwise, equalities(on))
    along = pathwise[0].limits != left.limits or pathwise[1].limits != right.limits
    left, right = reach_unit(left, context, counter), reach_unit(right, context, counter)
    related, extra = _relate([left, right], list(on), context, counter)
    left, right = related
    assert left.unit is not None
    assert right.unit is not None
    columns = tuple(map(nulled_column, (*left.node.columns, *right.node.columns)))
    node = Join(columns, "full", left.node, right.node, conjunction((*on, *extra)))
    unit = replace(left.unit, id=counter.column(), nullable=True)
    either = Call(unit.type, "coalesce", (Ref(left.unit.type, left.unit), Ref(right.unit.type, right.unit)))
    sides = [overall_limits(left), overall_limits(right)]
    # along a path a row has one parent: what matches is no more than the children, and what does not comes on top
    limits = summed_limits(*sides) if along else _limits([left.limited(sides[0]), right.limited(sides[1])])
    return Rows(node=Project((unit, *columns), node, (either,)), unit=unit, contribution=Contribution(limits))


def filtered(rows: Rows, condition: Expr | None) -> Rows:
    """Apply WHERE to the rows. What it asks of randomised columns is asked of true values, and leaves all reports there."""
    whose = rows.reports
    if whose is not None:
        kept = tuple(c for c in conjuncts(condition) if whose.named(c))
        rows = replace(rows, reports=replace(whose, conditions=(*whose.conditions, *kept)))
        condition = conjunction(tuple(c for c in conjuncts(condition) if not whose.named(c)))
    if reported.coins(condition):
        weighed = tuple(c for c in conjuncts(condition) if reported.coins(c))
        rows = replace(rows, weighed=(*rows.weighed, *weighed))
        condition = conjunction(tuple(c for c in conjuncts(condition) if c not in weighed))
    parts = tuple(_strict(conjuncts(condition), rows))
    if not parts:
        return rows
    whole = conjunction(parts)
    assert whole is not None
    node = Filter(rows.node.columns, rows.node, whole)
    return rows_per_value.first_only(rows.fewer(node, tuple(p for p in parts if not has_subquery(p) or is_public_alone(p))))

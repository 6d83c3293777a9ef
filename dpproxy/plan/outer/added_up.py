"""Aggregates of a measured SELECT that window sums add up: their formulas, what is feasible of the sums, and the key they go
along.

Knows: what reads a SELECT (`window_sums`), formulas over released columns. Must not know: noise. A count is raised to 0 where
noise took it below; of counts that are added up the sum is, and not each: what is added by raising each adds up too. Only the
total of a whole partition, beside groups that are shown, is of what is shown, so that shares of it add up to one.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpproxy.plan.intervals.window_sums import WindowSum, own_sums, read_by_sums, straight
from dpproxy.plan.measure.running import Series
from dpproxy.plan.measure.specs import Measured
from dpproxy.sql.dialect import ident
from dpproxy.sql.output_names import output_name
from dpproxy.sql.trees import aggregate_calls


class AddedUp:
    """What is added up of one SELECT; made before its tree is rewritten, asked while it is."""

    def __init__(self, select: exp.Select) -> None:
        self._reading = read_by_sums(select)
        around = self._reading is not None and self._reading.around
        self._around = {output_name(e): id(e.unalias()) for e in select.expressions} if around else {}
        sums, calls = own_sums(select), {id(call) for e in select.expressions for call in aggregate_calls(e)}
        alone = {id(s.argument) for s in sums} == calls
        self._own = frozenset(id(s.argument) for s in sums if alone or s.window.args.get("order") is not None)
        self._positive: set[int] = set()

    def formula(self, node: exp.Expr, measured: Measured) -> str:
        """Return the formula of an aggregate's value: as it was drawn, if it is a column times a constant that is added up."""
        found = measured.range
        added = id(node) in self._own or id(node) in self._around.values()
        if not added or found is None or not straight(measured):
            return measured.formula
        self._positive |= {id(node)} if found.positive else set()
        return found.free

    def held(self, window: exp.Expr, argument: int) -> exp.Expr:
        """Return a window function of an argument (its id) that is rewritten: not below 0 where what it adds up is not."""
        return (
            exp.Anonymous(this="GREATEST", expressions=[window, exp.Literal.number(0)]) if argument in self._positive else window
        )

    def series(
        self, columns: dict[exp.Expr, int], projections: Sequence[exp.Expr], sets: Sequence[tuple[int, ...]]
    ) -> Series | None:
        """Return the key along which all sums go, each within one value of every other key; None where they do not. `columns`:
        keys by what stands for them in the rewritten SELECT."""
        reading = self._reading
        if reading is None:
            return None
        if reading.around:
            self._hold_around(reading.sums)
        named = {ident(p.args["alias"]): columns.get(p.unalias()) for p in projections}

        def key(node: exp.Expr | None) -> int | None:
            if node is None or not reading.around:
                return columns.get(node) if node is not None else None
            return named.get(ident(node.this)) if isinstance(node, exp.Column) else None

        (along, others), *more = {(key(s.order), frozenset(map(key, s.parts))) for s in reading.sums}
        if more or along is None or len(sets) > 1 or along in others or {along, *others} != set(sets[0]):
            return None
        return Series(sets[0].index(along), tuple(dict.fromkeys(s.width for s in reading.sums)))

    def _hold_around(self, sums: Sequence[WindowSum]) -> None:
        for one in sums:
            if self._around.get(ident(one.argument.this)) not in self._positive:
                continue
            parent, name = one.window.parent, output_name(one.window)
            held = exp.Anonymous(this="GREATEST", expressions=[one.window.copy(), exp.Literal.number(0)])
            one.window.replace(exp.alias_(held, exp.to_identifier(name, quoted=True)) if isinstance(parent, exp.Select) else held)

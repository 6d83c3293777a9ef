"""What the whole of a SELECT says about its measurement: sums that are means by another name, and the k largest groups.

Knows: sqlglot's trees, bound aggregates. Must not know: measurements, noise. Nothing here decides privacy: it recognises
shapes of queries for which less needs to be measured; `measure` and `finish` fix the numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpproxy.plan.intervals.window_sums import WindowSum, own_sums, read_by_sums, straight
from dpproxy.plan.measure.aggregates import Counted
from dpproxy.plan.measure.request import Series
from dpproxy.plan.measure.specs import Measured
from dpproxy.sql.dialect import ident
from dpproxy.sql.nodes import every
from dpproxy.sql.output_names import output_name
from dpproxy.sql.trees import aggregate_calls, is_aggregate
from dpproxy.tree.expr import Agg

Bind = Callable[[exp.Expr], Agg | None]
"""An aggregate call as it is bound; None for what cannot be."""

MAX_TOP = 100


def _parts(select: exp.Select) -> Iterator[exp.Expr]:
    for part in (*select.expressions, select.args.get("having"), select.args.get("order")):
        if part is not None:
            yield part


def divided_sums(select: exp.Select, bind: Bind) -> frozenset[Counted]:
    """Inputs whose SUM is only ever divided by their COUNT: a mean by another name, and it is measured like one, so that
    what bounds cut from the one they cut from the other."""
    sums = Counter(agg for part in _parts(select) for node in aggregate_calls(part) if (agg := bind(node)) is not None)
    divisions = (node for part in _parts(select) for node in every(part, exp.Div))
    divided = Counter(agg for node in divisions if (agg := _divided_sum(node, bind)) is not None)
    return frozenset((agg.args[0], agg.where) for agg, times in divided.items() if sums[agg] == times)


def _divided_sum(node: exp.Div, bind: Bind) -> Agg | None:
    """SUM(x) of `... SUM(x) ... / ... COUNT(x) ...`."""
    over, under = list(aggregate_calls(node.this)), list(aggregate_calls(node.expression))
    if len(over) != 1 or len(under) != 1:
        return None
    total, count = bind(over[0]), bind(under[0])
    if total is None or count is None or (total.name, count.name) != ("sum", "count") or total.distinct or count.distinct:
        return None
    counted = not count.args or count.args == total.args
    return total if counted and total.where == count.where else None


@dataclass(frozen=True)
class TopRequest:
    """The k groups of the highest `score`, an aggregate call, are all that is asked for."""

    k: int
    score: exp.Expr


def top_request(select: exp.Select, bind: Bind) -> TopRequest | None:
    """Recognise `... GROUP BY key ORDER BY count(*) DESC LIMIT k`, when nothing in it looks at other groups."""
    limit, order = select.args.get("limit"), select.args.get("order")
    others = any(select.args.get(key) for key in ("having", "distinct", "offset", "windows"))
    if others or limit is None or order is None or select.args.get("group") is None:
        return None
    if any(part.find(exp.Window, exp.Query) is not None for part in _parts(select)):
        return None
    k = _most(limit)
    if not isinstance(k, exp.Literal) or k.is_string or not k.this.isdigit() or not 1 <= int(k.this) <= MAX_TOP:
        return None
    first = order.expressions[0]
    if not isinstance(first, exp.Ordered) or not first.args.get("desc"):
        return None
    score = _shown(first.this, select)
    if not is_aggregate(score):
        return None
    agg = bind(score)
    return TopRequest(int(k.this), score.copy()) if agg is not None and agg.name == "count" else None


def chosen_by_values(select: exp.Select) -> bool:
    """Tell whether rows are shown, or not, by what was released of them: by HAVING, or as the first of many by ORDER BY."""
    having, order = select.args.get("having"), select.args.get("order")
    if having is not None and any(aggregate_calls(having.this)):
        return True
    cut = any(select.args.get(key) for key in ("limit", "offset"))
    terms = (_shown(term.this if isinstance(term, exp.Ordered) else term, select) for term in order.expressions) if order else ()
    return cut and any(True for term in terms for _ in aggregate_calls(term))


def _most(limit: exp.Expr) -> exp.Expr | None:
    """The number of LIMIT k and FETCH FIRST k ROWS ONLY."""
    if isinstance(limit, exp.Limit):
        count = limit.args.get("expression")
        return count if isinstance(count, exp.Expr) else None
    options = limit.args.get("limit_options")
    if not isinstance(limit, exp.Fetch) or (options is not None and any(options.args.get(o) for o in ("percent", "with_ties"))):
        return None
    count = limit.args.get("count")
    return count if isinstance(count, exp.Expr) else None


def _shown(term: exp.Expr, select: exp.Select) -> exp.Expr:
    """What a term of ORDER BY stands for: an output by its name or number, or itself."""
    if isinstance(term, exp.Literal) and term.this.isdigit() and 1 <= int(term.this) <= len(select.expressions):
        return _unaliased(select.expressions[int(term.this) - 1])
    if isinstance(term, exp.Column) and not term.args.get("table"):
        for node in select.expressions:
            if output_name(node) == ident(term.this):
                return _unaliased(node)
    return term


def _unaliased(node: exp.Expr) -> exp.Expr:
    inner = node.unalias()
    assert isinstance(inner, exp.Expr)
    return inner


# Aggregates of a measured SELECT that window sums add up: their formulas, what is feasible of the sums, and the key they go
# along.
#
# Knows: what reads a SELECT (`window_sums`), formulas over released columns. Must not know: noise. A count is raised to 0 where
# noise took it below; of counts that are added up the sum is, and not each: what is added by raising each adds up too. Only the
# total of a whole partition, beside groups that are shown, is of what is shown, so that shares of it add up to one.


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

"""What a measured SELECT's aggregates are read by: sums over windows, as totals so far or of the last 30 days, and nothing else?

Knows: sqlglot's trees, names of outputs. Must not know: measurements, noise. A *window sum* is `sum(a) OVER (...)` or `avg(a)
OVER (...)` of an aggregate `a` with a frame that is never empty. It adds up released values: those that were drawn, and not each
raised to what is feasible first (`query_shapes`). It stands in the SELECT itself, or in the one query that reads the CTE or
subquery. Where all aggregates are read by such sums along one key, groups by themselves are not asked for, and sums may be
measured instead (`privacy.running_sums`). Nothing here decides privacy; of doubtful cases nothing is said.

`dpproxy.low(sum(count(*)) OVER (...))` says how far off a window sum may be, `SumErrors`. A sum of groups has the noise of all of
them. Of groups with noise of their own it is independent; of running sums it is less, and known for each number of groups
(`numbers`). An end is open where that of a group is, and where groups are not declared (`ends.sum_ends`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from dpproxy.plan.intervals.arithmetic import Range, rising
from dpproxy.plan.intervals.numbers import SUM_DEVIATION, SUM_HALF
from dpproxy.plan.measure.specs import Measured
from dpproxy.sql.dialect import ident, to_sql
from dpproxy.sql.nodes import every
from dpproxy.sql.output_names import output_name
from dpproxy.sql.skeleton import parse_expression
from dpproxy.sql.trees import aggregate_calls, function_name, is_aggregate
from dpproxy.sql.types import NUMBERS, type_name

_WHOLE = "UNBOUNDED"


@dataclass(frozen=True)
class WindowSum:
    """A window sum: its call's argument, its window, and over how many rows it goes at most: None for all on one side, or both.
    `first`: from the first row of the partition on."""

    argument: exp.Expr
    window: exp.Window
    width: int | None
    first: bool

    @property
    def order(self) -> exp.Expr | None:
        """Return what the one term of its order is, NULL at the end that is the later one; None for other orders, and none."""
        order = self.window.args.get("order")
        if order is None or len(order.expressions) != 1:
            return None
        term: exp.Expr = order.expressions[0]
        if not isinstance(term, exp.Ordered):
            return term
        inner: exp.Expr = term.this
        return inner if bool(term.args.get("nulls_first")) == bool(term.args.get("desc")) else None

    @property
    def rising(self) -> bool:
        """Tell whether the order's first row is that of the least key."""
        return not any(term.args.get("desc") for term in self.window.args["order"].expressions) if self.order else False

    @property
    def parts(self) -> list[exp.Expr]:
        """Return what its partitions are by."""
        return list(self.window.args.get("partition_by") or ())


def window_sum(node: exp.Expr) -> WindowSum | None:
    """Read a window function as a window sum; None for any other."""
    if not isinstance(node, exp.Window) or node.args.get("alias") or function_name(node.this) not in ("sum", "avg"):
        return None
    arguments, frame = node.this.expressions, _frame(node)
    return WindowSum(arguments[0].unnest(), node, *frame) if len(arguments) == 1 and frame is not None else None


def _frame(window: exp.Window) -> tuple[int | None, bool] | None:
    """How many rows the frame has at most, where it always holds the current one, and whether it is from the first row on."""
    spec = window.args.get("spec")
    if spec is None:
        return None, True
    if spec.args.get("exclude") is not None:
        return None
    start, end = _rows(spec, "start", "PRECEDING"), _rows(spec, "end", "FOLLOWING")
    if start is None or end is None or (spec.args.get("kind") != "ROWS" and {start, end} - {_WHOLE, 0}):
        return None
    whole = isinstance(start, int) and isinstance(end, int)
    return int(start) + 1 + int(end) if whole else None, start == _WHOLE


def _rows(spec: exp.Expr, which: str, side: str) -> int | str | None:
    """How many rows a frame goes to one side; None for what is no such number, or the other side."""
    value, to = spec.args.get(which), spec.args.get(f"{which}_side")
    if value == "CURRENT ROW" or (value is None and which == "end"):
        return 0
    if to != side:
        return None
    if value == _WHOLE:
        return _WHOLE
    if isinstance(value, exp.Literal) and not value.is_string and value.this.isdigit() and len(value.this) < 7:
        return int(value.this)
    return None


def own_sums(select: exp.Select) -> list[WindowSum]:
    """List the window sums of aggregates that stand in a measured SELECT itself."""
    found = (window_sum(node) for e in _expressions(select) for node in every(e, exp.Window))
    return [s for s in found if s is not None and is_aggregate(s.argument)]


def _expressions(select: exp.Select) -> Iterator[exp.Expr]:
    yield from select.expressions
    if select.args.get("order") is not None:
        yield from select.args["order"].expressions


@dataclass(frozen=True)
class Reading:
    """All that is asked of a measured SELECT's aggregates is in these sums. `around`: they are in the query that reads it, and
    name its outputs."""

    sums: tuple[WindowSum, ...]
    around: bool


def read_by_sums(select: exp.Select) -> Reading | None:
    """Return what reads the aggregates of a SELECT, where that is window sums alone, each along one key. The tree is not yet
    rewritten."""
    if any(select.args.get(key) for key in ("having", "distinct", "windows", "limit", "offset", "fetch")):
        return None
    calls = {id(call) for e in _expressions(select) for call in aggregate_calls(e)}
    own, whole = own_sums(select), [e for e in select.expressions if is_aggregate(e.unalias())]
    if own and {id(s.argument) for s in own} == calls:
        return _along_keys(Reading(tuple(own), around=False))
    if not whole or {id(e.unalias()) for e in whole} != calls or any(e.find(exp.Window) for e in _expressions(select)):
        return None
    reader = _reader(select)
    noisy = {output_name(e) for e in whole}
    return _along_keys(Reading(tuple(_read(reader, noisy)), around=True)) if reader is not None else None


def _along_keys(reading: Reading) -> Reading | None:
    return reading if reading.sums and all(s.order is not None for s in reading.sums) else None


def _reader(select: exp.Select) -> exp.Select | None:
    """The one SELECT that reads a query, and nothing else."""
    item: exp.Expr | None = select.parent
    if isinstance(item, exp.CTE):
        name = ident(item.args["alias"].this)
        readers = [t for t in item.root().find_all(exp.Table) if ident(t.this) == name and not t.args.get("db")]
        if len(readers) != 1 or item.args["alias"].args.get("columns"):
            return None
        item = readers[0]
    elif not isinstance(item, exp.Subquery):
        return None
    alias = item.args.get("alias")
    if not isinstance(item.parent, exp.From) or (alias is not None and alias.args.get("columns")):
        return None
    reader = item.find_ancestor(exp.Select)
    return reader if isinstance(reader, exp.Select) and not any(map(reader.args.get, _OTHERS)) else None


_OTHERS = ("joins", "group", "having", "windows", "laterals")
"""Parts of a query that read more, or read otherwise."""


def _read(reader: exp.Select, noisy: set[str]) -> list[WindowSum]:
    """The window sums by which a query reads the outputs of these names; none if it reads one in any other way."""
    found = []
    for node in reader.find_all(exp.Star, exp.Column):
        if node.find_ancestor(exp.Select) is not reader or (
            isinstance(node.parent, exp.Anonymous) and isinstance(node, exp.Star)
        ):
            continue
        if isinstance(node, exp.Star):
            return []
        if ident(node.this) in noisy:
            call = node.find_ancestor(exp.Window)
            sums = window_sum(call) if call is not None else None
            if sums is None or sums.argument is not node:
                return []
            found.append(sums)
    return found


# --- how far off they may be


@dataclass(frozen=True)
class SumErrors:
    """The errors of a window sum of one basis of a source. `sums`: with its window over the released columns; `among`: of how
    many rows some are shown by their values; `shown`: what stands for it in the answer."""

    sums: WindowSum
    measured: Measured
    alias: str
    basis: int
    among: int
    shown: str

    @property
    def type(self) -> str:
        """Return PostgreSQL's type of the sum."""
        of, average = self.measured.type, function_name(self.sums.window.this) == "avg"
        return ("float8" if average else of) if of in ("float4", "float8") else "numeric"

    @property
    def positive(self) -> bool:
        return self.measured.range is not None and self.measured.range.positive

    def end(self, name: str) -> exp.Expr:
        """Write the low or the high end, or the deviation."""
        if name == "stderr":
            return parse_expression(f"CAST({self._value(self._call(SUM_DEVIATION, 1, self._cells))} AS float8)")
        return parse_expression(f"CAST({self.ends()[name == 'high']} AS {self.type})")

    def ends(self, shares: int = 1) -> tuple[str, str]:
        """Return both ends; `shares`: of how many intervals that have to hold at once."""
        return self._around(self._total, self._cells, shares)

    def others(self, shares: int) -> tuple[str, str]:
        """Return both ends of the sum without the row's own group."""
        return self._around(f"({self._total} - {self.alias}.b{self.basis})", f"GREATEST({self._cells} - 1, 1)", shares)

    def _around(self, total: str, cells: str, shares: int) -> tuple[str, str]:
        half, ends = self._call(SUM_HALF, self.among * shares, cells), []
        for sign, width in ("-g", "+h"):
            known, text = f"{self.alias}.{width}s{self.basis}", self._value(f"{total} {sign} {half}")
            if not self.sums.parts:  # rows of no group may belong to it; NULL comes last, if groups are in order
                known += f" AND {self.alias}.{width}{'o' if self.sums.rising else 'a'}{self.basis}"
            ends.append(f"CASE WHEN {known} THEN {f'GREATEST({text}, 0)' if self.positive else text} END")
        return (f"COALESCE({ends[0]}, 0)" if self.positive else ends[0]), ends[1]

    def _call(self, name: str, among: int, cells: str) -> str:
        first = int(self.sums.first and self.sums.rising)
        return f"{name}('{self.alias}', {self.basis}, {first}, {among}, {cells})"

    @property
    def _total(self) -> str:
        return self._over(f"sum({self.alias}.b{self.basis})")

    @property
    def _cells(self) -> str:
        return self._over("count(*)")

    def _over(self, call: str) -> str:
        window = self.sums.window.copy()
        window.set("this", parse_expression(call))
        return to_sql(window)

    def _value(self, total: str) -> str:
        """The formula of a basis, of a sum of it, or of that over the groups."""
        assert self.measured.range is not None
        found = self.measured.range.free.format(f"({total})")
        return f"(({found}) / {self._cells})" if function_name(self.sums.window.this) == "avg" else f"({found})"


def whole(number: int, positive: bool) -> Range:
    """Enclose window sum `number` of an expression."""
    value = f"{{m{number}}}"
    return Range(value, f"{{ml{number}}}", f"{{mu{number}}}", value, True, positive=positive)


def share(own: Range, number: int) -> Range:
    """Enclose what is not negative, divided by sum `number` of it and others, in which it is: own / (own + others) rises with the
    one and falls with the other, and is from 0 to 1 whatever is known of them."""
    low, high, whole = f"GREATEST({own.low}, 0)", own.high, f"NULLIF({{m{number}}}, 0)"
    ends = f"({low} + {{ou{number}}})", f"({high} + {{ol{number}}})"
    return Range(
        f"({own.value} / {whole})",
        f"CASE WHEN {ends[0]} > 0 THEN {low} / {ends[0]} ELSE 0 END",
        f"CASE WHEN {ends[1]} > 0 THEN {high} / {ends[1]} ELSE 1 END",
        f"({own.free} / {whole})",
        positive=True,
    )


def linear(node: exp.Expr, leaf: exp.Expr, found: Range) -> Range | None:
    """Make of a leaf's range what positive constants and casts make of the leaf; None for an expression of others."""
    if node is leaf:
        return found
    if isinstance(node, exp.Paren):
        return linear(node.this, leaf, found)
    if isinstance(node, exp.Cast) and type_name(node.to) in ("numeric", "float8"):
        inner, to = linear(node.this, leaf, found), to_sql(node.to)
        return rising(inner, lambda x: f"CAST({x} AS {to})") if inner is not None else None
    if not isinstance(node, exp.Mul):
        return None
    one, other = (node.this, node.expression) if positive_number(node.expression) else (node.expression, node.this)
    inner = linear(one, leaf, found) if positive_number(other) else None
    return rising(inner, lambda x: f"({x} * {to_sql(other)})") if inner is not None else None


def positive_number(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and float(node.this) > 0


def straight(measured: Measured) -> bool:
    """Tell whether an aggregate is a column times a constant, of a type that adds up to numbers."""
    return measured.kind == "linear" and measured.range is not None and not measured.range.steps and measured.type in NUMBERS

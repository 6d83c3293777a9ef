"""What a measured SELECT's aggregates are read by: sums over windows, as totals so far or of the last 30 days, and nothing else?

Knows: sqlglot's trees, names of outputs. Must not know: measurements, noise. A *window sum* is `sum(a) OVER (...)` or `avg(a)
OVER (...)` of an aggregate `a` with a frame that is never empty. It adds up released values: those that were drawn, and not each
raised to what is feasible first (`added_up`). It stands in the SELECT itself, or in the one query that reads the CTE or
subquery. Where all aggregates are read by such sums along one key, groups by themselves are not asked for, and sums may be
measured instead (`privacy.running_sums`). Nothing here decides privacy; of doubtful cases nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from dpproxy.sql.dialect import ident
from dpproxy.sql.nodes import every
from dpproxy.sql.output_names import output_name
from dpproxy.sql.trees import aggregate_calls, function_name, is_aggregate

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

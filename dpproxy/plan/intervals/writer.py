"""`dpproxy.low(e)`, `dpproxy.high(e)`, `dpproxy.stderr(e)`: how far off a released value may be, as post-processing of it.

Knows: intervals of formulas (`arithmetic`), sqlglot's arithmetic. Must not know: data, engines. `e` is an aggregate, or
arithmetic of aggregates, sums of them over windows, keys and constants. With k bases and window sums in it, each is held within
its interval at 1 - (1 - c) / k, so that all are with probability c (union bound), and interval arithmetic encloses the result:
coverage is at least c, and often much more. `stderr` is the spread to first order, by differences of one standard deviation to
both sides of each basis. Where the formula is nearly straight over the noise - second differences, of each basis and of all
together, are a quarter of the spread at most - its noise is the sum of the bases', and the interval is z times the spread if that
is narrower, z by Cornish & Fisher's expansion to the fourth cumulant: coverage is c, give or take a percent.

What is enclosed is the true value of the SQL on the data. Where bounds may have cut rows or groups, nothing is known of how
much: the end on that side is open (`ends.column_ends`), NULL or, where the type has it, infinite; an average is then within
its range. The spread is that of noise alone. A group that passed a threshold may be there because its noise was high: of the
number of units that decided it, the low end allows for that (`columns`); where HAVING, or ORDER BY with LIMIT, choose
groups, there or in a query around (`reader_choices`), so do all ends. A `range` of the policy is taken as true.

Half-widths and deviations are columns of the released source (`columns`): `d{basis}` is a deviation,
`g{basis}_{k}` and `h{basis}_{k}` are the widths below and above, `n{basis}_{k}` that of noise alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.intervals import arithmetic
from dpproxy.plan.intervals.arithmetic import Range
from dpproxy.plan.intervals.calls import interval_call, misplaced_call
from dpproxy.plan.intervals.quantile_ends import QuantileEnds
from dpproxy.plan.intervals.window_sums import SumErrors, WindowSum, linear, positive_number, share, straight, whole, window_sum
from dpproxy.plan.measure import durations
from dpproxy.plan.measure.specs import Measured
from dpproxy.sql.dialect import FaithfulPostgres, position, to_sql
from dpproxy.sql.skeleton import parse_expression
from dpproxy.sql.trees import aggregate_calls, function_name
from dpproxy.sql.types import NUMBERS, TEXTS, type_name

MANY_GROUPS = 10_000
"""How many groups there are taken to be where the plan does not know."""

WIDTHS = "gnh"
"""Columns of half-widths: below, of noise alone, above."""

_RISING = {"round", "floor", "ceil", "ceiling", "trunc"}
_ARITHMETIC: dict[type[exp.Expr], Callable[[Range, Range], Range]] = {
    exp.Add: arithmetic.plus, exp.Sub: arithmetic.minus, exp.Mul: arithmetic.times, exp.Div: arithmetic.divided,
}  # fmt: skip


@dataclass
class _Used:
    """What an expression is made of: bases, selections with their calls, window sums. The fields of selection 0 are s0, its
    value, l0 and u0, its ends; of window sum 0 m0, ml0 and mu0, and without the row's own group ol0 and ou0."""

    bases: list[int] = field(default_factory=list)
    selections: list[tuple[Measured, exp.Expr]] = field(default_factory=list)
    sums: list[SumErrors] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)  # variances that devices have made of aggregates

    @property
    def shares(self) -> int:
        """Return how many intervals have to hold at once."""
        return len(set(self.bases)) + len(self.selections) + len(self.sums)

    def window(self, found: SumErrors) -> int:
        """Return the number of a window sum."""
        self.sums.append(found)
        return len(self.sums) - 1

    @property
    def window_fields(self) -> dict[str, str]:
        names = ("m", "ml", "mu", "ol", "ou")
        ends = [(one.shown, *one.ends(self.shares), *one.others(self.shares)) for one in self.sums]
        return {f"{name}{n}": text for n, texts in enumerate(ends) for name, text in zip(names, texts, strict=True)}

    def selection(self, found: Measured, node: exp.Expr) -> Range:
        known = [n for n, (one, _) in enumerate(self.selections) if one == found]
        number = known[0] if known else len(self.selections)
        self.selections += [] if known else [(found, node)]
        partial = found.selection is not None and not all(found.selection.sure)
        return Range(f"{{s{number}}}", f"{{l{number}}}", f"{{u{number}}}", f"{{s{number}}}", partial)


@dataclass
class IntervalWriter:
    """Rewrites the calls in one measured SELECT. `aggregate` gives an aggregate's formula and its bases; `plain` rewrites
    what holds none; `stepped` says whether a basis is measured in steps: intervals are then about its value before any group's
    noise was smoothed by others', and the noise is that of the last step. `ends` writes those of a selection. `halves`,
    `deviations`, `sums`: columns the source must have."""

    alias: str
    aggregate: Callable[[exp.Expr], tuple[Measured, tuple[int, ...]]]
    is_aggregate: Callable[[exp.Expr], bool]
    plain: Callable[[exp.Expr], exp.Expr]
    stepped: Callable[[int], bool]
    ends: QuantileEnds
    all_groups: bool = True  # of one measurement, each a row
    chosen: bool = False  # rows are shown by their released values
    chosen_above: bool = False  # and by queries around this one
    halves: set[tuple[int, int]] = field(default_factory=set)  # basis, how many share the failure
    deviations: set[int] = field(default_factory=set)
    excesses: set[int] = field(default_factory=set)
    sums: set[int] = field(default_factory=set)  # bases that windows add up
    points: set[int] = field(default_factory=set)  # how many share the failure, where devices have made noise, too

    @property
    def columns(self) -> bool:
        return bool(self.halves or self.deviations or self.sums)

    def rewritten(self, node: exp.Expr) -> exp.Expr:
        """Write what stands for a call that `interval_call` knows. The text is ours and final: it is not parsed. Raises
        Refusal."""
        name, arguments = interval_call(node), node.expression.expressions
        if len(arguments) != 1 or not any(self.is_aggregate(n) for n in arguments[0].walk()):
            raise misplaced_call(node)
        number, spelled = _number(arguments[0])
        if (sums := window_sum(number.unnest())) is not None:
            end = self._sum(sums, node).end(name or "")
        else:
            end = self._end(name or "", number, node)
        return end if spelled is None or name == "stderr" else exp.Cast(this=end, to=spelled.copy())

    def _end(self, name: str, number: exp.Expr, node: exp.Expr) -> exp.Expr:
        """What stands for a call by that name around a number."""
        inner = number.unnest()
        if self.is_aggregate(inner) and (selected := self.aggregate(inner)[0]).range is None:
            return _cast(_infinite(self.ends.text(selected, inner, name, node), selected.type, name), selected.type)
        used = _Used()
        found, type_ = self._range(number, used, node)
        bases, shares = tuple(dict.fromkeys(used.bases)), used.shares
        if used.sums and (name == "stderr" or found.steps or any(map(self.stepped, bases))):
            raise _unavailable(node)
        if name == "stderr":
            if used.selections:
                self.ends.text(*used.selections[0], "stderr", node)  # refuses
            if used.devices and not self.is_aggregate(inner):
                raise _unavailable(node)
            return _cast(self._deviation(found, bases, used.devices), "float8")
        self.halves |= {(i, shares) for i in bases}
        self.points |= {shares} if used.devices else set()
        fields = {f"v{i}": self._column(i) for i in bases} | {"z": f"{self.alias}.z_{shares}"}
        fields |= {f"{width}{i}": f"{self.alias}.{width}{i}_{shares}" for i in bases for width in WIDTHS}
        text = arithmetic.end(found, "low" if name == "low" else "high")
        text = text.format_map(fields | used.window_fields | self._selected_ends(used, text, node))
        if used.sums:
            return self._held(found, bases, used, text, name == "low")
        if used.selections:
            pass
        elif len(bases) > 1 and not used.devices:
            text = self._narrowed(found, bases, text, name == "low")
        elif len(bases) == 1 and self.stepped(bases[0]):
            held = f"{'LEAST' if name == 'low' else 'GREATEST'}({self._shown(found, bases)}, {text})"
            text = f"CASE WHEN {text} IS NOT NULL THEN {held} END"
        if name == "low" and found.positive and found.partial:
            text = f"COALESCE({text}, 0)"
        else:
            text = _infinite(text, type_, name)
        if type_ == "interval":
            text = durations.read(text)
        return _cast(text, type_) if type_ else exp.Var(this=f"({text})")

    def _sum(self, sums: WindowSum, call: exp.Expr) -> SumErrors:
        """The errors of a window sum: of one basis of one measurement, all of whose groups are there."""
        if not self.is_aggregate(sums.argument):
            raise misplaced_call(call)
        measured, bases = self.aggregate(sums.argument)
        if not self.all_groups or not straight(measured) or self.stepped(bases[0]):
            raise _unavailable(call)
        shown = to_sql(self.plain(sums.window))  # changes what the window is partitioned and ordered by
        self.sums |= {bases[0]}
        return SumErrors(sums, measured, self.alias, bases[0], MANY_GROUPS if self.chosen or self.chosen_above else 1, shown)

    def _held(self, found: Range, bases: tuple[int, ...], used: _Used, text: str, low: bool) -> exp.Expr:
        """An end of an expression of window sums, with what is shown within: it may be of cells that are raised to 0."""
        shown = found.value.format_map({f"v{i}": f"{self.alias}.b{i}" for i in bases} | used.window_fields)
        held = f"CASE WHEN {text} IS NOT NULL THEN {'LEAST' if low else 'GREATEST'}({shown}, {text}) END"
        return parse_expression(f"COALESCE({held}, 0)" if low and found.positive and found.partial else held)

    def _share(self, node: exp.Expr, used: _Used, call: exp.Expr) -> Range | None:
        """`100.0 * count(*) / sum(count(*)) OVER ()`: what is not negative, times constants, in the sum of a window of it."""
        sums = window_sum(node.expression.unnest()) if isinstance(node, exp.Div) else None
        calls = [n for n in node.this.walk() if self.is_aggregate(n)] if sums is not None else []
        if sums is None or function_name(sums.window.this) != "sum" or not self.is_aggregate(sums.argument):
            return None
        if len(calls) != 1 or linear(node.this, calls[0], arithmetic.constant("")) is None:
            return None
        (own, own_bases), (added, bases) = self.aggregate(calls[0]), self.aggregate(sums.argument)
        if (own.range, own_bases) != (added.range, bases) or own.range is None or not own.range.positive:
            return None
        found = share(self._measured(calls[0], used, call)[0], used.window(self._sum(sums, call)))
        return linear(node.this, calls[0], found)

    def _selected_ends(self, used: _Used, text: str, call: exp.Expr) -> dict[str, str]:
        """The fields of selections that a text has: an end costs epsilon."""
        sides = {"low": "l", "high": "u"}
        found = [
            (f"{field}{n}", self.ends.text(*selection, side, call, used.shares))
            for n, selection in enumerate(used.selections)
            for side, field in sides.items()
            if f"{{{field}{n}}}" in text
        ]
        return dict(found) | {f"s{n}": self.ends.value(measured) for n, (measured, _) in enumerate(used.selections)}

    def _column(self, basis: int) -> str:
        return f"{self.alias}.{'r' if self.stepped(basis) else 'b'}{basis}"

    def _shown(self, found: Range, bases: tuple[int, ...]) -> str:
        return found.value.format_map({f"v{i}": f"{self.alias}.b{i}" for i in bases})

    def _narrowed(self, found: Range, bases: tuple[int, ...], enclosure: str, low: bool) -> str:
        """The enclosure's end, or that of z times the spread about the value, whichever is nearer, where the formula is nearly
        straight. Laterals: t{i} half differences and c{i} second differences of basis i, then their sums."""
        self.deviations |= set(bases)
        self.excesses |= set(bases)
        free = arithmetic.end(found, "free")
        values = {f"v{j}": self._column(j) for j in bases}

        def at(**moved: str) -> str:
            return f"({free.format_map(values | moved)})::float8"

        def beside(i: int, sign: str) -> str:
            return f"({self._column(i)} {sign} {self.alias}.d{i})"

        points = [f"{at()} AS mid", f"{at(**{f'v{i}': beside(i, '+') for i in bases})} AS far"]
        for i in bases:
            points += [f"{at(**{f'v{i}': beside(i, s)})} AS {n}{i}" for n, s in (("up", "+"), ("down", "-"))]
        squares = " + ".join(f"power((a.up{i} - a.down{i}) / 2, 2)" for i in bases)
        bends = " + ".join(f"abs(a.up{i} + a.down{i} - 2 * a.mid)" for i in bases)
        mixed = f"abs(a.far - a.mid - ({' + '.join(f'(a.up{i} - a.mid)' for i in bases)}))"
        fourths = " + ".join(f"{self.alias}.e{i} * power(power((a.up{i} - a.down{i}) / 2, 2) / b.square, 2)" for i in bases)
        z = f"{self.alias}.z + (power({self.alias}.z, 3) - 3 * {self.alias}.z) / 24 * ({fourths})"
        widths = ", ".join(f"{self.alias}.{width}{i}_{len(bases)}" for i in bases for width in WIDTHS)
        straight = f"b.square > 0 AND b.bend <= sqrt(b.square) / 4 AND num_nulls({widths}) = 0"
        for i, side in ((i, side) for i in bases if self.stepped(i) for side in "gh"):  # what noise hides is in the enclosure
            straight += f" AND {self.alias}.{side}{i}_{len(bases)} <= {self.alias}.n{i}_{len(bases)} + 1"
        shown, sign = self._shown(found, bases), "-" if low else "+"
        nearer, back = ("GREATEST", "LEAST") if low else ("LEAST", "GREATEST")
        narrow = f"{back}({shown}, {nearer}({enclosure}, a.mid {sign} ({z}) * sqrt(b.square)))"
        return (
            f"(SELECT CASE WHEN {straight} THEN {narrow} ELSE {enclosure} END FROM (SELECT {', '.join(points)} OFFSET 0) AS a "
            f"CROSS JOIN LATERAL (SELECT {squares} AS square, {bends} + {mixed} AS bend OFFSET 0) AS b)"
        )

    def _deviation(self, found: Range, bases: tuple[int, ...], devices: list[str]) -> str:
        """To first order: the root of the sum of squared half differences, and of the variance that devices have made."""
        self.deviations |= set(bases)
        free, terms = arithmetic.end(found, "free"), []
        for i in bases:
            fields = {f"v{j}": self._column(j) for j in bases}
            up, down = (
                free.format_map(fields | {f"v{i}": f"({self._column(i)} {sign} {self.alias}.d{i})"}) for sign in ("+", "-")
            )
            terms.append(f"power((({up}) - ({down}))::float8 / 2, 2)")
        more = [f"({text.format_map({f'v{i}': self._column(i) for i in bases})})::float8" for text in devices]
        return f"sqrt({' + '.join([*terms, *more])})"

    def _range(self, node: exp.Expr, used: _Used, call: exp.Expr) -> tuple[Range, str]:
        """The interval of an expression, with fields `{v3}`, `{h3}` for basis 3, and its type if it is an aggregate's. That of
        a difference of timestamps is in seconds: it stands alone, or its seconds are asked for."""
        if isinstance(node, exp.Paren):
            return self._range(node.this, used, call)
        if (sums := window_sum(node)) is not None:
            return whole(used.window(self._sum(sums, call)), used.sums[-1].positive), ""
        if (found := self._share(node, used, call)) is not None:
            return found, ""
        if isinstance(node, exp.Extract) and str(node.this).lower() == "epoch" and self.is_aggregate(node.expression.unnest()):
            found, type_ = self._measured(node.expression.unnest(), used, call)
            if type_ == "interval":
                return found, "numeric"
            raise _unavailable(call)
        if self.is_aggregate(node):
            found, type_ = self._measured(node, used, call)
            if type_ == "interval" and node is not call.expression.expressions[0].unnest():
                raise _unavailable(call)
            return found, type_
        if not any(self.is_aggregate(n) for n in node.walk()):
            return arithmetic.constant(_escaped(f"({to_sql(self.plain(node))})")), ""
        scaled = self._scaled(node, used, call)
        if scaled is not None:
            return scaled, ""
        operation = _ARITHMETIC.get(type(node))
        if operation is not None:
            return operation(self._range(node.this, used, call)[0], self._range(node.expression, used, call)[0]), ""
        if isinstance(node, exp.Neg):
            return arithmetic.negated(self._range(node.this, used, call)[0]), ""
        return self._monotone(node, used, call)

    def _scaled(self, node: exp.Expr, used: _Used, call: exp.Expr) -> Range | None:
        """Times or divided by a positive number: an end stays open by itself, not both for one. Plus such a number it stays
        positive."""
        if not isinstance(node, exp.Mul | exp.Div | exp.Add):
            return None
        one, other = node.this, node.expression
        if positive_number(other):
            sign = {exp.Mul: "*", exp.Div: "/", exp.Add: "+"}[type(node)]
            return arithmetic.rising(self._range(one, used, call)[0], lambda x: f"({x} {sign} {to_sql(other)})")
        if positive_number(one) and not isinstance(node, exp.Div):
            sign = "*" if isinstance(node, exp.Mul) else "+"
            return arithmetic.rising(self._range(other, used, call)[0], lambda x: f"({to_sql(one)} {sign} {x})")
        return None

    def _monotone(self, node: exp.Expr, used: _Used, call: exp.Expr) -> tuple[Range, str]:
        """Casts to numbers, rounding, NULLIF(x, 0) (a divisor's guard: dividing guards itself)."""
        if isinstance(node, exp.Cast) and type_name(node.to) in NUMBERS:
            target = to_sql(node.to)
            return arithmetic.rising(self._range(node.this, used, call)[0], lambda x: f"CAST({x} AS {target})"), ""
        name = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
        arguments = node.expressions
        rest = arguments[1:] if name else []
        if name in _RISING and all(isinstance(a, exp.Literal) for a in rest):
            more = "".join(f", {to_sql(a)}" for a in rest)
            return arithmetic.rising(self._range(arguments[0], used, call)[0], lambda x: f"{name}({x}{more})"), ""
        if name == "nullif" and [to_sql(a) for a in rest] == ["0"]:
            return self._range(arguments[0], used, call)[0], ""
        if isinstance(node, exp.Nullif) and to_sql(node.expression) == "0":
            return self._range(node.this, used, call)[0], ""
        chosen = self._one_of(node, used, call)
        if chosen is not None:
            return chosen, ""
        raise _unavailable(call)

    def _one_of(self, node: exp.Expr, used: _Used, call: exp.Expr) -> Range | None:
        """COALESCE, CASE, GREATEST and LEAST of one value of aggregates and constants: which of these the true value is, is not
        known from the one that is shown. GREATEST and LEAST also of several percentiles, which are never NULL."""
        name, parts = _alternatives(node)
        held = [part for part in parts if any(self.is_aggregate(n) for n in part.walk())]
        rest = [part for part in parts if part not in held and not isinstance(part, exp.Null)]
        several = name in ("greatest", "least") and all(self._selects(part) for part in held)
        if not (len(held) == 1 or several) or not all(isinstance(part, exp.Literal) and not part.is_string for part in rest):
            return None
        joined = arithmetic.greatest if name == "greatest" else arithmetic.least
        found = reduce(joined, [self._range(part, used, call)[0] for part in held])
        if name in ("greatest", "least"):
            bound = arithmetic.at_least if name == "greatest" else arithmetic.at_most
            return reduce(lambda a, part: bound(a, to_sql(part)), rest, found)
        if name == "coalesce" and all(function_name(n) in ("sum", "count") for n in aggregate_calls(held[0])):
            rest = [part for part in rest if float(part.this)]  # a sum of nothing is 0 here, never NULL
        return reduce(lambda a, part: arithmetic.hull(a, to_sql(part)), rest, found)

    def _selects(self, node: exp.Expr) -> bool:
        return all(self.aggregate(call)[0].selection is not None for call in aggregate_calls(node))

    def _measured(self, node: exp.Expr, used: _Used, call: exp.Expr) -> tuple[Range, str]:
        found, bases = self.aggregate(node)
        if found.range is None:
            if found.type.endswith("[]"):
                raise Refusal(
                    FEATURE_NOT_SUPPORTED,
                    f"dpproxy.{interval_call(call)}() is not available for expressions of several percentiles",
                    position(call),
                    hint="Ask for each percentile by itself.",
                )
            return used.selection(found, node), found.type
        values = [f"{{v{i}}}" for i in bases]
        fields = {f"{width}{i}": f"{{{width}{basis}}}" for i, basis in enumerate(bases) for width in WIDTHS}
        fields |= {"p": str(len(used.bases)), "z": "{z}"}
        used.bases += bases
        r = found.range
        used.devices += [found.devices.format(*values)] if found.devices else []

        def placed(text: str) -> str:
            return text.format(*values, **fields)

        steps = tuple((placed(name), placed(low), placed(high), placed(free)) for name, low, high, free in r.steps)
        return Range(placed(r.value), placed(r.low), placed(r.high), placed(r.free), r.partial, steps, r.positive), found.type


def _infinite(text: str, type_: str, name: str) -> str:
    """An open end, as infinity where the type has it."""
    return f"COALESCE({text}, '{'-' if name == 'low' else ''}Infinity')" if type_ == "float8" else text


def _number(node: exp.Expr) -> tuple[exp.Expr, exp.DataType | None]:
    """What a value is a text of, and the type of that text, None for what is no text: CAST(x AS text), and COALESCE of it with
    what is to be read where there is no x, of which there is nothing to tell."""
    plain = node.unnest()
    if isinstance(plain, exp.Cast) and type_name(plain.to) in TEXTS:
        return plain.this, plain.to
    name, parts = _alternatives(plain)
    if name == "coalesce" and all(isinstance(part, exp.Literal | exp.Null) for part in parts[1:]):
        number, spelled = _number(parts[0])
        return (number, spelled) if spelled is not None else (node, None)
    return node, None


def _unavailable(call: exp.Expr) -> Refusal:
    return Refusal(
        FEATURE_NOT_SUPPORTED,
        f"dpproxy.{interval_call(call)}() is not available for this expression",
        position(call),
        hint="Put it around an aggregate, or around sums, differences, products and quotients of aggregates.",
    )


def _alternatives(node: exp.Expr) -> tuple[str, list[exp.Expr]]:
    """What the value of an expression is one of, and by which function."""
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        return "case", [*(arm.args["true"] for arm in node.args["ifs"]), *([default] if default is not None else [])]
    name = function_name(node)
    return (name, list(node.expressions)) if name in ("coalesce", "greatest", "least") else ("", [])


def _cast(text: str, type_: str) -> exp.Expr:
    """A text that is not parsed, cast to a type whose name is known to the planner."""
    return exp.Cast(this=exp.Var(this=text), to=exp.DataType.build(type_, dialect=FaithfulPostgres))


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")

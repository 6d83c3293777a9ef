"""Spark's spelling of operators and functions, total by construction: NULL where Spark or Sail would raise or wrap around.

Knows: the planner's operations, in which of Spark's types each computes, which of them are proven equal. Must not know:
aggregates, measurements, policies. An operation is spelled by the template of its row (`plan.operations.catalogue`) where its
operands need no thought, and by a method of this file where they do; the row of one that is not spelled says why. `engines.spark`
adds types, aggregates and what measurements need.
"""

from __future__ import annotations

from dpproxy.engines import spark_texts as texts
from dpproxy.engines import spark_times as times
from dpproxy.engines import spark_types as numbers
from dpproxy.engines.base import Engine, Names, check_number
from dpproxy.engines.doubles import decimal_operation
from dpproxy.engines.spark_types import WIDE, narrowest, one_kind, refused, representation, widest
from dpproxy.errors import Refusal
from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.operation import Span, constant
from dpproxy.plan.operations.units import DAY_MICROS
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.text_growth import CUTS
from dpproxy.sql.types import FLOATS, INTEGERS, NUMBERS, TIMES
from dpproxy.tree.expr import Call, Expr, Hole, Lit, children

_SPANS = "intervals of Spark are of months or of seconds, never of both"


class SparkOperations(Engine):
    """What of the engine spells operators and functions."""

    def __init__(self, cut: int = CUTS[0]) -> None:
        self.cut = cut

    def number(self, expr: Expr, names: Names, as_: str) -> str:
        """Spell `expr` as BIGINT, DECIMAL(38, 0) or DOUBLE; `as_` is never narrower than its representation. Raises Refusal."""
        check_number(expr)
        text = self.expr(expr, names)
        if isinstance(expr, Lit) and as_ == representation(expr):
            return text
        return f"CAST({text} AS {as_})"

    def lacking(self, op: str, why: str) -> Refusal:
        return refused(f"`{op}`", why)

    def operand(self, arg: Expr, call: Call, names: Names, form: str) -> str:
        """Of Spark: `f` DOUBLE, `i` BIGINT, `p` a place of 32 bits."""
        match form:
            case "f":
                return self.number(arg, names, "DOUBLE")
            case "i":
                if any(representation(a) != "BIGINT" for a in call.args):
                    raise refused("an operation on bits of numbers beyond 64 bits")
                return self.number(arg, names, "BIGINT")
            case "p":
                return texts.whole(self.expr(arg, names))
            case "w":
                return self._choice(arg, call, names)
        return super().operand(arg, call, names, form)

    # --- numbers

    def _choice(self, arg: Expr, whole: Call, names: Names) -> str:
        """An operand that is of one type with the others: those of another would be cast, and Sail's casts may raise."""
        if one_kind(whole.args):
            return self.expr(arg, names)
        if whole.type not in INTEGERS:
            return self.as_type(arg, whole.type, names)
        return self.number(arg, names, widest([representation(e) for e in (whole, *whole.args)]))

    def spell_arithmetic(self, expr: Call, names: Names) -> str:
        if expr.type in INTEGERS:
            return self._whole(expr.op, expr, expr.args, names)
        return numbers.one_nan(self._of_doubles(expr.op, expr, expr.args, names))

    def _of_doubles(self, op: str, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        values = [self.number(a, names, "DOUBLE") for a in args]
        if op in ("neg", "abs"):
            return f"(-{values[0]})" if op == "neg" else f"abs({values[0]})"
        a, b = values
        if expr.type == "numeric":
            quotient = f"round({a} / {numbers.divisor(b)}, 9)"
            if op == "int/":
                return numbers.truncated(quotient)
            if op == "%":
                places = 9 if (grid := facts(expr).grid) is None else min(max(len(str(grid.denominator)) + 3, 6), 12)
                return f"round({a} - {b} * {numbers.truncated(quotient)}, {places})"
            return decimal_operation(op, a, numbers.unsigned_zero(b) if op == "/" else b, facts(expr).grid)
        if op == "int/":
            return numbers.truncated(f"({a} / {numbers.divisor(b)})")
        return f"({a} {op} {numbers.divisor(b)})" if op in "/%" else f"({a} {op} {b})"

    def _whole(self, op: str, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        """Whole numbers. `div` yields BIGINT, and 2**63 by -1 is none."""
        kinds = [representation(a) for a in args]
        width = widest([narrowest(facts(expr).span), *kinds])
        if op in ("neg", "abs"):
            value = self.number(args[0], names, width)
            return f"(-{value})" if op == "neg" else f"abs({value})"
        if op in ("/", "int/"):
            return self._quotient(args, kinds, width, names)
        a, b = (self.number(x, names, width) for x in args)
        by = numbers.divisor(b) if width == "DOUBLE" else f"NULLIF({b}, 0)"
        return f"({a} % {by})" if op == "%" else f"({a} {op} {b})"

    def _quotient(self, args: tuple[Expr, ...], kinds: list[str], width: str, names: Names) -> str:
        if width == "DOUBLE":
            a, b = (self.number(x, names, width) for x in args)
            return numbers.truncated(f"({a} / {numbers.divisor(b)})")
        if WIDE in kinds:
            raise refused("a division of whole numbers beyond 64 bits")
        a, b = (self.number(x, names, "BIGINT") for x in args)
        if width == "BIGINT":
            return f"({a} div NULLIF({b}, 0))"
        other = f"CAST({a} div NULLIF(NULLIF({b}, 0), -1) AS {width})"
        return f"(CASE WHEN {b} = -1 THEN -CAST({a} AS {width}) ELSE {other} END)"

    def spell_rounded(self, expr: Call, names: Names) -> str:
        args = expr.args
        value = self.number(args[0], names, "DOUBLE")
        if args[0].type in FLOATS and len(args) == 1:
            return numbers.whole_double(value, numbers.nearest(value))  # PostgreSQL rounds float8 half to even
        return f"round({value}, {self._digits(args)})"

    def spell_truncated(self, expr: Call, names: Names) -> str:
        args = expr.args
        value = self.number(args[0], names, "DOUBLE")
        if len(args) == 1:
            return numbers.truncated(value)
        scale = f"CAST('1e{self._digits(args)}' AS DOUBLE)"
        return f"({numbers.truncated(f'round({value} * {scale}, 6)')} / {scale})"

    @staticmethod
    def _digits(args: tuple[Expr, ...]) -> int:
        if len(args) == 1:
            return 0
        if not isinstance(args[1], Lit):
            raise refused("rounding to a number of digits that is not constant")
        return int(args[1].text or 0)

    def spell_number(self, expr: Call, names: Names, function: str) -> str:
        """By a function of `spark_types`, of a DOUBLE."""
        return str(getattr(numbers, function)(self.number(expr.args[0], names, "DOUBLE")))

    # --- dates and times

    def _moment(self, expr: Expr, names: Names) -> str:
        return times.moment(self.expr(expr, names), expr.type)

    def spell_part(self, expr: Call, names: Names, unit: str, form: str) -> str:
        (value,) = expr.args
        if value.type in TIMES:
            return times.part(form, self.expr(value, names), value.type)
        return self._part_of_difference(unit, value, names)

    def spell_seconds(self, expr: Call, names: Names, unit: str) -> str:
        (value,) = expr.args
        if value.type not in TIMES:
            return self._part_of_difference(unit, value, names)
        text = self.expr(value, names)
        return times.epoch(text, value.type) if unit == "epoch" else times.second(times.moment(text, value.type))

    def _part_of_difference(self, unit: str, value: Expr, names: Names) -> str:
        if not _is_difference(value):
            raise refused(f"EXTRACT({unit}) of {value.type}")
        return times.part_of_difference(unit, *(self._moment(a, names) for a in children(value)))

    def spell_cut(self, expr: Call, names: Names) -> str:
        return times.cut_to(constant(expr.args[0]), self._moment(expr.args[1], names))

    def spell_printed(self, expr: Call, names: Names) -> str:
        return times.formatted(self.expr(expr.args[0], names), expr.args[0].type, constant(expr.args[1]))

    def spell_shifted(self, expr: Call, names: Names, sign: str) -> str:
        moment, interval = expr.args
        if not constant(interval):
            raise refused("a moment plus an interval that is not constant", _SPANS)
        return times.shift(sign, self._moment(moment, names), constant(interval))

    def spell_moment_of_seconds(self, expr: Call, names: Names) -> str:
        return times.from_epoch(self.number(expr.args[0], names, "DOUBLE"))

    def spell_clocks_of(self, expr: Call, names: Names) -> str:
        return times.clocks_of(self.expr(expr.args[1], names), self._moment(expr.args[0], names))

    # --- texts

    def spell_text(self, expr: Call, names: Names, function: str) -> str:
        """By a function of `spark_texts`."""
        return str(getattr(texts, function)(*(self.expr(a, names) for a in expr.args)))

    def spell_time(self, expr: Call, names: Names, function: str) -> str:
        """By a function of `spark_times`."""
        return str(getattr(times, function)(*(self.expr(a, names) for a in expr.args)))

    def spell_record(self, expr: Call, names: Names) -> str:
        return texts.told_apart(times.numbered(self.key(a, names), a.type) for a in expr.args)

    def spell_like(self, expr: Call, names: Names, word: str) -> str:
        args = expr.args
        value, known = self.expr(args[0], names), args[1]
        folded = texts.lower if word == "ILIKE" else str
        if isinstance(known, Hole):
            given = self.expr(known, names)
            plain = folded(f"replace({given}, '\\\\', '')")
            return f"(CASE WHEN NOT contains({given}, '\\\\') THEN {folded(value)} LIKE {plain} END)"
        if not isinstance(known, Lit):
            raise refused("LIKE with a pattern of the row")
        if known.text is None:
            return self.literal("bool", None)
        escape = "\\"
        if len(args) > 2:
            mark = args[2]
            if not isinstance(mark, Lit) or len(mark.text or "") > 1:
                raise refused("LIKE with this escape")
            escape = mark.text or ""
        return f"({folded(value)} LIKE {folded(texts.pattern(known.text, escape))})"

    # --- what is compared

    def _length(self, expr: Expr, names: Names) -> str:
        """The microseconds as which PostgreSQL compares an interval: a month is 30 days."""
        if isinstance(expr, Lit) and expr.text is not None:
            months, days, micros = (int(x) for x in expr.text.split())
            return f"{(months * 30 + days) * DAY_MICROS + micros}L"
        if _is_difference(expr):
            return times.micros_between(*(self._moment(a, names) for a in children(expr)))
        raise refused("a comparison of this interval", _SPANS)

    def comparable(self, expr: Expr, other: Expr, names: Names) -> str:
        if expr.type == "interval":
            return self._length(expr, names)
        text = self.expr(expr, names)
        if expr.type in NUMBERS and other.type in NUMBERS:
            if one_kind((expr, other)) or (expr.type in INTEGERS and other.type in INTEGERS):
                return text
            return self.number(expr, names, "DOUBLE")
        if expr.type in TIMES and other.type in TIMES and expr.type != other.type:
            return times.moment(text, expr.type)
        return text


def _is_difference(expr: Expr) -> bool:
    return isinstance(expr, Call) and operation(expr.op).interval is Span.DIFFERENCE

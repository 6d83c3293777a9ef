"""Spark's spelling of operators and functions, total by construction: NULL where Spark or Sail would raise or wrap around.

Knows: the planner's operations, in which of Spark's types each computes, which of them are proven equal. Must not know:
aggregates, measurements, policies. An operation is spelled by a template where its arguments need no thought, and by a method
`_op_<name>` where they do; what has neither is refused, and `REFUSED` says why where somebody may ask. `engines.spark` adds
types, aggregates and what measurements need.
"""

from __future__ import annotations

from dpproxy.engines import spark_numbers as numbers
from dpproxy.engines import spark_texts as texts
from dpproxy.engines import spark_times as times
from dpproxy.engines.base import Engine, Names, check_number
from dpproxy.engines.duckdb_functions import decimal_operation
from dpproxy.engines.spark_types import WIDE, narrowest, one_kind, refused, representation, widest
from dpproxy.engines.text_cuts import Growth
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.text_growth import CUTS, grows
from dpproxy.sql.types import FLOATS, INTEGERS, NUMBERS, TIMES
from dpproxy.tree.expr import Call, Expr, Hole, Lit

_SIMPLE = {
    "is_null": "({0} IS NULL)", "is_not_null": "({0} IS NOT NULL)", "not": "(NOT {0})",
    "is_true": "coalesce({0}, FALSE)", "is_not_true": "(NOT coalesce({0}, FALSE))",
    "is_false": "coalesce(NOT {0}, FALSE)", "is_not_false": "coalesce({0}, TRUE)",
    "length": "length({0})", "octet_length": "octet_length({0})", "md5": "md5({0})", "reverse": "reverse({0})",
    "trim": "trim(BOTH {1} FROM {0})", "ltrim": "trim(LEADING {1} FROM {0})", "rtrim": "trim(TRAILING {1} FROM {0})",
    "strpos": "instr({0}, {1})", "starts_with": "startswith({0}, {1})", "translate": "translate({0}, {1}, {2})",
    "isfinite": "(CASE WHEN {0} IS NOT NULL THEN TRUE END)",
}  # fmt: skip
_COMPARE = {"=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "is_not_distinct": "<=>"}  # fmt: skip
_ARITHMETIC = frozenset(("+", "-", "*", "/", "int/", "%"))
_UNARY = {"floor": numbers.floor, "ceil": numbers.ceiling}
_BITS = {"bitand": "({0} & {1})", "bitor": "({0} | {1})", "bitxor": "({0} ^ {1})", "bitnot": "(~({0}))"}

_LAST_DIGIT = "its last digit is another in Java than in PostgreSQL"
_JAVA = "regular expressions are Java's there, which read some texts otherwise and fail on long ones"
REFUSED = {
    **dict.fromkeys(["sin", "cos", "tan", "asin", "acos", "atan", "atan2", "cbrt", "exp", "ln", "log", "power"], _LAST_DIGIT),
    **dict.fromkeys(["regex", "iregex", "regexp_count", "regexp_extract", "regexp_replace"], _JAVA),
    **dict.fromkeys(["age", "date_bin", "interval_times"], "intervals of Spark are of months or of seconds, never of both"),
    "to_utc": "an hour that clocks show twice is read otherwise",
    "initcap": "its words are only what spaces separate",
    "ascii": "of letters beyond ASCII it tells another number",
}
"""Why an operation is not spelled, where that is known. What is in neither list is refused as well."""


class SparkOperations(Engine):
    """What of the engine spells operators and functions."""

    def __init__(self, cut: int = CUTS[0]) -> None:
        self._texts = Growth(self, cut)

    def number(self, expr: Expr, names: Names, as_: str) -> str:
        """Spell `expr` as BIGINT, DECIMAL(38, 0) or DOUBLE; `as_` is never narrower than its representation. Raises Refusal."""
        check_number(expr)
        text = self.expr(expr, names)
        if isinstance(expr, Lit) and as_ == representation(expr):
            return text
        return f"CAST({text} AS {as_})"

    def call(self, op: str, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        if op in ("and", "or"):
            return "(" + f" {op.upper()} ".join(self.expr(a, names) for a in args) + ")"
        if op in _COMPARE:
            return self._compared(_COMPARE[op], args, names)
        if op == "is_distinct":
            return f"(NOT {self._compared('<=>', args, names)})"
        if op in _ARITHMETIC or op in ("neg", "abs"):
            return self._arithmetic(op, expr, args, names)
        if op in times.PARTS:
            return self._part(op, args[0], names)
        if op in ("coalesce", "least", "greatest"):
            return f"{op}({', '.join(self._choices(expr, args, names))})"
        if grows(expr) and op not in REFUSED:
            return self._texts.text(expr, names)
        special = getattr(self, f"_op_{op}", None)
        if special is not None:
            return str(special(expr, args, names))
        if op in _BITS:
            return _BITS[op].format(*(self.number(a, names, "BIGINT") for a in args if self._narrow(a)))
        if op in _SIMPLE:
            return _SIMPLE[op].format(*(self.expr(a, names) for a in args))
        raise refused(f"`{op}`", REFUSED.get(op, ""))

    def _compared(self, sign: str, args: tuple[Expr, ...], names: Names) -> str:
        a, b = args
        return f"({self.comparable(a, b, names)} {sign} {self.comparable(b, a, names)})"

    # --- numbers

    def _narrow(self, expr: Expr) -> bool:
        """Raises Refusal for whole numbers that 64 bits may not hold."""
        if representation(expr) != "BIGINT":
            raise refused("an operation on bits of numbers beyond 64 bits")
        return True

    def _choices(self, whole: Expr, args: tuple[Expr, ...], names: Names) -> list[str]:
        """Operands of one type: those of another would be cast, and Sail's casts may raise."""
        if one_kind(args):
            return [self.expr(a, names) for a in args]
        if whole.type not in INTEGERS:
            return [self.as_type(a, whole.type, names) for a in args]
        kind = widest([representation(e) for e in (whole, *args)])
        return [self.number(a, names, kind) for a in args]

    def _arithmetic(self, op: str, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        if expr.type in INTEGERS:
            return self._whole(op, expr, args, names)
        return numbers.one_nan(self._of_doubles(op, expr, args, names))

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

    def _op_nullif(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        value, other = args
        equal = f"{self.comparable(value, other, names)} = {self.comparable(other, value, names)}"
        return f"(CASE WHEN {equal} THEN NULL ELSE {self.expr(value, names)} END)"

    def _op_round(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        value = self.number(args[0], names, "DOUBLE")
        if args[0].type in FLOATS and len(args) == 1:
            return numbers.whole_double(value, numbers.nearest(value))  # PostgreSQL rounds float8 half to even
        return f"round({value}, {self._digits(args)})"

    def _op_trunc(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
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

    def _op_floor(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return numbers.floor(self.number(args[0], names, "DOUBLE"))

    def _op_ceil(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return numbers.ceiling(self.number(args[0], names, "DOUBLE"))

    def _op_sign(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return numbers.sign(self.number(args[0], names, "DOUBLE"))

    def _op_square(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        value = self.number(args[0], names, "DOUBLE")
        return f"({value} * {value})"

    def _op_sqrt(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        value = self.number(args[0], names, "DOUBLE")
        return f"(CASE WHEN {value} >= 0 THEN sqrt({value}) END)"

    # --- dates and times

    def _moment(self, expr: Expr, names: Names) -> str:
        return times.moment(self.expr(expr, names), expr.type)

    def _part(self, op: str, arg: Expr, names: Names) -> str:
        if isinstance(arg, Call) and arg.op == "ts_diff":
            return times.part_of_difference(op, *(self._moment(a, names) for a in arg.args))
        if arg.type not in TIMES:
            raise refused(f"EXTRACT({op}) of {arg.type}")
        return times.part(op, self.expr(arg, names), arg.type)

    def _op_epoch(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        if args[0].type in TIMES:
            return times.epoch(self.expr(args[0], names), args[0].type)
        return self._part("epoch", args[0], names)

    def _op_second(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return times.second(self._moment(args[0], names)) if args[0].type in TIMES else self._part("second", args[0], names)

    def _op_trunc_time(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        unit = args[0]
        assert isinstance(unit, Lit)
        return times.cut_to(unit.text or "", self._moment(args[1], names))

    def _op_strftime(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        form = args[1]
        assert isinstance(form, Lit)
        return times.formatted(self.expr(args[0], names), args[0].type, form.text or "")

    def _op_date_add(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return times.day_shift("+", *(self.expr(a, names) for a in args))

    def _op_date_sub(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return times.day_shift("-", *(self.expr(a, names) for a in args))

    def _op_date_diff(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return times.days_between(*(self.expr(a, names) for a in args))

    def _op_ts_add(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return self._shifted("+", args, names)

    def _op_ts_sub(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return self._shifted("-", args, names)

    def _shifted(self, sign: str, args: tuple[Expr, ...], names: Names) -> str:
        interval = args[1]
        if not isinstance(interval, Lit) or interval.text is None:
            raise refused("a moment plus an interval that is not constant", REFUSED["age"])
        return times.shift(sign, self._moment(args[0], names), interval.text)

    def _op_make_date(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return times.from_numbers(*(self.expr(a, names) for a in args))

    def _op_from_epoch(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return times.from_epoch(self.number(args[0], names, "DOUBLE"))

    def _op_from_utc(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return times.clocks_of(self.expr(args[1], names), self._moment(args[0], names))

    # --- texts

    def _op_lower(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return texts.lower(self.expr(args[0], names))

    def _op_upper(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return texts.upper(self.expr(args[0], names))

    def _op_left(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return texts.left(*(self.expr(a, names) for a in args))

    def _op_right(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return texts.right(*(self.expr(a, names) for a in args))

    def _op_substring(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return texts.substring(*(self.expr(a, names) for a in args))

    def _op_substring_from(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return texts.substring(*(self.expr(a, names) for a in args))

    def _op_split_part(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return texts.split_part(*(self.expr(a, names) for a in args))

    def _op_lpad(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        text, count, pad = (self.expr(a, names) for a in args)
        return f"lpad({text}, {texts.whole(count)}, {pad})"

    def _op_rpad(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        text, count, pad = (self.expr(a, names) for a in args)
        return f"rpad({text}, {texts.whole(count)}, {pad})"

    def replaced(self, text: str, rest: list[str]) -> str:
        raise refused("`regexp_replace`", _JAVA)

    def _op_row(self, expr: Call, args: tuple[Expr, ...], names: Names) -> str:
        return texts.told_apart(times.numbered(self.key(a, names), a.type) for a in args)

    def _like(self, word: str, args: tuple[Expr, ...], names: Names) -> str:
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
            return f"{(months * 30 + days) * times.DAY + micros}L"
        if isinstance(expr, Call) and expr.op == "ts_diff":
            return times.micros_between(*(self._moment(a, names) for a in expr.args))
        raise refused("a comparison of this interval", REFUSED["age"])

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

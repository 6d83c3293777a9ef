"""Random expressions over ordinary values at the edges where engines differ: halves, signs, month ends, daylight saving, unicode.

Knows: SQL, the columns of the shop's orders. Must not know: the planner. `trouble` in `shop_world` is about what raises; here
are values on which two engines could give two answers without either being in trouble. `edge` fills orders with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[str]], str]

STAMPS = (
    "2024-01-01 00:00:00", "2024-01-31 23:59:59.999999", "2024-02-29 12:30:15.5", "2024-03-31 02:30:00", "2024-03-31 01:00:00",
    "2024-03-10 02:30:00", "2024-05-31 00:00:00.000001", "2024-06-30 23:59:59", "2024-04-07 15:45:00", "2024-06-02 07:00:00",
)  # fmt: skip
DAYS = (
    "2024-01-01", "2024-01-31", "2024-02-28", "2024-02-29", "2024-03-31", "2024-04-30", "2024-05-31", "2024-08-31", "2024-10-27",
    "2024-12-29", "2024-12-30", "2024-12-31",
)  # fmt: skip
AMOUNTS = ("0", "0.01", "0.05", "0.5", "1.5", "2.5", "2.45", "2.55", "10.00", "99.99", "149.99", "150", "250.5", "1000")
WEIGHTS = ("-5", "-4.5", "-2.5", "-1.5", "-0.5", "-0.0", "0", "0.25", "0.5", "1", "1.5", "2.5", "3.5", "7.75", "12.125", "50")
QUANTITIES = ("0", "1", "2", "3", "5", "7", "10", "15", "19", "20")
BIGS = ("-1000", "-999", "-10", "-7", "-5", "-3", "-1", "0", "1", "2", "4", "7", "8", "15", "999", "1000")
TEXTS = (
    "", " ", "a", "A", "b", "\u00e9", "e\u0301", "\u00c9", "\u00df", "\u0130", "i", "\u4e2d\u6587", "\U0001f600x", "a b", "  pad ", "a-b-c", "-", "%", "_", "a_b", "10",
    "9", " 7", "-3", "1e2", "0.5", "2024-02-29", "2024-02-30", "true", "x'y", "a\\b", "tab\tx", "Zebra", "zebra", "na\u00efve caf\u00e9", "o'neil-smith mc",
)  # fmt: skip
COLUMNS = {
    "int": ("qty", "qty", "big"), "num": ("amount",), "float": ("weight",), "text": ("coupon", "note"), "date": ("due",),
    "ts": ("ts",), "bool": ("paid",),
}  # fmt: skip
LITERALS = {
    "int": ("0", "1", "2", "3", "-3", "7", "10"), "num": ("0.5", "1.5", "-2.5", "10.0", "0.01", "3"),
    "float": ("0.5::float8", "-1.5::float8", "2::float8"),
    "text": ("'a'", "'-'", "'b'", "''", "'\u00e9'", "' '"), "date": ("DATE '2024-02-29'", "DATE '2023-12-31'"),
    "ts": ("TIMESTAMP '2024-03-31 12:00:00'", "TIMESTAMP '2023-02-28 23:59:59.5'"), "bool": ("true", "false", "NULL::boolean"),
}  # fmt: skip
_UNITS = ("year", "month", "day", "quarter", "week", "dow", "doy", "isodow", "isoyear", "decade", "century", "epoch")
_TIMES = ("hour", "minute", "second", "milliseconds")
_TRUNC = ("year", "quarter", "month", "week", "day")
_SPANS = ("1 day", "1 month", "-1 month", "1 year", "36 hours", "1 month 1 day", "-1 year -1 month", "90 minutes", "1.5 days")
_ZONES = ("Europe/Paris", "America/New_York", "Asia/Kolkata", "UTC", "Australia/Lord_Howe")

FORMS: dict[str, tuple[str, ...]] = {
    "int": (
        "({int} + {int})", "({int} - {int})", "({int} * {int})", "({int} / {int})", "({int} % {int})", "mod({int}, {int})",
        "(-{int})", "abs({int})", "sign({int})::int", "{num}::int", "{float}::int", "{num}::bigint", "length({text})", "{bool}::int",
        "extract({UNIT} FROM {date})::int", "extract({UNIT} FROM {ts})::int", "extract({TIME} FROM {ts})::int", "({date} - {date})",
        "strpos({text}, {text})", "width_bucket({float}, -5, 50, 11)", "width_bucket({num}, 0, 100, 7)",
        "CASE WHEN {bool} THEN {int} ELSE {int} END", "coalesce(nullif({int}, {int}), {int})", "greatest({int}, {int})",
        "least({int}, {int})", "ascii({text})", "octet_length({text})", "({int} & {int})", "({int} | {int})", "({int} # {int})",
        "(~{int})", "({int} >> 1)", "div({num}, {num})::int", "num_nulls({int}, {text}, {date})",
    ),
    "num": (
        "({num} + {num})", "({num} - {num})", "({num} * {num})", "({num} / nullif({num}, 0))", "round({num})", "round({num}, 1)",
        "round({num}, -1)", "trunc({num}, 1)", "trunc({num})", "floor({num})", "ceil({num})", "abs({num})", "({int} * 0.5)",
        "({int} / 4.0)", "mod({num}, 3)", "mod({num}, 0.1)", "({num} * 1.1)", "({num} / 10)", "{float}::numeric(10,1)", "{num}::numeric(10,1)", "{int}::numeric", "(-{num})",
        "round({float}::numeric, 1)", "sign({num})", "div({num}, 0.3)",
    ),
    "float": (
        "({float} + {float})", "({float} * {float})", "({float} / nullif({float}, 0))", "round({float})", "trunc({float})",
        "floor({float})", "ceil({float})", "abs({float})", "({int} * 0.5::float8)", "{num}::float8", "(-{float})", "sqrt(abs({float}))",
        "sign({float})", "power({float}, 2)", "cbrt({float})",
    ),
    "text": (
        "lower({text})", "upper({text})", "initcap({text})", "trim({text})", "ltrim({text}, {text})", "rtrim({text}, {text})",
        "reverse({text})", "left({text}, {SMALL})", "right({text}, {SMALL})", "substr({text}, {SMALL}, 3)", "substr({text}, {SMALL})",
        "left({text}, {int})", "right({text}, {int})", "substr({text}, {int}, {SMALL})", "split_part({text}, {text}, {int})",
        "replace(left({text}, 30), {text}, left({text}, 30))", "lpad({text}, 4, 'xy')", "rpad({text}, 4, 'xy')", "split_part({text}, '-', {PART})",
        "({text} || {text})", "concat({text}, {int}, {bool})", "concat_ws('-', {text}, {text})", "translate({text}, 'ab-', 'x')",
        "overlay({text} placing 'XY' from 2 for 1)", "{int}::text", "{date}::text", "{ts}::text", "{bool}::text",
        "to_char({ts}, '{FORMAT}')", "to_char({date}, '{FORMAT}')", "coalesce({text}, {text})", "nullif({text}, {text})",
        "CASE WHEN {bool} THEN {text} END", "repeat({text}, 2)", "regexp_replace({text}, '[a-z]', '#', 'g')",
        "substring({text} from '[0-9]+')", "to_char({int}, 'FM000')", "greatest({text}, {text})", "least({text}, {text})",
        "md5({text})", "format('%s:%s', {text}, {int})",
    ),
    "date": (
        "({date} + {int})", "({date} - {SMALL})", "{ts}::date", "date_trunc('{TRUNC}', {ts})::date",
        "({date} + INTERVAL '{SPAN}')::date", "make_date(2024, abs({int}) % 12 + 1, abs({int}) % 28 + 1)",
        "CASE WHEN {bool} THEN {date} ELSE {date} END", "greatest({date}, {date})", "least({date}, {date})",
        "coalesce(nullif({date}, {date}), {date})",
    ),
    "ts": (
        "({ts} + INTERVAL '{SPAN}')", "({ts} - INTERVAL '{SPAN}')", "date_trunc('{TRUNC}', {ts})", "date_trunc('hour', {ts})",
        "{date}::timestamp", "({date} + INTERVAL '{SPAN}')", "({ts} AT TIME ZONE '{ZONE}' AT TIME ZONE 'UTC')",
        "({ts} AT TIME ZONE 'UTC' AT TIME ZONE '{ZONE}')", "date_bin('7 days', {ts}, TIMESTAMP '2024-01-01')",
        "({ts} + {int} % 100 * INTERVAL '1 month')", "({ts} + make_interval(days => {int}))",
        "({ts} + {int} % 100 * 0.25 * INTERVAL '1 day')", "({ts} - {SMALL} * 1.5 * INTERVAL '3 hours')",
    ),
    "bool": (
        "({int} < {int})", "({num} >= {float})", "({int} = {num})", "({text} < {text})", "({text} = {text})", "({date} < {ts})",
        "({ts} > {ts})", "({bool} AND {bool})", "({bool} OR {bool})", "(NOT {bool})", "({text} LIKE '%{LIKE}%')",
        "({text} ILIKE '{LIKE}_%')", "({text} LIKE {text} || '%')", "({text} ILIKE {text})", "({text} ~ '^[a-z]')", "({text} ~* 'E')", "({int} IS DISTINCT FROM {int})",
        "({int} IN (1, 2, NULL))", "({text} NOT IN ('a', 'b'))", "({bool} IS NOT TRUE)", "({num} BETWEEN {int} AND {num})",
        "({date} IS NULL)", "({text} SIMILAR TO '(a|b)%')", "starts_with({text}, {text})", "(({int}, {text}) < ({int}, {text}))",
        "({float} = {num})", "({num} = {num} + 0.2)", "({num} * 0.1 = {num})", "({num} % 0.1 = 0)", "({date}, {date}) OVERLAPS ({date}, {date})", "(({ts} - {ts}) > INTERVAL '1 month')",
        "({int} > ANY (ARRAY[1, 5]))",
    ),
}  # fmt: skip
CHOICES = {
    "UNIT": _UNITS, "TIME": _TIMES, "TRUNC": _TRUNC, "SPAN": _SPANS, "ZONE": _ZONES, "SMALL": ("0", "1", "2", "3", "-1", "-2"),
    "PART": ("1", "2", "-1", "4"), "LIKE": ("a", "\u00e9", "\\%", "b", "A"),
    "FORMAT": ("YYYY-MM-DD", "IYYY-IW", "Mon FMDD", "DD/MM/YY HH24:MI:SS", "D DDD Q", "FMDay, HH12 AM", "YYYY\"T\"MM"),
}  # fmt: skip


def _expression(draw: Draw, kind: str, depth: int) -> str:
    if depth <= 0 or draw(st.sampled_from(["leaf", "form", "form"])) == "leaf":
        literal = draw(st.sampled_from(["column"] * 4 + ["literal"])) == "literal"
        return draw(st.sampled_from(list(LITERALS[kind] if literal else COLUMNS[kind])))
    return filled(draw, draw(st.sampled_from(list(FORMS[kind]))), depth - 1)


def filled(draw: Draw, form: str, depth: int) -> str:
    """A form with its holes filled, by expressions at most `depth` deep."""
    parts = form.replace("}", "{").split("{")  # text, hole, text, hole, ...
    for i in range(1, len(parts), 2):
        hole = parts[i]
        parts[i] = draw(st.sampled_from(list(CHOICES[hole]))) if hole in CHOICES else _expression(draw, hole, depth)
    return "".join(parts)


@st.composite
def expressions(draw: Draw, depth: int = 2) -> str:
    """One of any kind; never a bare column."""
    kind = draw(st.sampled_from(list(FORMS)))
    return filled(draw, draw(st.sampled_from(list(FORMS[kind]))), depth - 1)


def edge() -> list[str]:
    """INSERTs of orders, one for each customer and edge: each value meets many of the others."""
    pools: Sequence[Sequence[str | None]] = (
        STAMPS, DAYS, AMOUNTS, WEIGHTS, QUANTITIES, (*BIGS, None), (*TEXTS, None), ("true", "false", None), (*reversed(TEXTS), None),
    )  # fmt: skip
    rows = []
    for i in range(max(map(len, pools)) * 5):
        values = [
            pool[(i * step + i // len(pool)) % len(pool)] for pool, step in zip(pools, (1, 5, 1, 3, 1, 7, 1, 1, 1), strict=True)
        ]
        rows.append(f"({100_000 + i}, {i % 60 + 1}, {', '.join(map(_spelled, values))})")
    columns = "order_id, customer_id, ts, due, amount, weight, qty, big, coupon, paid, note"
    return [f"INSERT INTO main.orders ({columns}) VALUES {', '.join(rows)}"]


def _spelled(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"

"""Random keys over declared columns of the shop's orders, and what their columns can hold, declared or not.

Knows: SQL, the declared values of `fixtures/shop.policy.yaml`. Must not know: the planner. Texts are made by a choice of options,
so that hypothesis or a seed may make it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

Choose = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True)
class Held:
    """A column's kind, the SQL of all values it may hold, those of them to be paired with others', and which are declared."""

    kind: str
    values: str
    few: str
    declared: str


def _span(first: str, last: str) -> str:
    return f"SELECT g AS d FROM generate_series(TIMESTAMP '{first}', TIMESTAMP '{last}', INTERVAL '1 day') AS s(g)"


_BEYOND = "SELECT CAST(v AS TIMESTAMP) FROM (VALUES ('2023-02-03 04:05:06'), ('2023-12-31 23:59:59'), ('2024-07-01'), "
_BEYOND += "('2024-09-17 09:30:00'), ('2025-03-31 17:00:00'), (NULL)) AS beyond(v)"
_EVERY_HOUR = (
    f"SELECT d + m * INTERVAL '1 second' AS v FROM (SELECT g AS d FROM generate_series(TIMESTAMP '2024-01-01', TIMESTAMP "
    f"'2024-06-30 23:00:00', INTERVAL '1 hour') AS s(g)) AS hours, (VALUES (0), (2242), (3599)) AS clock(m) UNION ALL {_BEYOND}"
)
_SOME_HOURS = (
    f"SELECT d + m * INTERVAL '1 second' AS v FROM ({_span('2024-01-01', '2024-06-30')}) AS days, "
    f"(VALUES (0), (47842), (86399)) AS clock(m) UNION ALL {_BEYOND}"
)
_DAYS = f"SELECT CAST(d AS DATE) AS v FROM ({_span('2023-11-20', '2025-02-10')}) AS days UNION ALL SELECT CAST(NULL AS DATE)"


def _list(*values: str) -> str:
    return f"SELECT v FROM (VALUES {', '.join(f'({v})' for v in values)}) AS list(v)"


_NUMBERS = "SELECT g AS v FROM generate_series({}) AS s(g) UNION ALL SELECT {}"
HELD = {
    "status": Held("text", *[_list("'open'", "'paid'", "'void'", "'lost'", "''", "NULL")] * 2, "status IN ('open', 'paid', 'void')"),
    "paid": Held("bool", *[_list("true", "false", "NULL")] * 2, "true"),
    "qty": Held("int", *["SELECT CAST(v AS INTEGER) AS v FROM (" + _NUMBERS.format(span, "NULL") + ") AS n" for span in ("-30, 130", "-2, 25")],
                "qty BETWEEN 0 AND 20"),
    "due": Held("date", _DAYS, f"SELECT v FROM ({_DAYS}) AS picked WHERE v IS NULL OR CAST(extract(doy FROM v) AS INTEGER) % 5 = 1", "due BETWEEN DATE '2024-01-01' AND DATE '2024-12-31'"),
    "ts": Held("ts", _EVERY_HOUR, _SOME_HOURS, "ts >= TIMESTAMP '2024-01-01' AND ts < TIMESTAMP '2024-07-01'"),
    "amount": Held("num", "SELECT CAST(g AS DECIMAL(12,2)) / 2 AS v FROM generate_series(-500, 4000) AS s(g) UNION ALL SELECT NULL",
                   "SELECT CAST(g AS DECIMAL(12,2)) * 12.5 AS v FROM generate_series(-5, 100) AS s(g)", "amount BETWEEN 0 AND 1000"),
    "weight": Held("float", "SELECT CAST(g AS DOUBLE PRECISION) / 8 AS v FROM generate_series(-100, 500) AS s(g) UNION ALL SELECT NULL",
                   "SELECT CAST(g AS DOUBLE PRECISION) / 2 AS v FROM generate_series(-20, 120) AS s(g)", "weight BETWEEN -5 AND 50"),
}  # fmt: skip
"""Of columns of orders. Values beyond those declared, and NULL, are among all of them."""

MANY = 50_000
FEW = {"status": 6, "paid": 3, "qty": 29, "due": 100, "ts": 549, "amount": 106, "weight": 141}
"""About how many values are paired, and how many rows a table may have."""

COLUMNS: dict[str, tuple[str, ...]] = {}
for _name, _held in HELD.items():
    COLUMNS[_held.kind] = (*COLUMNS.get(_held.kind, ()), _name)
COLUMNS["int"] += ("qty", "qty")

FORMS: dict[str, tuple[str, ...]] = {
    "int": (
        "({int} % 3)", "({int} / 5)", "({int} + 1)", "({int} * 2)", "abs({int} - 10)", "({int} / 7 * 7)", "sign({int})::int",
        "extract({PART} FROM {ts})::int", "extract({PART} FROM {date})::int", "extract(hour FROM {ts})::int",
        "floor({num} / 100)::int", "floor({float} / 10)::int", "round({num} / 250)::int", "{bool}::int", "({num} / 100)::int",
        "CASE WHEN {bool} THEN {int} ELSE 0 END", "CASE WHEN {bool} THEN 1 WHEN {bool} THEN 2 END", "coalesce({int}, -1)",
        "nullif({int}, 3)", "greatest({int}, 5)", "least({int}, {int})", "width_bucket({num}, 0, 1000, 10)", "length({text})",
        "({date} - DATE '2024-01-01') / 30", "({int} & 3)", "extract(minute FROM {ts})::int", "(extract(doy FROM {ts}) / 7)::int",
        "strpos({text}, 'a')", "num_nulls({int}, {text})", "ceil({float} / 20)::int", "trunc({num}, -2)::int",
    ),
    "num": ("floor({num} / 100)", "ceil({num} / 250)", "round({num}, -2)", "trunc({num}, -2)", "({int} * 0.5)", "round({int} / 3.0)",
            "{int}::numeric", "extract({PART} FROM {ts})", "mod({int}::numeric, 3)"),
    "float": ("floor({float} / 10)", "round({float} / 5)", "trunc({float} / 20)", "ceil({float} / 9)", "date_part('{PART}', {ts})", "{int}::float8"),
    "text": (
        "upper({text})", "left({text}, 1)", "({text} || '!')", "coalesce({text}, '-')", "nullif({text}, 'paid')", "{int}::text",
        "{bool}::text", "{date}::text", "to_char({ts}, '{FORMAT}')", "to_char({date}, '{FORMAT}')", "concat({text}, {int})",
        "concat({text}, to_char({ts}, '{FORMAT}'))", "CASE WHEN {bool} THEN {text} ELSE 'other' END", "replace({text}, 'o', '0')",
        "CASE WHEN {bool} THEN 'a' WHEN {bool} THEN 'b' END", "lpad({int}::text, 3, '0')", "substring({text}, 2, 2)",
        "concat(date_trunc('{TRUNC}', {ts}), {text})", "concat(to_char({ts}, '{FORMAT}'), to_char({ts}, '{FORMAT}'))",
        "date_trunc('{TRUNC}', {ts})::text", "({bool}::text || {bool}::text)", "md5({text})", "{int}::varchar", "reverse({text})",
    ),
    "date": ("date_trunc('{TRUNC}', {ts})::date", "{ts}::date", "date_trunc('{TRUNC}', {date})::date", "({date} + 3)",
             "({date} - extract(dow FROM {date})::int)", "greatest({date}, DATE '2024-04-15')", "least({date}, {ts}::date)",
             "CASE WHEN {bool} THEN {date} END", "make_date(2024, extract(month FROM {ts})::int, 1)"),
    "ts": ("date_trunc('{TRUNC}', {ts})", "date_trunc('{TRUNC}', {date})", "date_bin('{BIN}', {ts}, TIMESTAMP '{ORIGIN}')",
           "date_bin('{BIN}', {date}::timestamp, TIMESTAMP '{ORIGIN}')", "(date_trunc('{TRUNC}', {ts}) + INTERVAL '1 month')",
           "(date_trunc('{TRUNC}', {ts}) - INTERVAL '36 hours')", "date_trunc('hour', {ts})", "{date}::timestamp",
           "date_trunc('{TRUNC}', {ts} + INTERVAL '{SHIFT}')", "greatest(date_trunc('{TRUNC}', {ts}), TIMESTAMP '2024-03-01')",
           "coalesce(date_trunc('{TRUNC}', {ts}), TIMESTAMP '2000-01-01')"),
    "bool": ("({int} > 3)", "({num} > 100)", "({text} = 'open')", "({date} < DATE '2024-06-01')", "({ts} < TIMESTAMP '2024-03-05 10:30')",
             "({bool} AND {bool})", "({bool} OR {bool})", "(NOT {bool})", "({text} IS NULL)", "({text} IN ('open', 'lost'))",
             "({int} BETWEEN 2 AND 7)", "(extract({PART} FROM {ts}) > 3)", "({bool} IS TRUE)", "({text} LIKE 'o%')",
             "(extract(hour FROM {ts}) >= 12)", "({float} < 0)", "({int} IS DISTINCT FROM 4)", "({text} ~ '^p')"),
}  # fmt: skip
CHOICES = {
    "PART": ("year", "month", "day", "quarter", "dow", "isodow", "doy", "week", "isoyear", "decade", "century", "hour"),
    "TRUNC": ("day", "week", "month", "quarter", "year", "decade", "hour", "minute"),
    "FORMAT": ("YYYY-MM", "YYYY", "MM", "Mon", "DD", "YYYY-MM-DD", "Dy", "HH24", "HH24:MI", "YY", "YYYY-DDD", "FMDay", "Month", "IYYY-IW",
               "YYYY-Q", "D", "YYYY HH24", "YYYY Mon", "YYYY Dy", "YY-MM", "WW", "W", "AM", "HH12", "DDD", "YYYY-MM HH24", "MI", "SS"),
    "BIN": ("1 day", "7 days", "10 days", "11 days", "1 hour", "6 hours", "5 hours", "36 hours", "90 minutes", "15 minutes"),
    "ORIGIN": ("2024-01-01", "2024-01-03", "2023-12-31 12:00:00", "2000-01-01 00:30:00"), "SHIFT": ("1 day", "1 hour", "1 month"),
}  # fmt: skip
WHERES = (
    "qty < 7", "qty >= 3 AND qty <= 5", "qty IN (2, 11)", "qty = 4", "qty < 4.5", "ts >= TIMESTAMP '2024-03-05 10:30:00'", "ts < TIMESTAMP '2024-02-01'",
    "ts > TIMESTAMP '2024-02-01' AND ts <= TIMESTAMP '2024-04-01 12:00:00'", "ts = TIMESTAMP '2024-05-01 13:00:00'",
    "ts IN (TIMESTAMP '2024-02-03 01:00:00', TIMESTAMP '2024-06-03')", "due >= DATE '2024-11-30'", "due = DATE '2024-02-29'",
    "due < DATE '2024-02-10'", "status <> 'void'", "status IN ('paid', 'lost')", "extract(hour FROM ts) > 20", "amount < 250", "amount >= 999.5",
    "extract(month FROM due) = 2", "paid", "qty * 2 < 9", "due - 1 < DATE '2024-01-20'", "date_trunc('month', ts) = TIMESTAMP '2024-02-01'",
)  # fmt: skip


def expression(choose: Choose, kind: str, depth: int) -> str:
    if depth <= 0 or choose((True, False, False)):
        return str(choose(COLUMNS[kind]))
    return filled(choose, str(choose(FORMS[kind])), depth - 1)


def filled(choose: Choose, form: str, depth: int) -> str:
    def hole(match: re.Match[str]) -> str:
        name = match[1]
        return str(choose(CHOICES[name])) if name in CHOICES else expression(choose, name, depth)

    return re.sub(r"\{(\w+)\}", hole, form)


def every_form() -> list[str]:
    """Each form once for each choice in it, over columns."""
    found = []
    for forms in FORMS.values():
        for form in forms:
            names = [n for n in re.findall(r"\{(\w+)\}", form) if n in CHOICES]
            for i in range(max((len(CHOICES[n]) for n in names), default=1)):
                text = form
                for j, name in enumerate(names):
                    options = CHOICES[name]
                    text = text.replace(f"{{{name}}}", options[(i * (j + 1) + j) % len(options)], 1)
                found.append(re.sub(r"\{(\w+)\}", lambda m: COLUMNS[m[1]][0], text))
    return list(dict.fromkeys(found))


def statement(choose: Choose) -> tuple[tuple[str, ...], str]:
    """Keys and a condition of rows, over no more columns than have a product of values that is worth a table."""
    while True:
        made, condition = keys(choose), where(choose)
        columns = used(" ".join([*made, condition]))
        if len(columns) < 2 or prod(FEW[c] for c in columns) <= MANY:
            return made, condition


def keys(choose: Choose) -> tuple[str, ...]:
    """One to three keys, the first of them an expression."""
    kinds = list(FORMS)
    first = filled(choose, str(choose(FORMS[choose(kinds)])), 2)
    rest = [expression(choose, choose(kinds), choose((0, 1, 2))) for _ in range(choose((0, 0, 0, 1, 1, 2)))]
    return (first, *rest)


def where(choose: Choose) -> str:
    return str(choose(WHERES)) if choose((True, False)) else ""


def used(text: str) -> tuple[str, ...]:
    """The columns that a text speaks of."""
    return tuple(name for name in HELD if re.search(rf"\b{name}\b", text))

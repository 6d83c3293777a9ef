"""Random SQL over the troubled shop: joins, keys, predicates, aggregates, nesting. Most of it is accepted.

Knows: SQL and the shop's columns. Must not know: the planner. Every text is made by draws of hypothesis, so that a failing
one is shrunk to its smallest. What PostgreSQL itself would refuse may occur; the planner must then refuse, never crash.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Choose = Callable[[Sequence[Any]], Any]
"""One of some options: by hypothesis, which shrinks what fails, or by a seed, which is quick."""

COLUMNS: dict[str, dict[str, tuple[str, ...]]] = {
    "customers": {"num": ("birth_year", "income", "score", "wealth", "phone"), "text": ("region", "sex", "name"),
                  "date": ("signup",), "bool": ("vip",)},
    "orders": {"num": ("amount", "weight", "qty", "big"), "text": ("status", "category", "coupon", "note"),
               "date": ("due",), "ts": ("ts",), "bool": ("paid",), "id": ("order_id",)},
    "order_items": {"num": ("quantity", "price", "product_id"), "id": ("order_id",)},
    "visits": {"num": ("secs",), "text": ("page",), "date": ("day",)},
    "products": {"num": ("list_price", "product_id"), "text": ("title", "kind"), "date": ("added",)},
    "regions": {"num": ("lat",), "text": ("region", "country")},
}  # fmt: skip
LITERALS = {
    "num": ("0", "1", "-1", "7", "2.5", "1000", "0.01", "9223372036854775807", "100000"),
    "text": ("'north'", "'toys'", "''", "'SAVE10'", "'12'", "'2024-02-30'", "'%'", "'a'", "NULL"),
    "date": ("DATE '2024-03-01'", "DATE '1999-12-31'", "'2024-01-15'::date", "CURRENT_DATE"),
    "ts": ("TIMESTAMP '2024-03-01 10:30:00'", "LOCALTIMESTAMP", "'2024-01-15 00:00:00'::timestamp"),
    "bool": ("true", "false"),
    "span": ("INTERVAL '30 days'", "INTERVAL '1 month'", "INTERVAL '-36 hours'"),
}
_UNITS = ("year", "month", "day", "quarter", "week", "dow", "doy", "isodow")
_TRUNC = ("year", "quarter", "month", "week", "day", "hour")
_CASTS = ("int", "bigint", "numeric", "double precision", "numeric(10,2)", "smallint")
_INTERVALS = ("1 day", "3 months", "1 year", "36 hours", "2 years 3 days")


MORE = {
    "num": ("power({num}, {num})", "mod({num}::numeric, {num}::numeric)", "atan2({num}, {num})", "cbrt({num})", "sin({num})",
            "width_bucket({num}, -10, 1000, 20)", "div({num}::numeric, {num}::numeric)", "({num}::bigint & 7)",
            "regexp_count({text}, '[a-z]')", "strpos({text}, 'a')", "ascii({text})", "extract(epoch FROM {span})",
            "extract(day FROM {span})", "extract(month FROM {span})", "date_part('hour', {ts})", "num_nulls({num}, {text})",
            "array_length(string_to_array({text}, '-'), 1)", "log(2, {num})", "(~ {num}::bigint)", "degrees({num})",
            "({num} % {num}::int)", "({num})::numeric / ({num})::numeric", "round({num})", "trunc({num}::numeric)"),
    "text": ("initcap({text})", "regexp_replace({text}, '[a-z]+', 'x', 'g')", "substring({text} from '[0-9]+')",
             "concat_ws('-', {text}, {text})", "format('%s!', {text})", "translate({text}, 'ae', 'b')", "md5({text})",
             "overlay({text} placing 'x' from 2 for 1)", "repeat({text}, 3)", "(string_to_array({text}, '-'))[2]",
             "greatest({text}, {text})", "to_char({ts}, 'IYYY-IW')", "to_char({date}, 'FMDay DDD')", "rpad({text}, 4, 'ab')",
             "split_part({text}, 'a', -1)", "coalesce({text}, {text}, '')"),
    "date": ("make_date({num}::int, 2, 29)", "to_date({text}, 'YYYY-MM-DD')", "least({date}, {date})",
             "date_trunc('month', {ts})::date", "({date} + {num}::int)", "({ts} + {span})::date"),
    "ts": ("date_bin('7 days', {ts}, '2024-01-01')", "({ts} + {span})", "({date} - {span})",
           "({ts} AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Paris')", "to_timestamp({num}) AT TIME ZONE 'UTC'",
           "({ts} + {num}::int * INTERVAL '1 hour')"),
    "bool": ("({text} ~ '^[a-z]{2}')", "({text} SIMILAR TO '(a|b)%')", "(({date}, {date}) OVERLAPS ({date}, {date}))",
             "(({num}, {text}) IN ((1, 'a'), (7, '')))", "({span} > INTERVAL '20 days')", "({text} ~* '[0-9]|x')",
             "({num} BETWEEN SYMMETRIC {num} AND {num})", "({ts}::time > TIME '12:00')", "isfinite({ts})",
             "({num} > ANY (ARRAY[1, 5]))", "({span} = {span})"),
}  # fmt: skip
"""Forms beyond the common ones; `{kind}` stands for an expression of the kind."""


@dataclass(frozen=True)
class Source:
    """Columns in scope by kind, already qualified. `unit` is the text of the customer id, '' when there is none."""

    columns: dict[str, tuple[str, ...]]
    unit: str
    orders: str = ""  # alias of orders, for correlated subqueries


def _one(choose: Choose, options: Sequence[str]) -> str:
    return str(choose(options))


def _chance(choose: Choose, times: int = 1, of: int = 2) -> bool:
    return bool(choose((True,) * times + (False,) * (of - times)))


class Expressions:
    """Expressions of each kind over a source; `depth` bounds their nesting."""

    def __init__(self, choose: Choose, source: Source) -> None:
        self.choose, self.source = choose, source

    def make(self, kind: str, depth: int = 2) -> str:
        leaf = self.source.columns.get(kind, ())
        if depth <= 0 or _chance(self.choose):
            options = leaf if leaf and not _chance(self.choose, 1, 4) else LITERALS[kind]
            return _one(self.choose, options)
        if kind in MORE and _chance(self.choose, 1, 4):
            return re.sub(r"\{(\w+)\}", lambda m: self._filled(m, depth - 1), _one(self.choose, MORE[kind]))
        return str(getattr(self, f"_{kind}")(depth - 1))

    def _filled(self, match: re.Match[str], depth: int) -> str:
        return self.make(match[1], depth) if match[1] in LITERALS else match[0]

    def _span(self, d: int) -> str:
        form = _one(self.choose, ("age", "minus", "times", "case", "make"))
        if form == "age":
            return f"age({self.make('ts', d)}, {self.make('ts', d)})"
        if form == "minus":
            return f"({self.make('ts', d)} - {self.make('ts', d)})"
        if form == "times":
            return f"(({self.make('num', d)})::int * INTERVAL '{_one(self.choose, ('1 day', '1 month', '2 hours'))}')"
        if form == "make":
            return f"make_interval({_one(self.choose, ('days', 'months', 'hours'))} => ({self.make('num', d)})::int)"
        return f"CASE WHEN {self.make('bool', d)} THEN {self.make('span', d)} ELSE {self.make('span', d)} END"

    def _num(self, d: int) -> str:
        form = _one(self.choose, ("op", "op", "unary", "fn", "round", "extract", "length", "case", "pick", "cast", "days"))
        if form == "op":
            return f"({self.make('num', d)} {_one(self.choose, ('+', '-', '*', '/'))} {self.make('num', d)})"
        if form == "unary":
            return f"(- {self.make('num', d)})"
        if form == "fn":
            name = _one(self.choose, ("abs", "floor", "ceil", "sqrt", "ln", "exp", "sign", "log"))
            return f"{name}({self.make('num', d)})"
        if form == "round":
            return (
                f"{_one(self.choose, ('round', 'trunc'))}({self.make('num', d)}::numeric, {_one(self.choose, ('0', '1', '-2'))})"
            )
        if form == "extract":
            return f"EXTRACT({_one(self.choose, _UNITS)} FROM {self.make(_one(self.choose, ('date', 'ts')), d)})"
        if form == "length":
            return f"length({self.make('text', d)})"
        if form == "case":
            return f"CASE WHEN {self.make('bool', d)} THEN {self.make('num', d)} ELSE {self.make('num', d)} END"
        if form == "pick":
            name = _one(self.choose, ("coalesce", "least", "greatest", "nullif"))
            return f"{name}({self.make('num', d)}, {self.make('num', d)})"
        if form == "days":
            return f"({self.make('date', d)} - {self.make('date', d)})"
        return f"({self.make(_one(self.choose, ('num', 'text', 'num')), d)})::{_one(self.choose, _CASTS)}"

    def _text(self, d: int) -> str:
        form = _one(self.choose, ("fn", "sub", "concat", "case", "pick", "char", "cast"))
        if form == "fn":
            return f"{_one(self.choose, ('lower', 'upper', 'trim', 'reverse'))}({self.make('text', d)})"
        if form == "sub":
            call = _one(self.choose, ("left({0}, 2)", "right({0}, 1)", "substring({0}, 2, 3)", "split_part({0}, '-', 1)",
                                    "replace({0}, 'a', 'b')", "lpad({0}, 5, '*')"))  # fmt: skip
            return call.format(self.make("text", d))
        if form == "concat":
            return f"({self.make('text', d)} || {self.make('text', d)})"
        if form == "case":
            return f"CASE WHEN {self.make('bool', d)} THEN {self.make('text', d)} WHEN {self.make('bool', d)} THEN 'x' END"
        if form == "pick":
            return f"{_one(self.choose, ('coalesce', 'nullif'))}({self.make('text', d)}, {self.make('text', d)})"
        if form == "char":
            value, form = self.make(_one(self.choose, ("ts", "date")), d), _one(self.choose, ("YYYY-MM", "YYYY", "Mon"))
            return f"to_char({value}, '{form}')"
        return f"({self.make(_one(self.choose, ('date', 'bool', 'text')), d)})::text"

    def _date(self, d: int) -> str:
        form = _one(self.choose, ("cast", "shift", "case", "pick"))
        if form == "cast":
            return f"({self.make(_one(self.choose, ('ts', 'text')), d)})::date"
        if form == "shift":
            days = _one(self.choose, ("1", "30", "100000", "2147483647"))
            return f"({self.make('date', d)} {_one(self.choose, ('+', '-'))} {days})"
        if form == "case":
            return f"CASE WHEN {self.make('bool', d)} THEN {self.make('date', d)} END"
        return f"coalesce({self.make('date', d)}, {self.make('date', d)})"

    def _ts(self, d: int) -> str:
        form = _one(self.choose, ("cast", "shift", "trunc", "pick"))
        if form == "cast":
            return f"({self.make('date', d)})::timestamp"
        if form == "shift":
            return f"({self.make('ts', d)} {_one(self.choose, ('+', '-'))} INTERVAL '{_one(self.choose, _INTERVALS)}')"
        if form == "trunc":
            return f"date_trunc('{_one(self.choose, _TRUNC)}', {self.make(_one(self.choose, ('ts', 'date')), d)})"
        return f"greatest({self.make('ts', d)}, {self.make('ts', d)})"

    def _bool(self, d: int) -> str:
        form = _one(self.choose, ("compare", "compare", "and", "not", "null", "in", "like", "between", "sub"))
        if form == "compare":
            kind = _one(self.choose, ("num", "num", "text", "date", "ts"))
            op = _one(self.choose, ("=", "<>", "<", ">=", "IS DISTINCT FROM"))
            return f"({self.make(kind, d)} {op} {self.make(kind, d)})"
        if form == "and":
            return f"({self.make('bool', d)} {_one(self.choose, ('AND', 'OR'))} {self.make('bool', d)})"
        if form == "not":
            return f"(NOT {self.make('bool', d)})"
        if form == "null":
            kind = _one(self.choose, ("num", "text", "date", "ts", "bool"))
            return f"({self.make(kind, d)} IS {_one(self.choose, ('NULL', 'NOT NULL'))})"
        if form == "in":
            kind = _one(self.choose, ("num", "text"))
            items = ", ".join(_one(self.choose, LITERALS[kind]) for _ in range(2))
            return f"({self.make(kind, d)} {_one(self.choose, ('IN', 'NOT IN'))} ({items}))"
        if form == "like":
            word, pattern = _one(self.choose, ("LIKE", "ILIKE", "NOT LIKE")), _one(self.choose, ("%a%", "S_VE%", ""))
            return f"({self.make('text', d)} {word} '{pattern}')"
        if form == "between":
            return f"({self.make('num', d)} BETWEEN {self.make('num', d)} AND {self.make('num', d)})"
        return self._subquery()

    def _subquery(self) -> str:
        unit, order = self.source.unit, self.source.orders
        options = ["(1 IN (SELECT product_id FROM products))"]
        number, text = self.make("num", 0), self.make("text", 0)
        options += [
            f"({number} > (SELECT avg(amount) FROM orders))",
            f"({number} < (SELECT count(*) FROM visits) + 1)",
            f"({text} IN (SELECT kind FROM products WHERE list_price > 10))",
            f"({text} NOT IN (SELECT title FROM products))",
        ]
        if unit:
            options += [
                f"EXISTS (SELECT 1 FROM orders x WHERE x.customer_id = {unit} AND x.qty > 3)",
                f"NOT EXISTS (SELECT 1 FROM visits x WHERE x.customer_id = {unit} AND x.page = 'cart')",
                f"{unit} IN (SELECT customer_id FROM orders WHERE category = 'toys')",
                f"{unit} NOT IN (SELECT customer_id FROM visits WHERE secs > 100)",
                f"((SELECT count(*) FROM orders x WHERE x.customer_id = {unit}) > 2)",
                f"((SELECT avg(x.amount) FROM orders x WHERE x.customer_id = {unit}) > 100)",
                f"({text}, {unit}) NOT IN (SELECT category, customer_id FROM orders WHERE qty > 2)",
                f"({text}, {unit}) IN (SELECT note, customer_id FROM orders)",
                f"{text} NOT IN (SELECT x.category FROM orders x WHERE x.customer_id = {unit})",
                f"{number} IN (SELECT x.qty FROM orders x WHERE x.customer_id = {unit} AND x.paid)",
                f"((SELECT max(x.secs) FROM visits x WHERE x.customer_id = {unit}) = {number})",
                f"((SELECT min(x.day) FROM visits x WHERE x.customer_id = {unit}) < DATE '2024-02-02')",
            ]
        if order:
            options += [
                f"EXISTS (SELECT 1 FROM order_items x WHERE x.order_id = {order}.order_id AND x.quantity > 2)",
                f"{order}.order_id IN (SELECT order_id FROM order_items WHERE price > 10)",
            ]
        return _one(self.choose, options)


_TABLES = {"c": "customers", "o": "orders", "i": "order_items", "v": "visits", "p": "products", "r": "regions", "x": "orders"}
_LINKS = {
    ("c", "o"): "c.customer_id = o.customer_id", ("o", "c"): "c.customer_id = o.customer_id",
    ("c", "v"): "v.customer_id = c.customer_id", ("o", "v"): "o.customer_id = v.customer_id",
    ("o", "x"): "x.customer_id = o.customer_id", ("o", "i"): "i.order_id = o.order_id",
    ("i", "o"): "i.order_id = o.order_id", ("i", "p"): "i.product_id = p.product_id",
    ("c", "r"): "r.region = c.region", ("o", "p"): "o.qty = p.product_id",
}  # fmt: skip
_STARTS = ("c", "o", "o", "i", "v")


_DOMAINS = (
    ("generate_series(DATE '2024-01-01', DATE '2024-12-01', INTERVAL '1 month') AS g(k)",
     ("date_trunc('month', o.ts) = g.k", "ts"), "o"),
    ("generate_series(0, 20, 2) AS g(k)", ("o.qty = g.k", "num"), "o"),
    ("(VALUES ('home', 1), ('cart', 2), (NULL, 3)) AS g(k, w)", ("v.page = g.k", "text"), "v"),
    ("(SELECT kind AS k, count(*) AS w, max(list_price) AS p FROM products GROUP BY 1) g", ("o.note = g.k", "text"), "o"),
    ("(SELECT DISTINCT region AS k FROM regions) g", ("c.region = g.k", "text"), "c"),
)  # fmt: skip
"""FROM items with the groups there can be: text, the condition to join a table by and the kind of k, the table's alias."""


def _columns(aliases: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for alias in aliases:
        for kind, names in COLUMNS[_TABLES[alias]].items():
            found.setdefault(kind, []).extend(f"{alias}.{name}" for name in names)
    return {kind: tuple(names) for kind, names in found.items()}


def _joined(choose: Choose) -> tuple[str, Source, list[str]]:
    """A chain of joins: FROM text, what is in scope, conditions for WHERE (comma joins)."""
    start = _one(choose, _STARTS)
    if _chance(choose, 1, 8):
        return _public_first(choose)
    if _chance(choose, 1, 12):
        text, condition, alias = choose(_DOMAINS)
        kind = _one(choose, ("LEFT JOIN", "JOIN"))
        columns = {k: (*v, *(("g.k",) if k == condition[1] else ())) for k, v in _columns([alias]).items()}
        unit = f"{alias}.customer_id" if kind == "JOIN" else ""
        return f"{text} {kind} {_TABLES[alias]} {alias} ON {condition[0]}", Source(columns, unit, "o" if unit else ""), []
    aliases, text, where = [start], f"{_TABLES[start]} {start}", []
    for _ in range(choose((0, 1, 2))):
        nexts = [b for a, b in _LINKS if a in aliases and b not in aliases]
        if not nexts:
            break
        alias = _one(choose, nexts)
        condition = next(c for (a, b), c in _LINKS.items() if b == alias and a in aliases)
        source = Source(_columns([*aliases, alias]), "")
        if _chance(choose, 1, 5):
            text, where = f"{text} CROSS JOIN {_TABLES[alias]} {alias}", [*where, condition]
        else:
            extra = f" AND {Expressions(choose, source).make('bool', 1)}" if _chance(choose, 1, 3) else ""
            kind = _one(choose, ("JOIN", "JOIN", "LEFT JOIN", "FULL JOIN"))
            text = f"{text} {kind} {_TABLES[alias]} {alias} ON {condition}{extra}"
        aliases.append(alias)
    unit = next((f"{a}.customer_id" for a in aliases if a in ("c", "o", "v")), "")
    return text, Source(_columns(aliases), unit, "o" if "o" in aliases else ""), where


def _public_first(choose: Choose) -> tuple[str, Source, list[str]]:
    first, second = _one(choose, ("p i", "r c")).split()
    condition = _LINKS[second, first]
    extra = f" AND {Expressions(choose, Source(_columns([first, second]), '')).make('bool', 1)}" if _chance(choose) else ""
    text = f"{_TABLES[first]} {first} LEFT JOIN {_TABLES[second]} {second} ON {condition}{extra}"
    return text, Source(_columns([first, second]), ""), []


def _where(choose: Choose, source: Source, conditions: Sequence[str]) -> str:
    parts = list(conditions)
    if _chance(choose):
        parts.append(Expressions(choose, source).make("bool", 2))
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def _per_unit(choose: Choose) -> tuple[str, Source]:
    """A derived table of prepared rows: grouped by unit, windowed, distinct, or a union."""
    text, source, conditions = _joined(choose)
    if not source.unit:
        text, source, conditions = "orders o", Source(_columns(["o"]), "o.customer_id", "o"), []
    make = Expressions(choose, source).make
    where = _where(choose, source, conditions)
    form = _one(choose, ("group", "group", "keyed", "window", "window", "distinct", "union", "on", "sets", "spans", "twice"))
    key, kind = make(_one(choose, ("text", "text", "date")), 1), _one(choose, ("num", "date"))
    unit = f"{source.unit} AS u"
    if form == "group":
        wanted = ("count(*)", "sum({num})", "max({num})", "count(DISTINCT {text})", "avg({num})", "stddev({num})", "min({num})",
                  "count({span})", "sum({num}) FILTER (WHERE {bool})", "count(DISTINCT {num})", "var_pop({num})")  # fmt: skip
        n = _filled(choose, make, _one(choose, wanted))
        having = f" HAVING {n} > 1" if _chance(choose, 1, 4) else ""
        body = f"SELECT {unit}, {n} AS n, min({make(kind, 1)}) AS m FROM {text}{where} GROUP BY {source.unit}{having}"
        columns = {"num": ("t.n", "t.m") if kind == "num" else ("t.n",), "date": ("t.m",) if kind == "date" else ()}
    elif form == "keyed":
        body = f"SELECT {unit}, {key} AS k, count(*) AS n FROM {text}{where} GROUP BY 1, 2"
        columns = {"num": ("t.n",), "text": ("t.k",)}
    elif form == "window":
        direction = _one(choose, ("", " DESC", " NULLS FIRST"))
        order = (
            f" ORDER BY {make(_one(choose, ('ts', 'num', 'date', 'text', 'span')), 1)}{direction}"
            if _chance(choose, 5, 6)
            else ""
        )
        wanted = ("row_number()", "rank()", "count(*)", "lag({num})", "sum({num})", "lead({num}, 2, 0)", "dense_rank()",
                  "first_value({num})", "last_value({num})", "ntile(3)", "ntile({num}::int)", "lag({num}, {num}::int)", "max({num})",
                  "avg({num})", "min({num})", "count({text})")  # fmt: skip
        name = _filled(choose, make, _one(choose, wanted))
        frame = _one(choose, ("", "", "", " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                            " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
                            " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"))  # fmt: skip
        body = f"SELECT {unit}, {name} OVER (PARTITION BY {source.unit}{order}{frame}) AS n, {key} AS k FROM {text}{where}"
        columns = {"num": ("t.n",), "text": ("t.k",)}
    elif form == "distinct":
        body = f"SELECT DISTINCT {unit}, {key} AS k FROM {text}{where}"
        columns = {"text": ("t.k",)}
    elif form == "on":
        order = f", {make(_one(choose, ('ts', 'num', 'text')), 1)}" if _chance(choose) else ""
        body = f"SELECT DISTINCT ON ({source.unit}) {unit}, {key} AS k, {make('num', 1)} AS n, {make('span', 1)} AS s FROM {text}{where}"
        body += f" ORDER BY {source.unit}{order}"
        columns = {"num": ("t.n",), "text": ("t.k",), "span": ("t.s",)}
    elif form == "sets":
        body = f"SELECT {unit}, {make('num', 1)} AS n, {make('text', 1)} AS k FROM {text}{where} "
        body += f"{_one(choose, ('UNION', 'INTERSECT', 'EXCEPT', 'EXCEPT ALL'))} SELECT customer_id, secs, page FROM visits"
        columns = {"num": ("t.n",), "text": ("t.k",)}
    elif form == "spans":
        body = f"SELECT {unit}, {make('span', 2)} AS s, count(*) AS n FROM {text}{where} GROUP BY 1, 2"
        if _chance(choose):
            body = f"SELECT {unit}, {_one(choose, ('min', 'max'))}({make('span', 2)}) AS s, count(*) AS n FROM {text}{where} GROUP BY 1"
        columns = {"num": ("t.n", "extract(month FROM t.s)"), "span": ("t.s",)}
    elif form == "twice":
        inner = f"SELECT {unit}, {make('text', 1)} AS k, {make('num', 1)} AS n FROM {text}{where}"
        call = _one(choose, ("sum(n)", "max(n)", "count(*)", "row_number()", "lag(n)", "first_value(k)", "avg(n)"))
        body = f"SELECT u, k, {call} OVER (PARTITION BY u, k ORDER BY n) AS n FROM ({inner}) s"
        if "k)" not in call and _chance(choose):
            body = f"SELECT u, max(n) AS n, min(k) AS k FROM ({body}) s2 GROUP BY u"
        columns = {"num": () if "k)" in call else ("t.n",), "text": ("t.k",)}
    else:
        body = (
            f"SELECT {unit}, {make('num', 1)} AS n, {make('text', 1)} AS k FROM {text}{where} UNION ALL "
            "SELECT customer_id, score, region FROM customers"
        )
        columns = {"num": ("t.n",), "text": ("t.k",)}
    return f"({body}) t", Source(columns, "t.u")


def _filled(choose: Choose, make: Callable[[str, int], str], form: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda m: make(m[1], 1), form)


def _aggregate(choose: Choose, source: Source) -> str:
    make = Expressions(choose, source).make
    form = _one(choose, ("count", "rows", "distinct", "unit", "sum", "sum", "avg", "case", "clamp", "moment", "quantile"))
    if form == "count" or (form == "unit" and not source.unit):
        text = f"count({make(_one(choose, ('num', 'text', 'date', 'bool')), 1)})"
    elif form == "rows":
        text = "count(*)"
    elif form == "distinct":
        text = f"count(DISTINCT {make(_one(choose, ('num', 'text', 'date')), 1)})"
    elif form == "unit":
        text = f"count(DISTINCT {source.unit})"
    elif form == "clamp":
        text = f"{_one(choose, ('sum', 'avg'))}(LEAST(GREATEST({make('num', 2)}, -10), {_one(choose, ('100', '2.5'))}))"
    elif form == "moment":
        numbers = source.columns.get("num", ()) or ("1",)
        name, x, y = (
            _one(choose, ("stddev", "var_pop", "corr", "covar_samp", "regr_slope")),
            _one(choose, numbers),
            _one(choose, numbers),
        )
        text = f"{name}({x})" if name in ("stddev", "var_pop") else f"{name}({y}, {x})"
    elif form == "quantile":
        x = _one(choose, source.columns.get(_one(choose, ("num", "date")), ()) or ("1",))
        text = _one(choose, (f"min({x})", f"max({x})", f"percentile_disc(0.5) WITHIN GROUP (ORDER BY {x})"))
    elif form == "case":
        text = f"sum(CASE WHEN {make('bool', 1)} THEN {_one(choose, ('1', '-2.5', '0'))} ELSE {_one(choose, ('0', '7', 'NULL'))} END)"
    else:
        text = f"{form}({_one(choose, source.columns.get('num', ()) or ('1',))})"
    return f"{text} FILTER (WHERE {make('bool', 1)})" if _chance(choose, 1, 5) else text


@st.composite
def statements(draw: st.DrawFn) -> str:
    """One aggregate query."""
    return statement(lambda options: draw(st.sampled_from(list(options))))


def statement(choose: Choose) -> str:
    """The same, of any choice."""
    if _chance(choose, 1, 3):
        text, source = _per_unit(choose)
        conditions: list[str] = []
    else:
        text, source, conditions = _joined(choose)
    where = _where(choose, source, conditions)
    kinds = [choose(("text", "text", "num", "date", "ts", "bool", "span")) for _ in range(choose((0, 1, 1, 2)))]
    keys = [Expressions(choose, source).make(kind, 1) for kind in kinds]
    aggregates = [_aggregate(choose, source) for _ in range(choose((1, 2, 3)))]
    numbers = ", ".join(str(i + 1) for i in range(len(keys)))
    if keys and _chance(choose, 1, 10):
        numbers = f"{_one(choose, ('ROLLUP', 'CUBE'))} ({numbers})"
    group = f" GROUP BY {numbers}" if keys else ""
    if _chance(choose, 1, 10):
        group += f" HAVING count(*) > 2 ORDER BY {len(keys) + 1} DESC LIMIT 5"
    return f"SELECT {', '.join([*keys, *aggregates])} FROM {text}{where}{group}"

"""Random SQL whose danger is in what one unit reaches: joins of every kind and by any columns, small keys, selections, fan-out.

Knows: SQL and the shop's columns. Must not know: the planner. Expressions are simple here (`grammar` has the others); what is
varied is how rows of a unit are put together, grouped and looked at: USING and NATURAL on other columns than the unit's
under all joins, undeclared keys beside declared ones, values made of few or very many, views and subqueries over all that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Choose = Callable[[Sequence[Any]], Any]

KINDS = {
    "name": "text", "region": "text", "sex": "text", "status": "text", "category": "text", "coupon": "text", "note": "text", "page": "text",
    "score": "num", "birth_year": "num", "income": "num", "amount": "num", "qty": "num", "weight": "num", "secs": "num", "quantity": "num",
    "price": "num", "product_id": "num", "list_price": "num", "lat": "num", "n": "num", "phone": "num", "big": "num",
    "signup": "date", "due": "date", "day": "date", "added": "date", "ts": "ts", "vip": "bool", "paid": "bool",
    "kind": "text", "title": "text", "country": "text", "customer_id": "unit", "order_id": "id",
}  # fmt: skip
"""What columns are, by name, wherever they come from."""


@dataclass(frozen=True)
class Item:
    """An item of FROM: its text, and the names of its columns."""

    text: str
    columns: tuple[str, ...]
    private: bool = True


TABLES = (
    Item("customers", ("customer_id", "region", "sex", "birth_year", "income", "score", "signup", "vip", "phone", "name")),
    Item("orders", ("order_id", "customer_id", "ts", "due", "amount", "weight", "qty", "status", "category", "coupon", "paid", "big", "note")),
    Item("visits", ("customer_id", "day", "page", "secs")),
    Item("order_items", ("order_id", "product_id", "quantity", "price")),
)  # fmt: skip
PUBLIC = (
    Item("products", ("product_id", "title", "kind", "list_price", "added"), False),
    Item("regions", ("region", "country", "lat"), False),
    Item("(SELECT DISTINCT kind AS category FROM products)", ("category",), False),
    Item("(VALUES ('open', 1), ('paid', 2), ('paid', 3), (NULL, 4))", ("status", "n"), False),
    Item("generate_series(1, 4)", ("n",), False), Item("generate_series(0, 40, 10)", ("qty",), False),
)  # fmt: skip
SHAPED = (
    ("SELECT customer_id, name, region, score FROM customers", ("customer_id", "name", "region", "score")),
    ("SELECT customer_id, sex AS name, region FROM customers WHERE score > 0", ("customer_id", "name", "region")),
    ("SELECT customer_id, coalesce(name, 'x') AS name, vip FROM customers", ("customer_id", "name", "vip")),
    ("SELECT customer_id, name, 'north' AS region FROM customers", ("customer_id", "name", "region")),
    ("SELECT customer_id, status, category, qty FROM orders", ("customer_id", "status", "category", "qty")),
    ("SELECT customer_id, note AS name, qty FROM orders WHERE qty < 15", ("customer_id", "name", "qty")),
    ("SELECT customer_id, page AS status, secs AS qty FROM visits", ("customer_id", "status", "qty")),
    ("SELECT DISTINCT customer_id, status FROM orders", ("customer_id", "status")),
    ("SELECT DISTINCT customer_id, category, paid FROM orders", ("customer_id", "category", "paid")),
    ("SELECT customer_id, max(status) AS status, count(*) AS n FROM orders GROUP BY 1", ("customer_id", "status", "n")),
    ("SELECT customer_id, category, sum(qty) AS qty FROM orders GROUP BY 1, 2", ("customer_id", "category", "qty")),
    ("SELECT DISTINCT ON (customer_id) customer_id, page, day FROM visits ORDER BY customer_id, secs", ("customer_id", "page", "day")),
    ("SELECT customer_id, status, row_number() OVER (PARTITION BY customer_id ORDER BY ts) AS n FROM orders", ("customer_id", "status", "n")),
    ("SELECT customer_id, category AS name FROM orders UNION ALL SELECT customer_id, name FROM customers", ("customer_id", "name")),
    ("SELECT customer_id, status AS name FROM orders UNION SELECT customer_id, page FROM visits", ("customer_id", "name")),
    ("SELECT customer_id, region FROM customers EXCEPT SELECT customer_id, note FROM orders", ("customer_id", "region")),
)  # fmt: skip
"""Prepared rows of units, with columns that share names and not values."""

KEYS = {
    "text": ("{c}", "{c}", "{c}", "coalesce({c}, '-')", "upper({c})", "left({c}, 1)", "({c} = 'toys')", "({c} IS NULL)", "nullif({c}, 'open')",
             "concat({c}, 'x')", "CASE WHEN {c} IN ('open', 'toys', 'ann') THEN 'a' ELSE {c} END", "length({c})", "({c} < 'm')",
             "CASE WHEN {c} = 'paid' THEN 1 WHEN {c} = 'home' THEN 2 END", "repeat({c}, 3)", "replace({c}, 'a', 'bbb')"),
    "num": ("{c}", "({c} > 3)", "({c} > 100)", "floor({c} / 100)", "floor({c} / 7)::int", "({c} IS NULL)", "coalesce({c}, 0)", "round({c} / 50)",
            "width_bucket({c}, 0, 100, 5)", "CASE WHEN {c} > 5 THEN 'big' WHEN {c} < 0 THEN 'less' END", "abs({c})", "greatest({c}, 3)",
            "({c}::int % 3)", "({c})::text", "CASE WHEN {c} > 10 THEN {c} END"),
    "date": ("date_trunc('month', {c})", "extract(month FROM {c})", "extract(dow FROM {c})", "to_char({c}, 'YYYY-MM')", "to_char({c}, 'Mon')",
             "({c} > DATE '2024-02-10')", "date_trunc('quarter', {c})::date", "{c}", "date_bin('10 days', {c}::timestamp, '2024-01-03')"),
    "ts": ("date_trunc('month', {c})", "extract(hour FROM {c})", "to_char({c}, 'YYYY-MM')", "to_char({c}, 'DDD')", "{c}::date", "to_char({c}, 'Dy')",
           "({c} < TIMESTAMP '2024-03-01')", "date_bin('10 days', {c}, '2024-01-03')", "to_char({c}, 'HH24')", "date_trunc('week', {c})"),
    "bool": ("{c}", "{c}", "(NOT {c})", "({c} IS TRUE)", "coalesce({c}, false)", "({c} IS NULL)"),
}  # fmt: skip
AGGREGATES = (
    ("any", "count(*)"), ("any", "count(*)"), ("any", "count({c})"), ("any", "count(DISTINCT {c})"), ("num", "sum({c})"), ("num", "avg({c})"),
    ("num", "min({c})"), ("num", "max({c})"), ("date", "min({c})"), ("date", "max({c})"), ("ts", "max({c})"),
    ("num", "percentile_cont(0.5) WITHIN GROUP (ORDER BY {c})"), ("num", "percentile_disc(0.9) WITHIN GROUP (ORDER BY {c})"),
    ("num", "percentile_cont(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY {c})"), ("text", "mode() WITHIN GROUP (ORDER BY {c})"),
    ("bool", "mode() WITHIN GROUP (ORDER BY {c})"), ("num", "stddev({c})"), ("num", "sum(CASE WHEN {c} > 3 THEN 1 ELSE -2 END)"),
    ("unit", "count(DISTINCT {c})"), ("unit", "count({c})"), ("id", "count(DISTINCT {c})"), ("text", "count(DISTINCT repeat({c}, 3))"),
    ("text", "count(DISTINCT replace({c}, 'a', '<20 x>'))"), ("text", "sum(least(length(concat({c}, repeat('ab', 5))), 50))"),
    ("text", "count(DISTINCT concat({c}, {c}))"),
)  # fmt: skip
TESTS = {
    "text": ("{c} = 'open'", "{c} <> 'toys'", "{c} IS NOT NULL", "{c} IN ('north', 'paid', 'home')", "{c} LIKE '%o%'"),
    "num": ("{c} > 5", "{c} < 12", "{c} BETWEEN 1 AND 50", "{c} <> 3", "{c} IS NULL", "{c} = 7"), "bool": ("{c}", "{c} IS NOT TRUE"),
    "date": ("{c} >= DATE '2024-02-01'", "{c} < DATE '2024-03-05'"), "ts": ("{c} >= TIMESTAMP '2024-02-05 10:00:00'", "{c} < TIMESTAMP '2024-05-01'"),
}  # fmt: skip


@dataclass(frozen=True)
class Scope:
    """Columns as they may be written, and their names."""

    columns: tuple[tuple[str, str], ...]

    def of(self, *kinds: str) -> list[str]:
        return [text for text, name in self.columns if KINDS[name] in kinds]


@dataclass(frozen=True)
class From:
    text: str
    scope: Scope
    where: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """A statement, the views of the policy that it reads, and settings of the session."""

    sql: str
    views: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = field(default=())


def _prepared(choose: Choose) -> Item:
    text, columns = choose(SHAPED)
    return Item(f"({text})", columns)


def _item(choose: Choose, first: bool) -> Item:
    form = (
        choose(("table", "table", "shaped", "shaped", "public"))
        if not first
        else choose(("table", "table", "shaped", "shaped", "shaped"))
    )
    return _prepared(choose) if form == "shaped" else choose(TABLES if form == "table" else PUBLIC)  # type: ignore[no-any-return]


def _alias(i: int, item: Item) -> str:
    """Functions and lists of values need names for their columns."""
    names = f"({', '.join(item.columns)})" if item.text.startswith(("generate_series", "(VALUES")) else ""
    return f"t{i}{names}"


@dataclass
class _Joining:
    """Items joined so far: which columns are there under which alias, and which are merged."""

    choose: Choose
    text: str
    items: list[tuple[str, Item]]
    merged: list[str] = field(default_factory=list)
    where: list[str] = field(default_factory=list)

    def scope(self) -> Scope:
        own = [(f"{alias}.{c}", c) for alias, item in self.items for c in item.columns]
        return Scope((*((c, c) for c in self.merged), *own))

    def add(self, i: int, item: Item) -> None:
        alias = f"t{i}"
        side = self.choose(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "FULL JOIN"))
        before = self.scope()
        there = [c for _, it in self.items for c in it.columns]
        shared = [c for c in dict.fromkeys(item.columns) if c in there]
        plain = [c for c in shared if c in self.merged or there.count(c) == 1]  # others would be ambiguous
        form = self.choose(("using", "using", "natural", "on", "on", "comma"))
        of_unit = item.private and "customer_id" in shared
        known = f"{item.text} {_alias(i, item)}"
        key = (
            next((c for c in ("customer_id", "order_id") if c in shared), None) if item.private else self.choose((*shared, None))
        )
        if form == "natural" and len(shared) == len(plain) and shared and (of_unit or not item.private):
            self.text += f" NATURAL {side} {known}"
            self.merged += [c for c in shared if c not in self.merged]
        elif form == "using" and key in plain:
            more = [c for c in plain if c != key and self.choose((True, False))]
            names = [key, *more]
            self.text += f" {side} {known} USING ({', '.join(names)})"
            self.merged += [c for c in names if c not in self.merged]
        elif key is None or (form == "comma" and side == "JOIN"):
            if key is not None:
                self.where.append(f"{self._one(key, item)} = {alias}.{key}")
            self.text += f" CROSS JOIN {known}"
        else:
            clear = [(text, c) for text, c in before.columns if text not in item.columns]
            both = Scope((*clear, *((f"{alias}.{c}", c) for c in item.columns)))
            extra = f" AND {condition(self.choose, both)}" if self.choose((True, True, False)) else ""
            self.text += f" {side} {known} ON {self._one(key, item)} = {alias}.{key}{extra}"
        self.items.append((alias, item))

    def _one(self, column: str, new: Item) -> str:
        options = [f"{alias}.{column}" for alias, item in self.items if column in item.columns]
        return str(self.choose(options + [column] * (column in self.merged and column not in new.columns)))


def condition(choose: Choose, scope: Scope) -> str:
    kinds = [k for k in TESTS if scope.of(k)]
    if not kinds:
        return "true"
    kind = choose(kinds)
    return str(choose(TESTS[kind])).format(c=choose(scope.of(kind)))


def joined(choose: Choose, aim: str) -> From:
    """A chain of up to three joins; of people and what they did, where keys are of both."""
    first = _item(choose, True) if aim == "free" else TABLES[0]
    made = _Joining(choose, f"{first.text} {_alias(0, first)}", [("t0", first)])
    many = first.text in ("orders", "order_items")
    for i in range(1, 1 + choose((0, 1, 1, 2, 2, 3) if aim == "free" else (1, 1, 1, 2, 3))):
        item = _item(choose, False) if aim != "beside" or i > 1 else TABLES[choose((1, 2))]
        if many and item.text in ("orders", "order_items"):
            item = TABLES[0]  # a whale's orders times themselves are enough of them once
        if item.private and not {"customer_id", "order_id"} & set(item.columns) & {c for _, it in made.items for c in it.columns}:
            item = TABLES[1] if "order_id" in first.columns else TABLES[0]
        many = many or item.text in ("orders", "order_items")
        made.add(i, item)
    return From(made.text, made.scope(), tuple(made.where))


def _where(choose: Choose, given: From) -> str:
    parts = [*given.where, *([condition(choose, given.scope)] if choose((True, False, False)) else [])]
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def _outer_names(scope: Scope, choose: Choose, most: int) -> list[tuple[str, str]]:
    """Columns to be had from a subquery, each name once."""
    options = [(text, name) for text, name in scope.columns if KINDS[name] not in ("unit", "id")]
    found: dict[str, str] = {}
    for _ in range(most):
        if options:
            text, name = choose(options)
            found.setdefault(name, text)
    return [(text, name) for name, text in found.items()]


def wrapped(choose: Choose, given: From) -> tuple[str, Scope]:
    """A query of rows of units over a join, and the names of its columns."""
    where, units = _where(choose, given), given.scope.of("unit")
    columns = _outer_names(given.scope, choose, 4)
    unit = [f"{choose(units)} AS customer_id"] if units else []
    items = [*unit, *(f"{text} AS {name}" for text, name in columns)]
    names = [("customer_id", "customer_id")] * bool(unit) + [(name, name) for _, name in columns]
    form = choose(("plain", "plain", "distinct", "group", "star"))
    if form == "star" and len(given.scope.columns) == len({n for _, n in given.scope.columns}):
        return f"SELECT * FROM {given.text}{where}", Scope(tuple((n, n) for _, n in given.scope.columns))
    if not items:
        items, names = ["1 AS n"], [("n", "n")]
    if form == "group" and unit:
        by = ", ".join(str(i + 1) for i in range(len(items)))
        names = [n for n in names if n[0] != "n"]
        items = [i for i in items if not i.endswith(" AS n")]
        by = ", ".join(str(i + 1) for i in range(len(items)))
        return f"SELECT {', '.join([*items, 'count(*) AS n'])} FROM {given.text}{where} GROUP BY {by}", Scope(
            (*names, ("n", "n"))
        )
    distinct = "DISTINCT " if form == "distinct" else ""
    return f"SELECT {distinct}{', '.join(items)} FROM {given.text}{where}", Scope(tuple(names))


PERSONAL = {"name": 4, "phone": 2, "income": 2, "region": 1, "sex": 1, "score": 1, "vip": 1, "signup": 1}
"""Columns of which a person has one value, and how often each is asked for; the first three are not declared."""
VARYING = {
    "status": ("{c}", "{c}", "upper({c})"), "page": ("{c}", "{c}", "CASE WHEN {c} = 'home' THEN 1 WHEN {c} = 'cart' THEN 2 END"),
    "secs": ("floor({c} / 100)", "({c} > 100)"), "day": ("date_trunc('month', {c})",), "qty": ("floor({c} / 7)::int", "{c}"),
}  # fmt: skip
"""Keys of few declared values, of which the rows of a unit have several, and others."""


AIMS = ("free", "free", "personal", "beside")


def keys(choose: Choose, scope: Scope, form: str) -> list[str]:
    """Up to three, or one that a person has one value of, by itself or beside one with few values that are declared."""
    own = [text for text, name in scope.columns for _ in range(PERSONAL.get(name, 0))]
    other = [(text, name) for text, name in scope.columns if name in VARYING]
    if form == "free" or not own or (form == "beside" and not other):
        found = [key(choose, scope) for _ in range(choose((0, 1, 1, 2, 2, 2, 3)))]
    elif form == "personal":
        found = [choose(own)]
    else:
        text, name = choose(other)
        found = [choose(own), choose(VARYING[name]).format(c=text)]
    return list(dict.fromkeys(found))


def key(choose: Choose, scope: Scope) -> str:
    kinds = [k for k in ("text", "text", "text", "num", "num", "date", "ts", "bool", "bool") if scope.of(k)]
    if not kinds or choose((False,) * 30 + (True,)):
        return "'x'"
    kind = choose(kinds)
    return str(choose(KEYS[kind])).format(c=choose(scope.of(kind)))


def aggregate(choose: Choose, scope: Scope) -> str:
    options = [(k, a) for k, a in AGGREGATES if k == "any" or scope.of(k)]
    kind, form = choose(options)
    columns = scope.of(kind) if kind != "any" else scope.of("text", "num", "date", "ts", "bool") or ["1"]
    text = str(form).format(c=choose(columns))
    return f"{text} FILTER (WHERE {condition(choose, scope)})" if choose((False,) * 5 + (True,)) else text


def statement(choose: Choose, aim: str = "free") -> Asked:
    """One aggregate query, whose keys are one of `AIMS`."""
    given = joined(choose, aim)
    where, scope, source, before = _where(choose, given), given.scope, given.text, ""
    form = choose(
        ("flat", "flat", "flat", "subquery", "cte", "view") if aim != "beside" else ("flat", "flat", "flat", "flat", "cte")
    )
    views: tuple[tuple[str, str], ...] = ()
    if form != "flat":
        text, scope = wrapped(choose, given)
        source = {"subquery": f"({text}) AS q", "cte": "q", "view": "seen AS q"}[form]
        before = f"WITH q AS ({text}) " if form == "cte" else ""
        views = (("seen", text),) if form == "view" else ()
        where = _where(choose, From(source, scope))
    by_keys = keys(choose, scope, aim)
    other = (("dpproxy.other", "on"),) if choose((False,) * 9 + (True,)) else ()
    if by_keys and choose((False,) * 9 + (True,)):
        return Asked(f"{before}SELECT DISTINCT {', '.join(by_keys)} FROM {source}{where}", views, other)
    aggregates = [aggregate(choose, scope) for _ in range(choose((1, 1, 2, 3)))]
    by = ", ".join(str(i + 1) for i in range(len(by_keys)))
    tail = choose(("", "", "", "", "", "ROLLUP", "CUBE", "sets", "having", "top", "union")) if by_keys else ""
    grouping = {"ROLLUP": f"ROLLUP ({by})", "CUBE": f"CUBE ({by})", "sets": f"GROUPING SETS ((1), ({by}), ())"}.get(tail, by)
    sql = f"SELECT {', '.join([*by_keys, *aggregates])} FROM {source}{where}{f' GROUP BY {grouping}' if by_keys else ''}"
    if tail == "having":
        sql += " HAVING count(*) > 2"
    if tail == "top":
        sql += f" ORDER BY {len(by_keys) + 1} DESC LIMIT {choose((1, 3, 10))}"
    if tail == "union":
        sql += f" UNION ALL {sql}" if not before else ""
    return Asked(before + sql, views, other)


def shortened(asked: Asked) -> str:
    """For messages: the statement with its views."""
    return re.sub(
        r"\s+",
        " ",
        "; ".join([asked.sql, *(f"view {n}: {t}" for n, t in asked.views), *(f"{n} = {v}" for n, v in asked.settings)]),
    )

"""A small shop full of trouble: random databases on which a wrong bound shows.

Knows: the tables of `fixtures/shop.policy.yaml`. Whales (customers with very many rows), values outside every declared
range, NaN, infinities, the ends of each type, NULL keys, NULL units, orders of nobody, items of no order. `tame` is the
same shop without trouble and with everything within its declared range, to compare answers with those of plain SQL.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import duckdb

DDL = """
CREATE TABLE customers (customer_id INTEGER, region VARCHAR, sex VARCHAR, birth_year SMALLINT, income DOUBLE,
  score INTEGER, wealth DOUBLE, signup DATE, vip BOOLEAN, phone BIGINT, name VARCHAR, email VARCHAR);
CREATE TABLE orders (order_id BIGINT, customer_id INTEGER, ts TIMESTAMP, due DATE, amount DECIMAL(12,2), weight DOUBLE,
  qty INTEGER, status VARCHAR, category VARCHAR, coupon VARCHAR, paid BOOLEAN, big BIGINT, note VARCHAR);
CREATE TABLE order_items (order_id BIGINT, product_id INTEGER, quantity INTEGER, price DOUBLE);
CREATE TABLE visits (customer_id INTEGER, day DATE, page VARCHAR, secs DOUBLE);
CREATE TABLE products (product_id INTEGER PRIMARY KEY, title VARCHAR, kind VARCHAR, list_price DECIMAL(8,2), added DATE);
CREATE TABLE regions (region VARCHAR, country VARCHAR, lat DOUBLE);
"""
TABLES = ("customers", "orders", "order_items", "visits", "products", "regions")
REGIONS, STATUSES, PAGES = ("north", "south", "east", "west"), ("open", "paid", "void"), ("home", "cart", "help")
CATEGORIES, KINDS = ("toys", "books", "garden", "food", "tools"), ("soft", "hard", "odd")
COUPONS = ("SAVE10", "save-10%", "X_1", "", "2024-02-30", "12", "12.5", "é\u4e2d\U0001f600", "a'b\\c", "NULL", " pad ")
EVIL_DOUBLES = ("'NaN'::DOUBLE", "'Infinity'::DOUBLE", "'-Infinity'::DOUBLE", "1e308", "-1e308", "5e-324", "-0.0", "NULL")
EVIL_DATES = (
    "'infinity'::DATE", "'-infinity'::DATE", "DATE '5881580-07-10'", "DATE '5877642-06-25 (BC)'", "DATE '0001-01-01'",
    "DATE '9999-12-31'", "DATE '10000-01-01'", "NULL",
)  # fmt: skip
EVIL_STAMPS = (
    "'infinity'::TIMESTAMP", "'-infinity'::TIMESTAMP", "TIMESTAMP '294246-12-31 23:59:59.999999'",
    "TIMESTAMP '290000-01-01 (BC) 00:00:00'", "TIMESTAMP '0001-01-01'", "TIMESTAMP '1969-12-31 23:59:59.999999'", "NULL",
)  # fmt: skip
WHALES = (4, 77)  # customers with dozens of orders; 77 is not in the table of customers
OUTLIERS = {"4": {"region": "'north'", "score": "2147483647", "income": "'NaN'::DOUBLE"}, "5": {"income": "1e308"}}
"""Values that are there for every seed, so that a missing clamp shows in every shop."""
NEWCOMERS = ("newcomer", "odd_newcomer")
"""Neighbours with a customer more: of many rows, all kinds of them; the second is in no table of customers that names her."""
Chooser = Callable[[random.Random], str]


def telling(customer: int) -> tuple[bool, bool, int]:
    """Whose deletion tells most comes first."""
    return customer not in WHALES, str(customer) not in OUTLIERS, customer


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _of(values: Sequence[str]) -> Chooser:
    return lambda r: text(r.choice(values))


def _mixed(good: Chooser, evil: Sequence[str], share: float) -> Chooser:
    return lambda r: r.choice(evil) if r.random() < share else good(r)


def _columns(trouble: bool) -> dict[str, Chooser]:
    """How each column's values are drawn, as SQL literals. Without trouble all values are within their ranges."""
    share = 0.25 if trouble else 0.0

    def mixed(good: Chooser, *evil: str) -> Chooser:
        return _mixed(good, evil, share)

    def number(lo: int, hi: int) -> Chooser:
        return lambda r: str(r.randint(lo, hi))

    def cents(lo: int, hi: int) -> Chooser:
        return lambda r: f"{r.randint(lo, hi) / 100:.2f}"

    def date(first: str, days: int) -> Chooser:
        return lambda r: f"(DATE '{first}' + {r.randrange(days)})"

    odd_int = ("NULL", "2147483647", "-2147483648", "-1", "101")
    flag = mixed(_of(("true", "false")), "NULL")
    return {
        "region": mixed(_of(REGIONS), "NULL", "'nowhere'", "''"), "sex": _mixed(_of(("F", "M")), ("NULL",), 0.2),
        "birth_year": mixed(number(1920, 2010), "NULL", "32767", "-32768", "1919"),
        "income": mixed(number(0, 200_000), *EVIL_DOUBLES), "score": mixed(number(-100, 100), *odd_int),
        "wealth": mixed(lambda r: f"{r.randint(-1000, 5000)}", *EVIL_DOUBLES),
        "signup": mixed(date("2022-01-01", 730), *EVIL_DATES), "vip": flag,
        "phone": mixed(number(0, 10**6), "9223372036854775807", "-9223372036854775808", "NULL"),
        "name": mixed(_of(("ann", "bob", "cat", "dan")), *map(text, COUPONS), "NULL"),
        "ts": mixed(lambda r: f"(TIMESTAMP '2024-01-01' + INTERVAL ({r.randrange(180 * 24 * 60)}) MINUTE)", *EVIL_STAMPS),
        "due": mixed(date("2024-01-01", 366), *EVIL_DATES),
        "amount": mixed(cents(0, 100_000), "NULL", "9999999999.99", "-9999999999.99", "1000.01"),
        "weight": mixed(lambda r: f"{r.randint(-20, 200) / 4}", *EVIL_DOUBLES), "qty": mixed(number(0, 20), *odd_int),
        "status": mixed(_of(STATUSES), "NULL", "'lost'"), "category": mixed(_of(CATEGORIES), "NULL", "''"),
        "coupon": _mixed(_of(COUPONS), ("NULL",), 0.3), "paid": _mixed(_of(("true", "false")), ("NULL",), 0.2),
        "big": mixed(number(-1000, 1000), "9223372036854775807", "-9223372036854775808", "NULL"),
        "note": mixed(_of(("ok", "late", "gift wrap")), *map(text, COUPONS), "NULL"),
        "product_id": mixed(number(1, 8), "NULL", "99"), "quantity": mixed(number(0, 10), *odd_int),
        "price": mixed(cents(0, 10_000), *EVIL_DOUBLES), "day": mixed(date("2024-01-01", 91), *EVIL_DATES),
        "page": mixed(_of(PAGES), "NULL", "'admin'"), "secs": mixed(number(0, 600), *EVIL_DOUBLES),
        "title": _of(("ball", "book", "spade", "bread", "saw")), "kind": _of(KINDS), "list_price": cents(100, 9000),
        "added": date("2020-01-01", 1000),
    }  # fmt: skip


ORDER_COLUMNS = ("ts", "due", "amount", "weight", "qty", "status", "category", "coupon", "paid", "big", "note")
CUSTOMER_COLUMNS = ("region", "sex", "birth_year", "income", "score", "wealth", "signup", "vip", "phone", "name")


def fill(connection: duckdb.DuckDBPyConnection, seed: int, *, trouble: bool = True) -> None:
    """The shop's tables, the same for the same seed."""
    rng = random.Random(seed)
    draw = _columns(trouble)
    people = list(range(1, 10)) if trouble else list(range(1, 61))
    rows: dict[str, list[list[str]]] = {table: [] for table in TABLES}
    rows["products"] = [[str(i), *(draw[c](rng) for c in ("title", "kind", "list_price", "added"))] for i in range(1, 9)]
    rows["regions"] = [[text(r), text(c), "1.5"] for r, c in zip(REGIONS, ("NO", "SO", "EA", "WE"), strict=True)]
    if trouble:
        rows["regions"] += [["'lost'", "'XX'", "NULL"], ["NULL", "'YY'", "0"]]
    nobody = ["NULL", "NULL"] if trouble else []
    for customer in [*map(str, people), *nobody]:
        drawn = {c: draw[c](rng) for c in CUSTOMER_COLUMNS}
        if trouble:
            drawn |= OUTLIERS.get(customer, {})
        rows["customers"].append([customer, *drawn.values(), "'secret'"])
    buyers = [*map(str, people), *(["77", "88", "NULL"] if trouble else [])]  # 77 and 88 are not in customers
    for customer in buyers:
        _activity(rows, customer, rng, draw, trouble)
    if trouble:
        rows["orders"].append(["NULL", "3", *(draw[c](rng) for c in ORDER_COLUMNS)])
        rows["order_items"] += [["NULL", "1", "2", "3"], ["999999", "1", "2", "3"]]
    connection.execute(DDL)
    for table, values in rows.items():
        body = ", ".join(f"({', '.join(row)})" for row in values)
        connection.execute(f"INSERT INTO {table} VALUES {body}")


IDS = (("customers", "customer_id"), ("orders", "customer_id"), ("visits", "customer_id"), ("orders", "order_id"),
       ("order_items", "order_id"))  # fmt: skip
FAR = 2**60


def widened(connection: duckdb.DuckDBPyConnection, type_: str) -> None:
    """The same shop with ids of another type of numbers, so large that doubles do not tell one from the next."""
    for table, column in IDS:
        connection.execute(f"ALTER TABLE {table} ALTER {column} TYPE {type_} USING CAST({column} AS {type_}) + {FAR}")


def _activity(
    rows: dict[str, list[list[str]]], customer: str, rng: random.Random, draw: dict[str, Chooser], trouble: bool
) -> None:
    """One customer's orders, items and visits."""
    whale = trouble and customer in map(str, WHALES)
    for number in range(rng.randint(35, 45) if whale else rng.randint(1, 6)):
        order = str(len(rows["orders"]) + 1)
        drawn = {c: draw[c](rng) for c in ORDER_COLUMNS}
        if trouble and customer == "5" and not number:  # the one row of its kind: who else is moved by it?
            drawn["note"] = "'unique'"
            rows["order_items"].append([order, "1", "7", "77.77"])
        rows["orders"].append([order, customer, *drawn.values()])
        for _ in range(rng.choice((0, 1, 2, 9 if whale else 2))):
            rows["order_items"].append([order, *(draw[c](rng) for c in ("product_id", "quantity", "price"))])
    if trouble:  # equal, but not the same: which of them stands for both?
        rows["visits"] += [[customer, "DATE '2024-02-01'", "'home'", secs] for secs in ("0.0", "'-0.0'::DOUBLE")]
    for _ in range(20 if whale else rng.randint(0, 3)):
        rows["visits"].append([customer, *(draw[c](rng) for c in ("day", "page", "secs"))])


def arrival(name: str) -> list[str]:
    """INSERTs, in order, for a newcomer with rows of all declared values, of others and of NULL, in one schema `{0}`."""
    odd = name != NEWCOMERS[0]
    customer = 1_000 + odd
    person = "NULL, NULL, NULL, 1e308, NULL, -5000, NULL, NULL, NULL, NULL" if odd else (
        "'north', 'F', 1970, 50000, 7, 100, DATE '2022-06-01', true, 5, 'ann'"
    )  # fmt: skip
    people = [f"({customer}, {person}, 'secret')"] * (not odd)
    orders, items = [], []
    for i in range(120):
        status, category = (*STATUSES, "lost", "", None)[i % 6], (*CATEGORIES, "", None)[i % 7]
        stamp, due = (
            f"TIMESTAMP '2024-{1 + i % 8:02}-{1 + i % 28:02} {i % 24:02}:30:00'",
            f"DATE '2024-{1 + i % 12:02}-{1 + i % 28:02}'",
        )
        drawn = [
            stamp,
            due,
            str(i * 12),
            str(i - 20),
            str(i % 26 - 2),
            _given(status),
            _given(category),
            _given((*COUPONS, None)[i % 12]),
        ]
        drawn += [("true", "false", "NULL")[i % 3], str(i - 60), _given(("ok", "late", *COUPONS, None)[i % 14])]
        orders.append(f"({50_000 + 1_000 * odd + i}, {customer}, {', '.join(drawn)})")
        items.append(f"({50_000 + 1_000 * odd + i}, {1 + i % 9}, {i % 13}, {i})")
    visits = [
        f"({customer}, DATE '2024-{1 + i % 4:02}-{1 + i % 28:02}', {_given((*PAGES, 'admin', None)[i % 5])}, {i * 17 - 50})"
        for i in range(60)
    ]
    rows = {"customers": people, "orders": orders, "order_items": items, "visits": visits}
    return [f"INSERT INTO {{0}}.{table} VALUES {', '.join(values)}" for table, values in rows.items() if values]


def _given(value: str | None) -> str:
    return "NULL" if value is None else text(value)

"""Statements of the sample shop that are refused, each with what its refusal says to write instead.

Knows: hints of the code, by their first words. Must not know: which file makes them. Remedies that stand on the page of errors alone are
in `scripts/reference_remedies.py`, with statements of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import psycopg
from reference_remedies import EVERY

LIST: Final = ",".join(map(str, range(5000)))
HINTED: Final = {
    "Aggregate: SELECT count(*)": ("SELECT * FROM customers", "SELECT count(*) FROM customers"),
    "Aggregate over it": (
        "SELECT customer_id, sum(amount) AS x FROM orders GROUP BY 1",
        "SELECT avg(least(x, 1000)) FROM (SELECT customer_id, sum(amount) AS x FROM orders GROUP BY 1) AS t",
    ),
    "Clamp it: avg(least(greatest(x, interval": (
        "SELECT avg(age(ts, TIMESTAMP '2024-01-01')) FROM orders",
        "SELECT avg(least(greatest(age(ts, TIMESTAMP '2024-01-01'), interval '0 hours'), interval '1 year')) FROM orders",
    ),
    "Aggregate first and put LIMIT": (
        "SELECT count(*) FROM (SELECT * FROM orders LIMIT 10) AS t",
        "SELECT category, count(*) FROM orders GROUP BY 1 LIMIT 3",
    ),
    "Join them on the": (
        "SELECT count(*) FROM customers AS c JOIN orders AS o ON c.birth_year = o.order_id",
        "SELECT count(*) FROM customers AS c JOIN orders AS o ON c.customer_id = o.customer_id",
    ),
    "SET dpproxy.epsilon = ... within": (
        "SET dpproxy.epsilon = 5; SELECT count(*) FROM customers",
        "SET dpproxy.epsilon = 0.01; SELECT count(*) FROM customers",
    ),
    "SET dpproxy.accuracy = '5%'": (
        "SET dpproxy.accuracy = '90%'; SELECT count(*) FROM customers",
        "SET dpproxy.accuracy = '5%'; SELECT count(*) FROM customers",
    ),
    "RESET dpproxy.epsilon": (
        "SET dpproxy.epsilon = 'much'; SELECT count(*) FROM customers",
        "RESET dpproxy.epsilon; SELECT count(*) FROM customers",
    ),
    "RESET dpproxy.reuse": (
        "SET dpproxy.reuse = 'always'; SELECT count(*) FROM customers",
        "RESET dpproxy.reuse; SELECT count(*) FROM customers",
    ),
    "Clamp it in SQL": (
        "SELECT sum(product_id) FROM order_items",
        "SELECT sum(least(greatest(product_id, 0), 100)) FROM order_items",
    ),
    "Count it: count(DISTINCT": ("SELECT avg(order_id) FROM orders", "SELECT count(DISTINCT order_id) FROM orders"),
    "Use GROUP BY x ORDER BY count(*)": (
        "SELECT mode() WITHIN GROUP (ORDER BY product_id) FROM order_items",
        "SELECT product_id FROM order_items GROUP BY product_id ORDER BY count(*) DESC LIMIT 1",
    ),
    "Write it where the aggregate is": (
        "SELECT dpproxy.low(5), count(*) FROM customers",
        "SELECT dpproxy.low(count(*)), count(*) FROM customers",
    ),
    "Use varchar(n)": (
        "SELECT category::char(3), count(*) FROM orders GROUP BY 1",
        "SELECT category::varchar(3), count(*) FROM orders GROUP BY 1",
    ),
    "Types to cast to are int": (
        "SELECT count(*) FROM orders WHERE amount::money > 0::money",
        "SELECT count(*) FROM orders WHERE amount::numeric > 0::numeric",
    ),
    "Write a constant there": (
        "SELECT width_bucket(amount, 0, amount + 1, 5), count(*) FROM orders GROUP BY 1",
        "SELECT width_bucket(amount, 0, 1000, 5), count(*) FROM orders GROUP BY 1",
    ),
    "Apply it to the released result": (
        "SELECT count(*) FROM orders WHERE to_tsvector(category) IS NULL",
        "SELECT to_tsvector(category), n FROM (SELECT category, count(*) AS n FROM orders GROUP BY 1) AS t",
    ),
    "Add PARTITION BY": (
        "SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY ts) AS n FROM orders) AS t WHERE n < 3",
        "SELECT count(*) FROM (SELECT row_number() OVER (PARTITION BY customer_id ORDER BY ts) AS n FROM orders) AS t WHERE n < 3",
    ),
    "Leave it out: a question of all rows": (
        "SELECT count(*) FROM orders TABLESAMPLE BERNOULLI (10)",
        "SELECT count(*) FROM orders",
    ),
    "Leave COLLATE out": (
        "SELECT count(*) FROM orders WHERE category COLLATE \"C\" > 'b'",
        "SELECT count(*) FROM orders WHERE category > 'b'",
    ),
    "Group by the value itself": (
        "SELECT amount::text, count(*) FROM orders GROUP BY 1",
        "SELECT amount::text, n FROM (SELECT round(amount) AS amount, count(*) AS n FROM orders GROUP BY 1) AS t",
    ),
    "Aggregate in it": (
        "SELECT count(*) FROM customers AS c WHERE birth_year > (SELECT amount FROM orders AS o WHERE o.customer_id = c.customer_id)",
        "SELECT count(*) FROM customers AS c WHERE birth_year > (SELECT max(amount) FROM orders AS o WHERE o.customer_id = c.customer_id)",
    ),
    "Pass a long list as one array": (
        f"SELECT count(*) FROM customers WHERE income IN ({LIST})",
        f"SELECT count(*) FROM customers WHERE income = ANY ('{{{LIST}}}')",
    ),
    "Leave out ANALYZE": ("EXPLAIN ANALYZE SELECT count(*) FROM customers", "EXPLAIN SELECT count(*) FROM customers"),
    "Use SELECT; COPY": ("DELETE FROM customers", "EXPLAIN SELECT count(*) FROM customers"),
    "Use the function instead": (
        "SELECT count(*) FROM customers WHERE |/ income > 5",
        "SELECT count(*) FROM customers WHERE sqrt(income) > 5",
    ),
    "Write the character itself": (
        "SELECT count(*) FROM customers WHERE U&\"region\" = 'north'",
        "SELECT count(*) FROM customers WHERE region = 'north'",
    ),
    "Write it in decimal digits": (
        "SELECT count(*) FROM customers WHERE income > 0x10",
        "SELECT count(*) FROM customers WHERE income > 16",
    ),
    "Use SET in your session": ("ALTER ROLE ada SET work_mem = '1MB'", "SET work_mem = '1MB'"),
    "DISCARD TEMP drops": ("DROP OWNED BY ada", "DISCARD TEMP"),
    "Use EXECUTE alone": (
        "PREPARE p AS SELECT count(*) FROM customers; EXPLAIN EXECUTE p",
        "PREPARE p AS SELECT count(*) FROM customers; EXECUTE p",
    ),
}
"""By the first words of the remedy, as the refusal brings it: what is refused, and what is answered instead."""


def cases() -> Iterator[tuple[str, str, str]]:
    """What the refusal's text holds, as a pattern; what is refused; what is answered."""
    for hint, (wrong, right) in HINTED.items():
        yield re.escape(hint), wrong, right
    for remedy in EVERY:
        said = "|".join(re.sub(r"<[^>]*>", ".*", re.escape(message)) for message in remedy.messages)
        yield from ((f"^(?:{said})", wrong, right) for wrong, right in remedy.tried)


def untrue(connection: psycopg.Connection[Any]) -> list[str]:
    """What is wrong with the remedies, asked over this connection."""
    found, connection.prepare_threshold = [], None
    for said, wrong, right in cases():
        connection.execute("DISCARD ALL")
        connection.execute("SET dpproxy.epsilon = 0.01")
        try:
            connection.execute(wrong)
            found.append(f"{wrong}: is answered")
        except psycopg.Error as error:
            if not re.search(said, error.diag.message_primary or ""):
                found.append(f"{wrong}: says {error.diag.message_primary}, not {said}")
        connection.execute("ROLLBACK")
        try:
            connection.execute("DISCARD ALL")
            connection.execute("SET dpproxy.epsilon = 0.01")
            connection.execute(right)
        except psycopg.Error as error:
            found.append(f"{right}: {error.diag.message_primary}")
            connection.execute("ROLLBACK")
    return found

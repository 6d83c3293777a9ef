"""Texts that are made to be dear to read: each form of SQL, repeated or nested, up to any length.

Knows: forms of text. Must not know: who caps what. A form is a function of how often something stands in it; `sized` finds the number
that makes a text of a length.
"""

from __future__ import annotations

from collections.abc import Callable

Form = Callable[[int], str]

NESTED = {
    "parentheses": ("(", "1", ")"),
    "arrays": ("ARRAY[", "1", "]"),
    "array subqueries": ("ARRAY(SELECT ", "1", ")"),
    "subscripts": ("a[", "1", "]"),
    "braces": ("{", "", "}"),
    "rows": ("ROW(1, ", "1", ")"),
    "tuples": ("(1, ", "1", ")"),
    "cases": ("CASE WHEN qty = 1 THEN ", "1", " END"),
    "conditions of cases": ("CASE WHEN ", "qty = 1", " THEN true ELSE false END"),
    "casts by name": ("CAST(", "1", " AS int)"),
    "calls": ("abs(", "qty", ")"),
    "coalesce": ("coalesce(qty, ", "1", ")"),
    "aggregates": ("sum(", "qty", ")"),
    "windows": ("sum(", "qty", ") OVER (PARTITION BY qty)"),
    "filters": ("count(*) FILTER (WHERE ", "qty = 1", ")"),
    "scalar subqueries": ("(SELECT ", "1", ")"),
    "subqueries of IN": ("qty IN (SELECT ", "1", ")"),
    "subqueries of EXISTS": ("EXISTS (SELECT FROM orders WHERE ", "true", ")"),
    "extracts": ("extract(year FROM ", "ts", ")"),
    "trims": ("trim(both 'a' FROM ", "status", ")"),
    "substrings": ("substring(", "status", " FROM 1 FOR 2)"),
    "lists of IN": ("(qty IN (", "1", "))"),
    "comments": ("/*", "", "*/ "),
    "negations": ("NOT ", "true", ""),
    "signs": ("- ", "1", ""),
    "complements": ("~ ", "1", ""),
    "intervals": ("INTERVAL ", "'1 day'", ""),
    "types of types": ("ARRAY<", "int", ">"),
    "maps": ("MAP[", "1", "]"),
    "exists not": ("NOT (", "true", ")"),
    "collations": ("(", "status", ' COLLATE "C")'),
    "zones": ("(", "ts", " AT TIME ZONE 'UTC')"),
    "grouping": ("ROLLUP (", "qty", ")"),
    "unnests": ("unnest(ARRAY[", "1", "])"),
}
"""What opens, what stands inside, what closes."""

BORROWED = {
    "months between": ("datediff('month', ts, ", "ts", ")"),
    "months between twice": ("datediff('month', ts, ts) + datediff('month', ", "ts", ", ts)"),
    "days between": ("datediff('day', ", "ts", ", ts)"),
    "last days": ("last_day(", "ts", ")"),
    "conditions of iif": ("iif(", "qty = 1", ", true, false)"),
    "values of iif": ("iif(qty = 1, ", "1", ", 2)"),
    "ifnull": ("ifnull(", "qty", ", 1)"),
    "medians": ("median(", "qty", ")"),
    "safe divisions": ("safe_divide(", "qty", ", 2)"),
    "conditional counts": ("count_if(", "qty = 1", " > 1)"),
    "sums of tests": ("sum((", "qty = 1", ") > 1)"),
    "names of months": ("monthname(", "ts", ")"),
}
"""The same of other engines' functions, which are written in PostgreSQL's words."""

CHAINED = {
    "sum": " + 1", "product": " * 2", "power": " ^ 2", "concatenation": " || 'a'", "and": " AND qty = 1", "or": " OR qty = 1", "comparisons": " < 1",
    "casts": "::int", "subscripts of subscripts": "[1]", "is null": " IS NULL", "collate": ' COLLATE "C"', "at time zone": " AT TIME ZONE 'UTC'",
    "between": " BETWEEN 1 AND 2", "not between": " NOT BETWEEN 1 AND 2", "like": " LIKE 'a'", "in": " IN (1, 2)", "json": " -> 'a'", "distinct": " IS DISTINCT FROM 1",
    "any": " = ANY (ARRAY[1])", "escape": " LIKE 'a' ESCAPE '!'", "similar": " SIMILAR TO 'a'", "dots": ".a", "spaced minus": " - - 1", "modulo": " % 2", "shift": " << 1",
    "operators": " OPERATOR(pg_catalog.+) 1", "regular expressions": " ~ '(a+)+$'", "over": " OVER w", "parameters": " + $1",
}  # fmt: skip
"""What follows `qty` again and again."""

LISTED = {
    "columns": ("SELECT ", "qty", ", ", " FROM orders"),
    "aliases": ("SELECT ", "qty AS a", ", ", " FROM orders"),
    "stars": ("SELECT ", "*", ", ", " FROM orders"),
    "counts": ("SELECT ", "count(*)", ", ", " FROM orders"),
    "averages": ("SELECT ", "avg(qty)", ", ", " FROM orders"),
    "percentiles": ("SELECT ", "percentile_cont(0.5) WITHIN GROUP (ORDER BY qty)", ", ", " FROM orders"),
    "cases of one": ("SELECT sum(CASE ", "WHEN qty = 1 THEN 2", " ", " END) FROM orders"),
    "in list": ("SELECT count(*) FROM orders WHERE qty IN (", "1", ", ", ")"),
    "texts of IN": ("SELECT count(*) FROM orders WHERE status IN (", "'open'", ", ", ")"),
    "rows of IN": ("SELECT count(*) FROM orders WHERE (qty, order_id) IN (", "(1, 2)", ", ", ")"),
    "array": ("SELECT count(*) FROM orders WHERE qty = ANY (ARRAY[", "1", ", ", "])"),
    "values": ("SELECT count(*) FROM orders JOIN (VALUES ", "(1)", ", ", ") v(x) ON x = qty"),
    "keys": ("SELECT count(*) FROM orders GROUP BY ", "qty", ", ", ""),
    "grouping sets": ("SELECT count(*) FROM orders GROUP BY GROUPING SETS (", "(qty, status)", ", ", ")"),
    "cube": ("SELECT count(*) FROM orders GROUP BY CUBE (", "qty", ", ", ")"),
    "order": ("SELECT count(*) FROM orders ORDER BY ", "1", ", ", ""),
    "ctes": ("WITH ", "a AS (SELECT qty FROM orders)", ", ", " SELECT count(*) FROM a"),
    "tables": ("SELECT count(*) FROM ", "orders", ", ", ""),
    "joins": ("SELECT count(*) FROM orders ", "JOIN orders USING (order_id)", " ", ""),
    "left joins": ("SELECT count(*) FROM orders ", "LEFT JOIN orders o ON true", " ", ""),
    "joins without ON": ("SELECT count(*) FROM orders ", "JOIN orders", " ", ""),
    "natural joins": ("SELECT count(*) FROM orders ", "NATURAL JOIN orders", " ", ""),
    "cross joins": ("SELECT count(*) FROM orders ", "CROSS JOIN orders", " ", ""),
    "laterals": ("SELECT count(*) FROM orders ", "CROSS JOIN LATERAL (SELECT qty) l", " ", ""),
    "unions": ("", "SELECT qty FROM orders", " UNION ALL ", ""),
    "intersections": ("", "SELECT qty FROM orders", " INTERSECT ", ""),
    "statements": ("", "SELECT count(*) FROM orders", "; ", ""),
    "windows named": ("SELECT sum(qty) OVER w FROM orders WINDOW ", "w AS (ORDER BY qty)", ", ", ""),
    "having": ("SELECT count(*) FROM orders HAVING ", "count(*) > 1", " AND ", ""),
    "distinct on": ("SELECT DISTINCT ON (", "qty", ", ", ") 1 FROM orders"),
    "arguments": ("SELECT concat(", "status", ", ", ") FROM orders"),
    "keywords": ("SELECT count(*) FROM orders ", "ORDER BY LIMIT GROUP", " ", ""),
    "strings": ("SELECT ", "'a'", "\n", " FROM orders"),
    "long string": ("SELECT count(*) FROM orders WHERE status = '", "x", "", "'"),
    "escaped string": ("SELECT count(*) FROM orders WHERE status = E'", "\\'", "", "'"),
    "doubled quotes": ("SELECT count(*) FROM orders WHERE status = '", "''", "", "'"),
    "dollar quotes": ("SELECT count(*) FROM orders WHERE status = ", "$a$b", "", ""),
    "open quotes": ("SELECT count(*) FROM orders WHERE status = ", "'", " ", ""),
    "identifier": ("SELECT ", "a", "", " FROM orders"),
    "quoted identifier": ('SELECT "', '""', "", '" FROM orders'),
    "line comments": ("SELECT count(*) ", "-- x\n", "", "FROM orders"),
    "comments side by side": ("SELECT count(*) ", "/**/", "", "FROM orders"),
    "open comments": ("SELECT count(*) FROM orders ", "/*", "", ""),
    "spaces": ("SELECT count(*)", " ", "", "FROM orders"),
    "semicolons": ("SELECT count(*) FROM orders", ";", "", ""),
    "digits": ("SELECT count(*) FROM orders WHERE qty < 1", "0", "", ""),
    "decimals": ("SELECT sum(qty * 0.", "1", "", ") FROM orders"),
    "exponent": ("SELECT sum(qty * 1e", "9", "", ") FROM orders"),
    "pattern": ("SELECT count(*) FROM orders WHERE status LIKE '", "%a", "", "'"),
    "regular expression": ("SELECT count(*) FROM orders WHERE status ~ '", "(a*)*", "", "'"),
    "unicode": ("SELECT count(*) FROM orders WHERE status = '", "\U0001f600", "", "'"),
    "explains": ("", "EXPLAIN", " ", " SELECT count(*) FROM orders"),
    "declares": ("DECLARE ", "c CURSOR FOR", " ", " SELECT count(*) FROM orders"),
    "options": ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (", "epsilon = 1", ", ", ") count(*) FROM orders"),
}
"""What stands before, what is repeated, what stands between, what stands behind."""


def _nested(opens: str, inside: str, closes: str) -> Form:
    return lambda n: f"SELECT {opens * n}{inside}{closes * n} FROM orders"


def _unclosed(opens: str) -> Form:
    return lambda n: f"SELECT {opens * n} FROM orders"


def _chained(link: str) -> Form:
    return lambda n: f"SELECT count(*) FROM orders WHERE qty{link * n}"


def _listed(before: str, part: str, between: str, behind: str) -> Form:
    return lambda n: before + between.join([part] * max(n, 1)) + behind


def _alternating(one: tuple[str, str, str], other: tuple[str, str, str]) -> Form:
    return lambda n: f"SELECT {(one[0] + other[0]) * n}{other[1]}{(other[2] + one[2]) * n} FROM orders"


OWN: dict[str, Form] = {
    "months between months": lambda n: "SELECT count(*) FROM orders WHERE qty = " + _both(min(n, 12)),
    "derived tables": lambda n: "SELECT count(*) FROM " + "(SELECT * FROM " * n + "orders" + ") x" * n,
    "joins in brackets": lambda n: "SELECT count(*) FROM " + "(orders JOIN " * n + "orders" + " USING (order_id))" * n,
    "ctes in ctes": lambda n: "WITH a AS (" * n + "SELECT qty FROM orders" + ") SELECT qty FROM a" * n,
    "ctes that double": lambda n: "WITH a0 AS (SELECT qty AS x FROM orders)" + "".join(f", a{i} AS (SELECT x FROM a{i - 1} UNION ALL SELECT x FROM a{i - 1})" for i in range(1, n + 1)) + f" SELECT count(*) FROM a{n}",
    "laterals that double": lambda n: "SELECT count(*) FROM orders o CROSS JOIN LATERAL (SELECT o.qty AS x) l0" + "".join(f" CROSS JOIN LATERAL (SELECT l{i}.x + l{i}.x AS x) l{i + 1}" for i in range(n)) + f" WHERE l{n}.x > 1",
    "joins, then conditions": lambda n: "SELECT count(*) FROM orders " + "JOIN orders " * n + "ON true " * n,
    "unions in brackets": lambda n: "(" * n + "SELECT qty FROM orders" + " UNION ALL SELECT qty FROM orders)" * n,
    "distinct averages": lambda n: "SELECT " + ", ".join(f"avg(qty + {i})" for i in range(n)) + " FROM orders",
    "correlations": lambda n: "SELECT " + ", ".join(f"corr(qty + {i}, qty * {i})" for i in range(n)) + " FROM orders",
    "distinct keys": lambda n: "SELECT count(*) FROM orders GROUP BY " + ", ".join(f"qty + {i}" for i in range(n)),
    "rollup of averages": lambda n: f"SELECT {', '.join(f'avg(qty + {i})' for i in range(n))} FROM orders GROUP BY ROLLUP ({', '.join(f'qty + {i}' for i in range(n))})",
    "distinct counts": lambda n: "SELECT " + ", ".join(f"count(DISTINCT qty + {i})" for i in range(n)) + " FROM orders",
    "distinct aggregates of cases": lambda n: "SELECT " + ", ".join(f"sum(CASE WHEN qty = {i} THEN {i} ELSE qty END)" for i in range(n)) + " FROM orders",
    "conditions": lambda n: "SELECT count(*) FROM orders WHERE " + " AND ".join(f"qty <> {i}" for i in range(n)),
    "names of outputs": lambda n: f"SELECT {' + '.join(['count(*)'] * n)} AS n FROM orders HAVING {' AND '.join(['n > 1'] * n)}",
    "joins of ctes": lambda n: "WITH " + ", ".join(f"a{i} AS (SELECT order_id FROM orders)" for i in range(n)) + " SELECT count(*) FROM a0" + "".join(f" JOIN a{i} USING (order_id)" for i in range(1, n)),
    "subqueries in WHERE": lambda n: "SELECT count(*) FROM orders o WHERE " + " AND ".join("EXISTS (SELECT FROM order_items i WHERE i.order_id = o.order_id)" for _ in range(n)),
    "averages of averages": lambda n: "SELECT avg(x) FROM (" * n + "SELECT customer_id, avg(qty) AS x FROM orders GROUP BY 1" + ") t" * n,
    "long row of windows": lambda n: "SELECT " + ", ".join(f"sum(count(*)) OVER (ORDER BY status ROWS {i} PRECEDING)" for i in range(n)) + " FROM orders GROUP BY status",
}  # fmt: skip


def _both(levels: int) -> str:
    """A call of two calls, each of two calls."""
    return f"datediff('month', {_both(levels - 1)}, {_both(levels - 1)})" if levels else "ts"


def forms() -> dict[str, Form]:
    """Return every form by name."""
    found = {name: _nested(*parts) for name, parts in (NESTED | BORROWED).items()}
    found |= {f"{name} never closed": _unclosed(parts[0]) for name, parts in NESTED.items() if parts[2]}
    found |= {f"chain: {name}": _chained(link) for name, link in CHAINED.items()}
    found |= {f"list: {name}": _listed(*parts) for name, parts in LISTED.items()}
    return found | OWN


def pairs() -> dict[str, Form]:
    """Return every two nested forms in turn: a parser that tries twice at each of two doors is exponential in both."""
    return {f"{a} in {b}": _alternating(NESTED[a], NESTED[b]) for a in NESTED for b in NESTED if a < b}


def sized(form: Form, characters: int) -> str:
    """Return the text of a form that is just as long as that, or longer."""
    low, high = 1, 2
    while len(form(high)) < characters and high < 1 << 21:
        low, high = high, high * 2
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if len(form(middle)) >= characters else (middle + 1, high)
    return form(low)

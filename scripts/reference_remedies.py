"""What to do about refusals that are told in PostgreSQL's own words, and so bring no remedy with them, for the page of errors.

Knows: messages as the page has them. Must not know: where they are made. A message of dpproxy's own says its remedy itself, as the
hint in the code. `scripts/reference.py` stops at a message that has neither. What is in `tried` is run by
`tests/scripts/test_tutorials.py`, over the sample shop: the first text is refused so, the second is answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Remedy:
    """What helps against some messages. `tried`: scripts that are refused so, each with what is written instead."""

    messages: tuple[str, ...]
    told: str
    tried: tuple[tuple[str, str], ...] = ()


def _pairs(*texts: str) -> tuple[tuple[str, str], ...]:
    return tuple(zip(texts[::2], texts[1::2], strict=True))


GROUPING = (
    Remedy(
        ("aggregate functions are not allowed in <name>",),
        "Filter groups behind GROUP BY: `HAVING count(*) > 5`. To join by an aggregate, compute it in a subquery.",
        _pairs(
            "SELECT region, count(*) FROM customers WHERE count(*) > 5 GROUP BY region",
            "SELECT region, count(*) FROM customers GROUP BY region HAVING count(*) > 5",
        ),
    ),
    Remedy(
        ("aggregate functions are not allowed in FILTER",),
        "Compare columns there: `count(*) FILTER (WHERE income > 1000)`.",
        _pairs(
            "SELECT count(*) FILTER (WHERE count(*) > 1) FROM customers",
            "SELECT count(*) FILTER (WHERE income > 1000) FROM customers",
        ),
    ),
    Remedy(
        ("aggregate functions are not allowed in GROUP BY", "aggregate functions are not allowed here"),
        "Aggregate in a subquery, and use its result around it: `SELECT n, count(*) FROM (SELECT k, count(*) AS n ... GROUP BY k) t GROUP BY n`.",
        _pairs(
            "SELECT count(*) FROM customers GROUP BY count(*)",
            "SELECT n, count(*) FROM (SELECT region, count(*) AS n FROM customers GROUP BY region) AS t GROUP BY n",
        ),
    ),
    Remedy(
        ("aggregate function calls cannot be nested",),
        "Aggregate twice: `SELECT max(n) FROM (SELECT count(*) AS n ... GROUP BY k) t`.",
        _pairs(
            "SELECT max(count(*)) FROM customers GROUP BY region",
            "SELECT max(n) FROM (SELECT count(*) AS n FROM customers GROUP BY region) AS t",
        ),
    ),
    Remedy(
        ("aggregate function calls cannot contain window function calls",),
        "Compute the window in a subquery, PARTITION BY the unit's id, and aggregate its result around it.",
        _pairs(
            "SELECT sum(row_number() OVER (PARTITION BY customer_id ORDER BY ts)) FROM orders",
            "SELECT sum(least(n, 10)) FROM (SELECT row_number() OVER (PARTITION BY customer_id ORDER BY ts) AS n FROM orders) AS t",
        ),
    ),
    Remedy(
        (
            "window function calls cannot be nested",
            "window functions are not allowed in <name>",
            "window functions are not allowed in FILTER",
            "window functions are not allowed in GROUP BY",
            "window functions are not allowed in HAVING",
        ),
        "Compute the window in a subquery, and filter, group or number its result around it.",
        _pairs(
            "SELECT rank() OVER (ORDER BY row_number() OVER (ORDER BY count(*))) FROM customers GROUP BY region",
            "SELECT rank() OVER (ORDER BY n) FROM (SELECT row_number() OVER (ORDER BY count(*)) AS n FROM customers GROUP BY region) AS t",
            "SELECT region FROM customers GROUP BY region HAVING row_number() OVER (ORDER BY count(*)) < 3",
            "SELECT region FROM (SELECT region, row_number() OVER (ORDER BY count(*)) AS n FROM customers GROUP BY region) AS t WHERE n < 3",
        ),
    ),
    Remedy(
        ('column "<node>" must appear in the GROUP BY clause or be used in an aggregate function',),
        "Add it to GROUP BY, or aggregate it.",
        _pairs("SELECT region, count(*) FROM customers", "SELECT region, count(*) FROM customers GROUP BY region"),
    ),
    Remedy(
        ('subquery uses ungrouped column "<name>" from outer query',),
        "Group by that column, or compute the subquery for each row first, in a subquery in FROM, and aggregate its result around it.",
        _pairs(
            "SELECT region, (SELECT count(*) FROM orders AS o WHERE o.customer_id = c.customer_id) FROM customers AS c GROUP BY region",
            "SELECT region, sum(least(n, 50)) FROM (SELECT region, (SELECT count(*) FROM orders AS o"
            " WHERE o.customer_id = c.customer_id) AS n FROM customers AS c) AS t GROUP BY region",
        ),
    ),
    Remedy(
        ("a whole row cannot be shown next to an aggregate",),
        "Name columns, and group by them.",
    ),
    Remedy(
        ("GROUP BY position <this> is not in select list",),
        "Positions count the columns of SELECT from 1: `SELECT region, count(*) ... GROUP BY 1`.",
        _pairs(
            "SELECT region, count(*) FROM customers GROUP BY 3",
            "SELECT region, count(*) FROM customers GROUP BY 1",
        ),
    ),
)

NAMES = (
    Remedy(
        ('column reference "<name>" is ambiguous',),
        "Say of which table: `o.customer_id`.",
        _pairs(
            "SELECT count(DISTINCT customer_id) FROM customers AS c JOIN orders AS o ON c.customer_id = o.customer_id",
            "SELECT count(DISTINCT o.customer_id) FROM customers AS c JOIN orders AS o ON c.customer_id = o.customer_id",
        ),
    ),
    Remedy(
        ("a name is missing",),
        "Write the name, or one dot less.",
    ),
    Remedy(
        ("a JOIN needs a FROM before it",),
        "Name the first table behind FROM: `FROM a JOIN b ON ...`.",
    ),
    Remedy(
        ("function <name>(<types>) does not exist",),
        "Give it as many arguments as in PostgreSQL's manual.",
        _pairs("SELECT sum(abs(income, 2)) FROM customers", "SELECT sum(abs(income)) FROM customers"),
    ),
    Remedy(
        ("operator does not exist: <type> <...> <type>",),
        "Patterns are of texts. Compare numbers and times by ranges: `income BETWEEN 1000 AND 1999`.",
        _pairs(
            "SELECT count(*) FROM customers WHERE income LIKE '1%'",
            "SELECT count(*) FROM customers WHERE income BETWEEN 1000 AND 1999",
        ),
    ),
)

TYPES = (
    Remedy(
        ("a condition must be of type boolean, not type <type>",),
        "Compare it with something: `WHERE income > 0`.",
    ),
    Remedy(
        ('invalid input syntax for type boolean: "<text>"',),
        "Write `true` or `false`.",
        _pairs("SELECT count(*) FROM customers WHERE 'perhaps'", "SELECT count(*) FROM customers WHERE true"),
    ),
    Remedy(
        ('malformed array literal: "<this>"',),
        "Put it in braces, `'{north,south}'`, or write `IN ('north', 'south')`.",
        _pairs(
            "SELECT count(*) FROM customers WHERE region = ANY ('north')",
            "SELECT count(*) FROM customers WHERE region = ANY ('{north,south}')",
        ),
    ),
    Remedy(
        ("<what> types <type> and <type> cannot be matched", "<what> types <type_> and <other> cannot be matched"),
        "Let both be of one kind: `coalesce(income, 0)`; cast one of them where there is a cast.",
        _pairs(
            "SELECT count(*) FROM customers WHERE coalesce(income, region) = 'x'",
            "SELECT count(*) FROM customers WHERE coalesce(income, 0) = 0",
            "SELECT count(*) FROM (SELECT customer_id, income FROM customers UNION ALL SELECT customer_id, category FROM orders) AS t",
            "SELECT count(*) FROM (SELECT customer_id, income FROM customers UNION ALL SELECT customer_id, amount FROM orders) AS t",
        ),
    ),
    Remedy(
        ("cannot cast type <type> to <target>",),
        "PostgreSQL has no such cast: make a date of numbers with `make_date(year, month, day)`, a number of a date with `extract`.",
        _pairs(
            "SELECT count(*) FROM customers WHERE birth_year::date < '1990-01-01'",
            "SELECT count(*) FROM customers WHERE make_date(birth_year, 1, 1) < '1990-01-01'",
        ),
    ),
    Remedy(
        ("write the constant '<text>' with its type: <type> '...'",),
        "As it says: `timestamp '2025-01-01'`.",
        _pairs(
            "SELECT count(*) FROM (SELECT customer_id, ts FROM orders UNION ALL SELECT customer_id, 'today' FROM customers) AS t",
            "SELECT count(*) FROM (SELECT customer_id, ts FROM orders UNION ALL SELECT customer_id, timestamp '2025-01-01' FROM customers) AS t",
        ),
    ),
    Remedy(
        ("each UNION query must have the same number of columns",),
        "Give each side as many columns; `NULL` stands for what one side does not have.",
        _pairs(
            "SELECT region, count(*) FROM customers GROUP BY region UNION ALL SELECT category FROM orders GROUP BY category",
            "SELECT region, count(*) FROM customers GROUP BY region UNION ALL SELECT category, count(*) FROM orders GROUP BY category",
        ),
    ),
    Remedy(
        (
            "subquery has too many columns",
            "subquery has too many or too few columns",
            "unequal number of entries in row expressions",
        ),
        "Compare as many columns on both sides: `x IN (SELECT x ...)`, `(x, y) = (1, 2)`.",
        _pairs(
            "SELECT count(*) FROM customers WHERE customer_id IN (SELECT customer_id, category FROM orders)",
            "SELECT count(*) FROM customers WHERE customer_id IN (SELECT customer_id FROM orders)",
            "SELECT count(*) FROM customers WHERE (region, sex) = ('north', 'F', 1)",
            "SELECT count(*) FROM customers WHERE (region, sex) = ('north', 'F')",
        ),
    ),
)

ARGUMENTS = (
    Remedy(
        ("field position must not be zero",),
        "Fields count from 1; negative numbers count from the end.",
        _pairs(
            "SELECT split_part(category, '-', 0), count(*) FROM orders GROUP BY 1",
            "SELECT split_part(category, '-', 1), count(*) FROM orders GROUP BY 1",
        ),
    ),
    Remedy(
        ("negative substring length not allowed",),
        "Give a length of at least 0: `substring(x, 1, 3)`.",
        _pairs(
            "SELECT count(*) FROM orders WHERE substring(category, 1, -1) = 'b'",
            "SELECT count(*) FROM orders WHERE substring(category, 1, 1) = 'b'",
        ),
    ),
    Remedy(
        ("percentile value is not between 0 and 1",),
        "Write a fraction: 0.5 is the median, 0.95 what 95 % do not exceed.",
        _pairs(
            "SELECT percentile_cont(50) WITHIN GROUP (ORDER BY income) FROM customers",
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY income) FROM customers",
        ),
    ),
    Remedy(
        ("the number of buckets must be between 1 and 10000", "the thresholds of width_bucket must ascend"),
        "`width_bucket(income, 0, 100000, 10)` makes ten buckets; with an array, it holds the lower ends, the smallest first.",
        _pairs(
            "SELECT width_bucket(income, 0, 100000, 0), count(*) FROM customers GROUP BY 1",
            "SELECT width_bucket(income, 0, 100000, 10), count(*) FROM customers GROUP BY 1",
            "SELECT width_bucket(income, ARRAY[5000, 1000]), count(*) FROM customers GROUP BY 1",
            "SELECT width_bucket(income, ARRAY[1000, 5000]), count(*) FROM customers GROUP BY 1",
        ),
    ),
    Remedy(
        ("argument of nth_value must be greater than zero", "argument of ntile must be greater than zero"),
        "Rows count from 1, and there is one tile at least.",
        _pairs(
            "SELECT sum(x) FROM (SELECT ntile(0) OVER (PARTITION BY customer_id ORDER BY ts) AS x FROM orders) AS t",
            "SELECT sum(x) FROM (SELECT ntile(4) OVER (PARTITION BY customer_id ORDER BY ts) AS x FROM orders) AS t",
            "SELECT count(x) FROM (SELECT nth_value(category, 0) OVER (PARTITION BY customer_id ORDER BY ts) AS x FROM orders) AS t",
            "SELECT count(x) FROM (SELECT nth_value(category, 1) OVER (PARTITION BY customer_id ORDER BY ts) AS x FROM orders) AS t",
        ),
    ),
    Remedy(
        ("invalid regular expression",),
        "Correct the pattern; a sign with a meaning of its own has a backslash before it: `'\\('`.",
        _pairs(
            "SELECT count(*) FROM orders WHERE category ~ '('",
            "SELECT count(*) FROM orders WHERE category ~ '^b'",
        ),
    ),
    Remedy(
        ("LIKE pattern must not end with escape character",),
        "Double the backslash, or choose another escape character: `LIKE 'a!_%' ESCAPE '!'`.",
        _pairs(
            "SELECT count(*) FROM orders WHERE category LIKE 'b\\'",
            "SELECT count(*) FROM orders WHERE category LIKE 'b\\\\'",
        ),
    ),
    Remedy(
        ("too few arguments for format()",),
        "Give an argument for each `%s`.",
        _pairs(
            "SELECT format('%s %s', region), count(*) FROM customers GROUP BY 1",
            "SELECT format('%s %s', region, sex), count(*) FROM customers GROUP BY 1",
        ),
    ),
    Remedy(
        ("requested character not valid for encoding",),
        "`chr` knows the numbers of Unicode's characters, from 1 on.",
        _pairs(
            "SELECT count(*) FROM orders WHERE category = chr(0)",
            "SELECT count(*) FROM orders WHERE category = chr(65)",
        ),
    ),
    Remedy(
        ("<name> must be a number above 0, not <value>",),
        "Give a number above 0, or leave the option out: then the policy's holds.",
        _pairs(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0) count(*) FROM customers",
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) count(*) FROM customers",
        ),
    ),
)

STATEMENTS = (
    Remedy(
        ("there is no parameter $1",),
        "Send the value with the statement, as drivers do, or `PREPARE q(int) AS ...` and `EXECUTE q(1950)`.",
        _pairs(
            "SELECT count(*) FROM customers WHERE birth_year > $1",
            "PREPARE q(int) AS SELECT count(*) FROM customers WHERE birth_year > $1; EXECUTE q(1950)",
        ),
    ),
    Remedy(
        ("wrong number of parameters for prepared statement",),
        "Give `EXECUTE` a value for each parameter of `PREPARE`.",
        _pairs(
            "PREPARE r(int) AS SELECT count(*) FROM customers WHERE birth_year > $1; EXECUTE r",
            "PREPARE s(int) AS SELECT count(*) FROM customers WHERE birth_year > $1; EXECUTE s(1950)",
        ),
    ),
    Remedy(
        ("DECLARE CURSOR can only be used in transaction blocks",),
        "`BEGIN` first, or write `DECLARE c CURSOR WITH HOLD FOR ...`.",
        _pairs(
            "DECLARE c CURSOR FOR SELECT count(*) FROM customers",
            "BEGIN; DECLARE c CURSOR FOR SELECT count(*) FROM customers; FETCH ALL FROM c; COMMIT",
        ),
    ),
    Remedy(
        ("EXPLAIN over private tables has the formats TEXT and JSON", 'unrecognized EXPLAIN option "<unknown>"'),
        "Write `EXPLAIN SELECT ...`, or `EXPLAIN (FORMAT JSON) SELECT ...`.",
        _pairs(
            "EXPLAIN (FORMAT XML) SELECT count(*) FROM customers",
            "EXPLAIN (FORMAT JSON) SELECT count(*) FROM customers",
            "EXPLAIN (SPEED) SELECT count(*) FROM customers",
            "EXPLAIN SELECT count(*) FROM customers",
        ),
    ),
    Remedy(
        ("one query is expected here", "statement could not be parsed"),
        "Write one plain SELECT; PostgreSQL may accept what dpproxy does not know.",
    ),
    Remedy(
        ("statement could not be read: unterminated string or comment",),
        "Close it: a text ends with `'`, a quoted name with `\"`, a comment with `*/`.",
        _pairs(
            "SELECT count(*) FROM customers WHERE region = 'north",
            "SELECT count(*) FROM customers WHERE region = 'north'",
        ),
    ),
    Remedy(
        ("statement contains a NUL character", "a string contains a NUL character"),
        "Leave the character of number 0 out: PostgreSQL's texts cannot hold it.",
    ),
    Remedy(("CREATE RULE is not supported",), "Write the query itself; the policy's author can make a view of it for all."),
    Remedy(
        ("permission denied to alter default privileges", "permission denied to reassign objects"),
        "There is nothing to grant: what each role sees stands in the policy, and what a session makes ends with it.",
    ),
)  # fmt: skip

CLIENTS = (
    Remedy(
        ('bind message supplies <values> parameters, but prepared statement "<name>" requires <oids>', "bind message has <formats> parameter formats but <values> parameters"),
        "Send a value for each parameter, and one format for all of them or one for each. Drivers do.",
    ),
    Remedy(("function calls by message are not supported",), "Call the function in a SELECT. Only very old drivers call it otherwise."),
    Remedy(("type with OID <missing> does not exist",), "Leave the parameter's type to the server, or name one of PostgreSQL's own. Types of your data's server do not exist here."),
    Remedy(('<told> has no equivalent in encoding "<encoding>"',), "`SET client_encoding = 'UTF8'`, which has every character."),
    Remedy(('invalid byte sequence for encoding "UTF8": <wrong>',), "Send UTF-8, or say by `client_encoding` what you send."),
    Remedy(
        (
            "expected SASL response, got message type <...>", "expected SASL response, got message type <tag>", "insufficient data left in message",
            "invalid CLOSE message subtype <kind>", "invalid DESCRIBE message subtype <kind>", "invalid frontend message type <tag>",
            "invalid length of cancel request packet", "invalid message format",
            "invalid message length <length>", "invalid string in message", "invalid transaction status", "unsupported format code: <code>",
            "lost synchronization with server: message type <tag>, length <length>", "unexpected SASL response", "malformed SCRAM message",
            "client selected an invalid SASL authentication mechanism",
        ),
        "Use a newer version of the driver. If it still fails, look whether something else than a PostgreSQL client, or a proxy between, speaks to this port.",
    ),
    Remedy(
        ("invalid length of startup packet",),
        "Connect with a PostgreSQL client. Nobody is sent this: the connection is closed, as PostgreSQL does it, to a browser or a health check by HTTP: [metrics](metrics.md) has addresses for those.",
    ),
    Remedy(
        ("unsupported frontend protocol <major>.<minor>: server supports 3.0 to 3.2",),
        "Use a driver of PostgreSQL 7.4 or later.",
    ),
)  # fmt: skip

LOGIN = (
    Remedy(("no PostgreSQL user name specified in startup packet",), "Give a user of the policy: `psql -U ada`."),
    Remedy(
        ('password authentication failed for user "<user>"',),
        "Check user, password and database: a user belongs to one dataset's policy. The operator sets another password by `dpproxy policy password`.",
    ),
    Remedy(("too many failed logins, try again later",), "Wait a moment, and look up the password: each wrong one makes the wait longer. Other users, and other addresses, do not wait."),
    Remedy(("sorry, too many clients already", 'too many connections for user "<name>"'), "Close sessions that are not needed, or let a pool share them; the operator sets `--connections` and `--connections-per-user`."),
    Remedy(("this server accepts connections over TLS only: sslmode=require",), "Connect with `sslmode=require`, or better `sslmode=verify-full sslrootcert=FILE`. The psql of `dpproxy psql` speaks no TLS."),
    Remedy(
        ("received unencrypted data after SSL request", "unexpected request for encryption"),
        "The client, or somebody between, does not wait for the answer to its request for TLS. Use a newer driver; if it is new, suspect what is between.",
    ),
    Remedy(
        ("SCRAM channel binding check failed", "SCRAM channel binding negotiation error"),
        "Somebody between ends the TLS connection. If that is a proxy of your own, connect with `channel_binding=disable`; otherwise suspect an attack.",
    ),
    Remedy(("client_encoding <foreign> is not supported: use UTF8",), "Set `PGCLIENTENCODING=UTF8`, or `client_encoding=UTF8` in the address: the policy has words that are not ASCII."),
    Remedy(('unrecognized configuration parameter "<wrong>"',), "Correct the name in the address's `options`, or leave it out: [settings](settings.md) lists those of dpproxy."),
    Remedy(("replication connections are not supported",), "Ask in SQL; there is nothing to replicate. Leave out `replication`."),
    Remedy(("the policy has been read again, try again",), "Connect again: the policy or your user changed in that moment."),
    Remedy(
        ("the facade asks for a login that is not supported", "the facade's login failed"),
        "Tell the operator: the PostgreSQL of `--facade-dsn` must let the proxy in by trust or by SCRAM-SHA-256.",
    ),
)  # fmt: skip

ENDS = (
    Remedy(("canceling statement due to <left>", "canceling statement due to <reason>"), "You, or the operator, cancelled it. If it was charged, ask again: it is kept, and free."),
    Remedy(
        ("canceling statement due to statement timeout",),
        "Raise `statement_timeout` of your session; the operator's limit is `--statement-timeout`. If it was charged, ask again: it is kept, and free.",
    ),
    Remedy(("terminating connection due to administrator command",), "Connect again: the operator stops the proxy, ended your session, or changed the policy."),
    Remedy(
        ("terminating connection due to idle-in-transaction timeout", "terminating connection due to idle-session timeout"),
        "Connect again, and end transactions when they are done; the operator sets `--transaction-timeout` and `--idle-timeout`.",
    ),
    Remedy(("the database system is starting up",), "Connect again in a moment."),
)  # fmt: skip

EVERY: Iterable[Remedy] = (*GROUPING, *NAMES, *TYPES, *ARGUMENTS, *STATEMENTS, *CLIENTS, *LOGIN, *ENDS)
REMEDIES: Mapping[str, str] = {message: remedy.told for remedy in EVERY for message in remedy.messages}

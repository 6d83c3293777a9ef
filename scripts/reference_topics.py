"""The topics of the errors page: what refusals have in common, why they are made, and what to do about them.

Knows: rooms of `dpproxy` and names of SQLSTATEs. Must not know: single messages, but for the few that no code tells by itself.
The first topic that holds a refusal's file and SQLSTATE is its topic: special ones come first.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpproxy.limits.quota import Resource

HEAD = """# Errors: every refusal, its cause, and what to do

Written from the code (`scripts/reference`). Words between angle brackets stand for what your statement or the policy says: `<unit>`
is whom the policy protects, a customer for example. What to do stands beside each message; most messages say it themselves, in a
second sentence. An error that says where in the statement it arose is shown with a caret by `psql`.

**A refusal costs nothing.** All refusals are decided before data are touched, from the statement, the policy, the settings and
the ledger alone. Only what stands under "Interruptions and failures" can come after a charge, and then says so. Errors that are not on
this page are PostgreSQL's own: every statement is looked at by a real PostgreSQL with empty tables, and what is wrong with names,
types and rights there is told in its words.
"""

STATE_OF_SQL = (
    "SYNTAX_ERROR", "AMBIGUOUS_COLUMN", "AMBIGUOUS_FUNCTION", "UNDEFINED_FUNCTION", "GROUPING_ERROR", "WINDOWING_ERROR",
    "DATATYPE_MISMATCH", "INVALID_COLUMN_REFERENCE", "INVALID_TEXT_REPRESENTATION", "NUMERIC_VALUE_OUT_OF_RANGE",
    "SUBSTRING_ERROR", "INVALID_REGULAR_EXPRESSION", "INVALID_ARGUMENT_FOR_WIDTH_BUCKET", "INVALID_ESCAPE_SEQUENCE",
    "UNDEFINED_PARAMETER", "CHARACTER_NOT_IN_REPERTOIRE", "NO_ACTIVE_SQL_TRANSACTION", "INVALID_PARAMETER_VALUE",
)  # fmt: skip
"""What PostgreSQL says of statements as well."""


@dataclass(frozen=True)
class Topic:
    """Refusals of some files and, where named, some SQLSTATEs. `cause`: why they are made. `remedy`: what helps against all
    of them. `besides`: messages that are put together from what a table of the code says, with their SQLSTATEs and hints."""

    title: str
    cause: str
    remedy: str
    files: tuple[str, ...]
    states: tuple[str, ...] = ()
    besides: tuple[tuple[str, str, str], ...] = ()

    def holds(self, path: str, states: tuple[str, ...]) -> bool:
        return path.startswith(self.files) and (not self.states or bool(set(states) & set(self.states)))


TOPICS = (
    Topic(
        "Rows of single people",
        "The answer would hold rows of single people, or one person's rows would decide exactly which rows are returned. No noise "
        "could hide that. Answers are counts, sums, averages, percentiles of many people.",
        "Aggregate: `SELECT count(*), sum(x) ... GROUP BY k`. A value that identifies a person can be counted, not shown.",
        ("plan/refusals.py", "plan/outer/measured_select.py", "plan/outer/select_keys.py", "plan/bind/joins.py", "plan/bind/set_operations.py", "plan/measure/aggregates.py"),
        ("FEATURE_NOT_SUPPORTED", "INSUFFICIENT_PRIVILEGE"),
    ),
    Topic(
        "Budget and price",
        "The statement would cost more than the policy leaves: of one query (`max_epsilon`), of the role, of the user, or of the "
        "whole dataset in the current window. Or its price and the accuracy that is asked for do not fit.",
        "`SELECT * FROM dpproxy.budget` says what is left and when it resets, `EXPLAIN` what a statement costs. What was paid for can "
        "be asked again at no charge. The policy's author can change limits, the operator can grant more.",
        ("ledger/", "plan/measure/charge_division.py", "plan/measure/noise_scales.py", "privacy/", "answers/accuracy_search.py"),
        ("CONFIGURATION_LIMIT_EXCEEDED", "INVALID_PARAMETER_VALUE", "FEATURE_NOT_SUPPORTED", "PROGRAM_LIMIT_EXCEEDED"),
    ),
    Topic(
        "Tables and columns the policy does not show",
        "A table, view or column is not in the policy, is hidden, or is not for your role.",
        "`SELECT * FROM dpproxy.tables` and `dpproxy.policy` list what there is; `psql`'s `\\d` works too.",
        ("plan/", "engines/", "kernel/", "tree/", "session/"),
        ("UNDEFINED_TABLE", "UNDEFINED_COLUMN", "INSUFFICIENT_PRIVILEGE"),
    ),
    Topic(
        "Too large",
        "What a statement may take is limited before it runs, whatever the data are: its length, its depth, its aggregates, the rows "
        "that joins make of one person's row. [SQL](sql.md#how-large-a-statement-may-be) has the numbers.",
        "Ask for less in one statement, or pass long lists as one array parameter.",
        ("plan/", "engines/", "kernel/", "tree/", "sql/"),
        ("STATEMENT_TOO_COMPLEX", "PROGRAM_LIMIT_EXCEEDED"),
    ),
    Topic(
        "Settings of the session",
        "A setting has a value that cannot be read, or no such setting exists. A value that cannot be read is never replaced by "
        "a default: who mistypes an epsilon must not spend another.",
        "[Settings](settings.md) lists names and ranges; `RESET dpproxy.epsilon` goes back to the policy's.",
        ("sql/settings.py", "session/description.py", "plan/functions/time_zones.py"),
    ),
    Topic(
        "Statements that PostgreSQL refuses too",
        "The statement is wrong by PostgreSQL's own rules, in its words. dpproxy says so itself where it reads the statement first.",
        "As with any PostgreSQL: correct the statement.",
        ("plan/", "engines/", "kernel/", "tree/", "sql/", "session/"),
        STATE_OF_SQL,
    ),
    Topic(
        "Aggregates that cannot be measured",
        "A sum or average needs bounds of what one person can add; a percentile needs a range of values; some aggregates would show a "
        "single person's value. An interval (`dpproxy.low`, `dpproxy.high`) is told where it can be computed from what was released.",
        "Bound the values (`least(greatest(x, 0), 100)`), group by them, or count.",
        ("plan/measure/", "plan/outer/", "plan/properties/required_bounds.py", "plan/intervals/"),
    ),
    Topic(
        "Expressions over people's rows",
        "Below an aggregate, expressions run on the data, once a row. There dpproxy takes only what it knows to be deterministic and "
        "never to fail, whatever a row holds: an error, or the lack of one, would tell of a single row. What it does not know, it refuses.",
        "Compute it in a query around the aggregate, where all of PostgreSQL's functions work, or write it with the functions "
        "listed in [SQL](sql.md#functions-below-an-aggregate).",
        ("plan/bind/", "plan/functions/", "engines/", "plan/properties/", "plan/context.py", "answers/unusable_values.py"),
        ("FEATURE_NOT_SUPPORTED", "UNDEFINED_FUNCTION"),
    ),
    Topic(
        "What cannot be proved",
        "A small kernel derives from the generated statement, a second time, what one person can change. A plan that claims less is "
        "refused before it is charged. This is a fault of dpproxy, not of the statement.",
        "Tell the operator: the log has the plan. Another way to write the question may be provable.",
        ("plan/", "engines/", "kernel/", "tree/"),
        ("INTERNAL_ERROR",),
    ),
    Topic(
        "Statements that dpproxy does not read",
        "Statements over private tables are read by dpproxy's own parser, which knows less than PostgreSQL's; or they would reach beyond "
        "the session: write, send messages to other sessions, change roles.",
        "Write it in plainer SQL. Results are stored by the client, from what it received.",
        ("plan/", "engines/", "kernel/", "tree/", "sql/"),
    ),
    Topic(
        "Prepared statements, cursors, encodings",
        "Some ways to send a statement do not work over private tables.",
        "Send the query itself, with `client_encoding` UTF8.",
        ("session/client.py", "session/conductor.py", "session/description.py", "session/encodings.py", "session/extended_query.py",
         "session/private_statement.py", "session/statement_answers.py", "session/sql_prepare.py", "session/description.py"),
        ("FEATURE_NOT_SUPPORTED", "UNTRANSLATABLE_CHARACTER", "UNDEFINED_OBJECT", "PROTOCOL_VIOLATION"),
    ),
    Topic(
        "Login and connections",
        "The connection is refused before any statement: wrong name or password, too many connections, TLS asked for or missing.",
        "Check user, password and `sslmode`; wait after several wrong passwords. Limits are the operator's "
        "([limits of sessions](../how-to/limits-of-sessions.md)).",
        ("server/", "limits/throttle.py", "wire/scram.py", "wire/startup.py", "session/facade_login.py", "session/facade_login.py"),
    ),
    Topic(
        "Interruptions and failures",
        "A statement or a session was ended: by you, by a timeout, by the operator, for want of memory, or by an engine that failed.",
        "Ask again. If the statement had been charged, asking again gets its answer at no further charge, unless the message "
        "says that the engine failed: then the charge stands and nothing was measured. The reason is in the operator's log.",
        ("answers/", "reuse/", "acceleration/", "limits/", "session/", "errors.py", "backends/", "facade/", "serve/", "ledger/", "operations/"),
        besides=tuple((f"{taken.message}: <detail>", taken.sqlstate, "Ask for less at a time: smaller sorts, fewer rows.") for taken in Resource),
    ),
    Topic(
        "The protocol",
        "A client has sent bytes that are no message of PostgreSQL's protocol, or messages in an order that it does not have.",
        "This is an error of the driver, or of a program between it and dpproxy.",
        ("wire/",),
    ),
)  # fmt: skip

TOLD: dict[tuple[str, str], tuple[str, ...]] = {
    ("session/client.py", "<message>"): (),
    ("answers/unusable_values.py", "<error>"): (
        "more than <most> rows that the statement computes are to be joined with private ones",
    ),
}
"""Messages by file and by the name that stands for them in its code, where no code of that file tells them. None: told elsewhere."""

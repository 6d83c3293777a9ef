"""`dpproxy.help`: what analysts ask about answers, and what is true for the role that asks.

Knows: policies, prices. Must not know: data, accounts: whoever reads it learns nothing that the policy does not say. Each
example runs as it stands, at no charge; a test runs all of them. `docs/why-is-my-number-off.md` says more of what is said here
of numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpproxy.amounts import MICRO
from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.facade.ddl import readable
from dpproxy.ledger.ledger import decimal
from dpproxy.policy.names import quote_name
from dpproxy.table_terms import TableName

Help = tuple[str, str, str]
"""A question, its answer, an example."""


def help_rows(dataset: Dataset, asker: Asker) -> Iterator[Help]:
    """Yield what is told to this role."""
    table, unit = _example(dataset, asker), dataset.policy.unit_name
    price, most = (decimal(amount, MICRO) for amount in (asker.role.query.epsilon, asker.role.query.max_epsilon))
    yield from _asking(table, unit, price, most)
    yield from _numbers(table, unit)
    yield from _around(asker)


def _example(dataset: Dataset, asker: Asker) -> str:
    """A private table of the role, as SQL names it; a table of this schema where it has none."""
    tables = (t.name for t in dataset.policy.tables.values() if not t.public and readable(asker.role, t.name))
    return next((_named(name) for name in tables), "dpproxy.tables")


def _named(name: TableName) -> str:
    return f"{quote_name(name.schema)}.{quote_name(name.name)}"


def _asking(table: str, unit: str, price: str, most: str) -> Iterator[Help]:
    yield (
        "What can I ask?",
        f"Counts, sums, averages, percentiles and the like over many {unit}s, and any SQL on top of them. Rows of "
        f"single {unit}s "
        "are refused. This lists the tables you see.",
        "SELECT * FROM dpproxy.tables",
    )
    yield (
        "Which columns are there, and which values count?",
        "This lists each column with what may be asked of it, its range and its declared groups.",
        "SELECT * FROM dpproxy.policy",
    )
    yield (
        "What will a statement cost, and how exact will it be?",
        f"EXPLAIN tells both before anything is spent. A statement costs epsilon {price}, and at most {most}.",
        f"EXPLAIN SELECT count(*) FROM {table}",
    )
    yield (
        "How much may I still spend, and when is there more?",
        "This shows each budget that you are charged to, and when its window ends.",
        "SELECT epsilon_left, delta_left, resets FROM dpproxy.budget",
    )
    yield (
        "Does the same question cost again?",
        "No: asked again by anybody of your role it is the same answer, with the same noise. `derive` also computes answers "
        "from stored ones: coarser groups, filters on group keys, averages.",
        "SET dpproxy.reuse = derive",
    )


def _numbers(table: str, unit: str) -> Iterator[Help]:
    yield (
        "How do I get a more exact answer?",
        f"Ask for fewer and larger groups and fewer aggregates at a time; count {unit}s instead of rows; or pay more: "
        "twice the epsilon "
        "halves the noise. `dpproxy.accuracy` finds the least epsilon for a typical error.",
        "SET dpproxy.accuracy = '2%'",
    )
    yield (
        "How far off is this number?",
        "The notice says the typical error. dpproxy.low and dpproxy.high tell an interval that holds the exact answer "
        "19 times in "
        "20, at no extra charge; NULL is an end that nobody may be told.",
        f"EXPLAIN SELECT count(*), dpproxy.low(count(*)), dpproxy.high(count(*)) FROM {table}",
    )
    yield (
        "Why is a sum or count too low?",
        f"Of one {unit} only so many rows and groups count (`rows_per_group`, `groups`), and values beyond a column's "
        "range count as its end.",
        "SELECT table_name, rows_per_group, groups, note FROM dpproxy.tables",
    )
    yield (
        "Why is a group missing?",
        f"Groups that the policy does not declare are shown when enough {unit}s share them. Rows with NULL or an "
        "undeclared value are in "
        "no declared group: this shows them as one more row.",
        "SET dpproxy.other = on",
    )
    yield (
        "Why do parts not add up to the total?",
        "Each answer has noise of its own. Ask parts and total in one statement with GROUP BY ROLLUP: where the groups "
        "hold every row, they "
        "are the same numbers.",
        "SHOW dpproxy.other",
    )
    yield (
        "Why is an average NULL?",
        "With noise, about no rows were counted: there is nothing to divide by. A sum of no rows is 0.",
        "SHOW dpproxy.epsilon",
    )


def _around(asker: Asker) -> Iterator[Help]:
    yield (
        "Why was my statement refused, and did that cost?",
        "A refusal costs nothing; its message says what to write instead. Only an error that says that the charge stands "
        "came after it.",
        "SELECT asked, epsilon, outcome, statement_hash FROM dpproxy.answers",
    )
    yield (
        "What was asked lately?",
        "This lists the last answers to your role, what each cost, and its typical errors.",
        "SELECT asked, epsilon, reused, errors FROM dpproxy.answers",
    )
    yield (
        "How do I silence the notices?",
        "They are told until you switch them off.",
        "SET dpproxy.notices = off",
    )
    yield (
        "Whom do I ask, and what do I tell them?",
        f"The operator of this proxy: tell them your role (`{asker.role.name}`) and the statement's hash. Their log "
        "knows a statement by it, and "
        "why it was refused; it has no statement's text.",
        "SELECT statement_hash, asked FROM dpproxy.answers",
    )

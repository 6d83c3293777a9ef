"""What a measurement makes of one row of a person: how many rows, and how many bytes. More than a limit is refused.

Knows: relations and expressions, the very trees that are rendered, keys of tables, sizes of public ones. Must not know: SQL text,
data, noise. It decides before the charge, by the statement and the policy alone.

Why. A person's rows may be chosen by any condition. If a statement can make much of little - a row joined with ten million, a
letter replaced by a page - then it takes a second longer, or runs out of memory, exactly when that person is there. Noise on the
answer hides nothing of that. Whatever a condition chooses, CASE and ON included, is taken to be there.

What is promised. One row of a table becomes at most `ROWS` rows in all steps of a measurement together, and at most `SIZE`
bytes are made of it, for all expressions together and in all these rows. A person of R rows costs at most
R times that. Joins of public tables alone, which an engine may leave out where no private row is, make at most
`PUBLIC` rows, or four times those of the largest of these tables.

How it is counted. A relation joined in repeats a row once where equalities fix a key of it, else as often as a value comes at
most (public tables, whose numbers are known), else as often as it has rows. A person's rows joined with other rows of the same
person count as `AGAIN` for each, and may be joined so once (`POWER`): a person of R rows may then have R rows for each of R, and
not R for each of these again; what is made of a pair is at most `PAIRS` rows. A subquery that reads rows around it is computed
again for each of them: what it goes through, whole tables of private rows too, counts once for each. PostgreSQL does so; others
may pair the rows instead, which is as many. A column that holds a subquery is computed wherever it is read, for engines take a
derived table for the expressions in it. A frame of a window that begins anew for each row is gone through again for each.

Rows that the facade hands over, and whose number is not known beforehand, are at most `row_costs.UNKNOWN`, which their query sees
to. A text is as long as its form tells; a column's without a declared length counts as `text_growth.USUAL`, since what the data
hold they hold with or without the statement. Where longer texts are made of columns, these are cut
(`engines.postgres_operations`), and count as the cut. The longest cut that keeps within the limits is taken.

Texts that are built of a row are kept in memory where rows are grouped by them or told apart: as many as a person has rows, which
nothing in SQL bounds. They are taken to be 10,000 in a table, or 100,000 pairs: then `TEXTS` bytes of a row are 100 MB of a
measurement, and `STATEMENT` 1 GB of all measurements of a statement. Of a table with one row a person `SIZE` is what counts.

What is not promised. That time and memory do not depend on a person at all: they do, by what is promised above, by how many
rows and how long texts a person has, by how an engine finds rows (one that has no index may look through a table for each row),
and by its thresholds (a hash table doubles, memory runs out). A person with more rows than are taken may be what memory runs out
for. `timing.quantum` hides time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dpproxy.errors import PROGRAM_LIMIT_EXCEEDED, Refusal
from dpproxy.plan.context import Context
from dpproxy.plan.measure.row_costs import ROWS, Cost, Estimate
from dpproxy.plan.properties import text_growth
from dpproxy.plan.properties.row_flows import FAR
from dpproxy.tree.expr import Expr, Relation
from dpproxy.tree.relation import Beside

SIZE = 1_000_000
TEXTS = 10_000
STATEMENT = 100_000
PUBLIC = 1_000_000
POWER = 2
PAIRS = 300
"""Seven times what the most of a corpus of real statements makes of a pair. Of people with 100 rows pairs are 10,000 already."""


def chosen_cut(node: Relation, items: Iterable[Expr], context: Context, given: Mapping[int, Beside]) -> tuple[int, Cost]:
    """Return the cut of texts with which a measurement stays within the limits, and what it costs. Raises Refusal 54000."""
    items = tuple(items)
    for cut in text_growth.CUTS:
        cost = Estimate(context, given, cut).of(node, items)
        if cost.size <= SIZE and cost.texts <= TEXTS:
            break
    unit = context.policy.unit_name
    if cost.rows > ROWS:
        raise _refused(f"one row of a {unit} would become {_number(cost.rows)} rows, of at most {ROWS:,}", _FEWER)
    if cost.power == POWER and cost.rows > PAIRS:
        pairs = f"two rows of a {unit} would become {_number(cost.rows)} rows"
        raise _refused(f"{pairs}, of at most {PAIRS:,} where its rows are joined with others of its own", _AGGREGATED)
    if cost.power > POWER:
        raise _refused(f"it would grow with the rows of a {unit} to the power of {cost.power}, of at most {POWER}", _AGGREGATED)
    if cost.size > SIZE:
        raise _refused(f"of one row of a {unit} {_number(cost.size)} bytes would be made, of at most {SIZE:,}", _SHORTER)
    if cost.texts > TEXTS:
        made = f"{_number(cost.texts)} bytes of texts would be built, of at most {TEXTS:,}"
        raise _refused(f"of one row of a {unit} {made}", _SHORTER)
    if cost.public > max(PUBLIC, 4 * cost.largest):
        raise _refused(f"joins of public tables would make {_number(cost.public)} rows, of at most {PUBLIC:,}", _FEWER)
    return cut, cost


def check_statement(texts: int, unit: str) -> None:
    """Raise Refusal 54000 where all measurements of a statement together build too much of one row."""
    if texts > STATEMENT:
        made = f"{_number(texts)} bytes of texts would be built in all, of at most {STATEMENT:,}"
        raise _refused(f"of one row of a {unit} {made}", _SHORTER)


_FEWER = "Join by equalities with unique columns, join fewer tables or shorter series, or aggregate before joining."
_AGGREGATED = (
    "Aggregate first, then join: write what a subquery computes for each row as a query in FROM, with GROUP BY the unit's id, "
    "and join that by this id. Or join by equalities with unique columns, which the policy may list in `keys`."
)
_SHORTER = "Use `left(x, n)`, declare `length` of text columns in the policy, or put fewer such texts into one statement."


def _refused(what: str, hint: str) -> Refusal:
    return Refusal(PROGRAM_LIMIT_EXCEEDED, f"this statement could take too much work: {what}", hint=hint)


def _number(n: int) -> str:
    return f"{n:,}" if n < FAR else "more than a million million"

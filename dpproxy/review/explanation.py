"""What a role can learn, at most and at what error, in words for who answers for data protection.

Knows: a policy, the planner's verdicts on plain questions. Must not know: rows, formats of pages. Every number here is one that
the planner promises before data are read: prices, 95 % errors. Nothing is said that depends on the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dpproxy.amounts import ATTO
from dpproxy.policy.check import family
from dpproxy.policy.joined_keys import day_promise
from dpproxy.policy.model import Budget, ColumnPolicy, ColumnRole, Role, TableKind, TablePolicy
from dpproxy.policy.names import plural, quote_name
from dpproxy.policy.report_columns import randomised_told, reports_told
from dpproxy.policy.unit_forms import others_named
from dpproxy.review.doubts import belief, delta, epsilon
from dpproxy.review.verdicts import Answered, Bench

SHOWN = 12  # columns and values named in a sentence

_PREVIEWS = {
    "empty": "A query for rows of {units} without a filter is answered with no rows, at no cost: no row of the data is read.",
    "synthetic": "A query for rows of {units} without a filter is answered with invented rows, at no cost: they are made of the "
    "declared values, ranges and types alone, and no row of the data is read.",
}


@dataclass(frozen=True)
class Section:
    """A part of the page: sentences, then a table of which the first row is the head."""

    title: str
    sentences: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Page:
    """The page about one role."""

    title: str
    sections: tuple[Section, ...] = field(default=())


def explanation(bench: Bench, role: str) -> Page:
    """Return the page of a role. Raises KeyError for one that the policy does not have."""
    return _Explained(bench, bench.policy.roles[role]).page()


class _Explained:
    def __init__(self, bench: Bench, role: Role) -> None:
        self._bench, self._policy, self._role = bench, bench.policy, role

    def page(self) -> Page:
        tables = [t for t in self._policy.tables.values() if self._role.tables is None or t.name in self._role.tables]
        private = [self._private(t) for t in tables if t.kind is TableKind.PEOPLE]
        title = f"What role {self._role.name} can learn from {self._policy.dataset}"
        charged = (self._who(), self._budget(), self._query()) if self._policy.unit_key is not None else (self._devices(),)
        return Page(title, (*charged, *private, *self._reports(tables), *self._public(tables), self._never()))

    @property
    def _units(self) -> str:
        return plural(self._policy.unit_name)

    def _who(self) -> Section:
        unit, users = self._policy.unit_name, [u.name for u in self._policy.users.values() if u.role == self._role.name]
        return Section(
            "Who is protected, and from whom",
            (
                f"Protected is each {unit}: all rows of one {unit}, in all tables together.",
                *([f"{days[0].upper()}{days[1:]}."] if (days := day_promise(self._policy)) is not None else []),
                f"The role's users are {', '.join(users)}." if users else "The role has no users.",
                f"They ask in SQL and get answers with random noise. Whether one {unit}'s rows are there or not changes what "
                "they may see by no more than the budget says, whatever else they know, and if they share what they see.",
            ),
        )

    def _devices(self) -> Section:
        """Who is protected where nobody has rows: by what each one sent, whoever reads it."""
        unit, users = self._policy.unit_name, [u.name for u in self._policy.users.values() if u.role == self._role.name]
        return Section(
            "Who is protected, and from whom",
            (
                f"Protected is what each {unit} reports, by the {unit} itself: what arrives is randomised already.",
                f"The role's users are {', '.join(users)}." if users else "The role has no users.",
                f"They ask in SQL and get estimates over many {self._units}. No budget is spent, and there is none.",
                f"Not protected is that a {unit} reports, nor the columns that are shown as they are.",
            ),
        )

    def _budget(self) -> Section:
        budget, whole = self._role.budget, self._policy.budget
        sentences = [
            f"In {_window(budget)} all users of the role together may spend epsilon {epsilon(budget.epsilon)}.",
            f"Whoever gives even odds that some {self._policy.unit_name} is in the data, or has a certain property there, "
            f"after all of it {belief(budget.epsilon)}.",
        ]
        if budget.delta:
            sentences.append(f"This holds but for a chance of {delta(budget.delta)}, one in {ATTO // budget.delta:,}.")
        else:
            sentences.append("This holds without exception: delta is 0.")
        sentences.append(
            f"In {_window(whole)} all roles together may spend epsilon {epsilon(whole.epsilon)}: that is the most for who "
            "combines them."
        )
        if budget.every != "never":
            sentences.append(f"A new budget begins every {budget.every}: what is learnt adds up over the {budget.every}s.")
        return Section("How much, at most", tuple(sentences))

    def _query(self) -> Section:
        query = self._role.query
        most = self._role.budget.epsilon // query.epsilon
        sentences = [
            f"A query costs epsilon {epsilon(query.epsilon)}, so that {most:,} of them spend the role's budget.",
            f"A user may ask for one to cost up to {epsilon(query.max_epsilon)}: it is more exact, and fewer can be asked.",
            "A query asked again is answered as before at no cost, as far as the policy reuses answers.",
        ]
        if self._role.min_units > 1:
            sentences.append(f"Groups with undeclared keys are shown only from about {self._role.min_units} {self._units} on.")
        if self._role.previews != "refuse":
            sentences.append(_PREVIEWS[self._role.previews].format(unit=self._policy.unit_name, units=self._units))
        return Section("What a query costs", tuple(sentences))

    def _private(self, table: TablePolicy) -> Section:
        unit = self._policy.unit_name
        columns = list(table.columns.values())
        own = f"A {unit} has at most one row." if table.one else self._bounds(table, unit)
        sentences = [own]
        if (others := others_named(table, unit)) is not None:
            sentences.append(f"{others[0].upper()}{others[1:]}.")
        groups = [c for c in columns if c.role is ColumnRole.PLAIN and c.values is not None]
        free = [c for c in columns if c.role is ColumnRole.PLAIN and c.values is None and c.range is None]
        tied = [c for c in columns if c.role in (ColumnRole.KEY, ColumnRole.UNIT)]
        hidden = self._unseen(table)
        if groups:
            sentences.append(f"Groups may be formed by {_listed([self._domain(c) for c in groups])}.")
        if free:
            sentences.append(
                f"Groups may be formed by {_listed([c.name for c in free])}, where enough {self._units} share a value."
            )
        if tied:
            sentences.append(f"Counted and joined on, never shown: {_listed([c.name for c in tied])}.")
        sentences.append(f"Not there for the role: {_listed(hidden)}." if hidden else "No column of the table is hidden.")
        rows = tuple(self._errors(table))
        head = (
            "question",
            f"error at epsilon {epsilon(self._role.query.epsilon)}",
            f"at {epsilon(self._role.query.max_epsilon)}",
        )
        return Section(f"Table {table.name}", tuple(sentences), (head, *rows) if rows else ())

    def _bounds(self, table: TablePolicy, unit: str) -> str:
        rows, groups, most = table.bounds.rows, table.bounds.groups, table.rows_at_most
        stated = f" The policy states that no {unit} has more than {most} rows." if most is not None else ""
        if table.bounds.whole:
            counts = f"One {unit} counts like at most {rows} rows in all; the rows of more active {self._units} count for less."
            return counts + stated
        where = f", and in at most {groups} groups" if groups is not None else ""
        return f"A {unit} counts with at most {rows} rows in a group{where}.{stated}"

    def _domain(self, column: ColumnPolicy) -> str:
        return f"{column.name} ({len(column.values or ())} declared values)"

    def _unseen(self, table: TablePolicy) -> list[str]:
        known = self._bench.catalog.tables.get(table.name)
        names = [c.name for c in known.columns] if known is not None else list(table.columns)
        return [n for n in names if n not in table.columns or table.columns[n].role is ColumnRole.HIDDEN]

    def _errors(self, table: TablePolicy) -> Iterator[tuple[str, ...]]:
        """Plain questions and the 95 % errors that the planner states for them."""
        name = f"{quote_name(table.name.schema)}.{quote_name(table.name.name)}"
        yield from self._asked(f"how many rows: count(*) of {table.name}", f"SELECT count(*) FROM {name}")
        for column in table.columns.values():
            quoted = quote_name(column.name)
            if column.role is not ColumnRole.PLAIN:
                continue
            if column.values is not None:
                query = f"SELECT {quoted}, count(*) FROM {name} GROUP BY 1"
                yield from self._asked(f"rows of each {column.name}", query)
            elif column.range is not None and self._number(table, column):
                yield from self._asked(f"sum({column.name})", f"SELECT sum({quoted}) FROM {name}")

    def _number(self, table: TablePolicy, column: ColumnPolicy) -> bool:
        known = self._bench.catalog.tables[table.name].column(column.name)
        return known is not None and family(known.type) == "number"

    def _asked(self, what: str, query: str) -> Iterator[tuple[str, ...]]:
        cells = []
        for cost in (self._role.query.epsilon, self._role.query.max_epsilon):
            verdict = self._bench.verdict(self._role.name, query, {"dpproxy.epsilon": epsilon(cost)})
            stated = max(verdict.errors.values(), default=None) if isinstance(verdict, Answered) else None
            cells.append(
                "refused" if not isinstance(verdict, Answered) else "not stated" if stated is None else f"± {stated:,.4g}"
            )
        yield (what, *cells)

    def _public(self, tables: list[TablePolicy]) -> Iterator[Section]:
        names = [str(t.name) for t in tables if t.kind.shown]
        if names:
            yield Section("Tables shown as they are", (f"Nothing about {self._units} is in {_listed(names)}.",))

    def _reports(self, tables: list[TablePolicy]) -> Iterator[Section]:
        for table in tables:
            if table.reports is None:
                continue
            plain = [c.name for c in table.columns.values() if c.plain and c.role is ColumnRole.PLAIN]
            made = [f"{c.name} ({randomised_told(c.randomised)})" for c in table.columns.values() if c.randomised is not None]
            said = [
                f"Its rows are reports of {self._units}, randomised before they arrived: {reports_told(table.reports)}.",
                f"Whoever sees one, the proxy's operators included, learns no more of its {self._policy.unit_name} than that. "
                "Answers cost no budget, and have no noise of the proxy's.",
                f"Estimated are {_listed(made)}.",
                f"Shown as they are, without noise: {_listed(plain)}." if plain else "No column is shown as it is.",
                f"Groups of fewer than {table.reports.at_least} reports are not shown, which protects nobody by itself.",
            ]
            yield Section(f"Table {table.name}, reports of {self._units}", tuple(said))

    def _never(self) -> Section:
        return Section(
            "What is not promised",
            (
                f"What is true of {self._units} in general can be learnt, and then be said of one of them.",
                f"A group of k {self._units} that belong together, such as a household, is protected k times less.",
                "Errors are of the noise: with 95 % certainty an answer is as near. What bounds and ranges cut comes on top.",
            ),
        )


def _window(budget: Budget) -> str:
    return "all time" if budget.every == "never" else f"one {budget.every}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more

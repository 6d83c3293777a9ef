"""What a policy does to the data at hand, in exact per cent: for its author alone.

Knows: policies, catalogs, generated SQL that counts. Must not know: how SQL is run. Each question is a few SELECTs of one whole
number and a sentence about them. These numbers are exact: they may tell of a single person, so they are asked only when the
author says `--data`, marked in every form they are printed in, and never reach the server, its log or an analyst. Tuning a
range until nothing lies beyond it is a look at the data that the budget does not see; the marks say so.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dpproxy.amounts import ATTO
from dpproxy.authoring.evidence import Overlap, as_text, overlaps
from dpproxy.engines import literal
from dpproxy.local.spaces import Space
from dpproxy.policy.catalog import Catalog, CatalogColumn
from dpproxy.policy.check import family
from dpproxy.policy.data_claims import QUOTE, column_source, table_source
from dpproxy.policy.load import Loaded
from dpproxy.policy.model import ColumnPolicy, ColumnRole, ReleasedList, TableKind, TablePolicy, UnitPath, constant_text
from dpproxy.policy.names import plural
from dpproxy.policy.problems import START, Code, Problem
from dpproxy.policy.report_columns import CLAIM, NUMBER, WHOLE, read_beside
from dpproxy.review.doubts import delta
from dpproxy.sql.template import Dialect
from dpproxy.table_terms import TableName

FAR = 10
"""Delta times the number of people must be below a tenth: far below one."""
ROUNDED = 99.5  # per cent: two digits of it are 1e+02
MANY_VALUES = 10_000  # of a column: more would make a statement that engines take long to read

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Question:
    """Asks for whole numbers, and says what they mean: None when there is nothing to say."""

    queries: tuple[str, ...]
    told: Callable[[Numbers], Problem | None]


def questions(loaded: Loaded, catalog: Catalog, dialect: Dialect) -> tuple[Question, ...]:
    """Return what is to be counted. The policy must fit the catalog (run `check.check` first)."""
    here = _Counts(loaded, catalog, dialect)
    private = loaded.policy.of_kind(TableKind.PEOPLE)
    public = [t for t in loaded.policy.of_kind(TableKind.PUBLIC) if not t.reviewed]
    shown = (q for table in public for q in here.shown(table))
    reported = (q for table in loaded.policy.tables.values() for q in here.reported(table))
    return (*here.units(), *(q for table in private for q in here.table(table)), *reported, *shown)


def percent(part: int, whole: int) -> str:
    """Return a share to two digits, never 0 % for something."""
    share = min(100 * part / whole, 100) if whole else 0
    return f"{share:.0f} %" if share >= ROUNDED else f"{share:.2g} %"


@dataclass(frozen=True)
class _Counts:
    loaded: Loaded
    catalog: Catalog
    dialect: Dialect

    def _problem(self, place: Sequence[str], what: str, fix: str, code: Code) -> Problem:
        at = self.loaded.positions.get(tuple(place), START)
        return at.problem(self.loaded.file, what, fix, code)

    def units(self) -> Iterator[Question]:
        """Delta against the number of units: dataset and roles."""
        policy = self.loaded.policy
        quote = QUOTE[self.dialect]
        if policy.unit_table is None:
            return
        key = column_source(self.catalog, policy.unit_table, policy.unit_column, quote)
        count = f"SELECT COUNT(DISTINCT {key}) AS n FROM {table_source(self.catalog, policy.unit_table, quote)}"
        deltas = [(("budget",), "the dataset's delta", policy.budget.delta)]
        deltas += [(("roles", r.name, "budget"), f"the delta of role `{r.name}`", r.budget.delta) for r in policy.roles.values()]  # type: ignore[misc]
        for place, whose, amount in deltas:

            def told(found: Numbers, place: Sequence[str] = place, whose: str = whose, amount: int = amount) -> Problem | None:
                if amount * found[0] * FAR < ATTO:
                    return None
                what = f"{whose} is {delta(amount)}, which is not far below 1 / {found[0]:,}, "
                what += f"the number of {plural(policy.unit_name)}"
                return self._problem(place, what, f"write at most {1 / (FAR * FAR * max(found[0], 1)):.0e}", "data-small")

            yield Question((count,), told)

    def table(self, table: TablePolicy) -> Iterator[Question]:
        assert table.unit is not None
        yield self._null_units(table, table.unit)
        if not table.one:
            yield self._cut(table, table.unit)
            yield self._greatest(table, table.unit)
        for column in table.columns.values():
            shape = self.catalog.tables[table.name].column(column.name)
            if column.role is not ColumnRole.PLAIN or shape is None or column.randomised is not None:
                continue
            if column.values is not None and len(column.values) <= MANY_VALUES:
                yield self._undeclared(table, column, shape)
            elif column.range is not None:
                yield self._beyond(table, column, shape)

    def reported(self, table: TablePolicy) -> Iterator[Question]:
        """Reports that no device makes which does what its claim says, and lists that are shorter than a claim."""
        beside = tuple(read_beside(table))
        for column in table.columns.values():
            made, shape = column.randomised, self.catalog.tables[table.name].column(column.name)
            if made is None or shape is None or shape.reports is None:
                continue
            source = column_source(self.catalog, table.name, column.name, QUOTE[self.dialect])
            several = CLAIM in beside and len(made.claims) > 1  # one claim alone is every report's
            number = column_source(self.catalog, table.name, CLAIM, QUOTE[self.dialect]) if several else None
            known = ", ".join(str(n) for n, _ in made.claims)
            yield from self._outside(table, column, f"{number} NOT IN ({known})", "a claim of no known number") if number else ()
            for n, claim in made.claims:
                wrong = self._no_report(column, shape.reports, source, claim.space)
                if wrong is not None:
                    condition = f"({wrong})" + (f" AND {number} = {n}" if number else "")
                    by = f" by claim {n}" if number else ""
                    yield from self._outside(table, column, condition, f"what {claim.name} never reports{by}")
            if isinstance(made.values, ReleasedList) and made.values.count:
                yield self._short(table, column, made.values)
        if NUMBER in beside and table.kind is TableKind.REPORTS:
            count = column_source(self.catalog, table.name, NUMBER, QUOTE[self.dialect])
            first = next(c for c in table.columns.values() if c.randomised is not None)
            yield from self._outside(table, first, f"{count} < 0 OR {count} IS NULL", "a cell of no number of reports")

    def _no_report(self, column: ColumnPolicy, stored: CatalogColumn, source: str, space: Space) -> str | None:
        """A condition that is true of stored values outside a space; None where the column's type leaves none out."""
        made = column.randomised
        if space.form == "integer" or (space.form == "bits" and stored.type in WHOLE):
            return f"{source} < 0 OR {source} > {space.size - (space.form == 'integer')}"
        if space.form != "value" or made is None:
            return None
        if isinstance(made.values, ReleasedList):
            quote = QUOTE[self.dialect]
            listed_in = column_source(self.catalog, made.values.table, made.values.column, quote)
            return f"{source} NOT IN (SELECT {listed_in} FROM {table_source(self.catalog, made.values.table, quote)})"
        few = column.values is not None and len(column.values) <= MANY_VALUES
        return f"{comparable(source, stored)} NOT IN ({listed(column, stored, self.dialect)})" if few else None

    def _outside(self, table: TablePolicy, column: ColumnPolicy, condition: str, what_it_is: str) -> Iterator[Question]:
        def told(found: Numbers) -> Problem | None:
            if not found[0]:
                return None
            what = f"{found[0]:,} of {found[1]:,} rows of `{table.name}` hold in `{column.name}` {what_it_is}"
            fix = "estimates are wrong until they are gone: delete them, and correct the claim or what stores reports"
            return self._problem(("tables", str(table.name), column.name), what, fix, "data-reports")

        yield Question((self._rows(table, f" WHERE {condition}"), self._rows(table)), told)

    def _short(self, table: TablePolicy, column: ColumnPolicy, listed_in: ReleasedList) -> Question:
        def told(found: Numbers) -> Problem | None:
            if found[0] >= listed_in.count:
                return None
            what = f"`{listed_in.table}` lists {found[0]:,} values, and `{column.name}` has a claim about {listed_in.count:,}"
            return self._problem(
                ("tables", str(table.name), column.name), what, "write the `count` that devices know", "data-reports"
            )

        return Question((f"SELECT COUNT(*) FROM {table_source(self.catalog, listed_in.table, QUOTE[self.dialect])}",), told)

    def shown(self, table: TablePolicy) -> Iterator[Question]:
        """Ids of people in a public table."""
        policy = self.loaded.policy
        private = {t.name: t for t in policy.of_kind(TableKind.PEOPLE)}
        unit = policy.unit_key
        if unit is None:
            return
        ids = {unit} | {(t.name, c.name) for t in private.values() for c in t.columns.values() if c.role is ColumnRole.KEY}
        hidden = {c.name for c in table.columns.values() if c.role is ColumnRole.HIDDEN}
        for each in overlaps(self.catalog, private.keys(), unit, ids, self.catalog.tables[table.name], self.dialect):
            if each.column[1] not in hidden:
                yield self._overlap(table, each)
        for column in self.catalog.tables[table.name].columns:
            if column.name not in hidden and (not column.bounded or family(column.type) == "text"):
                yield self._addresses(table, column)
        yield self._empty(table, unit)

    def _addresses(self, table: TablePolicy, column: CatalogColumn) -> Question:
        """E-mail addresses in texts, in JSON and in lists."""
        text = as_text(column_source(self.catalog, table.name, column.name, QUOTE[self.dialect]), self.dialect)

        def told(found: Numbers) -> Problem | None:
            if found[0] < 2:  # one may be the shop's own
                return None
            what = f"{percent(*found)} of the rows of public table `{table.name}` have an e-mail address in `{column.name}`: "
            what += "everybody may see it"
            fix = 'leave the table out, hide the column, or write `public: { reviewed: "date by name" }`'
            return self._problem(("tables", str(table.name)), what, fix, "data-public-ids")

        return Question((self._rows(table, f" WHERE {text} LIKE '%_@_%._%'"), self._rows(table)), told)

    def _empty(self, table: TablePolicy, unit: tuple[TableName, str]) -> Question:
        """A public table, or a table of units, without rows: nothing could be compared."""
        units = f"SELECT COUNT(*) FROM {table_source(self.catalog, unit[0], QUOTE[self.dialect])}"

        def told(found: Numbers) -> Problem | None:
            if all(found):
                return None
            empty = table.name if not found[0] else unit[0]
            what = f"`{empty}` is empty: nothing says whether public table `{table.name}` will hold ids of people"
            fix = "run this check again when it has rows"
            return self._problem(("tables", str(table.name)), what, fix, "data-public-empty")

        return Question((self._rows(table), units), told)

    def _overlap(self, table: TablePolicy, each: Overlap) -> Question:
        def told(found: Numbers) -> Problem | None:
            if not each.holds_ids(found):
                return None
            column, (owner, key) = each.column[1], each.ids
            what = f"{percent(found[1], found[0])} of the values of `{column}` of public table `{table.name}` are ids of people"
            what += f" or their rows (`{owner}.{key}`): everybody may see them"
            fix = 'give it a `unit`, leave it out, hide the column, or write `public: { reviewed: "date by name" }`'
            return self._problem(("tables", str(table.name)), what, fix, "data-public-ids")

        return Question(each.queries, told)

    def _source(self, table: TablePolicy, path: UnitPath) -> tuple[str, str]:
        """(FROM with the path to the unit, the unit's column)."""
        quote, here = QUOTE[self.dialect], table.name
        joins = [f"{table_source(self.catalog, here, quote)} AS t0"]
        for i, step in enumerate(path.steps):
            left = column_source(self.catalog, here, step.column, quote, f"t{i}")
            right = column_source(self.catalog, step.target, step.target_column, quote, f"t{i + 1}")
            joins.append(f"LEFT JOIN {table_source(self.catalog, step.target, quote)} AS t{i + 1} ON {left} = {right}")
            here = step.target
        return " ".join(joins), column_source(self.catalog, here, path.column, quote, f"t{len(path.steps)}")

    def _rows(self, table: TablePolicy, condition: str = "") -> str:
        return f"SELECT COUNT(*) FROM {table_source(self.catalog, table.name, QUOTE[self.dialect])}{condition}"

    def _null_units(self, table: TablePolicy, path: UnitPath) -> Question:
        source, unit = self._source(table, path)

        def told(found: Numbers) -> Problem | None:
            if not found[0]:
                return None
            name = self.loaded.policy.unit_name
            what = f"{percent(*found)} of the rows of `{table.name}` belong to no {name}: they are in no answer"
            fix = "know it, or fill the key in the data"
            return self._problem(("units", str(table.name)), what, fix, "data-null-unit")

        return Question((f"SELECT COUNT(*) FROM {source} WHERE {unit} IS NULL", f"SELECT COUNT(*) FROM {source}"), told)

    def _cut(self, table: TablePolicy, path: UnitPath) -> Question:
        """What a count of the whole table leaves out: each unit counts with at most `rows` rows."""
        source, unit = self._source(table, path)
        rows, name = table.bounds.rows, self.loaded.policy.unit_name
        each = f"SELECT COUNT(*) AS n FROM {source} WHERE {unit} IS NOT NULL GROUP BY {unit}"
        over = f"SELECT COUNT(*) FROM ({each}) AS e WHERE n > {rows}"
        lost = f"SELECT CAST(COALESCE(SUM(n - {rows}), 0) AS BIGINT) FROM ({each}) AS e WHERE n > {rows}"
        whole = f"SELECT CAST(COALESCE(SUM(n), 0) AS BIGINT) FROM ({each}) AS e"

        def told(found: Numbers) -> Problem | None:
            if not found[0]:
                return None
            what = f"{percent(found[0], found[1])} of {plural(name)} have more than {rows} rows in `{table.name}`: "
            what += f"a count of all rows misses {percent(found[2], found[3])}"
            return self._problem(
                ("bounds", str(table.name)), what, "see by `dpproxy policy bounds` what other bounds do", "data-cut"
            )

        return Question((over, f"SELECT COUNT(*) FROM ({each}) AS e", lost, whole), told)

    def _greatest(self, table: TablePolicy, path: UnitPath) -> Question:
        """The most rows of a unit: whether `rows_at_most` is true, and what it could be where it is not written."""
        source, unit = self._source(table, path)
        stated, name = table.rows_at_most, self.loaded.policy.unit_name
        each = f"SELECT COUNT(*) AS n FROM {source} WHERE {unit} IS NOT NULL GROUP BY {unit}"
        bound = stated if stated is not None else table.bounds.rows
        over = f"SELECT COUNT(*) FROM ({each}) AS e WHERE n > {bound}"

        def told(found: Numbers) -> Problem | None:
            if found[0] <= bound or (stated is None and not table.bounds.whole):
                return None
            if stated is None:
                what = f"a {name} has up to {found[0]:,} rows in `{table.name}`, and intervals of counts and sums are open above"
                fix = "write `rows_at_most` with a number that is larger for reasons that are public, and they are closed"
                return self._problem(("bounds", str(table.name)), what, fix, "data-open")
            what = (
                f"{percent(found[1], found[2])} of {name}s have more than `rows_at_most: {stated}` rows in `{table.name}`, up to "
            )
            what += f"{found[0]:,}: intervals do not reach as far up as they say"
            fix = "write a larger number, for reasons that are public"
            return self._problem(("rows_at_most", str(table.name)), what, fix, "data-beyond-rows")

        most = f"SELECT CAST(COALESCE(MAX(n), 0) AS BIGINT) FROM ({each}) AS e"
        return Question((most, over, f"SELECT COUNT(*) FROM ({each}) AS e"), told)

    def _undeclared(self, table: TablePolicy, column: ColumnPolicy, shape: CatalogColumn) -> Question:
        source = comparable(column_source(self.catalog, table.name, column.name, QUOTE[self.dialect]), shape)
        known = listed(column, shape, self.dialect)
        null = "" if column.nulls else f" OR {source} IS NULL"

        def told(found: Numbers) -> Problem | None:
            if not found[0]:
                return None
            what = f"{percent(*found)} of the rows of `{table.name}` have a `{column.name}` that is not declared: "
            what += "they are in no group by it"
            fix = "add what the code book has to `values`, and `nulls: true` if NULL is a group"
            return self._problem(("tables", str(table.name), column.name), what, fix, "data-undeclared")

        return Question((self._rows(table, f" WHERE {source} NOT IN ({known}){null}"), self._rows(table)), told)

    def _beyond(self, table: TablePolicy, column: ColumnPolicy, shape: CatalogColumn) -> Question:
        assert column.range is not None
        source = column_source(self.catalog, table.name, column.name, QUOTE[self.dialect])
        kind = "timestamp" if isinstance(column.range[0], dt.datetime) else "numeric"
        least, most = (literal(self.dialect, kind, constant_text(end)) for end in column.range)

        def told(found: Numbers) -> Problem | None:
            if not found[0] + found[1]:
                return None
            low, high = percent(found[0], found[2]), percent(found[1], found[2])
            what = f"{low} of the values of `{column.name}` are below its range, {high} above"
            fix = "they count as its ends; widen the range only for reasons that are public"
            return self._problem(("tables", str(table.name), column.name), what, fix, "data-beyond-range")

        conditions = (f" WHERE {source} < {least}", f" WHERE {source} > {most}", f" WHERE {source} IS NOT NULL")
        return Question(tuple(self._rows(table, c) for c in conditions), told)


def listed(column: ColumnPolicy, shape: CatalogColumn, dialect: Dialect) -> str:
    """Return the declared values of a column as SQL constants."""
    return ", ".join(literal(dialect, shape.type, constant_text(v)) for v in column.values or ())


def comparable(source: str, shape: CatalogColumn) -> str:
    """Return SQL of a column that may be compared with texts that are not of its enumerated type."""
    return f"CAST({source} AS TEXT)" if shape.type == "text" else source

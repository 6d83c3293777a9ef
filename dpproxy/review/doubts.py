"""What is no error in a policy and yet hardly meant: budgets that protect nobody, columns without use, people in public tables.

Knows: a policy and, where the backend was asked, the shapes of its data. Must not know: rows. Each doubt is a function of its own
that yields problems with the code of a warning or a note; `doubts` runs them all. The numbers from which on something is absurd
are here, each with its reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from dpproxy.amounts import ATTO, MICRO
from dpproxy.answers.data_identity import data_of, file_of
from dpproxy.budget_windows import WINDOWS
from dpproxy.ledger.ledger import decimal
from dpproxy.policy.catalog import Catalog, CatalogTable
from dpproxy.policy.check import family
from dpproxy.policy.load import Loaded
from dpproxy.policy.model import ColumnPolicy, ColumnRole, Policy, Role, TableKind, TablePolicy
from dpproxy.policy.names import plural, written
from dpproxy.policy.problems import START, Code, Problem
from dpproxy.review.hints import finds, key_like, names_people, of_people, personal, tenant
from dpproxy.review.report_doubts import report_doubts
from dpproxy.table_terms import TableName

# Epsilon and delta in words that need no training.
#
# Knows: numbers. Must not know: policies. Under epsilon-differential privacy, whoever held it 1 to 1 whether a person is in the
# data holds it at most e^epsilon to 1 after the answers, whatever else they know. Delta is the chance that this does not hold;
# times the number of people it is how many may be exposed outright.


CERTAIN = 30.0
"""Epsilon from which on odds are beyond 10,000,000,000,000 to 1: nobody tells that from certainty."""


SURE = 7.0  # epsilon from which on odds are beyond 1,000 to 1


def odds(epsilon_micro: int) -> str:
    """Return what an epsilon means, as in `22,000 to 1`."""
    epsilon = epsilon_micro / MICRO
    if epsilon > CERTAIN:
        return "certainty"
    ratio = math.exp(epsilon)
    return f"{_rounded(ratio)} to 1"


def belief(epsilon_micro: int) -> str:
    """Return what whoever gave even odds may give after answers of an epsilon, for a sentence."""
    if epsilon_micro > CERTAIN * MICRO:
        return "may be certain"
    return f"may give {odds(epsilon_micro)}" + (" (practically certain)" if epsilon_micro >= SURE * MICRO else "")


def _rounded(ratio: float) -> str:
    if ratio < 10:
        return f"{ratio:.1f}"
    scale = 10 ** (math.floor(math.log10(ratio)) - 1)
    return f"{round(ratio / scale) * scale:,.0f}"


def epsilon(micro: int) -> str:
    return decimal(micro, MICRO)


def delta(atto: int) -> str:
    return decimal(atto, ATTO)


QUERY_EPSILON = 10 * MICRO  # odds of 22,000 to 1 from a single answer
MONTH_EPSILON = 20 * MICRO  # odds of 480 million to 1
DELTA = ATTO // 10_000  # one in ten thousand: any dataset of 10,000 people may expose one outright
BOUND_PRODUCT = 100_000  # rows times groups: counts of fewer people than that drown


def doubts(loaded: Loaded, catalog: Catalog | None) -> tuple[Problem, ...]:
    """Return what will not have been meant, in the order of the file. `catalog`: None when the backend was not asked."""
    here = _Doubts(loaded, catalog)
    return tuple(sorted({*loaded.warnings, *here.roles(), *here.people(), *here.tables(), *report_doubts(loaded, catalog)}))


def shared_data(files: Sequence[Loaded]) -> tuple[Problem, ...]:
    """Return a warning for each policy over data and unit that another of these policies is over as well."""
    found = []
    for i, loaded in enumerate(files):
        others = [f.file for j, f in enumerate(files) if i != j and _same_data(f.policy, loaded.policy)]
        if others:
            at = loaded.positions.get(("budget",), START)
            what = f"`{others[0]}` is over the same database and unit: who may use both learns the sum of both budgets"
            fix = "make them roles of one policy, whose `budget` holds for all of them together"
            found.append(at.problem(loaded.file, what, fix, "shared-data"))
    return tuple(found)


def _same_data(one: Policy, other: Policy) -> bool:
    file = file_of(one)
    return data_of(one) == data_of(other) or (bool(file) and file == file_of(other))


@dataclass(frozen=True)
class _Doubts:
    loaded: Loaded
    catalog: Catalog | None

    def _at(self, places: Sequence[tuple[str, ...]], what: str, fix: str, code: Code) -> Problem:
        known = (self.loaded.positions[place] for place in places if place in self.loaded.positions)
        at = next(known, START)
        return at.problem(self.loaded.file, what, fix, code)

    def roles(self) -> Iterator[Problem]:
        for role in self.loaded.policy.roles.values():
            yield from self._query(role)
            yield from self._month(role)
            yield from self._deltas(role)
        budget = self.loaded.policy.budget
        if budget.delta >= DELTA:
            yield self._delta((("budget",),), "the dataset's delta", budget.delta)

    def _query(self, role: Role) -> Iterator[Problem]:
        if role.query.max_epsilon > QUERY_EPSILON:
            what = f"one query of role `{role.name}` may cost epsilon {epsilon(role.query.max_epsilon)}: whoever gives"
            what += f" even odds that a person is in the data {belief(role.query.max_epsilon)} after it"
            fix = "write a `max_epsilon` of at most 10; 0.1 to 1 is usual"
            yield self._at([("roles", role.name, "query")], what, fix, "greedy-query")

    def _month(self, role: Role) -> Iterator[Problem]:
        times = WINDOWS[role.budget.every].a_month
        spent = role.budget.epsilon * times
        if spent > MONTH_EPSILON:
            how = f" ({times} times {epsilon(role.budget.epsilon)})" if times > 1 else ""
            what = f"role `{role.name}` may spend epsilon {epsilon(spent)} in a month{how}: whoever gives even odds"
            what += f" that a person is in the data {belief(spent)} after it"
            fix = "write a budget that is at most 20 a month; 1 to 10 is usual"
            yield self._at([("roles", role.name, "budget")], what, fix, "greedy-role")

    def _deltas(self, role: Role) -> Iterator[Problem]:
        if role.budget.delta >= DELTA:
            yield self._delta([("roles", role.name, "budget")], f"the delta of role `{role.name}`", role.budget.delta)
        if role.budget.delta and role.query.delta:
            return
        undeclared = [f"`{t.name}.{c.name}`" for t in self._seen(role) for c in t.columns.values() if self._undeclared(t, c)]
        if undeclared:
            more = f" and {len(undeclared) - 3} more" if len(undeclared) > 3 else ""
            what = f"role `{role.name}` has no delta, so groups by {', '.join(undeclared[:3])}{more} are refused"
            fix = "declare `values`, or give role and dataset a `delta` far below 1 / people, as in 1e-6"
            yield self._at([("roles", role.name, "budget")], what, fix, "no-delta")

    def _delta(self, places: Sequence[tuple[str, ...]], whose: str, amount: int) -> Problem:
        people = f"{ATTO // amount:,}" if amount else ""
        what = f"{whose} is {delta(amount)}: of {people} people it allows that one is exposed outright"
        return self._at(places, what, "write a delta far below 1 / people, as in 1e-6", "high-delta")

    def _seen(self, role: Role) -> list[TablePolicy]:
        tables = self.loaded.policy.tables.values()
        return [t for t in tables if t.kind is TableKind.PEOPLE and (role.tables is None or t.name in role.tables)]

    def _undeclared(self, table: TablePolicy, column: ColumnPolicy) -> bool:
        """Whether the column is one of text, or an identifier, that can be grouped by over a threshold alone."""
        if column.role is not ColumnRole.PLAIN or column.values is not None or column.range is not None:
            return False
        shape = self._shape(table.name)
        known = shape.column(column.name) if shape else None
        return known is None or family(known.type) == "text" or key_like(column.name)

    def people(self) -> Iterator[Problem]:
        policy = self.loaded.policy
        if not policy.users:
            yield self._at([("users",)], "there are no users: nobody can log in", "add a user with a role", "no-users")
        used = {user.role for user in policy.users.values()}
        for name in policy.roles:
            if name not in used and policy.users:
                yield self._at([("roles", name)], f"no user has role `{name}`", "add a user, or remove the role", "unused-role")

    def tables(self) -> Iterator[Problem]:
        for table in self.loaded.policy.tables.values():
            yield from self._hidden_from_all(table)
            match table.kind:
                case TableKind.PUBLIC:
                    yield from self._public(table)
                case TableKind.PEOPLE:
                    yield from self._private(table)
                case TableKind.REPORTS:
                    pass  # `report_doubts` has them, of all tables together
                case _:
                    assert_never(table.kind)

    def _private(self, table: TablePolicy) -> Iterator[Problem]:
        yield from self._bounds(table)
        yield from self._nullable(table)
        yield from self._own(table)
        yield from self._half(table)
        yield from self._second(table)
        yield from self._row(table)
        for column in table.columns.values():
            yield from self._column(table, column)

    def _hidden_from_all(self, table: TablePolicy) -> Iterator[Problem]:
        policy = self.loaded.policy
        on_paths = {step.target for t in policy.tables.values() if t.unit for step in t.unit.steps} | {policy.unit_table}
        if table.name in on_paths or any(r.tables is None or table.name in r.tables for r in policy.roles.values()):
            return
        what, fix = f"no role can see table `{table.name}`", "add it to the `tables` of a role, or remove it"
        yield self._at([("tables", str(table.name))], what, fix, "unreachable")

    def _public(self, table: TablePolicy) -> Iterator[Problem]:
        if table.reviewed:
            return
        place = ("tables", str(table.name))
        shape = self._shape(table.name)
        yield from self._refers(table, shape)
        hidden = {c.name for c in table.columns.values() if c.role is ColumnRole.HIDDEN}
        shown = [c.name for c in shape.columns] if shape else list(table.columns)
        unit = self.loaded.policy.unit_column
        if unit in shown and unit not in hidden and (unit != "id" or of_people(table.name.name)):
            what = f"public table `{table.name}` has the column `{unit}`, which names a {self.loaded.policy.unit_name} elsewhere"
            yield self._at([place], what, f"give it `unit: {written(unit)}` if its rows are about people", "personal-table")
        for name in shown:
            if name not in hidden and personal(name):
                what = f"public table `{table.name}` shows `{name}` to everybody, a name that columns about people have"
                yield self._at(
                    [(*place, name), place], what, f"write `{written(name)}: hidden`, unless it is nobody's", "personal-column"
                )

    def _refers(self, table: TablePolicy, shape: CatalogTable | None) -> Iterator[Problem]:
        """Doubts of a public table with a foreign key to a private one, or with a column named like a private table's key."""
        tables = self.loaded.policy.tables
        place = ("tables", str(table.name))
        fix = 'give it a `unit`, or write `public: { reviewed: "date by name" }` where its rows are about nobody'
        keys = {name.columns[0]: name.target for name in shape.foreign_keys} if shape is not None else {}
        hidden = {c.name for c in table.columns.values() if c.role is ColumnRole.HIDDEN}
        for column, target in keys.items():
            if target in tables and not tables[target].kind.shown and column not in hidden:
                what = f"public table `{table.name}` refers by `{column}` to `{target}`, whose rows are people's"
                yield self._at([(*place, column), place], what, fix, "personal-table")
        ids = self._ids()
        for column in (c.name for c in shape.columns) if shape is not None else ():
            owner = ids.get(column)
            if owner is not None and column not in hidden and column not in keys:
                what = f"public table `{table.name}` has the column `{column}`, a key of `{owner}`, whose rows are people's"
                yield self._at([(*place, column), place], what, fix, "personal-table")

    def _ids(self) -> dict[str, TableName]:
        """Keys of private tables, by name, apart from names that say nothing of a table."""
        policy = self.loaded.policy
        return {
            column.name: table.name
            for table in policy.of_kind(TableKind.PEOPLE)
            for column in table.columns.values()
            if column.role is ColumnRole.KEY
            and column.references is None
            and column.name not in ("id", "key", "code", policy.unit_column)
        }

    def _bounds(self, table: TablePolicy) -> Iterator[Problem]:
        rows, groups = table.bounds.rows, table.bounds.groups
        product = rows if table.bounds.whole else rows * (groups or 1)
        if not table.one and product >= BOUND_PRODUCT:
            what = f"one {self.loaded.policy.unit_name} may add {product:,} rows to an answer over `{table.name}`: "
            what += f"at epsilon 1 a count is wrong by about {product:,}"
            fix = "write bounds that nearly all people keep within; the few beyond are cut"
            yield self._at([("bounds", str(table.name))], what, fix, "constant-bounds")

    def _nullable(self, table: TablePolicy) -> Iterator[Problem]:
        shape = self._shape(table.name)
        if shape is None or table.unit is None or all(c.nullable for c in shape.columns):
            return  # a schema that says nothing of NULLs
        first = table.unit.steps[0].column if table.unit.steps else table.unit.column
        column = shape.column(first)
        if column is not None and column.nullable and first not in shape.primary_key:
            what = f"`{table.name}.{first}` leads to the unit and may be NULL: such rows are in no answer"
            yield self._at([("units", str(table.name))], what, "know it, or make the column NOT NULL", "nullable-unit")

    def _second(self, table: TablePolicy) -> Iterator[Problem]:
        """Rows that name two units, as payments do: only one of them is protected by a row."""
        if table.unit is None:
            return
        step = table.unit.steps[0] if table.unit.steps else None
        first = step.column if step is not None else table.unit.column
        policy, shape = self.loaded.policy, self._shape(table.name)
        led = (step.target, step.target_column) if step is not None else (policy.unit_table, policy.unit_column)
        keys = shape.foreign_keys if shape is not None else ()
        others = {c.name for c in table.columns.values() if c.references in (led, policy.unit_key)}
        others |= {key.columns[0] for key in keys if len(key.columns) == 1 and (key.target, key.target_columns[0]) == led}
        for column in sorted(others - {first, *table.unprotected}):
            unit, place = policy.unit_name, ("tables", str(table.name))
            what = f"a row of `{table.name}` may name two {plural(unit)}: only that of `{first}` is protected, "
            what += f"not that of `{column}`"
            fix = f"leave the table out, or write `unprotected: [{written(column)}]`: what is shown of the second has no bound"
            yield self._at([(*place, column), ("units", str(table.name)), place], what, fix, "second-unit")

    def _row(self, table: TablePolicy) -> Iterator[Problem]:
        """A key of rows, as of orders, taken for that of people: whoever has many rows is protected one row at a time."""
        policy, shape = self.loaded.policy, self._shape(table.name)
        key = policy.unit_column
        if (
            shape is None
            or table.name != policy.unit_table
            or policy.unit_parts
            or (key,) not in (shape.primary_key, *shape.unique)
        ):
            return
        others = [c.name for c in shape.columns if c.name != key and names_people(c.name)]
        if others and not (of_people(table.name.name) or names_people(key)):
            what = f"`{key}` names a row of `{table.name}`, and `{others[0]}` somebody who may have many rows: "
            what += "each of them is protected alone"
            fix = f"write `key: {table.name}.{written(others[0])}`, if that is who is to be protected"
            yield self._at([("privacy_unit",)], what, fix, "row-unit")

    def _half(self, table: TablePolicy) -> Iterator[Problem]:
        """A unit of one column where a tenant is part of the key as well: the people of one number are taken for one."""
        policy, shape = self.loaded.policy, self._shape(table.name)
        column = policy.unit_column
        if shape is None or table.name != policy.unit_table or policy.unit_parts or column not in shape.primary_key:
            return
        rest = [name for name in shape.primary_key if name != column]
        if tenant(column) or (column,) in shape.unique or not any(map(tenant, rest)):
            return
        together = ", ".join(f"{table.name}.{written(name)}" for name in shape.primary_key)
        what = f"`{column}` is the privacy unit, and one part of the key of `{table.name}`: people who "
        what += f"differ in `{next(filter(tenant, rest))}` alone count as one"
        fix = f"write `key: [{together}]`; or know it: no less is protected, with more noise than needed"
        yield self._at([("units", str(table.name)), ("tables", str(table.name))], what, fix, "half-key")

    def _own(self, table: TablePolicy) -> Iterator[Problem]:
        if table.unit is None or table.unit.steps or table.unit.column in table.columns:
            return
        column = table.unit.column
        what = f"`{column}` names the unit of `{table.name}` and is not listed: it can be neither counted nor joined on"
        yield self._at([("units", str(table.name))], what, f"write `{written(column)}: unit` under `columns`", "unit-not-listed")

    def _column(self, table: TablePolicy, column: ColumnPolicy) -> Iterator[Problem]:
        shape = self._shape(table.name)
        known = shape.column(column.name) if shape else None
        if known is None or column.role is not ColumnRole.PLAIN:
            return
        if column.values is None and known.bounded and family(known.type) == "text" and finds(column.name):
            what = f"`{column.name}` is called like free text, or like what finds one person: a group by it shows each text "
            what += f"that many {plural(self.loaded.policy.unit_name)} share"
            fix = f"write `{written(column.name)}: hidden`"
            yield self._at([("tables", str(table.name), column.name)], what, fix, "personal-column")
        place = [("tables", str(table.name), column.name)]
        if not known.bounded:
            what = f"`{column.name}` cannot be used in any query: it is {known.reason or 'of a type without a counterpart'}"
            yield self._at(place, what, "remove it, or make a column of another type of it", "unreachable")
        elif family(known.type) == "number" and not (column.range or column.values or self._names_rows(table, column)):
            what = f"number `{column.name}` has no range: it can be counted and grouped by, not added up or averaged"
            yield self._at(place, what, "write `{ range: [lowest, highest] }` from what is publicly known", "no-range")

    def _names_rows(self, table: TablePolicy, column: ColumnPolicy) -> bool:
        """Whether a number is an identifier, which nobody adds up: by its name, or by a foreign key."""
        shape = self._shape(table.name)
        keys = shape.foreign_keys if shape is not None else ()
        return key_like(column.name) or any(column.name in key.columns for key in keys)

    def _shape(self, name: TableName) -> CatalogTable | None:
        return self.catalog.tables.get(name) if self.catalog is not None else None

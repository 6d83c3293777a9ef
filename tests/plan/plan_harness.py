"""Plans made and judged without a proxy: what the generated SQL says when nothing is hidden.

Knows: the planner's one function, DuckDB, the shop of `shop_world`. `Shop` holds a database and, beside it, the same
database without each unit in turn, as schemas of one in-memory DuckDB: a generated statement reads another neighbour
when its schema's name is replaced. `Sensitivity.problems` is the one judge of privacy numbers; planted bugs must not
pass it.
"""

from __future__ import annotations

import asyncio
import json
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import all_neighbours
import duckdb
import pyarrow as pa
import pytest
import shop_world
from all_neighbours import AllNeighbours
from all_neighbours import Row as Row
from all_neighbours import cells as cells

from dpproxy.amounts import ATTO, MICRO
from dpproxy.answers.plan_cache import private_names
from dpproxy.backends.duckdb import DuckDB
from dpproxy.engines import literal
from dpproxy.errors import UnprovenPlan
from dpproxy.kernel.verdict import Trees
from dpproxy.mechanisms.key_rounds import found_first
from dpproxy.mechanisms.noise import Exact, Noise, Released
from dpproxy.mechanisms.release import release
from dpproxy.plan import pipeline
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.model import Plan
from dpproxy.plan.pipeline import planning
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.check import check
from dpproxy.policy.load import load_file
from dpproxy.policy.model import Bounds, DuckDBBackend, Policy, QueryLimits, TablePolicy
from dpproxy.privacy.measurement import FirstRound, Measurement, Selection
from dpproxy.sql.statements import Statement, split
from dpproxy.sql.template import Dialect

FIXTURES = Path(__file__).parent / "fixtures"
LIMIT = 2**62  # basis columns stay within it (plan.model.Basis)

STAND_INS = {
    "date": "2024-03-15", "timestamp": "2024-03-15 12:00:00", "timestamptz": "2024-03-15 12:00:00", "int2": "3", "int4": "3", "float4": "17.5", "bpchar": "toys",
    "int8": "3", "numeric": "17.5", "float8": "17.5", "text": "toys", "varchar": "toys", "bool": "true",
    "interval": "1 mon -1 day", "time": "12:00:00", "uuid": "00000000-0000-0000-0000-000000000003",
    "int8[]": "{3,4,NULL}", "text[]": "{toys,open}",
}  # fmt: skip
"""What the facade might answer to an `Input`, by type: any constant must be as private as any other."""

engine: Dialect = "duckdb"
"""Whose SQL is generated: set by the fixture of that name."""


class AnyShop(Protocol):
    """A database and its neighbours in one of the engines."""

    @property
    def units(self) -> tuple[int | str, ...]:
        """By whom its neighbours differ: they lack a customer, or have a newcomer (`shop_world.NEWCOMERS`)."""
        ...

    def run(self, sql: str, unit: int | str | None = None) -> pa.Table: ...

    def execute(self, sql: str) -> None:
        """Change the database itself, not its neighbours."""
        ...

    def takes(self, sql: str) -> bool:
        """Whether an analyst's statement has the types its functions are for, as far as the engine can tell."""
        ...


@runtime_checkable
class WithNeighbours(AnyShop, Protocol):
    """A shop whose neighbours are asked all at once."""

    dialect: str
    neighbours: AllNeighbours

    def alone(self, sql: str, unit: int | str) -> pa.Table: ...


@lru_cache
def policy(name: str = "shop") -> Policy:
    return load_file(FIXTURES / f"{name}.policy.yaml").policy


def wide(given: Policy, rows: int = 200) -> Policy:
    """The same policy with bounds that no unit of the tame shop reaches, and an epsilon that leaves no noise."""

    def widened(table: TablePolicy) -> TablePolicy:
        if table.one or table.kind.shown:
            return table
        whole = table.bounds.whole
        return replace(table, bounds=Bounds(rows * rows if whole else rows, rows, whole))

    limits = QueryLimits(10**4 * MICRO, 10**4 * MICRO, ATTO // 10**6)
    roles = {name: replace(role, query=limits, min_units=1) for name, role in given.roles.items()}
    return replace(given, tables={name: widened(table) for name, table in given.tables.items()}, roles=roles)


@lru_cache
def catalog(folder: Path) -> Catalog:
    """The shop's catalog as the backend itself reports it. The policy must fit it."""
    path = folder / "catalog.duckdb"
    with duckdb.connect(str(path)) as connection:
        shop_world.fill(connection, 0, trouble=False)

    async def introspected() -> Catalog:
        backend = DuckDB(DuckDBBackend(str(path)))
        public = frozenset(t.name for t in policy().tables.values() if t.kind.shown)
        found = await backend.with_public_ranges(await backend.introspect(), public)
        await backend.close()
        return found

    found = asyncio.run(introspected())
    assert not check(policy(), found), "the fixtures' policy does not fit the shop's tables"
    return found


def statement(sql: str, given: Policy) -> Statement:
    (only,) = split(sql, private_names(given))
    return only


def plan(
    sql: str, found: Catalog, given: Policy | None = None, role: str = "analyst", types: Sequence[str] = (), **settings: str
) -> Plan:
    """The plan of one statement for the engine of the test. Raises Refusal, Unproved."""
    chosen = given or policy()
    values = {"search_path": '"$user", public', **{name.replace("__", "."): value for name, value in settings.items()}}
    try:
        return planning(chosen, found, engine)(statement(sql, chosen), chosen.roles[role], values, tuple(types))
    except UnprovenPlan as error:
        raise Unproved(f"{error.message}, {error.rule}: {sql}") from error


@dataclass(frozen=True)
class Planned:
    """A plan and the trees that the kernel was shown of it, one for each measurement."""

    plan: Plan
    trees: tuple[Trees, ...]


def planned(make: Callable[[], Plan]) -> Planned:
    """What `make` plans, with its trees: of the grids that were tried, those of the last."""
    with pytest.MonkeyPatch.context() as patch:
        seen: list[Trees] = []
        proof = pipeline._proof

        def noted(made: Compiled, claimed: Measurement, *below: Any) -> Any:
            seen.append(made.trees)
            return proof(made, claimed, *below)

        patch.setattr(pipeline, "_proof", noted)
        plan = make()
    return Planned(plan, tuple(seen[len(seen) - len(plan.measurements) :]))


class Unproved(AssertionError):
    """The kernel cannot prove a plan: a `Refusal` of the product's, that no test is to take for one."""


def believe(patch: pytest.MonkeyPatch) -> None:
    """Let the planner's claims pass without the kernel, so that data can refute them."""
    patch.setattr(pipeline, "_proof", lambda made, claimed, *below: (claimed, None))
    patch.setattr(pipeline, "with_proofs", lambda account, proved: account)


def values_of(made: Plan, parameters: Sequence[str | None] = ()) -> list[str | None]:
    """The client's values, then stand-ins for what the facade would be asked."""
    return [*parameters, *(stand_in(given.type) for given in made.inputs)]


def stand_in(type_: str) -> str:
    """What an input of a type might be; of released rows, one row and one of NULLs."""
    if not type_.startswith("rows("):
        return STAND_INS[type_]
    types = type_[5:-1].split(",")
    return json.dumps([[STAND_INS[t] for t in types], [None] * len(types)])


def queries(measurement: Measurement, values: Sequence[str | None]) -> list[str]:
    return [query.render(values, literal) for query in measurement.queries]


def released(m: Measurement, values: Sequence[str | None], run: Callable[[str], pa.Table], noise: Noise) -> Released:
    """What passes the door, in as many rounds as are planned."""
    first, found = m.threshold.first if m.threshold is not None else None, None
    if first is not None:
        found = found_first(m, Exact((run(first.query.render(values, literal)),)), noise)
    texts = [query.render(values, literal, found.numbers if found is not None else ()) for query in m.queries]
    return release(m, Exact(tuple(map(run, texts))), noise, found)


NOBODY = "nobody"
"""The neighbour without rows that belong to no unit: it must give the very same answers."""
EMPTY = "empty"
"""The neighbour without people: a statement that fails for some data alone is answered there."""
SHUFFLED = "shuffled"
"""The same rows in another order: who comes first is decided by everybody's rows, so it must change nothing."""


@lru_cache
def _optional_passes() -> str:
    """The passes of DuckDB's optimizer that cost more than they save on a small shop."""
    with duckdb.connect(":memory:") as connection:
        names = connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()
    return ",".join(name for (name,) in names if name not in ("filter_pushdown", "filter_pullup", "join_order"))


def plan_plainly(connection: duckdb.DuckDBPyConnection, plain: bool = True) -> None:
    """Have DuckDB plan without what only large tables need, or with all that it has."""
    connection.execute(f"SET disabled_optimizers = '{_optional_passes() if plain else ''}'")


class Shop:
    """A database and its neighbours. `units` are those whose deletion is tried: whales and outliers first, at most `most`; then
    newcomers, whose arrival is. `ids`: their type where it is not what it usually is (`shop_world.widened`). `quick`: plain plans
    of the database, too; neighbours have no others, since plans of small tables take longer than what they save. `trouble`: of a
    tame shop there is none."""

    dialect = "duckdb"

    def __init__(self, seed: int, most: int = 100, ids: str = "", quick: bool = False, trouble: bool = True) -> None:
        self._connection = duckdb.connect(":memory:", config={"threads": 1, "preserve_insertion_order": False})
        self._connection.execute("SET TimeZone = 'UTC'")
        shop_world.fill(self._connection, seed, trouble=trouble)
        if ids:
            shop_world.widened(self._connection, ids)
        found = self._connection.execute(
            "SELECT customer_id FROM customers UNION SELECT customer_id FROM orders UNION SELECT customer_id FROM visits"
        )
        everyone = sorted((u for (u,) in found.fetchall() if u is not None), key=lambda u: shop_world.telling(u % shop_world.FAR))
        leaving = everyone[:most]
        for unit in leaving:
            mine = f"SELECT order_id FROM main.orders WHERE customer_id = {unit} AND order_id IS NOT NULL"
            self._neighbour(unit, f"customer_id IS DISTINCT FROM {unit}", f"order_id IS NULL OR order_id NOT IN ({mine})")
        somebodys = "SELECT order_id FROM main.orders WHERE customer_id IS NOT NULL"
        self._neighbour(NOBODY, "customer_id IS NOT NULL", f"order_id IN ({somebodys})")
        self._neighbour(EMPTY, "false", "false")
        self._neighbour(SHUFFLED, "true", "true", " ORDER BY rowid DESC")
        arriving = shop_world.NEWCOMERS if most and not ids else ()
        for name in arriving:
            self._neighbour(name, "true", "true")
            for text in shop_world.arrival(name):
                self._connection.execute(text.format(f"beside_{name}"))
        self.units: tuple[int | str, ...] = (*leaving, *arriving)
        self._quick, self._plain = quick, False
        self._connection.execute(f"CREATE SCHEMA {all_neighbours.SCHEMA}")
        self.neighbours = AllNeighbours(
            (NOBODY, SHUFFLED, *self.units), self._columns, self._connection.execute, self._plainly, (duckdb.Error,)
        )

    def _columns(self, database: str, table: str) -> list[str]:
        (described,) = [self._connection.execute(f'SELECT * FROM {database}"main"."{table}" LIMIT 0').description]
        return [column[0] for column in described]

    def _plan_plainly(self, plain: bool) -> None:
        if plain is not self._plain:
            plan_plainly(self._connection, plain)
            self._plain = plain

    def takes(self, sql: str) -> bool:
        """What PostgreSQL makes of a statement is not DuckDB's to say."""
        return True

    def execute(self, sql: str) -> None:
        """Change the database itself, or what stands beside it."""
        self._connection.execute(sql)
        self.neighbours.forget()

    def create(self, sql: str) -> None:
        """Add what was not there."""
        self._connection.execute(sql)

    def _neighbour(self, name: int | str, condition: str, items: str, order: str = "") -> None:
        kept = {"products": "true", "regions": "true", "order_items": items}
        self._connection.execute(f"CREATE SCHEMA beside_{name}")
        for table in shop_world.TABLES:
            rows = f"FROM main.{table} WHERE {kept.get(table, condition)}{order}"
            self._connection.execute(f"CREATE TABLE beside_{name}.{table} AS {rows}")

    def run(self, sql: str, unit: int | str | None = None) -> pa.Table:
        """A generated statement on the database, or on the neighbour that differs by `unit`. Raises duckdb.Error."""
        if unit is not None:
            return self.neighbours.answer(sql, unit, self.alone)
        self._plan_plainly(self._quick)
        return self._run(sql)

    def alone(self, sql: str, unit: int | str) -> pa.Table:
        return self._plainly(sql.replace('"main".', f'"beside_{unit}".'))

    def _plainly(self, sql: str) -> pa.Table:
        self._plan_plainly(True)
        return self._run(sql)

    def _run(self, sql: str) -> pa.Table:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a copy of few rows; a relation would be planned twice
            return self._connection.execute(sql).to_arrow_table()


def as_ordered(text: str, table: pa.Table) -> list[Row]:
    """The rows that `text` returned, in its order; sorted where it ends with no ORDER BY (counts for picks), for threads may turn
    these round."""
    return cells(table) if "ORDER BY" in text.rpartition(")")[2] else sorted(cells(table), key=repr)


@dataclass(frozen=True)
class Answer:
    """What a backend says to `queries[0]`: rows by key, in order."""

    order: tuple[Row, ...]
    bases: Mapping[Row, Row]


class Sensitivity:
    """Deletes each unit in turn and compares with what the plan claims."""

    def __init__(self, shop: AnyShop) -> None:
        self._shop = shop
        self._whole: dict[str, pa.Table] = {}

    def whole(self, sql: str) -> pa.Table:
        """What the database itself says, asked once for each plan."""
        if sql not in self._whole:
            self._whole[sql] = self._shop.run(sql)
        return self._whole[sql]

    def problems(self, made: Plan, parameters: Sequence[str | None] = ()) -> list[str]:
        """What the plan claims and the data refute; empty when nothing is wrong."""
        values = values_of(made, parameters)
        found: list[str] = []
        self._whole.clear()
        for number, measurement in enumerate(made.measurements):
            found += (f"measurement {number}: {p}" for p in self._measurement(measurement, queries(measurement, values)))
            if not found and measurement.threshold is not None and measurement.threshold.first is not None:
                found += (f"measurement {number}: {p}" for p in self._rounds(measurement, measurement.threshold.first, values))
        return found

    def _rounds(self, m: Measurement, first: FirstRound, values: Sequence[str | None]) -> Iterator[str]:
        """The round before, and the second one when every other group was found in it: beside whales and newcomers alone."""
        sql, basis = first.query.render(values, literal), m.bases[first.basis]

        def answered(unit: int | str | None) -> tuple[dict[Row, int], dict[Row, int]]:
            rows = cells(self.whole(sql) if unit is None else self._shop.run(sql, unit))
            return {row[:-2]: row[-2] for row in rows}, {row[:-2]: row[-1] for row in rows}

        before, numbers = answered(None)
        again = m.queries[0].render(values, literal, [numbers[key] for key in sorted(numbers, key=repr)[::2]])
        plain, whole = _answer(m, self.whole(queries(m, values)[0])), _answer(m, self.whole(again))
        at = place(m, m.threshold.basis)[0] if m.threshold is not None else 0
        if set(plain.order) != set(before) or {k: row[at] for k, row in plain.bases.items()} != before:
            yield "where nothing is found, the rounds weigh groups differently"
        if any(whole.bases[key][at] for key in sorted(numbers, key=repr)[::2]):
            yield "groups that were found are weighed again"
        for unit in (*self._shop.units[:4], *self._shop.units[-2:], NOBODY, SHUFFLED):
            after, theirs = answered(unit)
            if any(numbers[key] != theirs[key] for key in numbers.keys() & theirs.keys()):
                yield f"beside {unit}: a group has another number"
            moved = math.sqrt(sum((before[key] - after[key]) ** 2 for key in before.keys() & after.keys()))
            if moved > (0 if unit in (NOBODY, SHUFFLED) else basis.linf * (1 + 1e-12)):
                yield f"beside {unit}: {basis.label} moved by {moved} in all, linf is {basis.linf}"
            if any({**before, **after}[key] > m.threshold.min_units * basis.fine for key in before.keys() ^ after.keys()):
                yield f"beside {unit}: a new group weighs more than it may"
            for problem in _compared(m, whole, _answer(m, self._shop.run(again, unit))):
                yield f"beside {unit}, second round: {problem}"

    def _measurement(self, m: Measurement, sql: Sequence[str]) -> Iterator[str]:
        try:
            whole = self.whole(sql[0])
            yield from _malformed(m, whole)
            before = _answer(m, whole)
            if _answer(m, self._shop.run(sql[0], NOBODY)) != before:
                yield "rows of nobody count"
            if _answer(m, self._shop.run(sql[0], SHUFFLED)) != before:
                yield "the order of rows counts"
            for unit in self._shop.units:
                after = _answer(m, self._shop.run(sql[0], unit))
                for problem in _compared(m, before, after):
                    yield f"beside {unit}: {problem}"
            for selection in m.selections:
                yield from self._selection(m, selection, before, sql[selection.query])
        except (duckdb.Error, pa.ArrowException, ValueError) as error:
            yield f"the generated SQL failed: {type(error).__name__}: {str(error)[:300]}"

    def _selection(self, m: Measurement, selection: Selection, before: Answer, sql: str) -> Iterator[str]:
        def counted(unit: int | str | None) -> list[Row]:
            return _declared(m, before, self.whole(sql) if unit is None else self._shop.run(sql, unit))

        whole = counted(None)
        for same in (NOBODY, SHUFFLED):
            if Counter(counted(same)) != Counter(whole):
                yield f"{selection.label}: its counts differ in the database {same!r}"
        for unit in self._shop.units:
            for problem in _counts_moved(m, selection.sensitivity, selection.size, whole, counted(unit)):
                yield f"beside {unit}: {selection.label}: {problem}"


def _malformed(m: Measurement, table: pa.Table) -> Iterator[str]:
    wanted = [f"k{i}" for i in range(len(m.keys))] + [name for i, b in enumerate(m.bases) for name in b.columns(i)]
    if table.column_names != wanted and wanted:
        yield f"columns {table.column_names} instead of {wanted}"
    for name in table.column_names:
        column = table.column(name)
        if name.startswith("b") and (column.type != pa.int64() or column.null_count):
            yield f"{name} is {column.type} with {column.null_count} NULLs"
    if not m.keys and table.num_rows != 1:
        yield f"{table.num_rows} rows without keys"


def _answer(m: Measurement, table: pa.Table) -> Answer:
    rows = cells(table)
    keys = [row[: len(m.keys)] for row in rows]
    repeated = [key for key, times in Counter(keys).items() if times > 1]
    if repeated:
        raise ValueError(f"group {repeated[0]} is returned twice")
    return Answer(tuple(keys), {row[: len(m.keys)]: row[len(m.keys) :] for row in rows})


def compared(m: Measurement, before: pa.Table, after: pa.Table) -> list[str]:
    """What two answers to `queries[0]`, of databases that differ in one unit, have against the plan's claims."""
    return [*_malformed(m, before), *_malformed(m, after), *_compared(m, _answer(m, before), _answer(m, after))]


def _compared(m: Measurement, before: Answer, after: Answer) -> Iterator[str]:
    if m.dense and before.order != after.order:
        yield "a declared group appeared, vanished or moved"
    shared = set(before.order) & set(after.order)
    if [k for k in before.order if k in shared] != [k for k in after.order if k in shared]:
        yield "the order of groups depends on data"
    changed = [k for k in {**before.bases, **after.bases} if before.bases.get(k) != after.bases.get(k)]
    if len(changed) > m.l0:
        yield f"{len(changed)} groups changed, l0 is {m.l0}: {changed[:4]}"
    for key in changed:
        yield from _moved(m, key, before.bases.get(key), after.bases.get(key))
    yield from _norms(m, [(before.bases.get(key), after.bases.get(key)) for key in changed])


def place(m: Measurement, i: int) -> tuple[int, int]:
    """Where the columns of basis i stand: one, or one for each step."""
    first = sum(b.steps for b in m.bases[:i])
    return first, first + m.bases[i].steps


def _norms(m: Measurement, changes: Sequence[tuple[Row | None, Row | None]]) -> Iterator[str]:
    """What a unit changes in all groups together, where that is what is bounded; groups that come or go are the threshold's."""
    for i, basis in enumerate(m.bases):
        at = range(*place(m, i))
        moved = [abs(old[j] - new[j]) for old, new in changes if old is not None and new is not None for j in at]
        total = sum(moved) if basis.norm == 1 else math.sqrt(sum(x * x for x in moved))
        most = basis.linf if basis.running is None else basis.running.within  # what is coded for noise is what moved
        if basis.norm and total > most * (1 + 1e-12):
            yield f"{basis.label} moved by {total} in all, linf is {most}"


def _moved(m: Measurement, key: Row, before: Row | None, after: Row | None) -> Iterator[str]:
    """One group. An undeclared one may appear or vanish at exactly min_units units; zeros stand for it then."""
    if (before is None or after is None) and m.top is not None:
        score, most = (before or after or ())[place(m, m.top.score)[0]], m.top.min_units * m.bases[m.top.score].linf
        if score > most:
            yield f"group {key} appeared or vanished at a score of {score}"
        if m.top.min_units > 1:
            return
    elif (before is None or after is None) and m.threshold is not None and m.bases[m.threshold.basis].norm:
        basis = m.bases[m.threshold.basis]
        weight = (before or after or ())[place(m, m.threshold.basis)[0]]
        if weight > m.threshold.min_units * basis.fine:
            yield f"group {key} appeared or vanished at a weight of {weight / basis.fine}"
        if m.threshold.min_units > 1:
            return
    elif (before is None or after is None) and m.threshold is not None:
        units = (before or after or ())[place(m, m.threshold.basis)[0]]
        if units != m.threshold.min_units:
            yield f"group {key} appeared or vanished at {units} units"
        if m.threshold.min_units > 1:
            return  # what it counts below min_units is not returned, and not released
    bases = [basis for basis in m.bases for _ in range(basis.steps)]
    zeros = (0,) * len(bases)
    for basis, old, new in zip(bases, before or zeros, after or zeros, strict=True):
        if abs(old - new) > basis.linf:
            yield f"{basis.label} of group {key} moved from {old} to {new}, linf is {basis.linf}"
        if abs(old) > LIMIT or abs(new) > LIMIT:
            yield f"{basis.label} of group {key} is beyond 2**62"
    if (
        m.threshold is not None
        and not m.bases[m.threshold.basis].norm
        and any(side is not None and side[place(m, m.threshold.basis)[0]] < m.threshold.min_units for side in (before, after))
    ):
        yield f"group {key} has fewer than {m.threshold.min_units} units"


def _declared(m: Measurement, answer: Answer, table: pa.Table) -> list[Row]:
    """The counts that are looked at: of declared groups alone, where groups are declared."""
    known = set(answer.order)
    return [row for row in cells(table) if not m.dense or not m.keys or row[: len(m.keys)] in known]


def _counts_moved(m: Measurement, most: int, size: int, before: list[Row], after: list[Row]) -> Iterator[str]:
    """A selection's counts: in at most l0 groups, one unit adds at most `most` contributions, all on the grid."""
    width = len(m.keys)
    old, new = (Counter({row[: width + 1]: row[width + 1] for row in t}) for t in (before, after))
    if any(not 0 <= row[width] < size for row in (*old, *new)):
        yield "a bucket is off the grid"
    moved: Counter[Row] = Counter()
    for row in {*old, *new}:
        moved[row[:width]] += abs(old[row] - new[row])
    groups = {key: n for key, n in moved.items() if n}
    if len(groups) > m.l0:
        yield f"{len(groups)} groups changed, l0 is {m.l0}"
    for key, n in groups.items():
        if n > most:
            yield f"group {key} lost {n} contributions, sensitivity is {most}"


Judge = Callable[[Plan], list[str]]

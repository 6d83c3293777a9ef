"""How often what is stated of an error is true: every numeric cell of the corpus's answers, beside the exact answer.

Knows: the corpus (in the shared material, not in this repository), its policies, both servers as a client. Must not know: plans.
Each data set is asked under its own policy, and under two more: with `rows: 10` and with `{rows_per_group: 2, groups: 10}` on
every table that can have several rows of a person, and the greatest number of rows that a person has as `rows_at_most`.
Of each statement that is answered, each output that holds an aggregate is asked for with `dpproxy.low` and `dpproxy.high` around
it, and the same SQL is run by the engine itself on the data, without any bound (`exact`, `generous.seen`). Where the outermost
SELECT is about released rows, the SELECTs below it that measure are asked by themselves.

A cell is *held* when its exact value lies between its ends; an end that is NULL or infinite is open. A cell with two open ends
is *told in words* where the notice names an aggregate of its column and says why, else *without error*; of the former it is
counted for how many the error by noise alone is stated (`dpproxy.stderr`). A row is *missing* when the exact answer has it, no
LIMIT or HAVING left it out, and the notice says nothing of groups that are not shown, or of values that are not counted. Of
window functions sums of aggregates are looked at, others are made of other rows.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import sqlglot
from exact import Direct, Row, direct, order, plain, readings, unnested
from generous import Place, places
from ruamel.yaml import YAML
from sqlglot import exp

from dpproxy.plan.intervals.window_sums import window_sum
from dpproxy.policy.load import load_file
from dpproxy.policy.model import TablePolicy
from dpproxy.serve.launch import Proxy, launched
from dpproxy.sql.dialect import FaithfulPostgres
from dpproxy.sql.trees import function_name, is_aggregate

POLICIES = Path(__file__).resolve().parent.parent / "tests" / "corpus" / "policies"
PATIENCE = 60  # seconds for a statement
EPSILONS = ("0.1", "1")
VARIANTS: dict[str, dict[str, int] | None] = {"own": None, "rows": {"rows": 10}, "groups": {"rows_per_group": 2, "groups": 10}}
"""What becomes of the bounds of each policy, by name."""
TOLERANCE = 1e-6  # relative: sums of doubles differ in their last digits
ADDED, OTHERS = re.compile(r"(?i)\b(count|sum)\("), re.compile(r"(?i)\b(avg|min|max|stddev\w*|var\w*|\w*cont|\w*disc)\(|/")
"""Of a group that is not in the data, counts and sums are 0, and others nothing at all."""
HIDING = ("not shown", "rows whose")
"""How a notice says that groups may not be shown: of few people, or of values that are not declared."""
NO_INTERVAL = "no interval can be given for "
MISPLACED = "must stand around an aggregate"


@dataclass(frozen=True)
class Probe:
    """One SELECT with its errors: `sql` asks for what it asked for, keys that it did not show, low ends and high ends, in that
    order; `exact` for the former two, of all groups there are. `keys` and `values` are places among these `width`, `labels`
    those of the values; `chosen`: LIMIT or HAVING leave rows out."""

    id: str
    sql: str
    exact: str
    keys: tuple[int, ...]
    values: tuple[int, ...]
    width: int
    labels: tuple[str, ...]
    chosen: bool


@dataclass
class Tally:
    """What was seen of one statement, or of many added up."""

    held: int = 0
    cells: int = 0
    open: int = 0  # cells with one end
    without: int = 0  # cells with none
    worded: int = 0  # cells with none of which the notice says why
    spread: int = 0  # of these, cells whose error by noise is stated
    endless: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)  # which these are: the output, and the row's name
    missing: int = 0
    widths: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.held += other.held
        self.cells += other.cells
        self.open += other.open
        self.without += other.without
        self.worded += other.worded
        self.spread += other.spread
        self.missing += other.missing
        self.widths += other.widths
        self.failed += other.failed


# --- what is asked


def probes(entry: dict[str, Any]) -> Iterator[list[Probe]]:
    """Yield, from the outermost SELECTs to inner ones, what may be asked of a statement: each list is of one depth."""
    ours = sqlglot.parse_one(entry["sql"], read=FaithfulPostgres)
    theirs = sqlglot.parse_one(entry["sql"], read="duckdb")
    pairs = list(zip(_selects(ours), _selects(theirs), strict=False))
    for depth in sorted({_depth(mine) for mine, _ in pairs}):
        found = (_probe(entry["id"], mine, other) for mine, other in pairs if _depth(mine) == depth)
        yield [probe for probe in found if probe is not None]


def _selects(tree: exp.Expr) -> list[exp.Select]:
    return list(tree.find_all(exp.Select))


def _depth(node: exp.Expr) -> int:
    found, parent = 0, node.parent
    while parent is not None:
        found, parent = found + isinstance(parent, exp.Select), parent.parent
    return found


def _probe(name: str, mine: exp.Select, theirs: exp.Select) -> Probe | None:
    outputs = [node.unalias() for node in mine.expressions]
    told = [i for i, node in enumerate(outputs) if _aggregates(node)]
    if not told or any(node.is_star for node in outputs):
        return None
    keys = [i for i, node in enumerate(outputs) if i not in told and not any(map(is_aggregate, node.walk()))]
    if len(theirs.expressions) != len(mine.expressions):
        return None
    ours, exact = _alone(mine), _alone(theirs)
    labels = tuple(_text(outputs[i]) for i in told)
    hidden = _hidden_keys(mine, {n.alias_or_name.lower() for n in mine.expressions})
    same = _hidden_keys(theirs, {n.alias_or_name.lower() for n in theirs.expressions})
    more = [f"{_text(node)} AS dpproxy_g{n}" for n, node in enumerate(hidden)]
    more += [f"dpproxy.{side}({label}) AS dpproxy_{side}{n}" for side in ("low", "high") for n, label in enumerate(labels)]
    for text in more:
        ours.append("expressions", sqlglot.parse_one(f"SELECT {text}", read=FaithfulPostgres).expressions[0])
    for n, node in enumerate(same):
        exact.append("expressions", exp.alias_(node, f"dpproxy_g{n}"))
    chosen = any(ours.args.get(part) for part in ("having", "limit", "offset"))
    for part in ("having", "limit", "offset", "order"):
        exact.set(part, None)
    width = len(outputs)
    places = (*keys, *range(width, width + len(hidden)))
    return Probe(name, _text(ours), exact.sql(dialect="duckdb"), places, tuple(told), width + len(hidden), labels, chosen)


def _alone(select: exp.Select) -> exp.Select:
    """The SELECT as a statement: with all that WITH names around it."""
    found = select.copy()
    names, parent = [], select.parent
    while parent is not None:
        with_ = parent.args.get("with_")
        names = [*(cte.copy() for cte in with_.expressions if not _holds(cte, select)), *names] if with_ is not None else names
        parent = parent.parent
    own = found.args.get("with_")
    every = [*names, *(own.expressions if own is not None else [])]
    if every:
        found.set("with_", exp.With(expressions=every))
    return found


def _holds(cte: exp.Expr, select: exp.Expr) -> bool:
    return any(node is select for node in cte.walk())


def _hidden_keys(select: exp.Select, names: set[str]) -> list[exp.Expr]:
    """Keys that are not among the outputs."""
    group = select.args.get("group")
    if group is None or any(group.find_all(exp.Rollup, exp.Cube, exp.GroupingSets)):
        return []
    items = [node for node in group.expressions if not isinstance(node, exp.Literal)]
    return [n.copy() for n in items if not (isinstance(n, exp.Column) and n.name.lower() in names)]


def _aggregates(node: exp.Expr) -> bool:
    found = [n for n in node.walk() if is_aggregate(n) and function_name(n) != "grouping"]
    return bool(found) and all(map(_adds_all, node.find_all(exp.Window))) and node.find(exp.Query) is None


def _adds_all(window: exp.Window) -> bool:
    """Whether it is a sum that groups without rows, which the exact answer lacks, add nothing to."""
    sums = window_sum(window)
    return sums is not None and function_name(window.this) == "sum" and sums.width is None and is_aggregate(sums.argument)


def _text(node: exp.Expr) -> str:
    return node.sql(dialect=FaithfulPostgres)


# --- what is answered


class Asked:
    """Holds the proxy and the engine itself over one data set."""

    def __init__(self, name: str, proxy: Proxy, database: Path, policy: Path) -> None:
        self._dsn = f"host={proxy.host} port={proxy.port} user=analyst password=analyst dbname={name}"
        self._direct: list[Direct] = direct(str(database), policy)
        self._direct[0].execute("SET enable_progress_bar = false")
        self._notices: list[str] = []
        self._epsilon, self.reason = "1", ""
        self._connect()

    def _connect(self) -> None:
        self._proxied = psycopg.connect(self._dsn, autocommit=True)
        self._proxied.add_notice_handler(lambda notice: self._notices.append(notice.message_primary or ""))
        self._proxied.execute("SET dpproxy.reuse = off")
        self._proxied.execute(f"SET statement_timeout = '{PATIENCE}s'")
        self._proxied.execute(f"SET dpproxy.epsilon = {self._epsilon}")

    def at(self, epsilon: str) -> None:
        self._epsilon = epsilon
        self._connect()

    def statement(self, entry: dict[str, Any]) -> list[tuple[Probe, Tally]]:
        """What was seen of the outermost SELECTs that measure."""
        self.reason = "no output holds an aggregate of its own"
        for depth in probes(entry):
            found = [(probe, tally) for probe in depth if (tally := self._probed(probe)) is not None]
            if found:
                return found
        return []

    def _probed(self, probe: Probe) -> Tally | None:
        rows = self._answer(probe.sql)
        refused: list[int] = []
        if isinstance(rows, str):
            if MISPLACED in rows:
                return None
            parts = [n for n in range(len(probe.labels)) if not isinstance(self._answer(f"EXPLAIN {_only(probe, [n])}"), str)]
            refused = [n for n in range(len(probe.labels)) if n not in parts]
            if len(refused) == len(probe.labels) and isinstance(self._answer(f"EXPLAIN {_only(probe, [])}"), str):
                self.reason = rows
                return None
            rows = self._answer(_only(probe, parts))
            if isinstance(rows, str):
                self.reason = rows
                return None
        said = [found for text in (probe.exact, *readings(probe.exact, "duckdb")) if (found := self._said(text)) is not None]
        told = any(told in n for n in self._notices for told in HIDING)
        if not said:
            return None
        tally = _tally(probe, rows, said, refused, told, " ".join(self._notices))
        tally.spread = self._spread(probe, tally.endless)
        return tally

    def _spread(self, probe: Probe, cells: Sequence[tuple[int, tuple[str, ...]]]) -> int:
        """Of how many of these cells the spread by noise is stated."""
        stated = set[tuple[int, tuple[str, ...]]]()
        for n in sorted({n for n, _ in cells}):
            rows = self._answer(_spreads(probe, n))
            shown = [] if isinstance(rows, str) else rows
            stated |= {(n, _name(probe, row)) for row in shown if _number(row[probe.width + n]) is not None}
        return sum(cell in stated for cell in cells)

    def _answer(self, sql: str) -> list[Row] | str:
        if self._proxied.closed:
            self._connect()
        self._notices.clear()
        try:
            return [tuple(map(plain, row)) for row in self._proxied.execute(sql.encode()).fetchall()]
        except psycopg.Error as error:
            return str(error)

    def _said(self, sql: str) -> list[Row] | None:
        try:
            return [tuple(map(plain, row)) for row in unnested(self._direct[0].execute(sql).fetchall())]
        except duckdb.Error as error:
            self.reason = f"the engine cannot: {error}"
            return None

    def close(self) -> None:
        self._proxied.close()
        for connection in self._direct:
            connection.close()


def _only(probe: Probe, parts: Sequence[int]) -> str:
    """The probe with ends for some of its values only: NULL for others."""
    tree = sqlglot.parse_one(probe.sql, read=FaithfulPostgres)
    count = len(probe.labels)
    for n in set(range(count)) - set(parts):
        for at in (probe.width + n, probe.width + count + n):
            tree.expressions[at].replace(exp.alias_(exp.Null(), tree.expressions[at].alias))
    return _text(tree)


def _spreads(probe: Probe, n: int) -> str:
    """The probe with the spread of one of its values in place of its low end: NULL for all other ends."""
    tree = sqlglot.parse_one(_only(probe, []), read=FaithfulPostgres)
    spread = sqlglot.parse_one(f"SELECT dpproxy.stderr({probe.labels[n]})", read=FaithfulPostgres).expressions[0]
    tree.expressions[probe.width + n].set("this", spread)
    return _text(tree)


def _tally(
    probe: Probe, rows: Sequence[Row], said: Sequence[Sequence[Row]], refused: Sequence[int], told: bool, words: str = ""
) -> Tally:
    """Compare rows of keys, values, lows, highs with rows of keys and values, in several readings. `words`: the notice."""
    named = [_named(label, words) for label in probe.labels]
    tally, count = Tally(), len(probe.labels)
    exact = [{_name(probe, row): row for row in sorted(reading, key=order)} for reading in said]
    nothing = [0.0 if ADDED.search(label) and not OTHERS.search(label) else None for label in probe.labels]
    for row in rows:
        name = _name(probe, row)
        for n, at in enumerate(probe.values):
            value = row[at]
            true = [reading[name][at] if name in reading else nothing[n] for reading in exact]
            if _number(value) is None or all(_number(t) is None for t in true):
                continue
            tally.cells += 1
            low, high = _number(row[probe.width + n]), _number(row[probe.width + count + n])
            ends = (low is not None) + (high is not None)
            tally.without += ends == 0 and not named[n]
            tally.worded += ends == 0 and named[n]
            tally.endless += [(n, name)] if ends == 0 and named[n] else []
            tally.open += ends == 1
            held = any(_holds_value(low, high, number) for t in true if (number := _number(t)) is not None)
            tally.held += held and ends > 0
            if low is not None and high is not None:
                tally.widths.append(_width(low, high, _number(value) or 0.0))
            if not held or not ends:
                none = "worded" if named[n] else "refused" if n in refused else "without"
                why = "missed" if ends else none
                tally.failed.append(f"{probe.labels[n]}: {why} {value} [{low}, {high}] for {true[0]} {name}")
    if not probe.chosen and not told:
        shown = {_name(probe, row) for row in rows}
        tally.missing = sum(name not in shown for name in exact[0])
    return tally


def _named(label: str, words: str) -> bool:
    """Whether a notice says that there is no interval of an aggregate of an output."""
    told = words.partition(NO_INTERVAL)[2].lower()
    calls = sqlglot.parse_one(f"SELECT {label}", read=FaithfulPostgres).walk()
    return bool(told) and any(is_aggregate(node) and _text(node).lower() in told for node in calls)


def _name(probe: Probe, row: Row) -> tuple[str, ...]:
    key = [row[at] for at in probe.keys]
    return tuple(f"{cell:.9g}" if isinstance(cell, float) else str(cell) for cell in key)


def _number(value: Any) -> float | None:
    """A finite number, of a text too that is one; None else."""
    try:
        found = float(value) if value is not None and not isinstance(value, bool) else math.nan
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def _width(low: float, high: float, value: float) -> float:
    """Half the width, relative to the value: of 0, infinite."""
    return (high - low) / 2 / abs(value) if value else math.inf


def _holds_value(low: float | None, high: float | None, true: float) -> bool:
    slack = TOLERANCE * max(abs(true), 1.0)
    return (low is None or low <= true + slack) and (high is None or true <= high + slack)


# --- the table


def honesty(corpus: Path, asked: str, verbose: bool, bounds: str = "") -> int:
    """Print a line for each data set and epsilon, then all, of each kind of `bounds` (VARIANTS, by comma; all where none is
    named). Returns the exit status."""
    if not corpus.is_file():
        print(f"honesty: no corpus at {corpus}", file=sys.stderr)
        return 1
    entries = [json.loads(line) for line in corpus.read_text().splitlines() if line.strip()]
    able = [e for e in entries if e["expect"] in ("answer", "either") and "duckdb" in e["runs_on"]]
    os.environ["DPPROXY_CORPUS"] = str(corpus.resolve().parent / "db")
    names = [n for n in sorted({e["dataset"] for e in able}) if not asked or n in asked.split(",")]
    print("honesty: cells whose stated 95 % interval holds the exact answer of the same SQL, the bounds' own cuts included")
    print(
        "data set\tepsilon\tstatements\tcells\theld\tof two-sided\tone-sided\ttold in words\tits noise stated\twithout error\t"
        "missing rows\twidth\tstatements nine in ten of whose cells are held\tof those with an end"
    )
    for kind in bounds.split(",") if bounds else VARIANTS:
        print(f"bounds: {VARIANTS[kind] or 'as each policy has them'}")
        _all(names, able, verbose, VARIANTS[kind])
    return 0


def _all(names: Sequence[str], able: Sequence[dict[str, Any]], verbose: bool, bounds: dict[str, int] | None) -> None:
    whole: dict[str, list[Tally]] = {epsilon: [] for epsilon in EPSILONS}
    for name in names:
        for epsilon, tallies in _data_set(name, [e for e in able if e["dataset"] == name], verbose, bounds).items():
            print(f"{name}\t{epsilon}\t{line(tallies)}", flush=True)
            whole[epsilon] += tallies
    every = [tally for tallies in whole.values() for tally in tallies]
    for epsilon, tallies in (*whole.items(), ("both", every)):
        print(f"all\t{epsilon}\t{line(tallies)}")


def varied(policy: Path, database: Path, bounds: dict[str, int], folder: Path) -> Path:
    """Write a policy with other bounds on all tables that have some, and what the data have as `rows_at_most`, rounded up."""
    yaml = YAML()
    rules = yaml.load(policy.read_text())
    loaded = load_file(policy).policy
    with duckdb.connect(str(database), read_only=True) as connection:
        place = places(connection)
        for name, table in loaded.tables.items():
            written = next((rules["tables"][key] for key in (str(name), name.name) if key in rules["tables"]), None)
            if table.kind.shown or table.one or written is None:
                continue
            written["bounds"] = dict(bounds)
            if (most := _greatest(connection, table, place)) is not None:
                written["rows_at_most"] = rounded_up(most)
    made = folder / policy.name
    with made.open("w") as out:
        yaml.dump(rules, out)
    return made


def rounded_up(number: int) -> int:
    """Return the next of 1, 2, 5, 10, 20, ...: nobody knows a number of the data exactly for public reasons."""
    power: int = 10 ** (len(str(number)) - 1)
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= number)


def _greatest(connection: duckdb.DuckDBPyConnection, table: TablePolicy, place: Place) -> int | None:
    """The most rows of a person; None of a table without rows."""
    assert table.unit is not None
    joins = [f"FROM {place(table.name)} AS t0"]
    for i, step in enumerate(table.unit.steps):
        joins.append(f'JOIN {place(step.target)} AS t{i + 1} ON t{i}."{step.column}" = t{i + 1}."{step.target_column}"')
    unit = f't{len(table.unit.steps)}."{table.unit.column}"'
    each = f"SELECT count(*) AS n {' '.join(joins)} WHERE {unit} IS NOT NULL GROUP BY {unit}"
    (most,) = connection.execute(f"SELECT max(n) FROM ({each})").fetchone() or (None,)
    return int(most) if most is not None else None


def _data_set(
    name: str, entries: Sequence[dict[str, Any]], verbose: bool, bounds: dict[str, int] | None
) -> dict[str, list[Tally]]:
    found: dict[str, list[Tally]] = {epsilon: [] for epsilon in EPSILONS}
    own, database = POLICIES / f"{name}.yaml", Path(os.environ["DPPROXY_CORPUS"]) / f"{name}.duckdb"
    with tempfile.TemporaryDirectory(prefix="dpproxy-honesty-") as folder, contextlib.ExitStack() as stack:
        policy = varied(own, database, bounds, Path(folder)) if bounds is not None else own
        proxy = stack.enter_context(launched([policy], Path(folder) / "state"))
        asked = Asked(name, proxy, database, policy)
        for epsilon in EPSILONS:
            asked.at(epsilon)
            for number, entry in enumerate(entries, 1):
                print(f"honesty: {name}, epsilon {epsilon}, {number} of {len(entries)}", end="\r", file=sys.stderr, flush=True)
                tally = Tally()
                for _, seen in asked.statement(entry):
                    tally.add(seen)
                if tally.cells or tally.missing:
                    found[epsilon].append(tally)
                elif verbose:
                    print(f"{entry['id']}: not compared: {' '.join(asked.reason.split())[:300]}", file=sys.stderr, flush=True)
                for text in tally.failed if verbose else ():
                    print(f"{entry['id']} at {epsilon}: {text}", file=sys.stderr, flush=True)
                if verbose and tally.missing:
                    print(f"{entry['id']} at {epsilon}: {tally.missing} rows missing", file=sys.stderr, flush=True)
        asked.close()
    return found


def line(tallies: Sequence[Tally]) -> str:
    """The columns from `statements` on."""
    one = Tally()
    for tally in tallies:
        one.add(tally)
    none = one.without + one.worded
    missed = one.cells - one.held - none
    shares = (one.held / max(one.cells, 1), 1 - missed / max(one.cells - none, 1), one.open / max(one.cells, 1))
    width = f"{statistics.median(one.widths):.2g}" if one.widths else ""
    held, ended, opened = (f"{share:.1%}" for share in shares)
    counts = map(str, (one.worded, one.spread, one.without, one.missing))
    good = (_good([t.cells for t in tallies], tallies), _good([t.cells - t.without - t.worded for t in tallies], tallies))
    return "\t".join([str(len(tallies)), str(one.cells), held, ended, opened, *counts, width, *good])


def _good(cells: Sequence[int], tallies: Sequence[Tally]) -> str:
    """How many statements hold nine in ten of so many cells."""
    found = [tally.held >= 0.9 * number for number, tally in zip(cells, tallies, strict=True) if number]
    return f"{sum(found)} of {len(found)}"

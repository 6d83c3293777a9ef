"""Policies for the corpus as `dpproxy policy init` drafts them, with nothing more than the decisions of its sketches.

A sketch (`policy/NAME.json` beside the corpus) is what an owner would say in a minute: who is protected, which tables are
private and how they lead there, which columns are identifiers, which tables are public, ranges and values that are publicly
known, rows of a unit. Sentences in it that are no decision (`"per test"`, `"ISO list"`) stay TODOs of the draft. Budgets are
out of proportion on purpose.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dpproxy.authoring.draft import Column, Decisions, Frame, candidates, draft, unit_name
from dpproxy.authoring.init_command import describe
from dpproxy.authoring.unit_links import Link, own_key
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.people import make_verifier
from dpproxy.table_terms import TableName

USER = "analyst"  # the password is the same word


def drafted(sketch: Path, database: Path, folder: Path) -> Path:
    """Write the policy of a data set into a folder."""
    described = describe(str(database), folder, {})
    decisions = Sketch(json.loads(sketch.read_text()), described.catalog).decisions()
    frame = Frame(sketch.stem, described.backend, USER, make_verifier(USER))
    text = draft(described.catalog, decisions, described.facts, frame)
    text = re.sub(r"budget: \{ epsilon: [^}]*\}", "budget: { epsilon: 1e9, delta: 0.5 }", text)
    text = re.sub(r"query: \{[^}]*\}", "query: { epsilon: 1, max_epsilon: 1e7, delta: 1e-6 }", text)
    path = folder / f"{sketch.stem}.yaml"
    path.write_text(text.replace("min_units: 10", "min_units: 1"))
    return path


class Sketch:
    """Reads one sketch against the catalog of its data set."""

    def __init__(self, said: Mapping[str, Any], catalog: Catalog) -> None:
        self._said, self._catalog = said, catalog
        self._unit = self._unit_column()

    def decisions(self) -> Decisions:
        links, out = {}, set()
        for name, text in self._tables(self._said["private"]):
            link = self._link(name, text)
            if link is None:
                out.add(name)
            else:
                links[name] = link
        return Decisions(
            self._unit,
            unit_name(self._unit),
            public=frozenset(name for name, _ in self._tables(dict.fromkeys(self._said["public"], ""))),
            left_out=frozenset(out),
            links=links,
            keys=frozenset(self._identifiers()) - {self._unit},
            shown=frozenset(self._others()),
            ranges={c: self._ends(e) for n, v in self._said["bounds"].items() if (e := _pair(v)) for c in self._columns(n)},
            values={c: tuple(v) for n, v in self._said["public_keys"].items() if isinstance(v, list) for c in self._columns(n)},
            bounds=dict(self._bounds(links)),
        )

    def _tables(self, said: Mapping[str, str]) -> Iterator[tuple[TableName, str]]:
        for text, what in said.items():
            for name in self._catalog.tables:
                if name.name.lower() == text.lower():
                    yield name, what

    def _unit_column(self) -> Column:
        for table, column in re.findall(r"(?:\w+\.)?(\w+)\.(\w+)", self._said["unit"]):
            for name, found in self._catalog.tables.items():
                if name.name == table and found.column(column.lower()):
                    return name, column.lower()
        word = self._said["unit"].split()[0]
        return next(c for c in candidates(self._catalog) if c[1] == word)

    def _link(self, name: TableName, text: str) -> Link | None:
        """`customer_id`, `invoice_id -> invoice -> customer`, `user -> users.id`; None for what is no column."""
        if text.startswith("reverse"):
            return self._reverse(name, text)
        table = self._catalog.tables[name]
        first, *way = [part.split()[0].split(".")[0] if part.strip() else "" for part in text.partition("(")[0].split("->")]
        words = [w.lower() for w in first.split("/")]
        column = next((w for w in words if table.column(w)), own_key(table) if first == "row" else None)
        if column is None:
            return None
        if len(way) < 2:
            return Link(column)
        target = next(t for t in self._catalog.tables if t.name == way[0])
        return Link(column, target, own_key(self._catalog.tables[target]) or column)

    def _reverse(self, name: TableName, text: str) -> Link | None:
        """`reverse: customer.address_id -> address`: the row belongs to whose row refers to it."""
        found = re.match(r"reverse: (\w+)\.(\w+)", text)
        column = own_key(self._catalog.tables[name])
        if found is None or column is None:
            return None
        return Link(column, next(t for t in self._catalog.tables if t.name == found[1]), found[2])

    def _columns(self, text: str) -> Iterator[Column]:
        """`table.column`, `column`, or a pattern of columns."""
        table, _, column = text.lower().rpartition(".")
        for name, found in self._catalog.tables.items():
            for known in found.columns:
                if (not table or name.name == table) and fnmatch.fnmatchcase(known.name.lower(), column):
                    yield name, known.name

    def _identifiers(self) -> Iterator[Column]:
        for name, columns in self._tables(self._said["ids"]):
            yield from ((name, column) for column in columns if self._catalog.tables[name].column(column))

    def _others(self) -> Iterator[Column]:
        """Columns beside a table's identifiers, all of which a sketch names."""
        for name, columns in self._tables(self._said["ids"]):
            yield from ((name, c.name) for c in self._catalog.tables[name].columns if c.name not in columns)

    @staticmethod
    def _ends(value: list[Any]) -> tuple[str, str]:
        low, high = value
        return (str(low), str(high)) if low != high else (str(low), str(high + 1))

    def _bounds(self, links: Mapping[TableName, Link]) -> Iterator[tuple[TableName, tuple[int, int]]]:
        said = self._said["max_rows_per_unit"]
        for name in links:
            rows = said.get(name.name, "") if isinstance(said, dict) else said
            found = re.search(rf"{name.name.lower()[:3]}\w* (?:bound )?(\d+)", str(rows)) if ";" in str(rows) else None
            numbers = [found[1]] if found else [] if ";" in str(rows) else re.findall(r"\d+", str(rows))
            if numbers:
                most = int(numbers[-1])
                yield name, (most, min(most, 10))


def _pair(said: Any) -> list[Any] | None:
    """Two ends; of a sentence with several ranges (`chol [50,400], hdl [10,150]`) the hull; None where there are none."""
    if isinstance(said, list):
        return said
    ends = [int(n) for pair in re.findall(r"\[(-?\d+),\s*(-?\d+)\]", said) for n in pair]
    return [min(ends), max(ends)] if ends else None

"""One file an engine: how the planner's expressions are spelled there, always total (no value can raise)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from dpproxy.engines import report_groups
from dpproxy.engines.base import Engine, quote
from dpproxy.engines.duckdb import DuckDB
from dpproxy.engines.key_stages import part_text
from dpproxy.engines.measured import Source
from dpproxy.engines.postgres import Postgres
from dpproxy.engines.relations import Renderer
from dpproxy.engines.spark import Spark
from dpproxy.plan.context import MAX_STAGED_ROWS, too_many_rows
from dpproxy.plan.functions.operators import NotPlain, typed_literal
from dpproxy.plan.properties.text_growth import CUTS, PARAMETER
from dpproxy.sql.template import Dialect, TooManyRows
from dpproxy.sql.types import FLOATS, INTEGERS, TEXTS, array_items
from dpproxy.tree.expr import Lit, Relation
from dpproxy.tree.measured import DeclaredPart, ReadingQuery, Statement, rows_of
from dpproxy.tree.spelling import Query


def engine(dialect: Dialect, cut: int = CUTS[0]) -> Engine:
    """Return the spelling of a dialect; `cut`: see `engines.postgres_operations`. Raises ValueError for one we do not have."""
    if dialect == "duckdb":
        return DuckDB(cut)
    if dialect == "postgres":
        return Postgres(cut)
    if dialect == "spark":
        return Spark(cut)
    raise ValueError(f"no engine for dialect {dialect}")


@dataclass(frozen=True)
class EngineSpeller:
    """The words of an engine, which cuts texts as `engine` says (`tree.spelling.Speller`)."""

    dialect: Dialect
    cut: int = CUTS[0]

    @property
    def uncut(self) -> EngineSpeller:
        return EngineSpeller(self.dialect)

    def rows(self, relation: Relation) -> Source:
        return Source.of(relation, engine(self.dialect, self.cut))

    def query(self, tree: Statement) -> Query:
        return self.rows(rows_of(tree).child).query(tree)

    def reading(self, tree: ReadingQuery) -> str:
        return report_groups.spelled(tree, Renderer(engine(self.dialect, self.cut)))

    def groups(self, part: DeclaredPart) -> str:
        return part_text(part, Renderer(engine(self.dialect, self.cut)))


def literal(dialect: Dialect, type_: str, text: str | None) -> str:
    """Return a parameter's value, in PostgreSQL's text form, as a literal of the engine. Raises ValueError for what it can't
    take."""
    spelled = engine(dialect)
    if type_.startswith("rows("):
        return _rows(spelled, type_[5:-1].split(","), text)
    if type_.endswith("[]"):
        element = type_[:-2]
        items = array_items(text) if text is not None else [None]
        return ", ".join([_one(spelled, element, item) for item in items]) or spelled.literal(element, None)
    return _one(spelled, type_, text)


def _one(spelled: Engine, type_: str, text: str | None) -> str:
    if text is None or (type_ in FLOATS and text in _NOT_FINITE):
        return spelled.literal(type_, text)
    if type_ in TEXTS and len(text) > PARAMETER:
        raise ValueError(f"a text of more than {PARAMETER:,} characters cannot be given")
    if type_ == "timestamptz":
        text = re.sub(r"[+-]\d\d(:?\d\d)*$", "", text)  # the session's local time, as all timestamptz are below
    return spelled.literal(type_, _canonical(type_, text))


_NOT_FINITE = {"NaN", "Infinity", "-Infinity"}
"""Columns may hold them, so expressions are total on them. Infinite dates are another matter: they cannot be subtracted."""
MANY_ROWS = 1_000
"""From here on DuckDB is given one text that it takes apart: it reads 20,000 rows of VALUES in seconds."""


def _rows(spelled: Engine, types: list[str], text: str | None) -> str:
    """A JSON array of arrays of texts as a FROM item without alias. Raises TooManyRows where the facade says so."""
    rows = json.loads(text) if text is not None else []
    if isinstance(rows, str) or len(rows) > MAX_STAGED_ROWS:
        raise TooManyRows(rows if isinstance(rows, str) else too_many_rows(MAX_STAGED_ROWS))
    if not rows:
        nulls = ", ".join(spelled.literal(t, None) for t in types)
        return f"(SELECT {nulls} WHERE FALSE)"
    if len(rows) >= MANY_ROWS and spelled.dialect == "duckdb" and all(t in TEXTS or t in _CASTS for t in types):
        return _taken_apart(types, rows)
    cells = ("(" + ", ".join(_one(spelled, t, v) for t, v in zip(types, row, strict=True)) + ")" for row in rows)
    return f"(VALUES {', '.join(cells)})"


_CASTS = dict.fromkeys(INTEGERS, "BIGINT") | dict.fromkeys(("numeric", *FLOATS), "DOUBLE") | {"bool": "BOOLEAN", "date": "DATE"}


def _taken_apart(types: list[str], rows: list[list[str | None]]) -> str:
    """The rows as one constant of DuckDB's JSON functions. Cells are checked as other constants are."""
    plain = [i for i, t in enumerate(types) if t not in TEXTS]
    for row in rows:
        for i in plain:
            row[i] = _canonical(types[i], row[i])
    cells = (f"x[{i + 1}]" if t in TEXTS else f"TRY_CAST(x[{i + 1}] AS {_CASTS[t]})" for i, t in enumerate(types))
    text = quote(json.dumps(rows, ensure_ascii=False, separators=(",", ":")))
    return f"(SELECT {', '.join(cells)} FROM (SELECT unnest(from_json({text}, '[[\"VARCHAR\"]]')) AS x))"


def _canonical(type_: str, text: str | None) -> str | None:
    """Raises ValueError for what the type can't hold."""
    if text is None or (type_ in FLOATS and text in _NOT_FINITE):
        return text
    try:
        value = typed_literal(type_, text)
    except NotPlain as error:
        raise ValueError(f"this value of type {type_} cannot be used") from error
    assert isinstance(value, Lit)
    return value.text

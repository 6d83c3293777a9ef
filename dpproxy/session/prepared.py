"""A statement over private tables on its way through the facade: described, planned, fitted, bound.

Knows: plans, the extended protocol. Must not know: how answers are made, which messages the client sent. The original
is parsed and described first, so that names, privileges, types and errors are PostgreSQL's own; it is never executed.
The outer query is executed in its place, with the same columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.answers.failures import StatementFailed, internal
from dpproxy.answers.plan_cache import Settings
from dpproxy.answers.question import Literals
from dpproxy.answers.statement_end import Ending
from dpproxy.errors import (
    FEATURE_NOT_SUPPORTED,
    PROTOCOL_VIOLATION,
    QUERY_CANCELED,
    UNDEFINED_OBJECT,
    UNDEFINED_PARAMETER,
    Refusal,
)
from dpproxy.plan.model import Plan
from dpproxy.plan.report.explain import explain_format
from dpproxy.session.encodings import check_texts, converted, decoded
from dpproxy.session.link import Exchange
from dpproxy.session.oids import array_oid, type_name
from dpproxy.session.outer_text import (
    Outer,
    Outers,
    array_constant,
    same_columns,
    with_literals,
    wrapped,
)
from dpproxy.session.private_talk import PrivateTalk
from dpproxy.session.session_settings import (
    HIDING,
    SELECT_LIST,
    WIDTH,
    check_hiding,
    has_temporary,
    read_settings,
    seconds,
)
from dpproxy.sql.statements import Statement
from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import Field

INNER = "dpproxy_inner"
"""The SELECT inside a DECLARE, COPY or CREATE TABLE AS, which PostgreSQL does not describe by itself."""


@dataclass(frozen=True)
class Description:
    """What the facade says of the original. `fields` is None for a statement without columns."""

    oids: tuple[int, ...]
    fields: tuple[Field, ...] | None
    settings: Settings

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(map(type_name, self.oids))


@dataclass(frozen=True)
class Private:
    """A prepared statement over private tables. `outer` is parsed on the facade under the name `internal`."""

    statement: Statement
    description: Description
    plan: Plan
    internal: str
    outer: str

    @property
    def elements(self) -> tuple[str, ...]:
        """Types of the arrays that follow the client's parameters."""
        return ("text",) if self.statement.kind == "explain" else tuple(a.type for a in self.plan.arrays)

    @property
    def inlined(self) -> bool:
        """Utility statements take no parameters: the arrays are written into the text."""
        return self.statement.kind in ("copy", "cursor", "create_table_as")

    def text(self, literals: Sequence[bytes], rows: bool = True) -> str:
        """The utility statement around the outer query with its arrays written out; or around no row of it."""
        first = len(self.description.oids) + 1
        constants = {
            first + i: array_constant(literal, element)
            for i, (literal, element) in enumerate(zip(literals, self.elements, strict=True))
        }
        query = with_literals(self.outer, constants)
        query = query if rows else f"SELECT * FROM (\n{query}\n) AS dpproxy_tried LIMIT 0"
        return f"{self.statement.prefix}{self.statement.into}{query}{self.statement.suffix}"


async def describe(talk: PrivateTalk, parses: bytes, count: int, described: str) -> Description:
    """Send the Parse messages (`count` of them), describe one, read the settings. Raises StatementFailed, Refusal."""
    before = parses + front.describe("S", described)
    row, replies = await talk.ask_row(_SETTINGS, before=before, completions=count + 1)
    return await _described(talk, row, replies)


_SETTINGS = f"SELECT {SELECT_LIST}"


async def _current(talk: PrivateTalk, row: Sequence[bytes | None]) -> Settings:
    """The settings of `SELECT_LIST`. Raises Refusal where the session cannot be asked about private tables."""
    if has_temporary(row):
        (hiding,), _ = await talk.ask_row(HIDING)
        check_hiding(hiding)
    return read_settings(row)


async def _described(talk: PrivateTalk, row: Sequence[bytes | None], replies: Exchange) -> Description:
    oids = back.read_parameter_description(replies.payloads(b"t")[0])
    fields = replies.payloads(b"T")
    await _check_types(talk, oids)
    return Description(oids, back.read_row_description(fields[0]) if fields else None, await _current(talk, row))


async def describe_ahead(talk: PrivateTalk, parse: bytes, guess: Outer) -> tuple[Description, tuple[Field, ...] | None]:
    """`look` at an unnamed statement, with the outer query it had the last time parsed in the same flight: its columns.

    Not in a transaction, which a wrong guess would abort. Raises StatementFailed: for the guess, or for the statement.
    """
    behind = _parsing("", guess.text, guess.oids)
    row, replies = await talk.ask_row(_SETTINGS, before=parse + front.describe("S", ""), completions=2, behind=behind)
    fields = replies.payloads(b"T")
    return await _described(talk, row, replies), back.read_row_description(fields[-1]) if len(fields) == 2 else None


async def _check_types(talk: PrivateTalk, oids: Sequence[int]) -> None:
    """Raises Refusal for a parameter of a type that does not exist: PostgreSQL believes a Parse until it needs the type."""
    strange = ", ".join(str(oid) for oid in sorted(set(oids)) if type_name(oid) == "unknown")
    if strange:
        sql = f"SELECT pg_catalog.min(given) FROM pg_catalog.unnest('{{{strange}}}'::oid[]) AS _(given)"
        (missing,), _ = await talk.ask_row(f"{sql} WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_type WHERE oid = given)")
        if missing is not None:
            raise Refusal(UNDEFINED_OBJECT, f"type with OID {missing.decode()} does not exist")


def inner_text(statement: Statement) -> str:
    """The query of a statement at its place in the client's text, so that PostgreSQL's positions are the client's."""
    return " " * (statement.offset + len(statement.prefix)) + statement.query


async def fit(
    talk: PrivateTalk,
    dataset: Dataset,
    asker: Asker,
    statement: Statement,
    description: Description,
    internal_name: str,
    ending: Ending,
    parsed: tuple[Outer, tuple[Field, ...] | None] | None = None,
) -> Private:
    """Plan, and parse the outer query under `internal_name` with the original's columns, unless that has been `parsed`, with
    these columns. Raises Refusal."""
    told = explained(statement)
    plan = await planned(dataset, asker, statement, description, ending)
    check_withheld(plan, dataset)
    arrays = len(description.oids) + 1
    outer = f'SELECT pg_catalog.unnest(${arrays}::text[])::{told} AS "QUERY PLAN"' if told else plan.outer
    private = Private(statement, description, plan, internal_name, outer)
    if parsed is not None and _as_guessed(private, *parsed):
        return replace(private, outer=parsed[0].text)
    try:
        fields = await _parse_outer(talk, private, outer)
        if statement.kind != "explain" and description.fields is not None and not same_columns(description.fields, fields):
            if len(fields) != len(description.fields):
                raise RuntimeError("the outer query has another number of columns than the original")
            outer = wrapped(outer, description.fields, await _type_names(talk, description.fields))
            fields = await _parse_outer(talk, private, outer)
            if not same_columns(description.fields, fields):
                raise RuntimeError("the outer query has other columns than the original")
    except (StatementFailed, RuntimeError, ValueError, KeyError) as error:
        if isinstance(error, StatementFailed) and back.read_report(error.raw[5:]).get("C") == QUERY_CANCELED:
            raise
        detail = back.read_report(error.raw[5:]) if isinstance(error, StatementFailed) else None
        raise internal(error, outer_error=detail) from error
    return Private(statement, description, plan, internal_name, outer)


async def fitted(
    talk: PrivateTalk, dataset: Dataset, asker: Asker, statement: Statement, ending: Ending, outers: Outers | None
) -> Private:
    """A statement of a simple query, seen and planned, its outer query parsed without a name.

    What a SELECT had for an outer query the last time is sent along as a guess: `outers` knows it; None where a wrong guess would
    abort a transaction. Raises Refusal, StatementFailed, LinkLost.
    """
    query = inner_text(statement)
    if statement.kind == "other":  # what PostgreSQL cannot read either, it says itself, as it does where Parse is the client's
        await talk.ask(front.parse("", " " * statement.offset + statement.text), 1)
    outers = outers if statement.kind == "select" else None
    guess = outers.guess(asker.role.name, query) if outers is not None else None
    parsed, found = None, None
    if guess is not None:
        try:
            found, fields = await describe_ahead(talk, front.parse("", query), guess)
            parsed = guess, fields
        except StatementFailed:
            pass  # of the statement or of the guess: the former is said again
    found = found or await describe(talk, front.parse("", query), 1, "")
    if found.oids:
        raise Refusal(UNDEFINED_PARAMETER, "there is no parameter $1")
    private = await fit(talk, dataset, asker, statement, found, "", ending, parsed)
    if outers is not None:
        outer = Outer(private.plan.outer, private.outer, tuple(outer_oids(private)), found.fields)
        outers.learn(asker.role.name, query, outer)
    return private


def _as_guessed(private: Private, guess: Outer, fields: tuple[Field, ...] | None) -> bool:
    description = private.description
    same = (guess.planned, guess.oids, guess.fields) == (private.outer, tuple(outer_oids(private)), description.fields)
    return same and description.fields is not None and fields is not None and same_columns(description.fields, fields)


async def planned(dataset: Dataset, asker: Asker, statement: Statement, description: Description, ending: Ending) -> Plan:
    """The plan; a refusal's position is moved to its place in the client's text. From here on `statement_timeout` is known."""
    ending.limit(seconds(description.settings["statement_timeout"]))
    try:
        plan = await dataset.plans.plan_aside(statement, asker.role, description.settings, description.types, ending.race)
        check_texts(description.settings["client_encoding"], (statement.text, plan.outer, *(given.sql for given in plan.inputs)))
        return plan
    except Refusal as r:
        at = None if r.position is None else r.position + statement.offset + len(statement.prefix)
        raise Refusal(r.sqlstate, r.message, at, r.detail, r.hint) from None
    except Exception as error:
        raise internal(error) from error


def explained(statement: Statement) -> str | None:
    """The type of EXPLAIN's column, as PostgreSQL has it; None for another statement. Raises Refusal."""
    if statement.kind != "explain":
        return None
    try:
        return explain_format(statement.options)
    except Refusal as r:
        raise Refusal(r.sqlstate, r.message, statement.offset + 1, r.detail, r.hint) from None


def check_withheld(plan: Plan, dataset: Dataset) -> None:
    """A public table too large for the facade has no rows there: what the facade would answer is wrong. Raises Refusal."""
    for table in dataset.withheld:
        if re.search(rf'(?i)\b(from|join)\s+("?{re.escape(table.schema)}"?\.)?"?{re.escape(table.name)}"?(?![\w"])', plan.outer):
            raise Refusal(
                FEATURE_NOT_SUPPORTED,
                f"public table `{table}` is too large to be read outside of a query over private tables",
                hint=f"Join `{table}` inside the aggregate, with the private rows.",
            )


async def _parse_outer(talk: PrivateTalk, private: Private, outer: str) -> tuple[Field, ...]:
    data = _parsing(private.internal, outer, outer_oids(private))
    fields = (await talk.ask(data, 3)).payloads(b"T")
    return back.read_row_description(fields[0]) if fields else ()


def _parsing(name: str, outer: str, oids: Sequence[int]) -> bytes:
    return front.close("S", name) + front.parse(name, outer, oids) + front.describe("S", name)


def outer_oids(private: Private) -> list[int]:
    """Types of the outer query's parameters: the client's, then the arrays. Raises KeyError for an unknown one."""
    return [*private.description.oids, *map(array_oid, private.elements)]


async def _type_names(talk: PrivateTalk, fields: Sequence[Field]) -> list[str]:
    calls = ", ".join(f"pg_catalog.format_type({f.type}, {f.modifier})" for f in fields)
    row, _ = await talk.ask_row(f"SELECT {calls}")
    return [(name or b"").decode() for name in row]


async def client_values(
    talk: PrivateTalk, description: Description, name: str, values: Sequence[bytes | None], formats: Sequence[int]
) -> tuple[list[str | None], Settings]:
    """PostgreSQL's text forms of the client's parameters, and the settings of this moment.

    The client's own statement is described on the way: it may be gone (DISCARD ALL). Raises StatementFailed, Refusal.
    """
    if len(values) != len(description.oids):  # in PostgreSQL's words, with the client's name of it
        told = f'bind message supplies {len(values)} parameters, but prepared statement "{name}" requires {len(description.oids)}'
        raise Refusal(PROTOCOL_VIOLATION, told)
    calls = [f"dpproxy.text_form(${i + 1})" for i in range(len(description.oids))]
    row, _ = await talk.ask_row(
        f"SELECT {', '.join([*calls, SELECT_LIST])}",
        description.oids,
        values,
        formats,
        before=front.describe("S", name),
        completions=1,
    )
    settings = await _current(talk, row[-WIDTH:])
    return decoded(row[: len(calls)], settings["client_encoding"]), settings


async def evaluate(
    talk: PrivateTalk,
    private: Private,
    values: Sequence[bytes | None],
    formats: Sequence[int],
    inputs: Sequence[int],
    literals: Literals,
) -> list[str | None]:
    """Inputs of a plan as text; arrays that are not yet released are NULL. Raises StatementFailed."""
    chosen = [private.plan.inputs[i] for i in inputs]
    types = ["text" if c.type.startswith("rows(") else c.type for c in chosen]  # rows come as JSON text
    calls = ", ".join(f"dpproxy.text_form(({c.sql})::{type_})" for c, type_ in zip(chosen, types, strict=True))
    oids = [*private.description.oids, *(array_oid(a.type) for a in private.plan.arrays)]  # also of an EXPLAIN
    encoding = private.description.settings["client_encoding"]
    given = [*values, *converted(literals, encoding)]
    row, _ = await talk.ask_row(f"SELECT {calls}", oids, given, all_formats(formats, len(values), len(literals)))
    return decoded(row, encoding)


def all_formats(formats: Sequence[int], values: int, arrays: int) -> list[int]:
    """One format for each parameter: the client's, then text for the arrays."""
    if len(formats) <= 1:
        formats = [formats[0] if formats else 0] * values
    return [*formats, *[0] * arrays]

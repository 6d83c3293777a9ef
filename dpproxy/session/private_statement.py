"""A statement over private tables on its way through the facade: planned, fitted to the columns of the original, evaluated.

Knows: plans, the extended protocol. Must not know: how answers are made, which messages the client sent. The outer query is
executed in place of the original, which was only described (`description`): so it must have the same columns, and is cast to them
where the planner's types differ.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.answers.question import Literals
from dpproxy.answers.statement_end import Ending, StatementFailed, internal
from dpproxy.errors import FEATURE_NOT_SUPPORTED, QUERY_CANCELED, STATEMENT_TOO_COMPLEX, UNDEFINED_PARAMETER, Refusal
from dpproxy.limits.side_threads import SideThreads
from dpproxy.plan.model import Plan
from dpproxy.plan.report.explain import explain_format
from dpproxy.session.description import Description, describe, describe_ahead, parsed_and_described
from dpproxy.session.encodings import check_texts, converted, decoded
from dpproxy.session.outer_text import Outer, Outers, array_constant, array_oid, same_columns, with_literals, wrapped
from dpproxy.session.private_talk import PrivateTalk
from dpproxy.session.statement_constants import with_values
from dpproxy.sql.settings import CLIENT_ENCODING, STATEMENT_TIMEOUT
from dpproxy.sql.statements import Statement
from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front
from dpproxy.wire.backend import Field

INNER = "dpproxy_inner"
"""The SELECT inside a DECLARE, COPY or CREATE TABLE AS, which PostgreSQL does not describe by itself."""

SHORT = 32 * 1024
"""Bytes of arrays that are written into a text in two milliseconds, also where all characters are beyond ASCII."""


@dataclass(frozen=True)
class PrivateStatement:
    """A prepared statement over private tables. `outer` is parsed on the facade under the name `internal`."""

    statement: Statement
    description: Description
    plan: Plan
    internal: str
    outer: str

    @property
    def elements(self) -> tuple[str, ...]:
        """Return types of the arrays that follow the client's parameters."""
        return ("text",) if self.statement.kind == "explain" else tuple(a.type for a in self.plan.arrays)

    @property
    def inlined(self) -> bool:
        """Return whether the arrays are written into the text, as in utility statements, which take no parameters."""
        return self.statement.kind in ("copy", "cursor", "create_table_as")

    def text(self, literals: Sequence[bytes], rows: bool = True) -> str:
        """Return the utility statement around the outer query with its arrays written out; or around no row of it."""
        first = len(self.description.oids) + 1
        constants = {
            first + i: array_constant(literal, element)
            for i, (literal, element) in enumerate(zip(literals, self.elements, strict=True))
        }
        query = with_literals(self.outer, constants)
        query = query if rows else f"SELECT * FROM (\n{query}\n) AS dpproxy_tried LIMIT 0"
        return f"{self.statement.prefix}{self.statement.into}{query}{self.statement.suffix}"

    async def text_aside(self, literals: Sequence[bytes], aside: SideThreads) -> str:
        """Fill in the literals as `text` does, in a thread where the arrays are long."""
        if sum(map(len, literals)) <= SHORT:
            return self.text(literals)
        return await aside.run(lambda: self.text(literals))


def inner_text(statement: Statement) -> str:
    """Return the query of a statement at its place in the client's text, so that PostgreSQL's positions are the client's."""
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
) -> PrivateStatement:
    """Plan, and parse the outer query under `internal_name` with the original's columns, unless that has been `parsed`, with
    these columns. Raises Refusal."""
    told = explained(statement)
    plan = await _planned_by_values(talk, dataset, asker, statement, description, ending)
    check_withheld(plan, dataset)
    arrays = len(description.oids) + 1
    outer = f'SELECT pg_catalog.unnest(${arrays}::text[])::{told} AS "QUERY PLAN"' if told else plan.outer
    private = PrivateStatement(statement, description, plan, internal_name, outer)
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
        code = back.read_report(error.raw[5:]).get("C") if isinstance(error, StatementFailed) else None
        raise internal(error, code=code) from error
    return PrivateStatement(statement, description, plan, internal_name, outer)


async def fitted(
    talk: PrivateTalk, dataset: Dataset, asker: Asker, statement: Statement, ending: Ending, outers: Outers | None
) -> PrivateStatement:
    """Return a statement of a simple query, described and planned, its outer query parsed without a name.

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


def _as_guessed(private: PrivateStatement, guess: Outer, fields: tuple[Field, ...] | None) -> bool:
    description = private.description
    same = (guess.planned, guess.oids, guess.fields) == (private.outer, tuple(outer_oids(private)), description.fields)
    return same and description.fields is not None and fields is not None and same_columns(description.fields, fields)


async def planned(dataset: Dataset, asker: Asker, statement: Statement, description: Description, ending: Ending) -> Plan:
    """Return the plan; a refusal's position is moved to its place in the client's text. From here on `statement_timeout` is
    known."""
    ending.limit(STATEMENT_TIMEOUT.read(description.settings))
    try:
        plan = await dataset.plans.plan_aside(statement, asker.role, description.settings, description.types, ending.race)
        check_texts(
            CLIENT_ENCODING.read(description.settings), (statement.text, plan.outer, *(given.sql for given in plan.inputs))
        )
        return plan
    except Refusal as r:
        at = None if r.position is None else r.position + statement.offset + len(statement.prefix)
        raise replace(r, position=at) from None
    except Exception as error:
        raise internal(error) from error


async def _planned_by_values(
    talk: PrivateTalk, dataset: Dataset, asker: Asker, statement: Statement, description: Description, ending: Ending
) -> Plan:
    """The plan; where the statement is refused as it is written, that of the statement with its constants evaluated."""
    try:
        return await planned(dataset, asker, statement, description, ending)
    except Refusal as first:
        if first.sqlstate in (QUERY_CANCELED, STATEMENT_TOO_COMPLEX):
            raise
        valued = await with_values(talk, dataset, asker, statement, description, ending)
        if valued is None:
            raise
        try:
            return await planned(dataset, asker, valued, description, ending)
        except Refusal as second:
            if second.sqlstate != QUERY_CANCELED and second.message == first.message:
                raise first from None
            raise replace(second, position=None) from None


def explained(statement: Statement) -> str | None:
    """Return the type of EXPLAIN's column, as PostgreSQL has it; None for another statement. Raises Refusal."""
    if statement.kind != "explain":
        return None
    try:
        return explain_format(statement.options)
    except Refusal as r:
        raise replace(r, position=statement.offset + 1) from None


def check_withheld(plan: Plan, dataset: Dataset) -> None:
    """Raise Refusal where the facade would read a public table that is too large for it: it has no rows there."""
    texts = "\n".join((plan.outer, *(given.sql for given in plan.inputs)))
    for table in dataset.withheld:
        if re.search(rf'(?i)\b(from|join)\s+("?{re.escape(table.schema)}"?\.)?"?{re.escape(table.name)}"?(?![\w"])', texts):
            raise Refusal(
                FEATURE_NOT_SUPPORTED,
                f"public table `{table}` is too large to be read outside of a query over private tables",
                hint=f"Join `{table}` inside the aggregate, with the private rows.",
            )


async def _parse_outer(talk: PrivateTalk, private: PrivateStatement, outer: str) -> tuple[Field, ...]:
    data = parsed_and_described(private.internal, outer, outer_oids(private))
    fields = (await talk.ask(data, 3)).payloads(b"T")
    return back.read_row_description(fields[0]) if fields else ()


def outer_oids(private: PrivateStatement) -> list[int]:
    """Return types of the outer query's parameters: the client's, then the arrays. Raises KeyError for an unknown one."""
    return [*private.description.oids, *map(array_oid, private.elements)]


async def _type_names(talk: PrivateTalk, fields: Sequence[Field]) -> list[str]:
    calls = ", ".join(f"pg_catalog.format_type({f.type}, {f.modifier})" for f in fields)
    row, _ = await talk.ask_row(f"SELECT {calls}")
    return [(name or b"").decode() for name in row]


async def evaluate(
    talk: PrivateTalk,
    private: PrivateStatement,
    values: Sequence[bytes | None],
    formats: Sequence[int],
    inputs: Sequence[int],
    literals: Literals,
    most: int,
) -> list[str | None]:
    """Return inputs of a plan as text; arrays that are not yet released are NULL. What is longer than `most` characters is cut
    behind the next: its size is all that is looked at. Raises StatementFailed."""
    chosen = [private.plan.inputs[i] for i in inputs]
    forms = [f"dpproxy.text_form(({c.sql})::{'text' if c.rows else c.type})" for c in chosen]  # rows come as JSON text
    calls = ", ".join(form if c.rows else cut(form, most) for c, form in zip(chosen, forms, strict=True))
    oids = [*private.description.oids, *(array_oid(a.type) for a in private.plan.arrays)]  # also of an EXPLAIN
    encoding = CLIENT_ENCODING.read(private.description.settings)
    given = [*values, *converted(literals, encoding)]
    row, _ = await talk.ask_row(f"SELECT {calls}", oids, given, all_formats(formats, len(values), len(literals)))
    return decoded(row, encoding)


def cut(form: str, most: int) -> str:
    """Return an expression for a text of which no more is sent than shows that it is too long: the facade may make of a few
    characters as many as it likes."""
    return f"pg_catalog.left({form}, {most + 1})"


def all_formats(formats: Sequence[int], values: int, arrays: int) -> list[int]:
    """Return one format for each parameter: the client's, then text for the arrays."""
    if len(formats) <= 1:
        formats = [formats[0] if formats else 0] * values
    return [*formats, *[0] * arrays]

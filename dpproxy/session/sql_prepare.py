"""PREPARE, EXECUTE and DEALLOCATE over private tables, as statements of the simple protocol.

Knows: how such statements are spelled, the protocol's own prepared statements, of which these are another spelling. Must
not know: plans, answers. PREPARE is run by the facade as it is, so that its name, types and errors are PostgreSQL's;
EXECUTE binds the outer query in its place. Arguments are evaluated by the facade, in the session of who wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.answers.statement_end import Ending
from dpproxy.errors import FEATURE_NOT_SUPPORTED, QUERY_CANCELED, SYNTAX_ERROR, Refusal
from dpproxy.session.description import Description, describe
from dpproxy.session.outer_text import with_literals
from dpproxy.session.private_statement import PrivateStatement, cut, fit, planned
from dpproxy.session.private_talk import PrivateTalk
from dpproxy.session.statement_constants import foldable
from dpproxy.sql.guard import MAX_LENGTH, too_long
from dpproxy.sql.statements import Named, Statement, named
from dpproxy.wire import frontend_build as front

# Prepared statements whose plan needs to know a parameter's value: `date_trunc($1, ts)`, `sum(least(amount, $2))`.
#
# Knows: plans' refusals, text forms of values. Must not know: messages, answers. Drivers send as parameters what people write
# as constants, and what a query releases may depend on them: bounds, units of time, fractions. A statement that cannot be
# planned without its values waits for them, and each Bind plans it with its values written in their places. If that does not
# help, the refusal is the first one, which has its place in the client's text.


_EXAMPLES: Final = {
    **dict.fromkeys(("int2", "int4", "int8", "numeric", "float4", "float8"), "1"),
    **dict.fromkeys(("text", "varchar"), "day"),
    **dict.fromkeys(("date", "timestamp", "timestamptz"), "2020-01-01"),
    "bool": "true",
    "time": "12:00",
    "interval": "1 day",
    "uuid": "00000000-0000-0000-0000-000000000000",
}
"""Types whose values are written as constants, each with one that is as good as any other."""
_ZEROS: Final = _EXAMPLES | dict.fromkeys(("int2", "int4", "int8"), "0")
"""The same where only 0 is good: `OFFSET $1`."""


_ARRAYS: Final = dict.fromkeys(("int2[]", "int4[]", "int8[]", "numeric[]", "float4[]", "float8[]"), "{1}") | dict.fromkeys(
    ("text[]", "varchar[]"), "{day}"
)
"""Types of arrays that are written where a statement cannot be planned else: percentiles, thresholds."""
SHORT: Final = 2_000
"""Characters of an array that is written; a longer one is a list to look in, and stays a parameter."""


@dataclass(frozen=True)
class UnplannedStatement:
    """Waits for its values: the facade has the original of such a statement; the outer query will be called `internal`."""

    statement: Statement
    description: Description
    internal: str
    refusal: Refusal

    @property
    def of_arrays(self) -> bool:
        """Return whether a parameter is an array that can be written."""
        return any(type_ in _ARRAYS for type_ in self.description.types)

    def valued(self, texts: Sequence[str | None], arrays: bool = False) -> Statement:
        """Return the statement with values, in PostgreSQL's text forms, in the places of its parameters. Raises Refusal, before
        any is written, for values that would make it too long to be planned."""
        types = self.description.types
        written = sum(len(text) for text, t in zip(texts, types, strict=True) if text is not None and t in _EXAMPLES)
        if len(self.statement.text) + written > MAX_LENGTH:
            raise too_long()
        pairs = list(enumerate(zip(texts, types, strict=True), 1))
        short = {i: _constant(text, t) for i, (text, t) in pairs if arrays and t in _ARRAYS and len(text or "") <= SHORT}
        literals = short | {i: _constant(text, t) for i, (text, t) in pairs if t in _EXAMPLES}
        s = self.statement
        query = with_literals(s.query, literals)
        return replace(s, query=query, text=f"{s.prefix}{s.into}{query}{s.suffix}")


PreparedStatement = PrivateStatement | UnplannedStatement


async def prepared(
    talk: PrivateTalk,
    dataset: Dataset,
    asker: Asker,
    statement: Statement,
    description: Description,
    internal: str,
    ending: Ending,
) -> PreparedStatement:
    """Fit a statement, or have it wait for its values if it cannot be planned without them. Raises Refusal."""
    try:
        return await fit(talk, dataset, asker, statement, description, internal, ending)
    except Refusal as refusal:
        if refusal.sqlstate != FEATURE_NOT_SUPPORTED or statement.kind not in ("select", "explain", "prepare"):
            raise
        unplanned = UnplannedStatement(statement, description, internal, refusal)
        if not await _may_help(unplanned, dataset, asker, ending):
            raise
        return unplanned


async def _may_help(found: UnplannedStatement, dataset: Dataset, asker: Asker, ending: Ending) -> bool:
    """Whether values change what is said: a statement that is refused for another reason is refused at once. Raises Refusal when
    the statement is to end."""
    types = found.description.types
    if not any(type_ in _EXAMPLES for type_ in types) and not found.of_arrays:
        return False
    valued = found.valued(tuple((_EXAMPLES | _ARRAYS).get(t) for t in types), arrays=True)
    if await foldable(dataset, asker, valued, ending) is not None:
        return True  # what its constants are, the facade says of the values alone
    tried = [found.valued(tuple(examples.get(t) for t in types)) for examples in (_EXAMPLES, _ZEROS)]
    for written in dict.fromkeys([*tried, valued]):
        try:
            await planned(dataset, asker, written, found.description, ending)
        except Refusal as refusal:
            if refusal.sqlstate == QUERY_CANCELED:
                raise
            if refusal.message == found.refusal.message:
                continue
        return True
    return False


async def current(
    talk: PrivateTalk,
    dataset: Dataset,
    asker: Asker,
    found: PreparedStatement,
    description: Description,
    texts: Sequence[str | None],
    ending: Ending,
) -> PrivateStatement:
    """Return the statement planned for these values and settings, which may have changed since Parse: then the outer query is
    parsed again. Raises Refusal."""
    if isinstance(found, UnplannedStatement):
        ways, last = [False, True] if found.of_arrays else [False], found.refusal
        for arrays in ways:
            try:
                return await fit(talk, dataset, asker, found.valued(texts, arrays), description, found.internal, ending)
            except Refusal as refusal:
                last = refusal
                if refusal.sqlstate != FEATURE_NOT_SUPPORTED:
                    break
        raise replace(found.refusal) if last.message == found.refusal.message else replace(last, position=None)
    if not found.inlined and await _as_before(dataset, asker, found, description, ending):
        return replace(found, description=description)
    return await fit(talk, dataset, asker, found.statement, description, found.internal, ending)


async def _as_before(dataset: Dataset, asker: Asker, found: PrivateStatement, description: Description, ending: Ending) -> bool:
    """Whether the statement has the same plan now; one that is planned with its constants evaluated is planned anew."""
    try:
        return await planned(dataset, asker, found.statement, description, ending) == found.plan
    except Refusal as refusal:
        if refusal.sqlstate == QUERY_CANCELED:
            raise
        return False


def _constant(text: str | None, type_: str) -> str:
    """In parentheses: `$1::text` stays a cast of it."""
    return f"(NULL::{type_})" if text is None else f"('{text.replace(chr(39), chr(39) * 2)}'::{type_})"


_INSIDE = re.compile(r'(?i)\bexecute\s+("(?P<quoted>[^"]+)"|(?P<plain>\w+))')


def concerned(statement: Statement, private: Mapping[str, PreparedStatement]) -> Named | None:
    """Return what a statement does with a private one by name. Raises Refusal for EXECUTE inside another statement."""
    if not private or statement.kind == "select":
        return None
    found = named(statement.text)
    if found is not None and found.word == "DEALLOCATE":
        return found if found.name in private or not found.name else None
    if found is not None and found.word == "EXECUTE":
        return found if found.name in private else None
    inside = _INSIDE.search(statement.text)
    if inside is not None and (inside["quoted"] or inside["plain"].lower()) in private:
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            "a prepared statement over private tables can only be executed by itself",
            statement.offset + 1,
            hint="Use EXECUTE alone, or put its query in place of it.",
        )
    return None


async def prepare(talk: PrivateTalk, statement: Statement, name: str) -> Description:
    """Run PREPARE on the facade; return what the facade says of it. Raises StatementFailed, Refusal."""
    text = " " * statement.offset + statement.text
    await talk.ask(front.parse("", text) + front.bind("", "", ()) + front.execute(""), 3)
    return await describe(talk, b"", 0, name)


async def arguments(talk: PrivateTalk, given: Sequence[str], private: PreparedStatement, most: int) -> list[bytes | None]:
    """Return the values of EXECUTE's arguments as text, of `most` characters and one each. Raises StatementFailed, Refusal."""
    types = private.description.types
    if len(given) != len(types):
        raise Refusal(
            SYNTAX_ERROR,
            "wrong number of parameters for prepared statement",
            detail=f"Expected {len(types)} parameters but got {len(given)}.",
        )
    if not given:
        return []
    calls = ", ".join(cut(f"dpproxy.text_form(({text})::{type_})", most) for text, type_ in zip(given, types, strict=True))
    row, _ = await talk.ask_row(f"SELECT {calls}")
    return list(row)

"""The extended query protocol over private tables: Parse, Bind and Close; whatever else belongs to it is the facade's.

Knows: "Extended Query" of PostgreSQL's message flow. Must not know: how answers are made. Parse never charges: the original is
parsed and described on the facade under the client's name, and the outer query beside it under a name of the proxy's. Each Bind
is one answer: the facade is sent a Bind of the outer query, with the arrays behind the client's values, under the client's name
of the portal. So Describe, Execute and Close of that portal need no proxy, and the facade says itself what became of the Bind.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dpproxy.answers.statement_end import StatementFailed
from dpproxy.errors import FEATURE_NOT_SUPPORTED, STATEMENT_TOO_COMPLEX, Refusal
from dpproxy.session import encodings
from dpproxy.session.description import describe
from dpproxy.session.encodings import converted
from dpproxy.session.private_statement import INNER, all_formats, inner_text
from dpproxy.session.private_talk import PrivateTalk
from dpproxy.session.replies import Client, Replies
from dpproxy.session.sql_prepare import PreparedStatement, prepared
from dpproxy.session.statement_answers import StatementAnswers
from dpproxy.sql.settings import CLIENT_ENCODING
from dpproxy.sql.statements import Statement
from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front
from dpproxy.wire.frontend import Bind, Close, Parse

MOST_PARAMETERS: Final = 1_600
"""Of one statement: PostgreSQL evaluates them as the columns of one row, of which it allows 1,664."""


class ExtendedQuery:
    """Answers the Parse, Bind and Close messages of one session. `names` gives names for what it parses on the facade."""

    def __init__(self, client: Client, replies: Replies, answers: StatementAnswers, names: Iterator[str]) -> None:
        self._client = client
        self._replies = replies
        self._answers = answers
        self._names = names

    # Parse

    async def parse(self, raw: bytes, message: Parse, mentions: bool) -> None:
        """Answer one Parse, which came as `raw`. `mentions`: its text may concern private tables. Raises LinkLost."""
        client, replies = self._client, self._replies
        try:
            statements = await self._answers.statements(message.sql) if mentions else ()
            raw = encodings.parse(raw, message, statements)
        except Refusal as refusal:
            self._answers.not_answered(message.sql, "other", refusal)
            await replies.refuse(refusal, simple=False)
            return
        private = len(statements) == 1 and statements[0].private
        if private and statements[0].kind == "prepare":
            told = "PREPARE over private tables must be a simple query"
            hint = "Prepare the query itself by the protocol."
            simple_only = Refusal(FEATURE_NOT_SUPPORTED, told, hint=hint)
            self._answers.not_answered(message.sql, "prepare", simple_only)
            await replies.refuse(simple_only, simple=False)
            return
        if not private and message.name not in client.private:
            replies.forward(b"P", raw)
            return
        async with replies.captured(extended=True) as talk:
            if not replies.discarding:
                await self._parsed(talk, raw, message, statements[0] if private else None)

    async def _parsed(self, talk: PrivateTalk, raw: bytes, message: Parse, statement: Statement | None) -> None:
        """`statement`: the private one that it is; None for another that may take its name."""
        try:
            if statement is not None:
                await self._prepare(talk, raw, message, statement)
            else:
                await self._replace(talk, raw, message.name)
        except StatementFailed as failure:
            if not message.name:
                self._client.private.pop("", None)
            if statement is not None:
                self._answers.not_answered(statement.text, statement.kind, failure)
            self._client.tell(failure.raw)
        except Refusal as refusal:
            self._answers.not_answered(message.sql, statement.kind if statement is not None else "other", refusal)
            await talk.ask(front.close("S", message.name), 1)
            await self._replies.fail(refusal, talk)

    async def _replace(self, talk: PrivateTalk, raw: bytes, name: str) -> None:
        """A statement of no concern; it may take the name of one that was."""
        await talk.ask(raw, 1)
        former = self._client.private.pop(name, None)
        if former is not None:
            await talk.ask(front.close("S", former.internal), 1)
        self._client.tell(back.parse_complete())

    async def _prepare(self, talk: PrivateTalk, raw: bytes, message: Parse, statement: Statement) -> None:
        client = self._client
        if len(message.oids) > MOST_PARAMETERS:
            raise Refusal(
                STATEMENT_TOO_COMPLEX,
                f"a statement over private tables has at most {MOST_PARAMETERS:,} parameters",
                hint="Pass a list as one array: x = ANY ($1).",
            )
        client.link.sent += 1
        unchanged = statement.into or statement.text in message.sql  # else names were spelled out for PostgreSQL
        parse = raw if unchanged else front.parse(message.name, statement.text, message.oids)
        if statement.kind in ("select", "explain"):
            found = await describe(talk, parse, 1, message.name)
        else:
            inner = front.close("S", INNER) + front.parse(INNER, inner_text(statement), message.oids)
            found = await describe(talk, parse + inner, 3, INNER)
        former = client.private.pop(message.name, None)
        internal = former.internal if former else next(self._names)
        with self._answers.endable() as ending:
            private = await prepared(talk, client.dataset, client.asker, statement, found, internal, ending)
        client.private[message.name] = private
        client.tell(back.parse_complete())

    # Bind

    async def bind(self, raw: bytes, message: Bind) -> None:
        """Answer one Bind, which came as `raw`. Raises LinkLost."""
        found, replies, bind = self._client.private.get(message.statement), self._replies, None
        if found is None:
            replies.forward(b"B", raw)
            return
        async with replies.captured(extended=True) as talk:
            if replies.discarding:
                return
            try:
                bind = await self._bound(talk, message, found)
            except StatementFailed as failure:
                self._answers.not_answered(found.statement.text, found.statement.kind, failure)
                self._client.tell(failure.raw)
            except Refusal as refusal:
                self._answers.not_answered(found.statement.text, found.statement.kind, refusal)
                await replies.fail(refusal, talk)
        if bind is not None:
            replies.forward(b"B", bind)

    async def _bound(self, talk: PrivateTalk, message: Bind, found: PreparedStatement) -> bytes:
        """The Bind for the facade, which says itself what became of it, with what follows. Raises StatementFailed, Refusal."""
        answer, private = await self._answers.bound(talk, message, found)
        formats = all_formats(message.formats, len(message.values), len(answer.literals))
        values = [*message.values, *converted(answer.literals, CLIENT_ENCODING.read(private.description.settings))]
        if private.inlined:
            text = await private.text_aside(answer.literals, self._client.dataset.spelling)
            again = front.close("S", private.internal) + front.parse(private.internal, text, private.description.oids)
            await talk.ask(again, 2)
            formats, values = list(message.formats), list(message.values)
        self._replies.notify(answer.notice)
        return front.bind(message.portal, private.internal, values, formats, message.result_formats)

    # Close

    async def close(self, raw: bytes, message: Close) -> None:
        """Answer one Close, which came as `raw`. Raises LinkLost."""
        client, replies = self._client, self._replies
        if message.kind == "S" and message.name in client.private:
            async with replies.captured(extended=True) as talk:
                if not replies.discarding:
                    private = client.private.pop(message.name)
                    await talk.ask(front.close("S", private.internal), 1)
        replies.forward(b"C", raw)

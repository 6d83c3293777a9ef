"""The simple query protocol over private tables: one message, any number of statements, one ReadyForQuery.

Knows: "Simple Query" of PostgreSQL's message flow, PREPARE, EXECUTE and DEALLOCATE written as statements. Must not know: how
answers are made. What reads public tables alone goes to the facade as the message it came in. In a message with private
statements each is run by itself, in order, up to the first that fails; a public one among them is a message of its own to the
facade.

A private statement is described by the facade, planned, answered; then the outer query is bound in its place.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpproxy.answers.statement_end import Ending, StatementFailed
from dpproxy.errors import Refusal
from dpproxy.session import encodings, sql_prepare
from dpproxy.session.encodings import converted
from dpproxy.session.memo import CachedReply, ReplyRecorder
from dpproxy.session.private_statement import PrivateStatement, fitted, outer_oids
from dpproxy.session.private_talk import PrivateTalk
from dpproxy.session.replies import Client, Replies
from dpproxy.session.sql_prepare import prepared
from dpproxy.session.statement_answers import StatementAnswers
from dpproxy.sql.repeatability import IMMUTABLE
from dpproxy.sql.settings import CLIENT_ENCODING
from dpproxy.sql.statements import Named, Statement, named
from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front
from dpproxy.wire.frontend import Bind


class SimpleQuery:
    """Answers the Query messages of one session. `names` gives names for the statements it parses on the facade."""

    def __init__(self, client: Client, replies: Replies, answers: StatementAnswers, names: Iterator[str]) -> None:
        self._client = client
        self._replies = replies
        self._answers = answers
        self._names = names

    async def query(self, raw: bytes, sql: str) -> None:
        """Answer one message that may concern private tables, `raw`, whose text is `sql`. Raises LinkLost."""
        client, replies = self._client, self._replies
        try:
            statements = await self._answers.statements(sql)
            by_name = any(sql_prepare.concerned(s, client.private) for s in statements)
        except Refusal as refusal:
            self._answers.not_answered(sql, "other", refusal)
            await replies.refuse(refusal, simple=True)
            return
        if not by_name and not any(s.private for s in statements):
            replies.forward(b"Q", encodings.query(raw, sql, statements))
            return
        async with replies.captured(extended=False) as talk:
            if replies.discarding:
                return
            for statement in statements:
                if await replies.left():
                    return
                if not await self._run(statement, talk):
                    break
            replies.ready()

    async def _run(self, statement: Statement, talk: PrivateTalk) -> bool:
        """One statement; False when it failed."""
        try:
            return await self._attempt(statement, talk)
        except StatementFailed as failure:
            self._answers.not_answered(statement.text, statement.kind, failure)
            self._client.tell(failure.raw)
        except Refusal as refusal:
            self._answers.not_answered(statement.text, statement.kind, refusal)
            await self._replies.fail(refusal, talk)
        return False

    async def _turn(self) -> None:
        """Wait for the session's turn: a message may have as many statements as a pipeline has messages. Raises Refusal where
        it is ended meanwhile."""
        client = self._client
        await client.breathe()
        if client.late:
            client.flush()
            with self._answers.endable() as ending:
                await ending.race(client.turn())

    async def _attempt(self, statement: Statement, talk: PrivateTalk) -> bool:
        """Raises StatementFailed, Refusal."""
        await self._turn()
        by_name = sql_prepare.concerned(statement, self._client.private)
        if statement.private and statement.kind == "prepare":
            return await self._prepare(statement, talk)
        if by_name is not None and by_name.word == "EXECUTE":
            return await self._execute(by_name, talk)
        if by_name is not None:
            await self._deallocate(by_name, talk)
        if not statement.private:
            return await self._replies.stream(front.query(" " * statement.offset + statement.text), "", None)
        return await self._answered(statement, talk)

    # a private statement

    async def _answered(self, statement: Statement, talk: PrivateTalk) -> bool:
        """Raises StatementFailed, Refusal."""
        answers, replies = self._answers, self._replies
        with answers.endable() as ending:
            known = answers.repeated(statement)
            private = await self._described(talk, statement, ending) if known is None else known.private
            recorder = ReplyRecorder() if known is not None or await self._steady(talk, private, ending) else None
            answer, planned = await answers.answer(talk, private, ending)
        if planned.inlined:
            text = await planned.text_aside(answer.literals, self._client.dataset.spelling)
            return await replies.stream(front.query(text), "", answer.notice)
        if known is not None and answer.literals == known.literals:
            self._show_again(known, answer.notice)
            return True
        literals = converted(answer.literals, CLIENT_ENCODING.read(planned.description.settings))
        run = front.bind("", "", literals) + front.describe("P", "") + front.execute("") + front.SYNC
        if known is not None:
            run = front.parse("", planned.outer, outer_oids(planned)) + run
        succeeded = await replies.stream(run, "EXPLAIN" if statement.kind == "explain" else "", answer.notice, recorder)
        if recorder is not None and succeeded and planned is private:
            answers.remember(statement, recorder.kept(private, answer.literals))
        return succeeded

    async def _described(self, talk: PrivateTalk, statement: Statement, ending: Ending) -> PrivateStatement:
        """Raises Refusal, StatementFailed, LinkLost."""
        client = self._client
        outers = client.memo.outers if client.link.tracker.status == "I" else None
        return await fitted(talk, client.dataset, client.asker, statement, ending, outers)

    async def _steady(self, talk: PrivateTalk, private: PrivateStatement, ending: Ending) -> bool:
        """Whether it is a query that changes nothing; if not, whatever is kept is forgotten before the facade is asked for its
        inputs. Raises StatementFailed, Refusal."""
        steadiness, link = self._client.memo.steadiness, self._client.link
        if steadiness.immutable is None and link.tracker.status == "I":
            row, _ = await talk.ask_row(IMMUTABLE)
            steadiness.immutable = frozenset((row[0] or b"").decode().split())
        if private.statement.kind == "select" and await steadiness.of(private.statement.query, private.outer, ending.race):
            return True
        link.sent += 1
        return False

    def _show_again(self, known: CachedReply, notice: str | None) -> None:
        self._client.tell(known.rows)
        self._replies.notify(notice)
        self._client.tell(known.complete)

    # prepared statements by SQL

    async def _prepare(self, statement: Statement, talk: PrivateTalk) -> bool:
        """PREPARE name AS query. Raises StatementFailed, Refusal."""
        client, given = self._client, named(statement.text)
        client.link.sent += 1
        assert given is not None
        found = await sql_prepare.prepare(talk, statement, given.name)
        internal = next(self._names)
        try:
            with self._answers.endable() as ending:
                private = await prepared(talk, client.dataset, client.asker, statement, found, internal, ending)
        except Refusal:
            await talk.ask(front.close("S", given.name), 1)
            raise
        client.private[given.name] = private
        client.tell(back.command_complete("PREPARE"))
        return True

    async def _execute(self, given: Named, talk: PrivateTalk) -> bool:
        """EXECUTE name(arguments). Raises StatementFailed, Refusal."""
        self._client.link.sent += 1
        found = self._client.private[given.name]
        values = await sql_prepare.arguments(talk, given.arguments, found, self._client.asker.role.query.parameter_bytes)
        answer, private = await self._answers.bound(talk, Bind("", given.name, (), tuple(values), ()), found)
        formats = [0] * (len(values) + len(answer.literals))
        literals = converted(answer.literals, CLIENT_ENCODING.read(private.description.settings))
        bind = front.bind("", private.internal, [*values, *literals], formats)
        run = bind + front.describe("P", "") + front.execute("") + front.SYNC
        return await self._replies.stream(run, "", answer.notice)

    async def _deallocate(self, given: Named, talk: PrivateTalk) -> None:
        """DEALLOCATE: the facade drops its own statement when it gets the text."""
        private = self._client.private
        for name in [given.name] if given.name else list(private):
            await talk.ask(front.close("S", private.pop(name).internal), 1)

"""Works off a client's messages in order while the proxy itself has to speak.

Knows: both query protocols, the dance of docs/architecture.md. Must not know: SQL. For each message it either
passes it on, or captures the facade, converses with it privately, has the answer made, and tells the client what
PostgreSQL would have told it. Parse and Describe never charge; each Bind, and each simple query, is one answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import structlog

from dpproxy.answers import accuracy_search
from dpproxy.answers.answer import Answering, Literals
from dpproxy.answers.array_literals import text_literal
from dpproxy.answers.failures import StatementFailed
from dpproxy.answers.notices import Answer
from dpproxy.answers.preview import foretold
from dpproxy.answers.reuse import reuse_mode
from dpproxy.answers.statement_end import Ending
from dpproxy.errors import ADMIN_SHUTDOWN, FEATURE_NOT_SUPPORTED, PROTOCOL_VIOLATION, SUCCESSFUL_COMPLETION, Refusal
from dpproxy.plan.report.explain import epsilon_text
from dpproxy.privacy.loss import ZERO
from dpproxy.session import public_text
from dpproxy.session import sql_prepare as by_names
from dpproxy.session.encodings import converted
from dpproxy.session.parameter_values import Prepared, current, prepared
from dpproxy.session.prepared import (
    INNER,
    Private,
    all_formats,
    client_values,
    describe,
    evaluate,
    fit,
    fitted,
    inner_text,
    outer_oids,
)
from dpproxy.session.private_talk import PrivateTalk
from dpproxy.session.rehearsal import Needless, rehearse
from dpproxy.session.repeat_cache import CachedReply, RepeatCache, ReplyRecorder
from dpproxy.session.session_settings import check_name, is_off, seconds
from dpproxy.session.tracker import STATUSES
from dpproxy.sql.repeatability import IMMUTABLE
from dpproxy.sql.session_reach import check_allowed
from dpproxy.sql.statements import Named, Statement, named
from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front
from dpproxy.wire.frontend import Bind, Close, Parse, Query, decode_frontend
from dpproxy.wire.protocol import Frame, ProtocolError

if TYPE_CHECKING:
    from dpproxy.session.client import ClientSession

LOG = structlog.get_logger()

_SILENT = frozenset((b"1", b"2", b"3", b"n", b"t"))
"""Replies to messages a client of the simple protocol did not send."""
NO_VALUES = Bind("", "", (), (), ())


class Conductor:
    """One for each session; `run` is not reentrant."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._ending: Ending | None = None
        self._count = 0  # internal statements made so far
        self._keeping = RepeatCache()

    async def run(self) -> None:
        """Until the queue is empty. Raises LinkLost."""
        while self._session.queue:
            tag, raw = self._session.next()
            if await self._left(tag):
                return
            try:
                await self._handle(tag, raw)
            except ProtocolError as error:
                if error.fatal:
                    self._session.fatal(error.sqlstate, error.message)
                    return
                await self._refuse(tag, Refusal(error.sqlstate, error.message))

    async def _left(self, tag: bytes) -> bool:
        """Whether the session is to leave, and this would begin something: it goes, when all before it is answered."""
        reason = self._session.leaving
        if reason is None or tag not in (b"Q", b"P", b"B", b"F"):
            return False
        await self._session.link.capture()
        self._session.fatal(ADMIN_SHUTDOWN, reason)
        return True

    def cancel(self, reason: str) -> bool:
        """End the statement in the making; False when the facade may be at work for it, or for the client itself."""
        return self._ending is not None and self._ending.ask(reason)

    async def _handle(self, tag: bytes, raw: bytes) -> None:
        if tag in (b"S", b"E", b"D", b"H", b"d", b"c", b"f") or self._session.link.tracker.copy_in:
            self._forward(tag, raw)
            return
        if tag == b"X":
            self._session.close()
            return
        match decode_frontend(Frame(tag, raw[5:], raw)):
            case Query(sql=sql):
                await self._query(raw, sql)
            case Parse() as message:
                await self._parse(raw, message)
            case Bind(statement=name) as message:
                found = self._session.private.get(name)
                await self._bind(raw, message, found) if found else self._forward(tag, raw)
            case Close(kind="S", name=name) if name in self._session.private:
                await self._close(raw, name)
            case Close():
                self._forward(tag, raw)
            case _ if tag == b"F":
                await self._refuse(tag, Refusal(FEATURE_NOT_SUPPORTED, "function calls by message are not supported"))
            case _:
                self._session.fatal(PROTOCOL_VIOLATION, f"invalid frontend message type {tag[0]}")

    def _forward(self, tag: bytes, raw: bytes) -> None:
        self._session.link.tracker.forward(tag)
        self._session.link.write(raw)

    @asynccontextmanager
    async def _captured(self, extended: bool) -> AsyncIterator[PrivateTalk]:
        link = self._session.link
        await link.capture()
        yield PrivateTalk(link, extended)
        self._session.flush()
        await link.release()

    # refusals

    async def _refuse(self, tag: bytes, refusal: Refusal) -> None:
        """An error in place of whatever the message asked for."""
        simple = tag in (b"Q", b"F")
        async with self._captured(extended=not simple) as talk:
            if not self._skipping:
                await self._tell(refusal, talk)
                if simple:
                    self._session.tell(back.ready_for_query(self._session.link.tracker.status))

    @property
    def _skipping(self) -> bool:
        """The facade ignores everything to Sync."""
        return self._session.link.tracker.failed

    async def _tell(self, r: Refusal, talk: PrivateTalk) -> None:
        self._session.tell(back.error_response("ERROR", r.sqlstate, r.message, r.detail, r.hint, r.position))
        await talk.fail()

    async def _statements(self, text: str) -> tuple[Statement, ...]:
        """Raises Refusal."""
        with self._endable() as ending:
            statements = await self._session.dataset.plans.split_aside(text, self._session.asker.role, ending.race)
        for statement in statements:
            check_allowed(statement)
            check_name(statement)
        return statements

    # the simple protocol

    async def _query(self, raw: bytes, sql: str) -> None:
        if not self._session.concerns(raw[5:]):
            self._forward(b"Q", raw)
            return
        try:
            statements = await self._statements(sql)
            by_name = any(by_names.concerned(s, self._session.private) for s in statements)
        except Refusal as refusal:
            await self._refuse(b"Q", refusal)
            return
        if not by_name and not any(s.private for s in statements):
            self._forward(b"Q", public_text.query(raw, sql, statements))
            return
        async with self._captured(extended=False) as talk:
            if self._skipping:
                return
            for statement in statements:
                if await self._left(b"Q"):
                    return
                if not await self._run(statement, talk):
                    break
            self._session.tell(back.ready_for_query(self._session.link.tracker.status))

    async def _run(self, statement: Statement, talk: PrivateTalk) -> bool:
        """One statement of a simple query; False when it failed."""
        try:
            return await self._attempt(statement, talk)
        except StatementFailed as failure:
            self._session.tell(failure.raw)
        except Refusal as refusal:
            await self._tell(refusal, talk)
        return False

    async def _attempt(self, statement: Statement, talk: PrivateTalk) -> bool:
        """Raises StatementFailed, Refusal."""
        by_name = by_names.concerned(statement, self._session.private)
        if statement.private and statement.kind == "prepare":
            return await self._prepare_by_name(statement, talk)
        if by_name is not None and by_name.word == "EXECUTE":
            return await self._execute_by_name(by_name, talk)
        if by_name is not None:
            await self._forget(by_name, talk)
        if not statement.private:
            return await self._stream(front.query(" " * statement.offset + statement.text), "", None)
        with self._endable() as ending:
            kept = self._kept(statement)
            private = await self._seen(talk, statement, ending) if kept is None else kept.private
            rows = ReplyRecorder() if kept is not None or await self._steady(talk, private, ending) else None
            answer, aimed = await self._aimed(talk, private, ending)
        if aimed.inlined:
            return await self._stream(front.query(aimed.text(answer.literals)), "", answer.notice)
        if kept is not None and answer.literals == kept.literals:
            self._show_again(kept, answer.notice)
            return True
        literals = converted(answer.literals, aimed.description.settings["client_encoding"])
        run = front.bind("", "", literals) + front.describe("P", "") + front.execute("") + front.SYNC
        if kept is not None:
            run = front.parse("", aimed.outer, outer_oids(aimed)) + run
        succeeded = await self._stream(run, "EXPLAIN" if statement.kind == "explain" else "", answer.notice, rows)
        if rows is not None and succeeded and aimed is private:
            self._keep(statement, rows.kept(private, answer.literals))
        return succeeded

    async def _seen(self, talk: PrivateTalk, statement: Statement, ending: Ending) -> Private:
        """Raises Refusal, StatementFailed, LinkLost."""
        session = self._session
        outers = session.memo.outers if session.link.tracker.status == "I" else None
        return await fitted(talk, session.dataset, session.asker, statement, ending, outers)

    # what was answered a moment ago

    def _kept(self, statement: Statement) -> CachedReply | None:
        link = self._session.link
        usual = statement.kind == "select" and link.tracker.status in ("I", "T")
        return self._keeping.find(statement.text, link.sent) if usual else None

    def _keep(self, statement: Statement, kept: CachedReply | None) -> None:
        if kept is not None:
            self._keeping.keep(statement.text, kept, self._session.link.sent)

    async def _steady(self, talk: PrivateTalk, private: Private, ending: Ending) -> bool:
        """Whether it is a query that changes nothing; if not, whatever is kept is forgotten before the facade is asked for its
        inputs. Raises StatementFailed, Refusal."""
        steadiness, link = self._session.memo.steadiness, self._session.link
        if steadiness.immutable is None and link.tracker.status == "I":
            row, _ = await talk.ask_row(IMMUTABLE)
            steadiness.immutable = frozenset((row[0] or b"").decode().split())
        if private.statement.kind == "select" and await steadiness.of(private.statement.query, private.outer, ending.race):
            return True
        link.sent += 1
        return False

    def _show_again(self, kept: CachedReply, notice: str | None) -> None:
        self._session.tell(kept.rows)
        self._notify(notice)
        self._session.tell(kept.complete)

    async def _prepare_by_name(self, statement: Statement, talk: PrivateTalk) -> bool:
        """PREPARE name AS query. Raises StatementFailed, Refusal."""
        session, given = self._session, named(statement.text)
        session.link.sent += 1
        assert given is not None
        found = await by_names.prepare(talk, statement, given.name)
        self._count += 1
        try:
            with self._endable() as ending:
                internal = f"dpproxy_{self._count}"
                private = await prepared(talk, session.dataset, session.asker, statement, found, internal, ending)
        except Refusal:
            await talk.ask(front.close("S", given.name), 1)
            raise
        session.private[given.name] = private
        session.tell(back.command_complete("PREPARE"))
        return True

    async def _execute_by_name(self, given: Named, talk: PrivateTalk) -> bool:
        """EXECUTE name(arguments). Raises StatementFailed, Refusal."""
        self._session.link.sent += 1
        found = self._session.private[given.name]
        values = await by_names.arguments(talk, given.arguments, found)
        answer, private = await self._answer_bind(talk, Bind("", given.name, (), tuple(values), ()), found)
        formats = [0] * (len(values) + len(answer.literals))
        literals = converted(answer.literals, private.description.settings["client_encoding"])
        bind = front.bind("", private.internal, [*values, *literals], formats)
        run = bind + front.describe("P", "") + front.execute("") + front.SYNC
        return await self._stream(run, "", answer.notice)

    async def _forget(self, given: Named, talk: PrivateTalk) -> None:
        """DEALLOCATE: the facade drops its own statement when it gets the text."""
        for name in [given.name] if given.name else list(self._session.private):
            await talk.ask(front.close("S", self._session.private.pop(name).internal), 1)

    async def _stream(self, data: bytes, command: str, notice: str | None, rows: ReplyRecorder | None = None) -> bool:
        """Send, and pass the replies on up to ReadyForQuery, which is held back; `command` replaces the command tag.

        `rows` gets them too; with it, `data` changes nothing in the session.
        """
        session, link = self._session, self._session.link
        (link.write if rows is None else link.say)(data)
        succeeded = True
        while True:
            if not link.ready:
                session.flush()
            tag, raw = await link.read()
            if tag == b"Z":
                link.tracker.status = STATUSES[raw[5]]
                return succeeded
            if tag in _SILENT:
                continue
            if tag == b"G":
                link.write(front.copy_fail("COPY FROM STDIN must be a query of its own"))
                continue
            if tag == b"C":
                self._notify(notice)
                raw = back.command_complete(command) if command else raw
            succeeded = succeeded and tag != b"E"
            if rows is not None:
                rows.add(tag, raw)
            session.tell(raw)
            await session.drained()

    def _notify(self, notice: str | None) -> None:
        if notice is not None:
            self._session.tell(back.notice_response("NOTICE", SUCCESSFUL_COMPLETION, notice))

    # the extended protocol

    async def _parse(self, raw: bytes, message: Parse) -> None:
        try:
            statements = await self._statements(message.sql) if self._session.mentions(raw[5:]) else ()
            raw = public_text.parse(raw, message, statements)
        except Refusal as refusal:
            await self._refuse(b"P", refusal)
            return
        private = len(statements) == 1 and statements[0].private
        if private and statements[0].kind == "prepare":
            told = "PREPARE over private tables must be a simple query"
            await self._refuse(b"P", Refusal(FEATURE_NOT_SUPPORTED, told, hint="Prepare the query itself by the protocol."))
            return
        if not private and message.name not in self._session.private:
            self._forward(b"P", raw)
            return
        async with self._captured(extended=True) as talk:
            if self._skipping:
                return
            try:
                if private:
                    await self._prepare(talk, raw, message, statements[0])
                else:
                    await self._pass_parse(talk, raw, message.name)
            except StatementFailed as failure:
                if not message.name:
                    self._session.private.pop("", None)
                self._session.tell(failure.raw)
            except Refusal as refusal:
                await talk.ask(front.close("S", message.name), 1)
                await self._tell(refusal, talk)

    async def _pass_parse(self, talk: PrivateTalk, raw: bytes, name: str) -> None:
        """A statement of no concern; it may take the name of one that was."""
        await talk.ask(raw, 1)
        former = self._session.private.pop(name, None)
        if former is not None:
            await talk.ask(front.close("S", former.internal), 1)
        self._session.tell(back.parse_complete())

    async def _prepare(self, talk: PrivateTalk, raw: bytes, message: Parse, statement: Statement) -> None:
        session = self._session
        session.link.sent += 1
        unchanged = statement.into or statement.text in message.sql  # else names were spelled out for PostgreSQL
        parse = raw if unchanged else front.parse(message.name, statement.text, message.oids)
        if statement.kind in ("select", "explain"):
            found = await describe(talk, parse, 1, message.name)
        else:
            inner = front.close("S", INNER) + front.parse(INNER, inner_text(statement), message.oids)
            found = await describe(talk, parse + inner, 3, INNER)
        former = session.private.pop(message.name, None)
        self._count += former is None
        internal = former.internal if former else f"dpproxy_{self._count}"
        with self._endable() as ending:
            private = await prepared(talk, session.dataset, session.asker, statement, found, internal, ending)
        session.private[message.name] = private
        session.tell(back.parse_complete())

    async def _bind(self, raw: bytes, message: Bind, found: Prepared) -> None:
        """The facade is sent a Bind of its own, and says itself what became of it, with what follows."""
        bind = None
        async with self._captured(extended=True) as talk:
            if self._skipping:
                return
            try:
                answer, private = await self._answer_bind(talk, message, found)
                formats = all_formats(message.formats, len(message.values), len(answer.literals))
                values = [*message.values, *converted(answer.literals, private.description.settings["client_encoding"])]
                if private.inlined:
                    text = private.text(answer.literals)
                    again = front.close("S", private.internal) + front.parse(private.internal, text, private.description.oids)
                    await talk.ask(again, 2)
                    formats, values = list(message.formats), list(message.values)
                bind = front.bind(message.portal, private.internal, values, formats, message.result_formats)
                self._notify(answer.notice)
            except StatementFailed as failure:
                self._session.tell(failure.raw)
            except Refusal as refusal:
                await self._tell(refusal, talk)
        if bind is not None:
            self._forward(b"B", bind)

    async def _answer_bind(self, talk: PrivateTalk, message: Bind, found: Prepared) -> tuple[Answer, Private]:
        session = self._session
        session.link.sent += 1
        with self._endable() as ending:
            texts, settings = await client_values(talk, found.description, message.statement, message.values, message.formats)
            description = replace(found.description, settings=settings)
            private = await current(talk, session.dataset, session.asker, found, description, texts, ending)
            answer, private = await self._aimed(talk, private, ending, texts, message)
        if isinstance(found, Private):
            session.private[message.statement] = private
        return answer, private

    async def _close(self, raw: bytes, name: str) -> None:
        async with self._captured(extended=True) as talk:
            if not self._skipping:
                private = self._session.private.pop(name)
                await talk.ask(front.close("S", private.internal), 1)
        self._forward(b"C", raw)

    # answers

    async def _aimed(
        self, talk: PrivateTalk, private: Private, ending: Ending, texts: Sequence[str | None] = (), bind: Bind = NO_VALUES
    ) -> tuple[Answer, Private]:
        """The answer, as exact as `dpproxy.accuracy` asks; and the statement as it was planned for it. Raises as `_answer`."""
        ending.limit(seconds(private.description.settings["statement_timeout"]))
        settings, session = private.description.settings, self._session
        text = settings["dpproxy.accuracy"]
        wanted = accuracy_search.target(text)
        if wanted is None or text is None or private.statement.kind == "explain" or not private.plan.measurements:
            answer, _ = await self._answer(talk, private, bind, texts)
            return answer, private
        accuracy_search.check(private.plan)
        most, spent = session.asker.role.query.max_epsilon, ZERO
        epsilon, last = accuracy_search.first(most), False
        while True:
            aimed = replace(
                private.description, settings=MappingProxyType({**settings, "dpproxy.epsilon": epsilon_text(epsilon)})
            )
            before = spent
            try:
                fitted = await fit(talk, session.dataset, session.asker, private.statement, aimed, private.internal, ending)
                answer, error = await self._answer(talk, fitted, bind, texts, aimed=True)
                spent = spent + answer.charged
                following = None if last else accuracy_search.following(epsilon, error, wanted, most, text, spent.epsilon)
            except Refusal as refusal:
                raise accuracy_search.told(refusal, spent.epsilon, text) from None
            if following is None:
                said = f"; epsilon {epsilon_text(before.epsilon)} before, to find what accuracy {text} needs" if before else ""
                return replace(answer, notice=answer.notice and answer.notice + said), fitted
            epsilon, last = following, error < 1

    @contextmanager
    def _endable(self) -> Iterator[Ending]:
        """A statement, from its first question to the facade on: whoever wants to end it is heard."""
        self._ending = ending = Ending()
        try:
            yield ending
        finally:
            self._ending = None
            ending.over()

    async def _answer(
        self, talk: PrivateTalk, private: Private, bind: Bind, texts: Sequence[str | None], *, aimed: bool = False
    ) -> tuple[Answer, float]:
        """With the largest typical error of its aggregates, where it is `aimed`. Raises Refusal, StatementFailed, LinkLost."""
        session = self._session
        session.flush()  # what was answered before: this may take long
        name = hashlib.sha256(private.statement.text.encode()).hexdigest()[:16]
        answering = self._answering(talk, private, bind, name)
        if private.statement.kind == "explain":
            preview = await answering.preview(texts)
            return Answer((text_literal(foretold(private.plan.explain, preview)),), None), 1.0
        try:
            answer = await answering.run(texts)
        except Needless:
            return Answer(tuple(b"{}" for _ in private.elements), None), 1.0
        error = await answering.error() if aimed else 1.0
        LOG.info(
            "answered",
            dataset=session.dataset.policy.dataset,
            role=session.asker.role.name,
            kind=private.statement.kind,
            statement=name,
            measurements=len(private.plan.measurements),
            epsilon=answer.charged.epsilon,
            reused=answer.reused,
        )
        quiet = is_off(private.description.settings["dpproxy.notices"])
        return replace(answer, notice=None) if quiet else answer, error

    def _answering(self, talk: PrivateTalk, private: Private, bind: Bind, name: str) -> Answering:
        session = self._session
        tracker = session.link.tracker
        alone = tracker.status == "I" and not tracker.done

        async def ask(inputs: Sequence[int], literals: Literals) -> list[str | None]:
            return await evaluate(talk, private, bind.values, bind.formats, inputs, literals)

        async def tried() -> None:
            if self._kept(private.statement) is None:  # what was answered in this very state needs no trial
                await rehearse(talk, private, bind, alone)

        return Answering(
            session.dataset,
            session.asker,
            private.plan,
            name,
            ask,
            reuse_mode(private.description.settings["dpproxy.reuse"]),
            ending=self._ending,
            rehearse=tried,
            limit=session.statement_limit,
        )

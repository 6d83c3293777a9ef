"""Between the two query protocols and the room `answers`: a client's text is split, a private statement is asked as a `Question`.

Knows: settings of a session, what of an answer the facade has to do, who may end a statement. Must not know: which messages the
client sent, how answers are made. One of these serves both protocols of a session: they share what was answered a moment ago, and
a cancel request ends whatever of them runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from dpproxy.answers import accuracy_search
from dpproxy.answers.answering import Answer
from dpproxy.answers.delivery import deliver, note
from dpproxy.answers.question import Literals, Needless, Question
from dpproxy.answers.statement_end import Ending, StatementFailed
from dpproxy.errors import FEATURE_NOT_SUPPORTED, NO_ACTIVE_SQL_TRANSACTION, Refusal
from dpproxy.plan.report.explain import epsilon_text
from dpproxy.privacy.loss import ZERO
from dpproxy.reuse.matching import check_size
from dpproxy.session.description import check_name, client_values
from dpproxy.session.memo import CachedReply, RepeatCache
from dpproxy.session.private_statement import PrivateStatement, all_formats, evaluate, fit, outer_oids
from dpproxy.session.private_talk import SCRATCH, PrivateTalk
from dpproxy.session.replies import Client
from dpproxy.session.sql_prepare import PreparedStatement, current
from dpproxy.sql.repeatability import check_allowed
from dpproxy.sql.settings import ACCURACY, EPSILON, NOTICES, REUSE, STATEMENT_TIMEOUT
from dpproxy.sql.statements import Statement, made
from dpproxy.telemetry.tallies import Verdict, class_of
from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front
from dpproxy.wire.frontend import Bind

# Whatever can be foreseen to fail on the facade fails before the charge: the statement is tried there without its numbers.
#
# Knows: the extended protocol, names of tables and cursors in a statement's head. Must not know: plans, charges. A query is
# bound as it will be, with NULL for its arrays, under the client's own name of the portal: so PostgreSQL checks names, formats
# and rights. A COPY, a cursor or a temporary table is made of no rows, and taken away again. Errors are PostgreSQL's own.


NO_TRANSACTION = Refusal(NO_ACTIVE_SQL_TRANSACTION, "DECLARE CURSOR can only be used in transaction blocks")


async def rehearse(talk: PrivateTalk, private: PrivateStatement, bind: Bind, alone: bool) -> None:
    """Try a statement without its numbers. `bind` is the client's, or what it would be. `alone`: no transaction is open, and
    nothing went before in this one.

    Raises StatementFailed, Refusal, LinkLost, and Needless.
    """
    if private.inlined:
        await _tried(talk, private, bind, alone)
        return
    arrays = len(private.elements)
    values, formats = [*bind.values, *[None] * arrays], all_formats(bind.formats, len(bind.values), arrays)
    data = front.bind(bind.portal, private.internal, values, formats, bind.result_formats) + front.close("P", bind.portal)
    if not private.internal:  # the unnamed statement may be another by now
        data = front.parse("", private.outer, outer_oids(private)) + data
    await talk.ask(data, 2 if private.internal else 3)


async def _tried(talk: PrivateTalk, private: PrivateStatement, bind: Bind, alone: bool) -> None:
    kind, target, undo = private.statement.kind, made(private.statement), ""
    if kind != "copy" and target is None:
        raise Refusal(FEATURE_NOT_SUPPORTED, "this name cannot be read", hint="Write it plainly, or in double quotes.")
    if kind == "cursor" and target is not None:
        if alone and not target.held:
            raise replace(NO_TRANSACTION)
        undo = f"CLOSE {target.name}"
    elif target is not None:
        if target.unless and await _exists(talk, target.name):
            raise Needless
        undo = f"DROP TABLE pg_temp.{target.name}"
    text = private.text([b"{}"] * len(private.elements), rows=False)
    tried = _execution(text, private.description.oids, bind.values, bind.formats)
    await talk.ask(tried + (_execution(undo) if undo else b""), 10 if undo else 5)


def _execution(text: str, oids: Sequence[int] = (), values: Sequence[bytes | None] = (), formats: Sequence[int] = ()) -> bytes:
    """Five messages."""
    parse = front.close("S", SCRATCH) + front.parse(SCRATCH, text, oids)
    return parse + front.bind(SCRATCH, SCRATCH, values, formats) + front.execute(SCRATCH) + front.close("P", SCRATCH)


async def _exists(talk: PrivateTalk, name: str) -> bool:
    text = f"pg_temp.{name}".replace("'", "''")
    (found,), _ = await talk.ask_row(f"SELECT pg_catalog.to_regclass('{text}') IS NOT NULL")
    return found == b"t"


NO_VALUES: Final = Bind("", "", (), (), ())
"""What a simple query binds."""


class StatementAnswers:
    """The answers to one session's statements."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ending: Ending | None = None
        self._ended: Ending | None = None  # the last one
        self._repeats = RepeatCache()

    # the end of a statement

    @contextmanager
    def endable(self) -> Iterator[Ending]:
        """Begin a statement: from here on whoever wants to end it is heard."""
        self._ending = self._ended = ending = Ending()
        try:
            yield ending
        finally:
            self._ending, self._client.asking = None, ""
            ending.over()

    def cancel(self, reason: str) -> bool:
        """End the statement in the making; return False when the facade may be at work for it, or for the client itself."""
        return self._ending is not None and self._ending.ask(reason)

    def not_answered(self, text: str, kind: str, error: Refusal | StatementFailed) -> None:
        """Note that a statement over private tables is refused, or has failed after its charge; `text` may be of several."""
        client, ending = self._client, self._ended
        paid = ending.paid if ending is not None else ZERO
        verdict: Verdict = "failed" if paid else "refused"
        if isinstance(error, Refusal):
            code, reason = error.sqlstate, error.site
        else:
            code, reason = back.read_report(error.raw[5:]).get("C", ""), "facade"
        ended = (client.key[0], _hash(text), kind, verdict)
        note(client.dataset, client.asker, ended, ending, paid, why=(code, class_of(code), reason))
        self._ended = None

    # texts

    async def statements(self, text: str) -> tuple[Statement, ...]:
        """Return the statements of a text. Raises Refusal for what no session may do."""
        with self.endable() as ending:
            statements = await self._client.dataset.plans.split_aside(text, self._client.asker.role, ending.race)
        for statement in statements:
            check_allowed(statement)
            check_name(statement)
        return statements

    # what was answered a moment ago

    def repeated(self, statement: Statement) -> CachedReply | None:
        """Return what this very statement was answered with, where nothing has happened in the session since."""
        link = self._client.link
        usual = statement.kind == "select" and link.tracker.status in ("I", "T")
        return self._repeats.find(statement.text, link.sent) if usual else None

    def remember(self, statement: Statement, reply: CachedReply | None) -> None:
        if reply is not None:
            self._repeats.keep(statement.text, reply, self._client.link.sent)

    # answers

    async def bound(self, talk: PrivateTalk, message: Bind, found: PreparedStatement) -> tuple[Answer, PrivateStatement]:
        """Return the answer for one Bind, and the statement as it was planned for its values. Raises as `answer`."""
        client = self._client
        client.link.sent += 1
        if len(message.values) == len(found.description.oids):  # else PostgreSQL's words for that are next
            check_size(message.values, client.asker.role.query.parameter_bytes)
        with self.endable() as ending:
            texts, settings = await client_values(talk, found.description, message.statement, message.values, message.formats)
            description = replace(found.description, settings=settings)
            private = await current(talk, client.dataset, client.asker, found, description, texts, ending)
            answer, private = await self.answer(talk, private, ending, texts, message)
        if isinstance(found, PrivateStatement):
            client.private[message.statement] = private
        return answer, private

    async def answer(
        self,
        talk: PrivateTalk,
        private: PrivateStatement,
        ending: Ending,
        texts: Sequence[str | None] = (),
        bind: Bind = NO_VALUES,
    ) -> tuple[Answer, PrivateStatement]:
        """Return the answer, as exact as the session asks (`ACCURACY`), and the statement as it was planned for it.

        `texts` are the values of `bind` in PostgreSQL's text forms. Raises Refusal, StatementFailed, LinkLost.
        """
        settings, client = private.description.settings, self._client
        ending.limit(STATEMENT_TIMEOUT.read(settings))
        text, wanted = settings[ACCURACY.name], ACCURACY.read(settings)
        priced_itself = EPSILON.name in dict(private.statement.asked)
        if (
            wanted is None
            or text is None
            or priced_itself
            or private.statement.kind == "explain"
            or not private.plan.measurements
        ):
            answer, _ = await self._delivered(talk, private, ending, texts, bind)
            return answer, private
        accuracy_search.check(private.plan)

        async def attempt(epsilon: int) -> tuple[Answer, float, PrivateStatement]:
            priced = MappingProxyType({**settings, EPSILON.name: epsilon_text(epsilon)})
            aimed = replace(private.description, settings=priced)
            planned = await fit(talk, client.dataset, client.asker, private.statement, aimed, private.internal, ending)
            answer, error = await self._delivered(talk, planned, ending, texts, bind, aimed=True)
            return answer, error, planned

        return await accuracy_search.search(text, wanted, client.asker.role.query.max_epsilon, attempt)

    async def _delivered(
        self,
        talk: PrivateTalk,
        private: PrivateStatement,
        ending: Ending,
        texts: Sequence[str | None],
        bind: Bind,
        *,
        aimed: bool = False,
    ) -> tuple[Answer, float]:
        self._client.flush()  # what was answered before: this may take long
        quiet = not NOTICES.read(private.description.settings)
        return await deliver(self._question(talk, private, ending, bind), texts, quiet=quiet, aimed=aimed)

    def _question(self, talk: PrivateTalk, private: PrivateStatement, ending: Ending, bind: Bind) -> Question:
        client = self._client
        client.asking = _hash(private.statement.text)
        tracker = client.link.tracker
        alone = tracker.status == "I" and not tracker.done

        async def ask(inputs: Sequence[int], literals: Literals) -> list[str | None]:
            most = client.asker.role.query.parameter_bytes
            return await evaluate(talk, private, bind.values, bind.formats, inputs, literals, most)

        async def tried() -> None:
            if self.repeated(private.statement) is None:  # what was answered in this very state needs no trial
                await rehearse(talk, private, bind, alone)

        return Question(
            client.dataset,
            client.asker,
            private.plan,
            client.asking,
            ask,
            ending,
            REUSE.read(private.description.settings),
            tried,
            client.statement_limit,
            private.statement.kind,
            client.reach,
            client.key[0],
        )


def _hash(text: str) -> str:
    """What names a statement in logs and ledger."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]

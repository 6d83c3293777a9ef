"""`Device`: what an app calls. It keeps what was seen, randomises what is drawn of it, posts it later, and says what was told.

Knows: the parts of this room and their order. Must not know: how any of them works. The app says what a device tells at most; no
server can change that, and no file that asks more is read. Nothing is posted unless the app calls `send`; it may do so as often
as it likes.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpproxy.collect import ledger
from dpproxy.collect.ledger import DEFAULT_TOTAL, MICRO, Ledger, Limits, Refusal, micro
from dpproxy.collect.questions import FileRefused, OutsideSpace, Question, question_of
from dpproxy.collect.queue import DAY, Event, Queue

if TYPE_CHECKING:
    import ssl

Amount = int | float | str | Decimal
File = str | PathLike[str]


@dataclass(frozen=True)
class Account:
    """What a device has charged: for each report its question, day (as text) and epsilon, and the sum `forever`."""

    reports: tuple[Mapping[str, Any], ...]
    forever: Decimal


@dataclass
class Sent:
    """What became of what was due. `refused`: by question, why nothing was charged; `unwanted`: what a collector said of
    reports that it will never take."""

    taken: int = 0
    later: int = 0
    refused: list[tuple[str, Refusal]] = field(default_factory=list)
    unwanted: list[tuple[str, str]] = field(default_factory=list)


class Device:
    """One device's state, its questions, and its limits."""

    def __init__(
        self,
        files: File | Sequence[File],
        state: File,
        *,
        max_epsilon: Amount,
        total: Amount = DEFAULT_TOTAL,
        daily: Amount | None = None,
        pinned: Sequence[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the state, made if there was none, and read the mechanisms' files that are shipped with the app.

        `max_epsilon`: of one report. `daily`: of a day's reports together, `max_epsilon` by default. `total`: for ever.
        `pinned`: the hashes of the files that the app knows; none: any. Raises FileRefused, StateLost, StateDamaged, StateBusy,
        StateFull, ValueError for amounts.
        """
        most = micro(max_epsilon)
        limits = Limits(total=micro(total), daily=micro(daily) if daily is not None else most)
        names = [files] if isinstance(files, str | PathLike) else list(files)
        self._questions = _permitted([_question(Path(name)) for name in names], most, pinned)
        self._clock = clock
        self._ledger = Ledger(Path(state).expanduser())
        self._queue = Queue(self._ledger, limits, clock)

    def saw(self, question: str, value: object, **plain: object) -> Refusal | None:
        """Keep what happened; of a day's events some are drawn when the day is over. Return None, or why it is not kept. Raises
        OutsideSpace for a value that the question does not know."""
        asked, event = self._event(question, value, plain)
        return self._queue.saw(asked, event)

    def answer(self, question: str, value: object, **plain: object) -> Refusal | None:
        """Answer a survey: charged at once, sent by the next `send`. The same value again is the same report, sent once. Return
        None, or why there is no answer. Raises OutsideSpace."""
        asked, event = self._event(question, value, plain)
        return self._queue.answer(asked, event)

    def send(self, url: str, *, context: ssl.SSLContext | None = None) -> Sent:
        """Post what is due to the collector at an address. Raises ValueError for an address without TLS."""
        from dpproxy.collect.post import Reply, place_of, post  # HTTP and TLS are half of what an import would cost

        place_of(url)
        sent = Sent(refused=self._queue.close_days(self._questions))
        for waiting in self._queue.due():
            question = self._questions.get(waiting.question)
            if question is None:
                self._queue.gone(waiting)
                continue
            self._queue.trying(waiting)
            row = [*json.loads(waiting.plain), *json.loads(waiting.report)]
            posted = post(url, question.table, waiting.batch, waiting.claim, row, context)
            match posted.reply:
                case Reply.TAKEN:
                    self._queue.gone(waiting)
                    sent.taken += 1
                case Reply.UNWANTED:
                    self._queue.gone(waiting)
                    sent.unwanted.append((waiting.question, posted.said))
                case _:
                    self._queue.later(waiting, unsure=posted.reply is Reply.UNSURE)
                    sent.later += 1
        return sent

    def told(self) -> Account:
        """List what was charged, and the epsilon for ever."""
        charges = self._ledger.charges()
        rows = [
            {"question": charge.question, "day": _day(charge.day), "epsilon": Decimal(charge.epsilon) / MICRO}
            for charge in charges
        ]
        return Account(tuple(rows), Decimal(sum(charge.epsilon for charge in charges)) / MICRO)

    def forget(self) -> None:
        """Opt out: delete events, answers and reports that wait. The ledger stays, since what was told stays told."""
        self._queue.forget()

    def close(self) -> None:
        self._ledger.close()

    @staticmethod
    def begin_again(state: File, *, total: Amount = DEFAULT_TOTAL, clock: Callable[[], float] = time.time) -> None:
        """Begin a new state where one was lost or damaged. What was charged stays charged; nothing is taken before tomorrow."""
        amount = micro(total)
        ledger.begin_again(Path(state).expanduser(), int(clock() // DAY), Limits(amount, amount))

    def _event(self, question: str, value: object, plain: Mapping[str, object]) -> tuple[Question, Event]:
        asked = self._questions.get(question)
        if asked is None:
            raise OutsideSpace(f"no question is named {question!r}: there are {', '.join(self._questions)}")
        return asked, Event(asked.plain_values(plain), asked.value(value))


def _question(path: Path) -> Question:
    try:
        document = json.loads(path.read_bytes())
    except ValueError:
        raise FileRefused(f"{path.name} is no mechanism's file: it is no JSON") from None
    return question_of(document)


def _permitted(questions: Sequence[Question], most: int, pinned: Sequence[str]) -> dict[str, Question]:
    """The questions by name. Raises FileRefused where one asks too much, or is not the one that the app knows."""
    for question in questions:
        if pinned and question.claim not in pinned:
            raise FileRefused(f"the mechanism of {question.table} is not the one that the app was made with")
        if question.epsilon > most:
            asked = Decimal(question.epsilon) / MICRO
            raise FileRefused(f"{question.table} asks for epsilon {asked}, and the app permits {Decimal(most) / MICRO} a report")
    named = {question.name: question for question in questions}
    if len(named) < len(questions):
        raise FileRefused("two mechanisms' files have a question of the same name")
    return named


def _day(number: int) -> str:
    with contextlib.suppress(OverflowError, ValueError, OSError):
        return time.strftime("%Y-%m-%d", time.gmtime(number * DAY))
    return f"day {number}"

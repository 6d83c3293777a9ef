"""What the operators' pages show, from a proxy that serves: its statuses, ledger, policies and plans. Never data.

Knows: the operator, datasets, the ledger's record, the loop they live in. Must not know: HTTP, pages. It is called in threads
of the pages: what the loop owns is asked for in the loop, everything else is read here. A statement that is explained is
planned on a bench, as `dpproxy policy test` does: the key that chooses among a unit's groups (`serve.datasets.pick_key`) is not
in what it generates, and no engine is asked anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from dpproxy.answers.dataset import Dataset
from dpproxy.backends.base import BackendError
from dpproxy.console.source import AnswerLine, Explained, FreeRepeat, Review, Section, StoredAnswers
from dpproxy.errors import STATEMENT_TOO_COMPLEX, Refusal
from dpproxy.ledger.ledger import Charge
from dpproxy.operations import audit
from dpproxy.operations.requests import OperationError, Recent, Request
from dpproxy.operations.status import Status
from dpproxy.plan.model import Plan
from dpproxy.plan.report.explain import as_text
from dpproxy.policy.load import load_file
from dpproxy.policy.problems import PolicyError
from dpproxy.records.place import Place, named
from dpproxy.records.record import recent
from dpproxy.reuse.lookup import epoch_name
from dpproxy.review.doubts import doubts
from dpproxy.review.explanation import explanation
from dpproxy.review.verdicts import Bench
from dpproxy.serve.operator import Operator
from dpproxy.sql.effort import Stop, Stopped, stoppable
from dpproxy.telemetry.tallies import StatementEvent

PATIENCE: Final = 20.0
"""Seconds the loop may take to say what it knows."""
RELOADED: Final = 110.0
"""Seconds an action may take: a reload opens data."""
PLANNED: Final = 10.0
"""Seconds a statement may be planned."""
REMEMBERED: Final = 20_000
"""Of the ledger's last entries, those of a dataset are looked at: half a second of reading."""
FRESH: Final = 5.0
"""Seconds for which what was read of the ledger is told again."""
TAIL: Final = 1 << 16
"""Bytes of the audit log's end that are read."""

T = TypeVar("T")


class ProxySource:
    """Tells of one proxy; it is a `console.source.Source`. To be made in the proxy's loop. `datasets` and `files` are those that
    are served at any time."""

    def __init__(
        self,
        operator: Operator,
        datasets: Mapping[str, Dataset],
        files: Callable[[], Mapping[str, Path]],
        place: Place,
        state: Path,
    ) -> None:
        self._operator, self._datasets, self._files, self._place = operator, datasets, files, place
        self._audit = state / audit.FILE
        self._loop = asyncio.get_running_loop()
        self._read: dict[str, tuple[float, Sequence[Charge]]] = {}
        self._benches: dict[str, tuple[Dataset, Bench]] = {}
        self._planning = threading.Lock()

    def _ask(self, work: Coroutine[Any, Any, T], patience: float = PATIENCE) -> T:
        """Raises TimeoutError, and whatever the work does."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(patience)

    # what the proxy knows

    def statuses(self, checked: bool = False) -> Sequence[Status]:
        return self._ask(self._operator.statuses(checked))

    def roles(self) -> Mapping[str, tuple[str, ...]]:
        return {name: tuple(sorted(dataset.policy.roles)) for name, dataset in sorted(dict(self._datasets).items())}

    def recent(self, count: int) -> Sequence[StatementEvent]:
        found = self._ask(self._operator.carry_out(Recent(count), "console"))
        return [StatementEvent(**event) for event in found]

    def answers(self, count: int) -> Sequence[AnswerLine]:
        return self._ask(self._answers(count))

    async def _answers(self, count: int) -> list[AnswerLine]:
        found = [
            AnswerLine(
                name,
                entry.role,
                entry.asked.timestamp(),
                entry.epsilon,
                entry.measurements,
                entry.reused,
                entry.statement,
                entry.outcome or "",
                entry.errors or "",
            )
            for name, dataset in self._datasets.items()
            for entry in dataset.answered
        ]
        return sorted(found, key=lambda line: line.at, reverse=True)[:count]

    def stored(self) -> Sequence[StoredAnswers]:
        return [
            StoredAnswers(name, role, dataset.reuse.store.count(name, role) if dataset.reuse is not None else None)
            for name, dataset in sorted(dict(self._datasets).items())
            for role in sorted(dataset.policy.roles)
        ]

    def repeats(self, count: int) -> Sequence[FreeRepeat]:
        return self._ask(self._repeats(count))

    async def _repeats(self, count: int) -> list[FreeRepeat]:
        found: list[FreeRepeat] = []
        for name, dataset in sorted(self._datasets.items()):
            with contextlib.suppress(BackendError):  # nothing is shown again while the epoch is unknown
                found += await _free(name, dataset, count)
        return found

    # the ledger

    def charges(self, dataset: str) -> Sequence[Charge]:
        """Raises LedgerError."""
        at, found = self._read.get(dataset, (0.0, ()))
        if not at or time.monotonic() - at > FRESH:
            found = recent(self._place.reader(dataset), dataset, REMEMBERED)
            self._read[dataset] = time.monotonic(), found
        return found

    def ledger(self) -> str:
        return named(self._place)

    # policies

    def reviews(self) -> Sequence[Review]:
        return [self._review(self._datasets[name], file) for name, file in sorted(self._files().items())]

    def _review(self, dataset: Dataset, file: Path) -> Review:
        try:
            loaded = load_file(file)
        except PolicyError as error:
            return Review(dataset.policy.dataset, (), changed=True, unread=str(error))
        found = tuple(f"line {doubt.line}: {doubt.what}; {doubt.fix}" for doubt in doubts(loaded, dataset.catalog))
        return Review(dataset.policy.dataset, found, changed=loaded.policy.digest != dataset.policy.digest)

    def exposure(self, dataset: str, role: str) -> tuple[Section, ...]:
        """Raises KeyError."""
        return tuple(Section(s.title, s.sentences, s.rows) for s in explanation(self.bench(dataset), role).sections)

    def bench(self, name: str) -> Bench:
        """Return a bench for what is served now. Raises KeyError."""
        dataset = self._datasets[name]
        of, bench = self._benches.get(name, (None, None))
        if of is not dataset or bench is None:
            bench = Bench(dataset.policy, dataset.catalog, dataset.backend.dialect)
            self._benches[name] = dataset, bench
        return bench

    # a statement

    def explain(self, dataset: str, role: str, statement: str, epsilon: str) -> Explained:
        """One at a time, so that who plans for analysts keeps most of the processor. Raises KeyError."""
        bench = self.bench(dataset)
        if role not in bench.policy.roles:
            raise KeyError(role)
        settings = {"dpproxy.epsilon": epsilon} if epsilon else {}
        stop = Stop()
        timer = threading.Timer(PLANNED, stop.ask)
        with self._planning:
            timer.start()
            try:
                return explained(stoppable(stop, lambda: bench.planned(role, statement, settings)))
            except Refusal as refusal:
                return Explained(refusal.sqlstate, refusal.message, refusal.hint or "")
            except Stopped:
                return Explained(STATEMENT_TOO_COMPLEX, f"the statement could not be planned within {PLANNED:g} seconds")
            finally:
                timer.cancel()

    # what is done

    def carry_out(self, request: Request, by: str) -> Any:
        """Raises OperationError."""
        done = self._ask(self._operator.carry_out(request, by), RELOADED)
        self._read.clear()
        return done

    def note(self, action: str, by: str, outcome: str) -> None:
        with contextlib.suppress(OperationError):  # the log has it: whoever has to make room on the disk must get in
            self._operator.note(action, by, outcome)

    def audited(self, count: int) -> Sequence[Mapping[str, Any]]:
        """Raises OSError."""
        with self._audit.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL))
            lines = file.read().splitlines()[1 if size > TAIL else 0 :]
        return [json.loads(line) for line in reversed(lines[-count:])]


async def _free(name: str, dataset: Dataset, count: int) -> list[FreeRepeat]:
    """Raises BackendError."""
    reuse, now = dataset.reuse, dt.datetime.now(dt.UTC)
    if reuse is None:
        return []
    epoch, age = epoch_name(reuse.ledger, await reuse.epoch.current(now)), reuse.max_age
    stored = await asyncio.to_thread(reuse.store.repeats, name, epoch, count)
    cost: dict[tuple[str, str], int] = {}
    stated: dict[tuple[str, str], str] = {}
    for entry in dataset.answered:
        asked = (entry.role, entry.statement)
        cost[asked] = max(cost.get(asked, 0), entry.epsilon)
        stated[asked] = entry.errors or stated.get(asked, "")
    return [
        FreeRepeat(
            name,
            repeat.role,
            repeat.statement,
            repeat.measurements,
            repeat.since.timestamp(),
            (repeat.since + age).timestamp() if age is not None else None,
            cost.get((repeat.role, repeat.statement), 0),
            stated.get((repeat.role, repeat.statement), ""),
        )
        for repeat in stored
        if age is None or repeat.since + age > now
    ]


def explained(plan: Plan | None) -> Explained:
    """Return a plan as pages show it. None: no private table is read."""
    if plan is None:
        return Explained(message="It reads no private table: the facade answers it, at no charge.")
    account = json.loads("".join(plan.explain))[0]["Privacy Plan"]
    holes = [f"${number + 1}" for number in range(plan.parameters + len(plan.inputs))]
    queries = (query for measurement in plan.measurements for query in measurement.queries)
    generated = tuple(query.render(holes, lambda _dialect, _type, value: value or "NULL") for query in queries)
    return Explained("", "", "", plan.loss.epsilon, plan.loss.delta, as_text(account), account, generated)

"""Who waits for whom on a processor: a writer ends what it is at before its reader begins.

Knows: Linux's scheduling policies. Must not know: what runs. A relay wakes somebody with each write. By default the one woken
takes the processor at once, so that the proxy is stopped behind each statement it passes on, and the facade behind each
answer: two thirds of a relayed statement's price are such changes. Under SCHED_BATCH the woken wait until the waker has
worked off what was ready, or its time is over, which costs nothing in throughput and halves the changes.

While an engine computes in this process or beside it, that would be wrong: whoever asks for little would wait for a slice of
somebody who wants much. So long the event loop interrupts whatever runs, as any process does.

The policy is inherited: what a patient process starts, the facade above all, is patient as well, and stays so.
Elsewhere than on Linux this does nothing.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


class Turns:
    """Of the thread that calls, which is the event loop's."""

    def __init__(self) -> None:
        self._patient = False
        self._contested = 0

    def patient(self) -> None:
        """From now on wait one's turn, but while it is `contested`."""
        self._patient = sys.platform == "linux"
        self._apply()

    @contextlib.contextmanager
    def contested(self) -> Iterator[None]:
        """Somebody computes at length."""
        self._contested += 1
        if self._contested == 1:
            self._apply()
        try:
            yield
        finally:
            self._contested -= 1
            if not self._contested:
                self._apply()

    def _apply(self) -> None:
        if sys.platform == "linux" and self._patient:
            policy = os.SCHED_OTHER if self._contested else os.SCHED_BATCH
            with contextlib.suppress(OSError):  # a sandbox that forbids it costs speed, nothing else
                os.sched_setscheduler(0, policy, os.sched_param(0))


TURNS = Turns()
"""The process's: it has one event loop."""

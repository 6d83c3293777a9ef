"""Roles that an operator has paused: nothing is answered to them until they are resumed.

Knows: names, one file in the state folder. Must not know: sessions, why somebody asks. The file outlives the process, since a
pause is a decision of a person: no restart takes it back. All processes of a proxy read the same file; who changes it holds a
lock and writes it whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from dpproxy.errors import OBJECT_NOT_IN_PREREQUISITE_STATE, OperatorError, Refusal
from dpproxy.private_files import private_opener, write_whole

FILE = "paused.json"  # in the state folder


class PausesError(OperatorError):
    """Who is paused is not known: nothing may be served as if nobody were."""


@dataclass(frozen=True)
class Pause:
    """Nothing is answered to a role. `since`: seconds since 1970; `by`: who on this machine; `reason`: theirs."""

    dataset: str
    role: str
    since: float
    by: str
    reason: str

    def refusal(self) -> Refusal:
        return Refusal(
            OBJECT_NOT_IN_PREREQUISITE_STATE,
            f"role `{self.role}` is paused by the operator",
            detail="Nothing was charged.",
            hint="Ask the operator when it is resumed; statements that read no private table are answered meanwhile.",
        )


class Pauses:
    """The pauses of one proxy. `path`: None for one that has no state. One thread changes it, any thread reads it."""

    def __init__(self, path: Path | None = None) -> None:
        """Read what is there. Raises PausesError, OSError."""
        self._path = path
        self._all: dict[tuple[str, str], Pause] = {}
        self.read()

    def read(self) -> None:
        """Read the file again. Raises PausesError, OSError."""
        if self._path is None:
            return
        try:
            entries = json.loads(self._path.read_text())
            found = [Pause(**entry) for entry in entries]
        except FileNotFoundError:
            found = []
        except (TypeError, ValueError) as error:
            raise PausesError(f"{self._path}, which says which roles are paused, is damaged: {error}") from None
        self._all = {(pause.dataset, pause.role): pause for pause in found}

    def of(self, dataset: str, role: str) -> Pause | None:
        return self._all.get((dataset, role))

    def all(self) -> tuple[Pause, ...]:
        return tuple(pause for _, pause in sorted(self._all.items()))

    def add(self, pause: Pause) -> bool:
        """Return whether that changes anything: a role that is paused stays so, with its first reason. Raises OSError where it
        cannot be written down; then the role is not paused."""
        with self._changing():
            if (pause.dataset, pause.role) in self._all:
                return False
            self._change({**self._all, (pause.dataset, pause.role): pause})
            return True

    def remove(self, dataset: str, role: str) -> bool:
        """Return whether it was paused. Raises OSError where that cannot be written down; then the role stays paused."""
        with self._changing():
            if (dataset, role) not in self._all:
                return False
            self._change({key: pause for key, pause in self._all.items() if key != (dataset, role)})
            return True

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """From what the file says now; between processes."""
        if self._path is None:
            yield
            return
        with open(self._path.with_suffix(".lock"), "a", opener=private_opener) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.read()
            yield

    def _change(self, to: dict[tuple[str, str], Pause]) -> None:
        """On disk first."""
        if self._path is not None:
            text = json.dumps([asdict(pause) for _, pause in sorted(to.items())], indent=1)
            write_whole(self._path, text.encode(), replace=True)
        self._all = to

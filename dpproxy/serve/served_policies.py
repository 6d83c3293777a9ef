"""Which policies hold: read, opened, read again, and how one takes another's place under sessions.

Knows: files of policies, datasets, the server whose sessions they are. Must not know: how a dataset is opened, signals, other
processes. What cannot be read is reported, and what was there stays. Where neither policy nor data changed, nothing does.
Otherwise the new one is made ready beside the old, and holds from one moment to the next: whoever comes in from then on comes in
under it, and no session lives under two. Those under the old one end with 57P01: at once, in a transaction or not, or after the
statement that runs, within `drain` seconds, and nothing is begun in them. Where only users changed, those who are what they were
stay connected.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog

from dpproxy.answers.dataset import Dataset
from dpproxy.answers.statement_end import incident
from dpproxy.backends.base import BackendError
from dpproxy.facade.account import FacadeError
from dpproxy.ledger.ledger import LedgerError
from dpproxy.operations.status import PolicyHistory
from dpproxy.policy.load import Loaded, load_file
from dpproxy.policy.model import Policy
from dpproxy.policy.problems import PolicyError
from dpproxy.serve.datasets import outdated
from dpproxy.serve.runtime import ServingError
from dpproxy.server.server import Server
from dpproxy.session.client import ClientSession

LOG = structlog.get_logger()


class ServedPolicies:
    """Keeps `datasets`, by name, to what the files say. `opened` makes one ready; `drain`: seconds that statements may take.
    `draft`: policies with open decisions are served, too."""

    def __init__(
        self,
        files: Sequence[Path],
        datasets: dict[str, Dataset],
        opened: Callable[[Loaded], Awaitable[Dataset]],
        server: Server,
        drain: float,
        draft: bool = False,
    ) -> None:
        self._files, self._datasets, self._opened, self._server, self._drain = files, datasets, opened, server, drain
        self._draft = draft
        self._names: dict[Path, str] = {}  # datasets by policy file
        self._included: dict[Path, tuple[Path, ...]] = {}  # the files that a policy file includes
        self.history = {path: PolicyHistory() for path in files}
        self._retiring: set[asyncio.Task[None]] = set()

    def files(self) -> dict[str, Path]:
        """Return the policy file of each dataset."""
        return {name: path for path, name in self._names.items()}

    def read(self) -> list[Path]:
        """Return the files of all policies, with those that they included when they were last read."""
        return [file for path in self._files for file in (path, *self._included.get(path, ()))]

    async def open(self) -> None:
        """Raises PolicyError, BackendError, FacadeError, ServingError."""
        for path in self._files:
            await self.hold(path, self._decided(load_file(path)))

    def _decided(self, loaded: Loaded) -> Loaded:
        """Return a policy in which nothing is open. Raises PolicyError with what is."""
        still = [problem for problem in loaded.warnings if problem.code == "open-decision"]
        if still and not self._draft:
            raise PolicyError(still)
        return loaded

    async def reload(self) -> None:
        """Read all files again; what was wrong is in their `history`."""
        for path in self._files:
            await self._reload(path)

    async def retired(self) -> None:
        """Wait until no session is under a policy that holds no more."""
        if self._retiring:
            await asyncio.wait(self._retiring)

    async def hold(self, path: Path, loaded: Loaded) -> None:
        """Serve a policy, in place of the one of the same name. Raises PolicyError, BackendError, FacadeError, ServingError."""
        name = loaded.policy.dataset
        self._included[path] = loaded.included
        if self._names.get(path) != name and name in self._datasets:
            raise ServingError(f"two policies are for dataset `{name}`")
        before = self._datasets.get(name)
        dataset = await self._opened(loaded)
        self._datasets[name] = dataset  # from here on it holds
        former = self._names.get(path)
        self._names[path] = name
        self.history[path].loaded = time.time()
        if former is not None and former != name:  # the file was another dataset's
            self._retire(self._datasets.pop(former), None)
        if before is not None:
            self._retire(before, dataset)

    def _retire(self, before: Dataset, newer: Dataset | None) -> None:
        """In the background: a later reload must not wait for it."""
        retiring = asyncio.ensure_future(self._retired(before, newer))
        self._retiring.add(retiring)
        retiring.add_done_callback(self._retiring.discard)

    async def _retired(self, before: Dataset, newer: Dataset | None) -> None:
        leaving = asyncio.ensure_future(self._server.exchange(before, self._drain))
        try:
            if newer is not None:
                await before.yield_to(newer)
            await leaving
        finally:
            await before.close(0.0 if self._server.hurried else self._drain)

    async def _reload(self, path: Path) -> None:
        self.history[path].problem = ""
        try:
            loaded = self._decided(await asyncio.to_thread(load_file, path))  # YAML of many tables takes long: sessions go on
            self._included[path] = loaded.included
            current = self._datasets.get(self._names.get(path, ""))
            if current is None or not same_but_users(current.policy, loaded.policy) or await outdated(current):
                await self.hold(path, loaded)
            elif current.policy == loaded.policy and current.policy.digest == loaded.policy.digest:
                LOG.info("policy unchanged", file=str(path))
                if current.accelerator is not None:
                    current.accelerator.start()  # there may be one by now, or room for it
                return
            else:
                await self._change_users(current, loaded.policy)
            LOG.info("policy reloaded", file=str(path))
        except (PolicyError, BackendError, FacadeError, LedgerError, ServingError) as error:
            self.history[path].problem = str(error)
            LOG.error("policy not reloaded", file=str(path), reason=str(error))
        except Exception as error:  # the proxy goes on with what it has
            number = incident(error)
            self.history[path].problem = f"internal error, incident {number}"
            LOG.error("policy not reloaded", file=str(path), incident=number)

    async def _change_users(self, dataset: Dataset, policy: Policy) -> None:
        newer = replace(dataset, policy=policy)
        self._datasets[policy.dataset] = newer
        for path, name in self._names.items():
            if name == policy.dataset:
                self.history[path].loaded = time.time()

        def unchanged(session: ClientSession) -> bool:
            user = session.asker.user
            return policy.users.get(user.name) == user

        self._server.move(dataset, newer, unchanged)
        await self._server.exchange(dataset, self._drain)


def same_but_users(one: Policy, other: Policy) -> bool:
    return replace(one, users={}) == replace(other, users={})


# Policy files that are watched: when one has become another and stays so, policies are read again.
#
# Knows: files' times and sizes. Must not know: what a policy says, who reads it. A file is looked at once a second; what is
# being written is not read before it has been the same for a second, and a file that is gone for a moment (an editor writes
# another in its place) is waited for. One that stays away is a change like any other. What cannot be read as a policy then
# leaves the one that is served, as with SIGHUP, and the operator is told why.


SECONDS: Final = 1.0
GONE: Final = 10
"""Looks in a row at which files are away, before they are taken to be gone: no editor takes so long."""

Look = dict[Path, tuple[int, int, int] | None]
"""Of each file inode, size and time of change; None for one that is not there."""


def look(files: Sequence[Path]) -> Look:
    """Look at files: two looks are equal as long as nobody has written them."""
    return {file: _one(file) for file in files}


def _one(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


async def watched(
    files: Callable[[], Sequence[Path]],
    changed: Callable[[], None],
    pause: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(SECONDS),
) -> None:
    """Call `changed` each time that the files have become others, and have stayed so over one pause; over `GONE` where some are
    not there."""
    served = before = look(files())
    same = 0
    while True:
        await pause()
        now = look(files())
        same = same + 1 if now == before else 0
        if now != served and same >= (GONE if None in now.values() else 1):
            served = now
            changed()
        before = now

"""Carries out what operators ask of a proxy that serves, in this process and, where it concerns all, in the others.

Knows: requests, what a running process can do, the sockets of its siblings. Must not know: sockets' protocols, the command
line. Whatever changes something is in the audit log before it is replied to, with the account that asked; grants and words
about the clock are in the ledger as well. Of several processes any may be asked. It passes on what each has to do by itself; a
reload and a drain are told to who watches the processes, who tells them all.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import errno
import json
import os
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Protocol, cast

import structlog

from dpproxy.answers.data_identity import data_of, file_of
from dpproxy.answers.dataset import Dataset
from dpproxy.answers.statement_end import incident
from dpproxy.ledger.journal import Journal
from dpproxy.ledger.ledger import Grant, LedgerError, Scope
from dpproxy.operations.audit import AuditLog, account
from dpproxy.operations.pauses import Pause, Pauses
from dpproxy.operations.requests import (
    MOST,
    CancelSession,
    Drain,
    GrantBudget,
    OperationError,
    PauseRole,
    Recent,
    Reload,
    Report,
    Request,
    Reread,
    ResumeRole,
    SetClock,
    address,
    answers,
    ask,
    read,
    socket_name,
    sockets,
)
from dpproxy.operations.status import ReadAgain, Status, rebuilt
from dpproxy.telemetry.tallies import Tallies

LOG = structlog.get_logger()
SIBLINGS: Final = 10.0
"""Seconds another process may take for what is passed on to it."""
RELOADED: Final = 100.0
"""Seconds a reload is waited for."""


class Steered(Protocol):
    """A running process as its operator steers it."""

    def end_session(self, session: int, end: bool) -> bool:
        """Cancel what a session does, or end it; return whether it is this process's."""
        ...

    async def status(self, checked: bool = False) -> Status: ...

    async def reloaded(self) -> tuple[ReadAgain, ...]:
        """Read certificates, policies and data again, here and in all processes; wait until this one has. Raises
        TimeoutError."""
        ...

    def drain(self) -> None:
        """Stop all processes, as SIGTERM does."""
        ...


class Operator:
    """Carries out requests. `ledger_name` says which ledger is meant: a command for another one must not be carried out here."""

    def __init__(
        self,
        steered: Steered,
        state: Path,
        number: int,
        datasets: Mapping[str, Dataset],
        ledger: Journal,
        ledger_name: str,
        pauses: Pauses,
        tallies: Tallies,
        audit: AuditLog,
    ) -> None:
        self._steered = steered
        self._state = state
        self._own = socket_name(number)
        self._datasets = datasets
        self._ledger = ledger
        self._ledger_name = ledger_name
        self._pauses = pauses
        self._tallies = tallies
        self._audit = audit

    async def carry_out(self, request: Request, by: str, passed: bool = False) -> Any:
        """Return what JSON can hold. `by`: the account that asks; `passed`: another process has passed it on. Raises
        OperationError."""
        match request:
            case Report(checked=checked):
                return await self._report(checked, passed)
            case Recent(count=count):
                return await self._recent(count, passed)
            case PauseRole() | ResumeRole():
                return await self._pause(request, by)
            case Reread():
                self._pauses.read()
                return True
            case Reload():
                return await self._reload(by)
            case Drain():
                self.note("drain", by)
                self._steered.drain()
                return True
            case CancelSession():
                return await self._cancel(request, by, passed)
            case GrantBudget():
                return await self._grant(request, by)
            case SetClock():
                return await self._clock(request, by)

    def note(self, action: str, by: str, outcome: str = "done", **details: str | int | bool) -> None:
        """To the audit log, and to the log without the reason, which is a person's own words. Raises OperationError."""
        told = {name: value for name, value in details.items() if name != "reason"}
        LOG.warning("operator", action=action, by=by, outcome=outcome, details=told)
        try:
            self._audit.note(action, by, outcome, **details)
        except OSError as error:
            LOG.error("the audit log cannot be written", error=str(error.strerror))
            raise OperationError(f"{action}: {outcome}; but the audit log cannot be written: {error.strerror}") from None

    async def _elsewhere(self, request: Request) -> list[Any]:
        """The replies of all other processes that serve. Raises OperationError when one does not answer."""
        others = [path for path in sockets(self._state) if path.name != self._own]
        asked = (asyncio.to_thread(ask, path, request, passed=True, patience=SIBLINGS) for path in others)
        replies = await asyncio.gather(*asked, return_exceptions=True)
        failed = []
        for path, reply in zip(others, replies, strict=True):
            if isinstance(reply, OperationError | TimeoutError):
                failed.append(f"{path.name}: {reply or 'no answer'}")
            elif isinstance(reply, BaseException) and not isinstance(reply, ConnectionRefusedError | FileNotFoundError):
                raise reply
        if failed:
            raise OperationError(f"other processes did not do it: {'; '.join(failed)}")
        return [reply for reply in replies if not isinstance(reply, BaseException)]

    # what is known

    async def statuses(self, checked: bool = False) -> list[Status]:
        """Return the statuses of all processes, this one's first. Raises OperationError when one does not answer."""
        own, others = await asyncio.gather(self._steered.status(checked), self._elsewhere(Report(checked)))
        try:
            return [own, *(rebuilt(status) for found in others for status in found)]
        except ValueError as error:
            raise OperationError(f"another process reports in another form, of another version: {error}") from None

    async def _report(self, checked: bool, passed: bool) -> list[Any]:
        found = [await self._steered.status(checked)] if passed else await self.statuses(checked)
        return [asdict(status) for status in found]

    async def _recent(self, count: int, passed: bool) -> list[Any]:
        own = [asdict(event) for event in list(self._tallies.recent)[-count:]] if count > 0 else []
        others = [] if passed else await self._elsewhere(Recent(count))
        events = [*own, *(event for found in others for event in found)]
        return sorted(events, key=lambda event: float(event["at"]), reverse=True)[: max(count, 0)]

    # what is changed

    async def _pause(self, request: PauseRole | ResumeRole, by: str) -> bool:
        dataset = self._dataset_of(request.role, request.dataset)
        try:
            return await self._pause_of(dataset, request, by)
        except OSError as error:
            told = f"nothing changed for role `{request.role}`: the state folder cannot be written: {error.strerror}"
            raise OperationError(told) from None

    async def _pause_of(self, dataset: str, request: PauseRole | ResumeRole, by: str) -> bool:
        """Raises OSError."""
        if isinstance(request, PauseRole):
            if not request.reason.strip():
                raise OperationError("a pause has a reason: --reason")
            changed = self._pauses.add(Pause(dataset, request.role, time.time(), by, request.reason))
            action = "pause"
        else:
            changed, action = self._pauses.remove(dataset, request.role), "resume"
        outcome = "done" if changed else "nothing changed"
        self.note(action, by, outcome, dataset=dataset, role=request.role, reason=request.reason)
        await self._elsewhere(Reread())
        return changed

    def _dataset_of(self, role: str, dataset: str) -> str:
        """Raises OperationError."""
        having = sorted(name for name, each in self._datasets.items() if role in each.policy.roles)
        paused = sorted(pause.dataset for pause in self._pauses.all() if pause.role == role)
        found = [name for name in dict.fromkeys((*having, *paused)) if dataset in ("", name)]
        if len(found) == 1:
            return found[0]
        if not found:
            where = f" in dataset `{dataset}`" if dataset else ""
            raise OperationError(f"there is no role `{role}`{where}")
        names = ", ".join(f"`{name}`" for name in found)
        raise OperationError(f"say which: --dataset; {names} have a role `{role}`")

    async def _reload(self, by: str) -> list[Any]:
        try:
            found = await asyncio.wait_for(self._steered.reloaded(), RELOADED)
        except TimeoutError:
            self.note("reload", by, "not yet done")
            raise OperationError(f"the reload has not ended within {RELOADED:g} seconds; the log will say how it does") from None
        failed = [each.name for each in found if each.problem]
        self.note("reload", by, f"not reloaded: {', '.join(failed)}" if failed else "done")
        return [asdict(each) for each in found]

    async def _cancel(self, request: CancelSession, by: str, passed: bool) -> bool:
        found = self._steered.end_session(request.session, request.end)
        if passed:
            return found
        found = found or any(await self._elsewhere(request))
        outcome = "done" if found else "no such session"
        self.note("cancel", by, outcome, session=request.session, end=request.end)
        if not found:
            raise OperationError(f"there is no session {request.session}: see `dpproxy admin who`")
        return found

    # the ledger

    async def _grant(self, request: GrantBudget, by: str) -> bool:
        dataset = self._meant(request.ledger, request.dataset)
        scope = request.scope
        known = {"role": dataset.policy.roles, "user": dataset.policy.users, "dataset": [request.dataset]}
        if request.name not in known.get(scope, ()):
            raise OperationError(f"there is no {scope} `{request.name}` in the policy that is served")
        at = dt.datetime.now(dt.UTC)
        names = (request.dataset, cast("Scope", scope), request.name)
        grant = Grant(*names, request.epsilon, request.delta, request.reason, at)
        data = (data_of(dataset.policy), at, file_of(dataset.policy))
        await self._kept(lambda: self._ledger.name(request.dataset, *data))
        await self._kept(lambda: self._ledger.grant(grant))
        dataset.recent_standing.forget()
        details = {"dataset": request.dataset, "scope": scope, "name": request.name, "reason": request.reason}
        self.note("grant", by, **details, epsilon_millionths=request.epsilon, delta_attos=request.delta)
        return True

    async def _clock(self, request: SetClock, by: str) -> bool:
        self._meant(request.ledger, request.dataset)
        accept: Callable[[str, dt.datetime, str], None]
        accept = self._ledger.set_clock_back if request.wrong else self._ledger.accept_clock
        await self._kept(lambda: accept(request.dataset, dt.datetime.now(dt.UTC), request.reason))
        self.note("clock", by, dataset=request.dataset, wrong=request.wrong, reason=request.reason)
        return True

    def _meant(self, ledger: str, dataset: str) -> Dataset:
        """Raises OperationError."""
        if ledger != self._ledger_name:
            raise OperationError(f"the proxy that serves there keeps another ledger: {self._ledger_name}")
        if dataset not in self._datasets:
            raise OperationError(f"dataset `{dataset}` is not served")
        return self._datasets[dataset]

    async def _kept(self, work: Callable[[], object]) -> None:
        """Raises OperationError."""
        try:
            await asyncio.to_thread(work)
        except LedgerError as error:
            raise OperationError(str(error)) from None


# The admin socket: operators' requests, one a line, in the state folder.
#
# Knows: unix sockets, lines, who is at the other end. Must not know: what a request means. The socket has the rights of the
# state folder's owner alone (0600): whoever can use it could as well stop the proxy and read its ledger. The system says which
# account asks; nobody can claim another.


CarryOut = Callable[[Request, str, bool], Awaitable[Any]]
"""Takes a request, who asks, and whether another process passed it on; returns what JSON can hold. Raises OperationError."""
_PEER: Final = struct.Struct("3i")  # process, user, group: Linux's


class AdminSocket:
    """Listens in a state folder. `process`: the number of one of several, 0 of one."""

    def __init__(self, state: Path, process: int, carry_out: CarryOut) -> None:
        self._path = state / socket_name(process)
        self._carry_out = carry_out
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen; what a process that was killed left behind is cleared. Raises OSError, also where another proxy listens."""
        if answers(self._path):
            raise OSError(errno.EADDRINUSE, "another proxy uses this folder")
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)  # from its first moment nobody else may connect
        try:
            with address(self._path) as short:
                listener.bind(short)
        except BaseException:
            listener.close()
            raise
        finally:
            os.umask(before)
        self._server = await asyncio.start_unix_server(self._heard, sock=listener, limit=MOST)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _heard(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Any number of requests, one after the other."""
        by = _peer(writer)
        with contextlib.suppress(OSError, ValueError, asyncio.LimitOverrunError):
            async for line in reader:
                writer.write(json.dumps(await self._reply(line, by)).encode() + b"\n")
                await writer.drain()
        writer.close()

    async def _reply(self, line: bytes, by: str) -> dict[str, Any]:
        try:
            request, passed = read(line)
            return {"ok": await self._carry_out(request, by, passed)}
        except OperationError as error:
            return {"error": str(error)}
        except Exception as error:
            return {"error": f"internal error, incident {incident(error)}"}


def _peer(writer: asyncio.StreamWriter) -> str:
    """Whose account it is. Where the system does not tell, it is one of those that may use the socket."""
    option = getattr(socket, "SO_PEERCRED", None)
    door = writer.get_extra_info("socket")
    if option is None or door is None:
        return "operator"
    _, uid, _ = _PEER.unpack(door.getsockopt(socket.SOL_SOCKET, option, _PEER.size))
    return account(uid)

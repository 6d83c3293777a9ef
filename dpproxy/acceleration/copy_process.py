"""The process that makes a prepared copy, and how it is run: apart from the proxy, in whose memory and time it has no part.

Knows: two pipes, a lock. Must not know: SQL, how a copy is made (`copy_making`). The process reads its job from standard input,
and ends with whoever gave it: when that pipe ends, it does so at once, whatever it is doing. On standard output it says how far
it is, and at last that the copy is made, or why it is not: a line of JSON each. It has the folder's lock from its parent, and so
makes the copy as the only one, also when the parent is gone before it.

In the background it is the last in the line for processors, behind all measurements.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pickle
import struct
import sys
import threading
from typing import BinaryIO, Final, Protocol

from dpproxy.acceleration.copy_files import CopyError, CopyFolder
from dpproxy.acceleration.copy_making import Told

NICE: Final = 10
"""Of a process in the background: measurements go before."""
AGAIN: Final = 0.5
"""Seconds after which a lock that another process has is tried again."""
_LENGTH: Final = struct.Struct("!I")


class Work(Protocol):
    """A copy that is to be made: a value that can be pickled."""

    @property
    def folder(self) -> CopyFolder: ...

    def there(self) -> bool:
        """Return whether it was made."""
        ...

    def make(self, told: Told) -> object:
        """Make it. For who has the folder's lock. Raises CopyError, and leaves nothing half made."""
        ...

    def tidy(self) -> None:
        """Remove what was left half made, and copies that it takes the place of. For who has the lock. Raises OSError."""
        ...


async def made(job: Work, told: Told, background: bool) -> None:
    """Make the copy of a job unless it is there when the folder's lock is had. Raises CopyError. Cancelling it ends the
    process."""
    job.folder.ready()
    while True:
        with job.folder.locked() as lock:
            if lock is not None:
                if not job.there():
                    await _run(job, lock, told, background)
                return
        await asyncio.sleep(AGAIN)


async def _run(job: Work, lock: int, told: Told, background: bool) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dpproxy.acceleration.copy_process"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        pass_fds=(lock,),
        start_new_session=True,  # Ctrl-C is the parent's, which ends it
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        content = pickle.dumps((job, background))
        process.stdin.write(_LENGTH.pack(len(content)) + content)
        outcome = "the process that made it ended"
        async for line in process.stdout:
            match json.loads(line):
                case {"table": str(table), "part": float(part)}:
                    told(table, part)
                case {"made": True}:
                    outcome = ""
                case {"problem": str(problem)}:
                    outcome = problem
        if outcome:
            raise CopyError(outcome)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        with contextlib.suppress(OSError):
            job.tidy()


# --- in the process


def main() -> None:
    job, background = _given(sys.stdin.buffer)
    os.umask(0o077)
    if background:
        os.nice(NICE)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        job.make(lambda table, part: _say(table=table, part=float(part)))
        _say(made=True)
    except CopyError as error:
        _say(problem=str(error))
    os._exit(0)  # what DuckDB says of itself at the end of a process is nobody's business


def _given(source: BinaryIO) -> tuple[Work, bool]:
    """What the parent sent, over a pipe that nobody else has."""
    (size,) = _LENGTH.unpack(source.read(_LENGTH.size))
    job, background = pickle.loads(source.read(size))
    return job, bool(background)


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


def _say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    from dpproxy.acceleration import copy_process  # pickled values are of this module's own name

    copy_process.main()

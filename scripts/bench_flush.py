"""A PostgreSQL server whose flushes of the log take as long as a durable disk's: where a disk takes a fraction of a millisecond,
what is measured is the processor.

Knows: a C compiler, the server's files. Must not know: charges. A library of a few lines, made by gcc and loaded before all
others (LD_PRELOAD), stands in for `fdatasync`, which is how PostgreSQL on Linux flushes its log (`wal_sync_method`): it flushes
in earnest, then sleeps. PostgreSQL flushes under a lock, one after the other, and who comes meanwhile waits for the next one, as
with a disk that takes so long. Everything else is as it was: data files are written by `fsync`, which is left alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg
from scratch_postgres import Scratch

from dpproxy.facade.account import choose_account

SOURCE: Final = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <time.h>
int fdatasync(int file) {
    static int (*flush)(int);
    if (!flush) flush = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");
    int result = flush(file), failure = errno;
    struct timespec left = {MICROSECONDS / 1000000, MICROSECONDS % 1000000 * 1000L};
    while (nanosleep(&left, &left) && errno == EINTR) {}
    errno = failure;
    return result;
}
"""


def compiler() -> str | None:
    return shutil.which("gcc")


@contextlib.contextmanager
def slowed(server: Scratch, milliseconds: float) -> Iterator[None]:
    """Start the server anew with flushes that take so much longer, for as long as the block lasts, and as servers are started: an
    embedded one yields to other processes. Raises CalledProcessError."""
    place = server.server.place
    server.wait(server.server.stop())
    environment = {"PATH": os.defpath, "LC_ALL": "C", "HOME": str(place.home)}
    if milliseconds:
        environment["LD_PRELOAD"] = str(_compiled(place.home, milliseconds))
    command = [place.binaries.program("postgres"), "-D", str(place.data)]
    identity = {"cwd": str(place.home), "env": environment} | choose_account().identity()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **identity)
    try:
        _await(server, process)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def _compiled(folder: Path, milliseconds: float) -> Path:
    library = folder / "flush.so"
    command = [compiler() or "gcc", "-shared", "-fPIC", f"-DMICROSECONDS={round(1000 * milliseconds)}", "-x", "c", "-"]
    subprocess.run([*command, "-o", str(library), "-ldl"], input=SOURCE.encode(), check=True)
    library.chmod(0o755)
    return library


def _await(server: Scratch, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            with psycopg.connect(server.conninfo()) as connection:
                (how,) = connection.execute("SELECT current_setting('wal_sync_method')").fetchone() or ("",)
            break
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    if how != "fdatasync":
        raise RuntimeError(f"the server flushes its log by {how}, which is not slowed")

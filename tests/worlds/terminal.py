"""A terminal in which what pages show is typed: it knows a folder, variables that were exported, and the proxy that runs.

Knows: shells, psql, the command line of `dpproxy`. Must not know: what is right; pages and tests say that. Paths and ports of pages
stand for others here (`places`, `ports`). What a shell would start for each command of `dpproxy` runs in this process.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from typer.testing import CliRunner

from dpproxy.cli import commands
from dpproxy.facade.account import find_binaries
from dpproxy.serve.launch import Proxy, launched

QUESTION = "SELECT count(*) FROM customers;\n"
"""What is typed into a psql that was given no command."""


def commands_of(block: str) -> list[str]:
    """The lines of a block of commands, continued ones joined, without what is said behind a number sign."""
    lines = re.sub(r"\\\n\s*", "", block).splitlines()
    return [line for found in lines if (line := re.sub(r"(?:^|\s)#.*", "", found).strip())]


def with_psql(home: Path) -> Path:
    """A folder for the path, with the facade's psql in it."""
    (home / "bin").mkdir()
    psql = home / "bin" / "psql"
    psql.write_text(f'#!/bin/sh\nexec {find_binaries().program("psql")} -X "$@"\n')
    psql.chmod(0o755)
    return home / "bin"


class Terminal:
    """Begins in `home`. `running` holds the proxy, and stops it at its end."""

    def __init__(self, home: Path, places: Mapping[str, str] | None = None, password: str = "") -> None:
        self.home, self.folder = home, home
        self.environment = {**os.environ, "PATH": f"{with_psql(home)}:{os.environ['PATH']}", "PGPASSWORD": password}
        self.running = contextlib.ExitStack()
        self.proxy: Proxy | None = None
        self.places, self.ports = dict(places or {}), dict[str, str]()

    def type(self, line: str) -> str:
        """Run a line with the paths and the ports that are really there. Return all it says."""
        for there, here in self.places.items():
            line = line.replace(there, here)
        if line.startswith("dpproxy serve"):
            return self._serve(line.split()[2:])
        for there, here in self.ports.items():
            line = line.replace(there, here)
        words = shlex.split(line, comments=True)
        match words:
            case ["cd", folder]:
                self.folder = self.folder / folder
            case ["export", *pairs]:
                self.environment.update(pair.split("=", 1) for pair in pairs)
            case ["kill", *_]:
                self.running.close()
            case ["dpproxy", "psql", *address]:
                return self._run(shlex.join([sys.executable, "-m", "dpproxy", "psql", *address]))
            case ["dpproxy", "admin", "drain", *_]:
                said = self._command(words)
                assert self.proxy is not None
                assert self.proxy.process.wait(60) == 0
                self.running.close()
                self.proxy = None
                return said
            case ["dpproxy", *_]:
                return self._command(words)
            case _:
                return self._run(line)
        return ""

    def _command(self, words: list[str]) -> str:
        with contextlib.chdir(self.folder):
            told = CliRunner().invoke(commands, words[1:], env=self.environment)
        right = (0, 3) if words[1:3] == ["policy", "diff"] else (0,)
        assert told.exit_code in right, (words, told.output, told.exception)
        return told.output

    def _run(self, line: str) -> str:
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            input=QUESTION,
        )
        assert done.returncode == 0, (line, done.stderr)
        return done.stderr + done.stdout

    def _serve(self, words: list[str]) -> str:
        """Start a proxy at free ports."""
        policy, options = words[0], [re.sub(r":\d+$", ":0", word) for word in words[1:]]
        state = self.folder / _taken(options, "--state", self.environment.get("DPPROXY_STATE", "dpproxy-state"))
        listen = _taken(options, "--listen", "127.0.0.1:0")
        relative = [str(self.folder / word) if (self.folder / word).is_file() else word for word in options]
        self.proxy = self.running.enter_context(
            launched([self.folder / policy], state, listen, self.environment, options=relative)
        )
        self.ports["6432"] = str(self.proxy.port)
        said = "\n".join(self.proxy.said)
        for what, there in (("metrics", "9432"), ("console", "8432")):
            if found := re.search(rf"{what} on \S+:(\d+)", said):
                self.ports[there] = found[1]
        return said


def _taken(options: list[str], name: str, otherwise: str) -> str:
    """The value of an option, which is taken out of the list; `otherwise` where it is not given."""
    if name not in options:
        return otherwise
    place = options.index(name)
    value = options[place + 1]
    del options[place : place + 2]
    return value

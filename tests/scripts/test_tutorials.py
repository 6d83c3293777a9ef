"""The tutorials of analysts and operators are true: their commands and statements are run in their order, and say what the pages show.

Knows: fences of Markdown, prompts, psql. Must not know: what is right; the pages say that. Noise, days and widths differ from run to
run, so numbers are compared as numbers, not by their digits, and `...` stands for anything. The shop is the demo's with a
twenty-fifth of its orders; the operator's proxy serves the analyst as well, so that one start is enough for both.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpproxy import demo_data
from dpproxy.cli import commands
from dpproxy.facade.binaries import find_binaries
from dpproxy.serve.launch import Proxy, launched

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ("reference/sql.md", "reference/catalogue-tables.md", "why-is-my-number-off.md")
Step = tuple[str, list[str]]
"""What is typed, and the lines that must be among what is said."""


def steps(page: str, prompt: str) -> list[Step]:
    """What a page types behind a prompt, and what it shows of the answer."""
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / "docs" / "tutorial" / page).read_text(), re.S)
    found = [part.partition("\n") for block in blocks for part in re.split(rf"^{re.escape(prompt)} ", block, flags=re.M)[1:]]
    return [(typed.strip(), said.splitlines()) for typed, _, said in found]


def plain(line: str) -> str:
    """A line without what differs from run to run: numbers, days, spaces, rules of tables."""
    line = re.sub(r"\d{4}-\d\d-\d\d", "#", line)
    return re.sub(r"[\s-]+", " ", re.sub(r"\d[\d.,]*", "#", line)).strip()


def shown(expected: str, said: list[str]) -> bool:
    pattern = ".*".join(re.escape(part) for part in plain(expected).split("..."))
    return any(re.search(pattern, plain(line)) for line in said)


def check(typed: str, expected: list[str], said: str) -> None:
    missing = [line for line in expected if line.strip() and not shown(line, said.splitlines())]
    assert not missing, f"{typed}\nsays\n{said}\nbut not\n" + "\n".join(missing)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's folder with less in it, and psql on the path."""
    folder = tmp_path_factory.mktemp("tutorials")
    (folder / "policies").mkdir()
    (folder / "policies" / "shop.yaml").write_text((ROOT / "policies" / "shop.yaml").read_text())
    fewer = {str(demo_data.ORDERS): "40000", str(demo_data.CUSTOMERS + 1): "4001"}
    small = [(what, re.sub("|".join(fewer), lambda found: fewer[found[0]], sql)) for what, sql in demo_data.STEPS]
    assert sum(was != now for (_, was), (_, now) in zip(demo_data.STEPS, small, strict=True)) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_data, "STEPS", small)
        demo_data.make_shop(folder / "policies" / "shop.duckdb")
    (folder / "bin").mkdir()
    psql = folder / "bin" / "psql"
    psql.write_text(f'#!/bin/sh\nexec {find_binaries().program("psql")} -X "$@"\n')
    psql.chmod(0o755)
    return folder


class Terminal:
    """The operator's: remembers the folder, and the proxy that runs."""

    def __init__(self, home: Path) -> None:
        self.home, self.folder = home, home
        self.environment = {**os.environ, "PATH": f"{home / 'bin'}:{os.environ['PATH']}"}
        self.running = contextlib.ExitStack()
        self.proxy: Proxy | None = None
        self.ports: dict[str, str] = {}

    def type(self, line: str) -> str:
        """Run a line, with the ports that are really there. Return all it says."""
        if line.startswith("cd "):
            self.folder = self.folder / line.removeprefix("cd ")
            return ""
        if line.startswith("dpproxy serve"):
            return self._serve(line.split()[2:])
        if line.startswith("kill "):
            self.running.close()
            return ""
        for there, here in self.ports.items():
            line = line.replace(there, here)
        if line.startswith("dpproxy "):
            with contextlib.chdir(self.folder):
                told = CliRunner().invoke(commands, shlex.split(line)[1:])
            assert told.exit_code in ((0, 3) if "policy diff" in line else (0,)), (line, told.output, told.exception)
            return told.output
        done = subprocess.run(
            ["sh", "-c", line], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, (line, done.stderr)
        return done.stderr + done.stdout

    def _serve(self, words: list[str]) -> str:
        policy, options = words[0], [re.sub(r":\d+$", ":0", word) for word in words[1:]]
        state = self.folder / options.pop(options.index("--state") + 1)
        options.remove("--state")
        listen = options.index("--listen")
        del options[listen : listen + 2]
        relative = [str(self.folder / word) if (self.folder / word).is_file() else word for word in options]
        self.proxy = self.running.enter_context(launched([self.folder / policy], state, options=relative))
        self.ports["6432"] = str(self.proxy.port)
        said = "\n".join(self.proxy.said)
        if found := re.search(r"metrics on \S+:(\d+)", said):
            self.ports["9432"] = found[1]
        return said


@pytest.fixture(scope="module")
def terminal(shop: Path) -> Iterator[Terminal]:
    terminal = Terminal(shop)
    with terminal.running:
        yield terminal


def ask(terminal: Terminal) -> None:
    """All that the analyst's page asks, in one session."""
    asked = steps("analyst.md", "shop=>")
    assert len(asked) > 10
    script = "".join(f"\\echo @@@{n}\n\\warn @@@{n}\n{typed}\n" for n, (typed, _) in enumerate(asked))
    command = [
        "psql",
        "-h",
        "127.0.0.1",
        "-p",
        terminal.ports["6432"],
        "-U",
        "ada",
        "-P",
        "footer=off",
        "-P",
        "pager=off",
        "shop",
    ]
    done = subprocess.run(
        command, input=script, env={**terminal.environment, "PGPASSWORD": "ada"}, capture_output=True, text=True, timeout=120
    )
    told = [re.split(r"^@@@\d+\n", text, flags=re.M)[1:] for text in (done.stdout, done.stderr)]
    for (typed, expected), out, err in zip(asked, *told, strict=True):
        assert expected or out.strip(), f"{typed} says nothing: {err}"
        check(typed, expected, out + err)


def run_examples(terminal: Terminal) -> None:
    """The examples of other pages, but those that leave something out: each is answered."""
    fences = [text for page in EXAMPLES for text in re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)]
    script = "\n".join(line for line in "RESET ALL;\n".join(fences).splitlines() if "..." not in line)
    assert script.count("SELECT") > 6
    command = ["psql", "-q", "-h", "127.0.0.1", "-p", terminal.ports["6432"], "-U", "ada", "shop"]
    done = subprocess.run(
        command, input=script, env={**terminal.environment, "PGPASSWORD": "ada"}, capture_output=True, text=True, timeout=120
    )
    assert "ERROR" not in done.stderr, done.stderr


@pytest.mark.slow
def test_tutorials_of_operators_and_analysts(terminal: Terminal) -> None:
    typed = steps("operator.md", "$")
    assert [line.split()[0] for line, _ in typed].count("dpproxy") >= 7
    for line, expected in typed:
        check(line, expected, terminal.type(line))
        if "--metrics" in line:
            ask(terminal)
            run_examples(terminal)


def test_what_a_page_says_wrongly_is_seen() -> None:
    check(
        "x",
        ["NOTICE:  charged epsilon 0.1; ...; typical error", " north | 15"],
        "NOTICE:  charged epsilon 2; left; typical error 1 %\n north  | 7\n",
    )
    with pytest.raises(AssertionError, match="but not"):
        check("x", [" nowhere | 15"], " north  | 7\n")

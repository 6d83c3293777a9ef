"""Commands are imported when they are run, and not before: what is only asked for help waits for no engine."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from dpproxy.cli import commands
from dpproxy.late_commands import LateCommand, imported, register
from tests.worlds.authored_town import town_data, town_text

HEAVY = {"asyncpg", "duckdb", "numpy", "opendp", "pyarrow", "ruamel", "sqlglot", "structlog"}
"""What takes long to import: engines, the planner's parser, noise, the reader of policies."""

LOOK = """
import json, sys
from dpproxy.cli import commands
for arguments in json.loads(sys.argv[1]):
    try:
        commands(arguments)
    except SystemExit as end:
        assert not end.code
    print("imported", *sorted({name.split(".")[0] for name in sys.modules}))
"""


def test_what_commands_do_not_wait_for(tmp_path: Path) -> None:
    """Help is there before any engine; a policy over DuckDB is checked without planner, noise, and the other engine's client."""
    town_data(tmp_path / "town.duckdb")
    path = tmp_path / "town.yaml"
    path.write_text(town_text().split("views:")[0] + "roles:" + town_text().split("roles:")[1])
    asked = json.dumps([["--help"], ["policy", "--help"], ["policy", "check", "--help"], ["policy", "check", str(path)]])
    done = subprocess.run([sys.executable, "-c", LOOK, asked], capture_output=True, text=True, timeout=300, check=True)
    imported = [set(line.split()) & HEAVY for line in done.stdout.splitlines() if line.startswith("imported")]
    assert imported == [set(), set(), set(), {"duckdb", "numpy", "pyarrow", "ruamel", "structlog"}]
    assert "Print every problem of each file" in done.stdout, "the command's own help"
    assert "simulate" in done.stdout, "the list of its group"
    assert f"{path}: ok" in done.stdout


def found(group: Any) -> Iterator[LateCommand]:
    for command in group.commands.values():
        if isinstance(command, LateCommand):
            yield command
        else:
            yield from found(command) if hasattr(command, "commands") else ()


def test_every_place_is_a_command_with_help() -> None:
    late = list(found(get_command(commands)))
    assert {"serve", "check", "init", "budget"} <= {command.name for command in late}
    for command in late:
        assert command.help
        assert command.loaded().name == command.name
        assert command.loaded().help


def test_arguments_and_exit_codes_reach_it() -> None:
    done = CliRunner().invoke(commands, ["policy", "check", "--no-data", "nowhere.yaml"])
    assert done.exit_code == 1
    assert "nowhere.yaml:1:1: cannot be read" in done.stderr
    done = CliRunner().invoke(commands, ["policy", "check"])
    assert done.exit_code == 2
    done = CliRunner().invoke(commands, ["policy", "chekc"])
    assert "Did you mean 'check'" in done.stderr


def test_a_place_that_is_not_there() -> None:
    app = typer.Typer()
    register(app, {"one": ("dpproxy.cli:nothing", "Is not there."), "two": ("dpproxy.cli:commands", "Is.")})
    with pytest.raises(AttributeError):
        CliRunner().invoke(app, ["one"], catch_exceptions=False)


@pytest.mark.parametrize("collecting", [True, False])
def test_garbage_is_looked_for_again_after_an_import(collecting: bool) -> None:
    (gc.enable if collecting else gc.disable)()
    try:
        assert imported("dpproxy.errors").__name__ == "dpproxy.errors"
        assert gc.isenabled() is collecting
        with pytest.raises(ModuleNotFoundError):
            imported("dpproxy.nothing")
        assert gc.isenabled() is collecting
    finally:
        gc.enable()

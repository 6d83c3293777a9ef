"""Commands that are imported when one of them is run: `dpproxy --help` and `dpproxy policy check` must not wait for engines,
planner and noise that they do not use.

Knows: how typer makes a command of a function. Must not know: which commands there are. A table names them, each by the place of
its function (or of a typer of several) and by the sentence that stands in the list of its group; its own help comes with the
function. `tests/test_imports.py` counts a place as an import like any other.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import typer
import typer.main
from typer.core import TyperCommand


class LateCommand(TyperCommand):
    """Stands for a command in the list of its group, and gives way to it when it is run."""

    place = ""

    def loaded(self) -> Any:
        """Import the command, or the group of commands."""
        module, _, name = self.place.partition(":")
        found = getattr(imported(module), name)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            alone.command(self.name)(found)
            found = alone
        command = typer.main.get_command(found)
        command.name = self.name
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return self.loaded().make_context(info_name, args, parent, **extra)


def imported(module: str) -> ModuleType:
    """Import a module without looking for garbage meanwhile: what is made stays, and looking takes a sixth of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        if collecting:
            gc.enable()


def register(app: typer.Typer, table: Mapping[str, tuple[str, str]]) -> None:
    """Add commands to a group: by name the place, as in `package.module:function`, and the sentence for the group's list."""
    for name, (place, about) in table.items():
        app.command(name, cls=type("LateCommand", (LateCommand,), {"place": place}), help=about)(_stand_in)


def _stand_in() -> None:
    raise AssertionError("a late command gives way before it is run")

"""The page of the command line, made of the commands themselves: what each does, its arguments, its options with their defaults.

Knows: typer's commands. Must not know: what they do. `scripts/reference.py` writes the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import typer.main

from dpproxy.cli import commands
from dpproxy.late_commands import LateCommand

HEAD = """# Command line

Written from the commands (`scripts/reference`); `dpproxy COMMAND --help` says the same. Standard output is for what was asked,
standard error for everything else. The exit code is 0 when all went well, 1 when it did not, 2 when the command was wrong;
where a command has other codes, it says so.
"""


def page() -> str:
    """The page, as Markdown."""
    return "\n".join([HEAD, *_parts(typer.main.get_command(commands), "dpproxy")])


def _parts(command: Any, name: str) -> Iterator[str]:
    """A command, or all commands of a group."""
    command = command.loaded() if isinstance(command, LateCommand) else command
    inner = getattr(command, "commands", {})
    if not inner or any(parameter.name != "help" for parameter in command.params):
        yield from _command(command, name)
    for word in inner:
        yield from _parts(inner[word], f"{name} {word}")


def _command(command: Any, name: str) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    usage = [name, *(_argument(p) for p in arguments), *(["[OPTIONS]"] if options else [])]
    yield from (f"## {name}", "", f"`{' '.join(usage)}`", "")
    yield from (_escaped(" ".join(part.split())) + "\n" for part in (command.help or "").split("\n\n") if part.strip())
    rows = [(f"`{_argument(p)}`", "", getattr(p, "help", None) or "") for p in arguments if getattr(p, "help", None)]
    rows += [(_option(p), _default(p), _help(p)) for p in options]
    if rows:
        yield from (
            "| | default | |",
            "|---|---|---|",
            *(f"| {what} | {default} | {_escaped(told)} |" for what, default, told in rows),
            "",
        )


def _argument(parameter: Any) -> str:
    name = str(parameter.name).upper() + ("..." if parameter.nargs == -1 else "")
    return name if parameter.required else f"[{name}]"


def _option(parameter: Any) -> str:
    """Its spellings, with what it takes."""
    takes = "" if parameter.is_flag else f" {_kind(parameter)}"
    return ", ".join(f"`{spelled}{takes}`" for spelled in (*parameter.opts, *parameter.secondary_opts))


def _kind(parameter: Any) -> str:
    """What an option takes, by the type of its parameter."""
    taken = parameter.type_descriptor.annotation
    if isinstance(taken, type) and issubclass(taken, Enum):
        return r"\|".join(str(choice.value) for choice in taken)
    return {int: "N", float: "X", Path: "PATH"}.get(taken, "TEXT")


def _default(parameter: Any) -> str:
    default = parameter.default
    if default is None or parameter.is_flag or callable(default) or default == () or "Sentinel" in str(type(default)):
        return ""
    return f"`{getattr(default, 'value', default)}`"


def _help(parameter: Any) -> str:
    told = parameter.help or ""
    low, high = parameter.min, parameter.max
    limits = [f"at least {low:g}" if low else "", f"at most {high:g}" if high is not None else ""]
    told = "; ".join(part for part in (told, *limits) if part)
    variable = parameter.envvar
    return f"{told} (environment: `{variable}`)" if variable else told


def _escaped(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")

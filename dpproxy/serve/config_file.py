"""`dpproxy serve --config FILE`: every option of the command in a YAML file, by its name with `_` for `-`.

Knows: YAML's tree, how the command line names and reads its options. Must not know: what an option means. What the command line
or the environment says goes before the file, the file before an option's default. A key that is no option, and a value that the
option does not take, stop the start with line and column, as in policies. Paths are relative to the file's own folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as Named
from pathlib import Path
from typing import Any, Final

import typer

from dpproxy.policy import scalars
from dpproxy.policy.problems import START, PolicyError, Problem, suggestion
from dpproxy.policy.reader import kind
from dpproxy.policy.tree import Mapping, Node, Scalar, Sequence, parse

NOT_OPTIONS: Final = ("config", "help")


def read_config(context: typer.Context, file: Path | None) -> Path | None:
    """Take defaults of the command from a file; a callback of an option that is read first. Raises PolicyError, OSError."""
    if file is not None:
        context.default_map = {**(context.default_map or {}), **defaults(file, context)}
    return file


def defaults(file: Path, context: typer.Context) -> Named[str, Any]:
    """Return values by the names of the command's parameters. Raises PolicyError with every problem found, OSError."""
    text = file.read_text()
    says = any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())
    tree = parse(text, str(file)) if says else Mapping({}, {}, START)
    if not isinstance(tree, Mapping):
        raise PolicyError(
            [tree.at.problem(str(file), f"not options but {kind(tree)}", "write `listen: 0.0.0.0:6432`", "wrong-type")]
        )
    known = {each.name: each for each in context.command.params if each.name not in NOT_OPTIONS}
    found: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, node in tree.entries.items():
        if name not in known:
            what, fix = f"unknown key `{name}`", suggestion(name.replace("-", "_"), map(str, known))
            problems.append(tree.keys[name].problem(str(file), what, fix, "unknown-key"))
            continue
        try:
            found[name] = _value(known[name], node, file.parent, context)
        except ValueError as error:
            problems.append(
                node.at.problem(str(file), f"`{name}`: {error}", "`dpproxy serve --help` says what it takes", "wrong-type")
            )
    if problems:
        raise PolicyError(problems)
    return found


def _value(option: Any, node: Node, folder: Path, context: typer.Context) -> Any:
    """As the command line would have it. Raises ValueError."""
    given = [_text(item) for item in node.items] if isinstance(node, Sequence) else _text(node)
    several = option.nargs == -1
    if isinstance(given, list) and not several:
        raise ValueError("not a list")
    if getattr(option, "is_flag", False):
        flag = scalars.flag(node) if isinstance(node, Scalar) else None
        if flag is None:
            raise ValueError(f"true or false, not {kind(node)}")
        return flag
    wanted = given if isinstance(given, list) or not several else [given]
    try:
        read = option.get_runtime_param().coerce(wanted, param=option, ctx=context)
    except Exception as error:  # typer's own, of whichever class
        raise ValueError(getattr(error, "message", None) or str(error)) from None
    return _beside(read, folder) if _paths(read) else wanted


def _paths(read: object) -> bool:
    return isinstance(read, Path) or (isinstance(read, Iterable) and any(isinstance(each, Path) for each in read))


def _beside(read: Any, folder: Path) -> Any:
    return str(folder / read) if isinstance(read, Path) else [str(folder / each) for each in read]


def _text(node: Node) -> str:
    """Raises ValueError."""
    if not isinstance(node, Scalar) or scalars.is_null(node):
        raise ValueError(f"text or a number, not {kind(node)}")
    return node.text

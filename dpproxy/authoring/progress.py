"""A bar on the terminal for what takes a while: what is being done, how much of it is behind.

Knows: the terminal. Must not know: what takes so long. The bar is gone when the work is done, so that output is what was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

Progress = Callable[[str, int, int], None]
"""Is told what is being done, how many steps of it are done, of how many."""


def silent(what: str, done: int, whole: int) -> None:
    """Tell nobody."""


@contextmanager
def bar(what: str) -> Iterator[Progress]:
    """Show a bar while the body runs, on a terminal; the body reports steps to what is yielded."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task(what, total=None)
        yield lambda what, done, whole: shown.update(task, description=what, completed=done, total=whole)

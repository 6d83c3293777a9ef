"""What the operator allows the facade to take, made into bytes of this machine.

Knows: options, how much memory and disk there are. Must not know: sessions. What is not said is a share of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from dpproxy.facade import usage
from dpproxy.limits.quota import Quota

MEGABYTE: Final = 1 << 20
MEMORY_PART: Final = 4
"""A quarter of the machine's memory: the engine under the proxy, or beside it, wants most of it."""
DISK_PART: Final = 10
MOST_DISK: Final = 8 << 30
"""Released answers are small: who sorts more than this on the facade sorts what it made up itself."""
LEAST: Final = 256 * MEGABYTE


@dataclass(frozen=True)
class Rations:
    """Says what the facade may take, in megabytes; None: by the machine. `parts`: processes that divide them among themselves."""

    memory_mb: int | None = None
    disk_mb: int | None = None
    share: float = 0.5
    reserve_mb: int = 512
    parts: int = 1

    def split(self, parts: int) -> Rations:
        """Return the rations of each of so many processes."""
        return replace(self, parts=parts)

    def quota(self, folder: Path) -> Quota:
        """Return the quota on this machine; `folder` is on the disk in question."""
        memory, disk = self.memory_mb, self.disk_mb
        whole = memory * MEGABYTE if memory is not None else max(LEAST, usage.machine_memory() // MEMORY_PART)
        files = disk * MEGABYTE if disk is not None else max(LEAST, min(MOST_DISK, usage.free(folder) // DISK_PART))
        return Quota(whole // self.parts, files // self.parts, self.share, self.reserve_mb * MEGABYTE)

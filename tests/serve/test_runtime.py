"""How a process runs its work: on uvloop where it exists, with threads that give way soon."""

from __future__ import annotations

import asyncio
import sys

from dpproxy.serve.runtime import SWITCH, run


def test_work_runs_to_its_end_on_the_fast_loop() -> None:
    seen: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        seen.append(type(asyncio.get_running_loop()).__module__)

    before = sys.getswitchinterval()
    try:
        run(work())
        assert sys.getswitchinterval() == SWITCH
    finally:
        sys.setswitchinterval(before)
    assert seen == ["uvloop"]

"""A copy beside a backend: found, made, put to use, refused where it is of other data or damaged."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dpproxy.acceleration import copy_making
from dpproxy.acceleration.accelerator import Accelerator
from dpproxy.acceleration.copy_files import Preparation
from dpproxy.acceleration.copy_making import Job, Told, make
from dpproxy.backends.duckdb import DuckDB
from tests.acceleration.test_copy_making import COPY, VISITS, job, left

FROM_COPY = f'SELECT count(*)::BIGINT AS n FROM "{COPY}".main.visits'
FROM_DATA = 'SELECT count(*)::BIGINT AS n FROM "main"."visits"'


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies are made here: `test_copy_process` is about the process that makes them."""

    async def made(wanted: Job, told: Told, background: bool) -> None:
        assert background
        wanted.folder.ready()
        await asyncio.to_thread(make, wanted, told)

    monkeypatch.setattr(copy_making, "made", made)


async def ended(wanted: Job, make_one: bool = True) -> tuple[str, list[str], list[str], bool]:
    """How a backend with an accelerator fares: state, events, what of copy and data could be read, whether plans were made anew."""
    backend, ready = DuckDB(wanted.backend), []
    accelerator = Accelerator("town", backend, wanted.folder, lambda: wanted, ready.append, make_one)
    try:
        with capture_logs() as lines:
            accelerator.start()
            status = await accelerator.done()
        read = []
        for name, query in (("copy", FROM_COPY), ("data", FROM_DATA)):
            try:
                (table,) = (await backend.run([query]))._open()
                read.append(f"{name} {table.to_pydict()['n'][0]}")
            except Exception:
                continue
        return status.state, [line["event"] for line in lines], read, bool(ready)
    finally:
        await accelerator.close()
        await backend.close()


async def test_a_copy_is_made_once_and_found_again(tmp_path: Path) -> None:
    wanted = job(tmp_path)
    first = await ended(wanted)
    assert first == ("used", ["prepared copy begun", "prepared copy made", "prepared copy used"], ["copy 300", "data 1000"], True)
    again = await ended(wanted)
    assert again == ("used", ["prepared copy used"], ["copy 300", "data 1000"], True)
    found = await ended(wanted, make_one=False)  # small data, and somebody made one
    assert found == again


async def test_where_none_is_wanted_those_of_other_data_go(tmp_path: Path) -> None:
    wanted = job(tmp_path)
    make(replace(wanted, preparations=(VISITS,)), lambda *_: None)
    assert await ended(wanted, make_one=False) == ("none", ["prepared copies removed"], ["data 1000"], False)
    assert left(wanted) == set()
    assert await ended(wanted, make_one=False) == ("none", [], ["data 1000"], False)


async def test_a_copy_of_other_data_is_not_used_and_goes(tmp_path: Path) -> None:
    wanted = job(tmp_path)
    make(replace(wanted, preparations=(VISITS,)), lambda *_: None)
    state, _, read, _ = await ended(wanted)
    assert (state, read) == ("used", ["copy 300", "data 1000"])
    assert left(wanted) == {f"{wanted.key}.duckdb", f"{wanted.key}.json"}


async def test_a_damaged_copy_is_made_again(tmp_path: Path) -> None:
    wanted = job(tmp_path)
    make(wanted, lambda *_: None)
    content = bytearray(wanted.folder.database(wanted.key).read_bytes())
    content[-1] ^= 1
    wanted.folder.database(wanted.key).write_bytes(content)
    state, events, read, ready = await ended(wanted)
    assert events == ["no prepared copy", "prepared copy begun", "prepared copy made", "prepared copy used"]
    assert (state, read, ready) == ("used", ["copy 300", "data 1000"], True)


@pytest.mark.parametrize("why", ["disk", "query", "rights", "folder"])
async def test_without_a_copy_answers_go_on(tmp_path: Path, why: str) -> None:
    wanted = job(tmp_path)
    if why == "disk":
        wanted = replace(wanted, disk=1000)
    elif why == "query":
        wanted = replace(wanted, preparations=(Preparation("x", "SELECT * FROM nosuch"),))
    elif why == "rights":
        wanted.folder.path.chmod(0o755)
    else:
        wanted.folder.path.rmdir()
        wanted.folder.path.touch()
    assert (await ended(wanted))[0::2] == ("failed", ["data 1000"])


async def test_what_runs_goes_on_while_the_copy_comes(tmp_path: Path) -> None:
    """On the instance before; it is closed when the last has ended."""
    wanted = job(tmp_path)
    make(wanted, lambda *_: None)
    backend = DuckDB(wanted.backend)
    running = asyncio.ensure_future(backend.run(["SELECT count(*)::BIGINT AS n FROM range(30000000) t(i) WHERE hash(i) % 7 = 0"]))
    await asyncio.sleep(0)
    await backend.adopt(wanted.folder.database(wanted.key), COPY)
    assert (await backend.run([FROM_COPY]))._open()[0].to_pydict() == {"n": [300]}
    assert (await running)._open()[0].num_rows == 1
    await backend.close()

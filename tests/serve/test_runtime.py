"""The log: lines that come together are written together, those that matter at once, none is lost."""

from __future__ import annotations

import asyncio
import io

from dpproxy.serve.runtime import TOGETHER, Lines

INFO, ERROR = '{"level": "info"}\n', '{"level": "error"}\n'


class Stream(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return len(text)


def test_lines_of_a_moment_are_one_write() -> None:
    stream = Stream()
    lines = Lines(stream)

    async def work() -> None:
        for _ in range(100):
            lines.write(INFO)
        assert stream.writes == []
        await asyncio.sleep(3 * TOGETHER)
        assert stream.writes == [INFO * 100]
        lines.write(INFO)
        lines.write(ERROR)
        assert stream.writes[1:] == [INFO + ERROR], "what matters does not wait, and keeps its place"
        lines.write(INFO)
        await asyncio.to_thread(lines.write, INFO)
        assert stream.writes[2:] == [INFO * 2]
        lines.write(INFO)

    asyncio.run(work())
    lines.push()
    assert "".join(stream.writes).count("\n") == 105
    lines.write(INFO)
    assert stream.writes[-1] == INFO, "without an event loop nobody would write it later"

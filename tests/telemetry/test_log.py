"""The log: lines that come together are written together, those that matter at once, none is lost, and no exception's text."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from dpproxy.telemetry.log import TOGETHER, Lines, places, start_log


class Stream(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return len(text)

    @property
    def text(self) -> str:
        return "".join(self.writes)


@pytest.fixture
def stream() -> Iterator[Stream]:
    """The root logger and structlog are as before afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("dpproxy")
    before = root.handlers[:], root.level, ours.level
    yield Stream()
    structlog.reset_defaults()
    root.handlers[:], root.level, ours.level = before


def test_lines_of_a_moment_are_one_write() -> None:
    stream = Stream()
    lines = Lines(stream)

    async def work() -> None:
        for _ in range(100):
            lines.info("i")
        assert stream.writes == []
        await asyncio.sleep(3 * TOGETHER)
        assert stream.writes == ["i\n" * 100]
        lines.info("i")
        lines.error("e")
        assert stream.writes[1:] == ["i\ne\n"], "what matters does not wait, and keeps its place"
        lines.info("i")
        await asyncio.to_thread(lines.info, "i")
        assert stream.writes[2:] == ["i\n" * 2]
        lines.info("i")

    asyncio.run(work())
    lines.push()
    assert stream.text.count("\n") == 105
    lines.info("i")
    assert stream.writes[-1] == "i\n", "without an event loop nobody would write it later"
    assert lines.counts == {"info": 105, "error": 1}


def test_json_is_one_object_a_line_whoever_logs(stream: Stream) -> None:
    lines = start_log("json", "info", 3, stream)
    log = structlog.get_logger()
    log.info("statement", verdict="answered", role='a"b\nc')
    log.debug("statement", verdict="explained")
    logging.getLogger("dpproxy.budget").warning('a text with "quotes" and\na line break')
    logging.getLogger("asyncio").info("of others warnings alone")
    first, second = (json.loads(text) for text in stream.text.splitlines())
    assert (first["event"], first["role"], first["process"], first["level"]) == ("statement", 'a"b\nc', 3, "info")
    assert (second["logger"], second["level"]) == ("dpproxy.budget", "warning")
    assert first["timestamp"].endswith("Z")
    assert lines.counts == {"info": 1, "warning": 1}


def test_for_people(stream: Stream) -> None:
    start_log("human", "debug", stream=stream)
    structlog.get_logger().debug("statement", verdict="explained")
    assert "statement" in stream.text
    assert "verdict=explained" in stream.text
    assert "\x1b" not in stream.text


def test_no_exceptions_text_is_logged(stream: Stream) -> None:
    """Neither what is logged with one by ours, nor by Python's own module, nor what an event loop finds."""
    start_log(stream=stream)
    try:
        raise ValueError("Ada earns 4711")
    except ValueError as error:
        structlog.get_logger().exception("what sessions take could not be looked at")
        logging.getLogger("dpproxy").exception("facade: restart failed")
        loop = asyncio.new_event_loop()
        loop.default_exception_handler({"message": "never retrieved", "exception": error, "future": repr(error)})
        loop.close()
        where = places(error)
    assert where["trace"].endswith(" test_no_exceptions_text_is_logged")
    assert "4711" not in stream.text
    found = [json.loads(text) for text in stream.text.splitlines()]
    assert [entry["error"] for entry in found] == ["ValueError"] * 3

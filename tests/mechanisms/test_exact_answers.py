"""An `Exact` cannot be sent, printed, iterated or compared: mypy says so where it can, Python everywhere.

mypy cannot forbid `str(x)`, `f"{x}"` or `print(x)`, whose parameter is any object: these raise at run time. What takes
text or bytes (a socket, a stream, `join`) does not type-check.
"""

from __future__ import annotations

import ast
import copy
import io
import json
import logging
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from mypy import api

from dpproxy.mechanisms.noise import Exact

SOURCES = Path(__file__).resolve().parents[2] / "dpproxy"

SNIPPETS = [
    "bytes(exact)",
    "bytearray(exact)",
    "memoryview(exact)",
    "transport.write(exact)",
    "writer.write(exact)",
    "sys.stdout.write(exact)",
    "sys.stdout.buffer.write(exact)",
    "socket.send(exact)",
    "''.join([exact])",
    "'' + exact",
    "exact == exact",
    "exact != exact",
    "exact < exact",
    "sorted([exact])",
    "[x for x in exact]",
    "list(exact)",
    "tuple(exact)",
    "(*exact,)",
    "len(exact)",
    "exact[0]",
    "1 in exact",
    "int(exact)",
    "float(exact)",
    "exact.tables",
    "Exact.__init__(exact)",
    "message(exact)",
    "released(exact)",
]

PREAMBLE = """
import asyncio, socket as sockets, sys
from dpproxy.mechanisms.noise import Exact, Released

def message(body: bytes) -> bytes:
    return body

def released(answer: Released) -> int:
    return answer.rows

"""


def test_the_type_checker_refuses(tmp_path: Path) -> None:
    """One run over all snippets: each line that uses the Exact must carry an error of its own."""
    arguments = "exact: Exact, transport: asyncio.Transport, writer: asyncio.StreamWriter, socket: sockets.socket"
    lines = PREAMBLE.splitlines()
    expected = {}
    for i, snippet in enumerate(SNIPPETS):
        lines += [f"def f{i}({arguments}) -> None:", f"    {snippet}"]
        expected[len(lines)] = snippet
    path = tmp_path / "snippets.py"
    path.write_text("\n".join(lines) + "\n")
    output, _, _ = api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), "--no-error-summary", str(path)])
    refused = {int(line.split(":")[1]) for line in output.splitlines() if " error: " in line and str(path) in line}
    assert [s for number, s in expected.items() if number not in refused] == []
    assert refused == set(expected)  # and the preamble is fine


def secret() -> Exact:
    return Exact((pa.table({"b0": ["victim"]}),))


USES: list[Callable[[Exact], object]] = [
    str,
    lambda e: f"{e}",
    lambda e: f"{e!s:>10}",
    lambda e: "%s" % e,  # noqa: UP031
    lambda e: print(e, file=io.StringIO()),
    bytes,
    list,
    bool,
    hash,
    len,
    pickle.dumps,
    copy.copy,
    copy.deepcopy,
    json.dumps,
    vars,
    lambda e: e == e,
    lambda e: e != e,
    lambda e: e == 1,
    lambda e: e < e,
    lambda e: e in [secret()],
    lambda e: e[0],
    lambda e: not e,
    lambda e: (lambda *a: a)(*e),
]


@pytest.mark.parametrize("use", USES)
def test_python_refuses(use: Callable[[Exact], object]) -> None:
    with pytest.raises(TypeError) as caught:
        use(secret())
    assert "victim" not in str(caught.value)


def test_its_repr_is_empty_and_a_log_shows_no_more(caplog: pytest.LogCaptureFixture) -> None:
    assert repr(secret()) == "<Exact>"
    logging.getLogger("test").warning("got %r", secret())
    assert "victim" not in caplog.text


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(SOURCES.rglob("*.py")):
        yield path.relative_to(SOURCES), ast.parse(path.read_text())


def names(tree: ast.Module) -> Iterator[str]:
    """Every attribute, name and string in a module (strings: getattr)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_only_mechanisms_open_an_exact() -> None:
    """Other classes may have an `_open` of their own, and call it on themselves."""
    openers = {
        str(path.parent)
        for path, tree in modules()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr == "_open" and not _on_self(node))
        or (isinstance(node, ast.Constant) and node.value == "_open")
    }
    assert openers == {"mechanisms"}


def _on_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def test_only_its_own_file_knows_its_slot() -> None:
    knowers = {str(path) for path, tree in modules() if {"__tables", "_Exact__tables"} & set(names(tree))}
    assert knowers == {"mechanisms/noise.py"}

"""What Python programs may import is what the page says, costs nothing until it is used, and works as its example does.

Knows: `dpproxy.__all__`, docs/reference/python.md. Must not know: how a proxy serves.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import duckdb
import pytest

import dpproxy
from dpproxy.policy.people import make_verifier

PAGE: Final = (Path(__file__).resolve().parents[1] / "docs" / "reference" / "python.md").read_text()
POLICY: Final = """
version: 1
dataset: people
backend: {{ duckdb: people.duckdb }}
privacy_unit: {{ name: person, key: people.id }}
budget: {{ epsilon: 100, delta: 1e-5, every: year }}
tables:
  people:
    unit: id
    columns: {{ id: unit, age: {{ range: [0, 120] }} }}
roles:
  analyst: {{ budget: {{ epsilon: 50, delta: 1e-6, every: month }}, query: {{ epsilon: 1, max_epsilon: 5 }} }}
users:
  ada: {{ role: analyst, password: "{verifier}" }}
"""


def section(name: str) -> str:
    return PAGE.partition(f"\n## `{name}`\n")[2].partition("\n## ")[0]


def first_cells(text: str) -> list[str]:
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`(\w+)(?:\(\))?`", row)]


def test_the_page_has_a_section_for_each_public_name() -> None:
    assert sorted(re.findall(r"^## `(\w+)`$", PAGE, re.M)) == sorted(dpproxy.__all__)
    assert all(hasattr(dpproxy, name) and name in dir(dpproxy) for name in dpproxy.__all__)


def test_the_page_says_what_launched_takes() -> None:
    parameters = list(inspect.signature(dpproxy.launched).parameters)
    assert first_cells(section("launched")) == parameters
    assert f"`launched({', '.join(parameters)})`" in section("launched")


def test_the_page_says_what_a_proxy_has() -> None:
    attributes = first_cells(section("Proxy"))
    assert len(attributes) > 4
    fields = dpproxy.Proxy.__dataclass_fields__
    assert [name for name in attributes if name not in fields and not hasattr(dpproxy.Proxy, name)] == []


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'dpproxy' has no attribute 'served'"):
        _ = dpproxy.served


def modules_after(code: str) -> set[str]:
    """The modules that are imported once `code` has run in an interpreter of its own."""
    text = f"{code}\nimport sys\nprint(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.split())


def test_the_package_imports_no_server() -> None:
    """Nor does the name that starts one: the server is a process of its own."""
    bare = modules_after("import dpproxy")
    assert {name for name in bare if name.startswith("dpproxy")} == {"dpproxy"}
    used = modules_after("import dpproxy\ndpproxy.launched")
    assert "dpproxy.serve.launch" in used
    assert {"asyncio", "sqlglot", "duckdb", "dpproxy.serve.proxy"} & used == set()


def test_the_example_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    with duckdb.connect(str(tmp_path / "people.duckdb")) as database:
        database.execute("CREATE TABLE people AS SELECT g AS id, g % 90 AS age FROM range(5000) AS t(g)")
    (tmp_path / "people.yaml").write_text(POLICY.format(verifier=make_verifier("secret")))
    command = [sys.executable, "-c", code]
    root = str(Path(__file__).resolve().parents[1])
    env = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    (count,) = re.findall(r"^\((\d+),\)$", done.stdout, re.M)
    assert abs(int(count) - 5000) < 200

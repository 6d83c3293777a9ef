"""Pages are made of what a source tells: none of their code reaches an engine, mechanisms, or answers; and who does not ask for them
does not pay for them."""

from __future__ import annotations

import subprocess
import sys

from dpproxy.console.source import Source
from tests.worlds.told_source import ToldSource

FORBIDDEN = ("backends", "mechanisms", "answers", "facade", "plan", "session", "server", "serve")
ALL = """
import importlib, pkgutil, sys
import dpproxy.console
for module in pkgutil.iter_modules(dpproxy.console.__path__):
    importlib.import_module(f"dpproxy.console.{module.name}")
"""


def loaded(code: str) -> list[str]:
    """The modules that a process has after some code."""
    code += "; import sys; print(' '.join(sys.modules))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_pages_reach_no_data() -> None:
    modules = loaded(ALL + "pass")
    assert "dpproxy.console.web" in modules
    assert [m for m in modules if m.startswith("dpproxy.") and m.split(".")[1] in FORBIDDEN] == []


def test_a_proxy_without_console_imports_no_web_server() -> None:
    modules = loaded("import dpproxy.serve.serve_command, dpproxy.admin")
    assert "dpproxy.serve.proxy" in modules
    assert [m for m in ("starlette", "uvicorn", "jinja2") if m in modules] == []


def test_the_told_source_is_one() -> None:
    source: Source = ToldSource()
    assert source.roles()

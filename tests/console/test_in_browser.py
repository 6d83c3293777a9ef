"""Every page in a real browser: nothing is wrong by axe's rules, nothing is wider than the window, nobody else is asked.

Needs Chromium, node, and a folder with playwright-core and axe-core (`npm install playwright-core axe-core`), which
DPPROXY_NODE_MODULES names. Skips loudly without them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dpproxy.console.pages import LINKS
from dpproxy.console.tokens import token_of
from dpproxy.serve.console_server import ConsoleServer
from tests.worlds.told_source import ToldSource

MODULES = os.environ.get("DPPROXY_NODE_MODULES", "")
CHROMIUM, NODE = shutil.which("chromium"), shutil.which("node")


@pytest.mark.slow
@pytest.mark.skipif(
    not (CHROMIUM and NODE and MODULES),
    reason="no browser: needs chromium, node and DPPROXY_NODE_MODULES with playwright-core, axe-core",
)
def test_pages_in_a_browser(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = ConsoleServer(("127.0.0.1", 0), ToldSource(), tmp_path)
    address = capsys.readouterr().err.removeprefix("console on ").strip()
    pages = [*(path for path, _ in LINKS), "/exposure?dataset=shop&role=analyst"]
    script = Path(__file__).parent / "browser.mjs"
    command = [str(NODE), str(script), address, token_of(tmp_path), str(CHROMIUM), MODULES, *pages]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    finally:
        server.end()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert found["drawn"] == 3 * 2, "each budget's burn-down, in three looks"

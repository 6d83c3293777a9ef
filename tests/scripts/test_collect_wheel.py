"""The wheel for devices installs where nothing else is, and randomises there; a program may have both packages."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import collect_wheel
import pytest

from dpproxy.collect.questions import Question, RandomisedColumn
from dpproxy.local.claims import Plane

APP = """
import json, sys
from dpproxy_collect import Device, Refusal
names = {module.partition(".")[0] for module in sys.modules}
assert names <= {*sys.stdlib_module_names, "__main__", "__mp_main__", "dpproxy_collect", "sitecustomize", "_virtualenv"}, names
device = Device("emoji.claim.json", "dp.sqlite", max_epsilon=4, total=4)
print(device.answer("emoji", "b"), device.answer("emoji", "c") is Refusal.QUESTION)
print(device.send("http://127.0.0.1:9").later, device.told().forever)
print(device._queue.due() == [], json.loads(device._ledger._db.execute("SELECT report FROM reports").fetchone()[0])[0] < 53**2 + 54)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return collect_wheel.write(tmp_path_factory.mktemp("dist"))


def test_it_installs_into_an_empty_environment_and_randomises(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    python = place / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", "--quiet", wheel]
    subprocess.run(install, check=True, capture_output=True)
    asked = Question("reports", 1, False, (), (RandomisedColumn("emoji", Plane.within(Fraction(4), 3, 53, 3), ("a", "b", "c")),))
    (tmp_path / "emoji.claim.json").write_text(json.dumps(asked.document()))
    done = subprocess.run([python, "-I", "-c", APP], cwd=tmp_path, capture_output=True, text=True, check=False)
    asked_epsilon = f"{asked.epsilon / 10**6:g}"
    assert done.stdout.splitlines() == ["None True", f"1 {asked_epsilon}", "True True"], done.stderr


def test_the_same_sources_give_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    assert collect_wheel.write(tmp_path).read_bytes() == wheel.read_bytes()


@pytest.mark.parametrize(
    ("room", "line", "spelled"),
    [
        ("collect", "from dpproxy.collect.ledger import micro", "from .ledger import micro"),
        ("collect", "from dpproxy.collect import ledger", "from . import ledger"),
        ("collect", "from dpproxy.local.claims import Claim", "from .local.claims import Claim"),
        ("collect", "from dpproxy.local import planes", "from .local import planes"),
        ("local", "from dpproxy.local.laws import Law", "from .laws import Law"),
        ("local", "from dpproxy.local import planes", "from . import planes"),
        ("collect", "from collections import Counter", "from collections import Counter"),
    ],
)
def test_imports_become_relative(room: str, line: str, spelled: str) -> None:
    assert collect_wheel.relative(line, room) == spelled


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("collect", "from dpproxy.policy.model import Policy"),
        ("collect", "import dpproxy"),
        ("local", "    import dpproxy.errors"),
        ("local", "from dpproxy.collect.ledger import micro"),
    ],
)
def test_what_devices_do_not_have_is_refused(room: str, line: str) -> None:
    with pytest.raises(ValueError, match="devices have"):
        collect_wheel.relative(line, room)

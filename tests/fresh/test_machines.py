"""The first command works wherever it is typed: see conftest. Run by `scripts/fresh`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tarfile
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from dpproxy.serve.launch import launched
from tests.fresh.conftest import PATIENCE, RUNNER, Machine, reachable

pytestmark = pytest.mark.fresh
AS_ROOT = os.geteuid() == 0
DEMO = ("scripts/demo", "--once", "--listen", "127.0.0.1:0")
FACADE = ("-m", "pytest", "-p", "no:cacheprovider", "tests/facade/test_facade.py", "-k")
PART = "unprivileged or as_the_policy or nothing_but or kill_9"
LONG = "/".join(f"a very long path {i} " + "x" * 60 for i in range(6))


def shown(said: str) -> None:
    assert "epsilon_left" in said, said[-4000:]


def test_the_first_command_in_a_closed_folder(machine: Machine) -> None:
    """`scripts/demo` makes its environment itself, then a test of the facade: what a root does in /root."""
    with tempfile.TemporaryDirectory(prefix="closed-") as made:
        assert Path(made).stat().st_mode & 0o077 == 0
        clone = machine.clone(Path(made) / "dpproxy")
        shown(machine.run(DEMO, clone))
        assert (clone / ".venv" / ".stamp").exists()
        said = machine.run(("scripts/test", "-n", "0", "tests/facade/test_facade.py"), clone)
        assert " passed" in said


@pytest.mark.parametrize(
    ("name", "env"),
    [
        pytest.param("blank, 'quote' \"ü漢\"", {}, id="odd-name"),  # with a dollar setuptools itself installs nothing
        pytest.param("ohne Umgebung ü", {"LC_ALL": "C", "LANG": "C"}, id="odd-name-C-locale"),
        pytest.param(LONG, {}, id="long-path"),
    ],
)
def test_a_folder_of_any_name(name: str, env: dict[str, str], machine: Machine, folder: Path) -> None:
    clone = machine.clone(folder / name)
    venv = machine.environment(clone / "venv", *RUNNER, "-e", str(clone))
    env = {**env, "DPPROXY_VENV": str(venv)}
    shown(machine.run(DEMO, clone, **env))
    machine.run((venv / "bin" / "python", *FACADE, PART), clone, **env)


def test_temporary_files_elsewhere(machine: Machine, folder: Path) -> None:
    """In a closed folder, in one with a blank, in one too long for a socket."""
    clone = machine.clone(folder / "dpproxy")
    venv = machine.environment(folder / "venv", "-e", str(clone))
    for name, mode in (("closed", 0o700), ("with a blank", 0o777), ("x" * 120, 0o777)):
        elsewhere = folder / name
        elsewhere.mkdir()
        elsewhere.chmod(mode)
        shown(machine.run(DEMO, clone, DPPROXY_VENV=str(venv), TMPDIR=str(elsewhere)))
        assert list(elsewhere.iterdir()) == [], "nothing is left behind"


def test_an_ordinary_user_with_a_home_that_cannot_be_written(machine: Machine, folder: Path) -> None:
    if AS_ROOT:
        found = [p for p in (machine.interpreter, "/usr/local/bin/python3", "/usr/bin/python3") if reachable(p, "nobody")]
        if not found:
            pytest.skip("INTERPRETER FOR ALL ABSENT: no Python 3.11 that an ordinary user can reach")
        machine = replace(machine, interpreter=found[0], user="nobody")
    home = folder / "home"
    home.mkdir()
    home.chmod(0o555)
    clone = machine.clone(folder / "dpproxy")
    (clone / "policies").chmod(0o777)  # where the demo makes its data
    venv = machine.environment(folder / "venv", *RUNNER, "-e", str(clone))
    env = {"HOME": str(home), "DPPROXY_VENV": str(venv), "PYTHONDONTWRITEBYTECODE": "1"}
    shown(machine.run(DEMO, clone, **env))
    part = f"({PART}) and not unprivileged" if not AS_ROOT else PART
    machine.run((venv / "bin" / "python", *FACADE, part), clone, **env)
    assert list(home.iterdir()) == []


POLICY = """
version: 1
dataset: town
backend: {{ duckdb: town.duckdb }}
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


def test_an_installed_wheel(machine: Machine, folder: Path) -> None:
    """`pip install .` into a clean environment, then one's own data, with nothing of the repository in sight."""
    clone = machine.clone(folder / "source")
    venv = machine.environment(folder / "venv", str(clone))
    work = folder / "work"
    work.mkdir()
    clone.rename(folder / "away")
    program = venv / "bin" / "dpproxy"
    made = "import duckdb; duckdb.connect('town.duckdb').execute('CREATE TABLE people AS SELECT g id, g % 90 age FROM range(5000) t(g)')"
    machine.run((venv / "bin" / "python", "-c", made), work)
    password = subprocess.run(
        [program, "policy", "password"], input="secret\n", capture_output=True, text=True, check=True, cwd=work
    )
    (work / "town.yaml").write_text(POLICY.format(verifier=password.stdout.strip()))
    assert "ok" in machine.run((program, "policy", "check", "town.yaml"), work)
    with launched([work / "town.yaml"], work / "state", program=[str(program)]) as proxy:
        url = f"postgresql://ada:secret@{proxy.host}:{proxy.port}/town"
        said = machine.run((program, "psql", "-X", "-A", "-t", "-c", "SELECT count(*) FROM people", url), work)
        (count,) = (int(line) for line in said.splitlines() if line.strip().isdigit())  # beside the notice of its price
        assert abs(count - 5000) < 200
        proxy.process.send_signal(signal.SIGTERM)
        assert proxy.process.wait(PATIENCE) == 0
    assert "analyst" in machine.run((program, "budget", "town.yaml", "--state", "state"), work)


def pipx_home(folder: Path) -> dict[str, str]:
    """The environment in which pipx keeps all it makes in `folder`."""
    places = {"PIPX_HOME": "pipx", "PIPX_BIN_DIR": "bin", "PIPX_MAN_DIR": "man", "HOME": "."}
    return {name: str(folder / place) for name, place in places.items()}


def test_a_command_by_pipx(machine: Machine, folder: Path) -> None:
    """The wheel holds the package, its licence and nothing else; pipx makes a command of it that runs where nothing else of it is."""
    clone = machine.clone(folder / "source")
    tools = machine.environment(folder / "tools", "pip", "pipx", "setuptools", "wheel")
    machine.run((tools / "bin" / "pip", "wheel", "--no-deps", "--wheel-dir", folder / "made", clone), folder)
    (wheel,) = (folder / "made").glob("dpproxy-*.whl")
    clone.rename(folder / "away")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        (told,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = packed.read(told).decode()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"dpproxy"}
    assert {"dpproxy/py.typed", f"{told.removesuffix('METADATA')}licenses/LICENSE"} <= set(names)
    assert "License-Expression: Apache-2.0" in metadata
    assert "# dpproxy" in metadata, "README is the package's own page"
    machine.run((tools / "bin" / "pipx", "install", wheel), folder, **pipx_home(folder))
    assert "differential privacy" in machine.run((folder / "bin" / "dpproxy", "--help"), folder)
    assert json.loads(machine.run((folder / "bin" / "dpproxy", "policy", "schema"), folder))["title"]


def test_a_release_is_installed_from_its_sources(machine: Machine, folder: Path) -> None:
    """What a release publishes: an sdist, and the wheel that is built from it alone. Both hold the same package, and the sdist
    becomes a command."""
    clone = machine.clone(folder / "source")
    tools = machine.environment(folder / "tools", "pip", "pipx", "build", "setuptools", "wheel")
    machine.run((tools / "bin" / "python", "-m", "build", "--no-isolation", "--outdir", folder / "dist", clone), folder)
    (sdist,), (wheel,) = (folder / "dist").glob("dpproxy-*.tar.gz"), (folder / "dist").glob("dpproxy-*.whl")
    clone.rename(folder / "away")
    version = sdist.name.removeprefix("dpproxy-").removesuffix(".tar.gz")
    with zipfile.ZipFile(wheel) as packed, tarfile.open(sdist) as archive:
        sources = {name.removeprefix(f"dpproxy-{version}/") for name in archive.getnames()}
        built = {name for name in packed.namelist() if name.startswith("dpproxy/")}
    kept = {path.relative_to(folder / "away").as_posix() for path in (folder / "away" / "dpproxy").rglob("*.py")}
    assert kept <= built <= sources
    assert {"LICENSE", "README.md", "pyproject.toml"} <= sources
    machine.run((tools / "bin" / "pipx", "install", sdist), folder, **pipx_home(folder))
    program = folder / "bin" / "dpproxy"
    assert machine.run((program, "--version"), folder).split()[-1] == version
    assert json.loads(machine.run((program, "policy", "schema"), folder))["title"]

"""What `.ci/run` makes of a suite's failures, with scripts in place of the suite."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parents[2] / ".ci" / "run"

SUITE = """#!/usr/bin/env bash
cache={root}/.pytest_cache/v/cache
if [ $# -eq 0 ]; then  # the whole suite
    mkdir -p "$cache" && cp {root}/failed.json "$cache/lastfailed"
    echo "FAILED whatever"
    echo "{failures} failed, 7 passed, 1 skipped in 600.00s (0:10:00)"
    echo "{mypy}"
    exit 1
fi
echo x >> {root}/runs
shift 4  # -n 0 -p no:cacheprovider
printf '%s\\n' "$@" > {root}/asked
[ "$(wc -l < {root}/runs)" -ne "{fails_at}" ] || {{ echo "1 failed in 1.00s"; exit 1; }}
echo "{alone} in 1.00s"
"""
FRESH = "#!/usr/bin/env bash\necho '2 passed in 3.00s'\n"
FINE = "Success: no issues found in 9 source files"


def ci(root: Path, names: list[str], *, mypy: str = FINE, fails_at: int = 0, alone: str | None = None) -> tuple[int, list[str]]:
    for folder in (".ci", "scripts"):
        (root / folder).mkdir()
    shutil.copy(RUN, root / ".ci" / "run")
    (root / "failed.json").write_text(json.dumps(dict.fromkeys(names, True)))
    suite = SUITE.format(root=root, failures=len(names), mypy=mypy, fails_at=fails_at, alone=alone or f"{len(names)} passed")
    bench = f"#!/usr/bin/env bash\n[ ! -e {root}/report ] || source {root}/report\n"
    for name, text in {"test": suite, "fresh": FRESH, "bench": bench}.items():
        (root / "scripts" / name).write_text(text)
        (root / "scripts" / name).chmod(0o755)
    done = subprocess.run(["bash", root / ".ci" / "run"], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_a_failure_that_does_not_come_again_is_named(tmp_path: Path) -> None:
    """Names with blanks and brackets are tests, too."""
    names = ["tests/a.py::test_x[SELECT a, 'b c']", "tests/b.py::test_y"]
    code, lines = ci(tmp_path, names)
    assert code == 0
    assert lines[-3:-1] == [f"UNSTEADY, failed once and then passed three times alone: {name}" for name in names]
    assert lines[-1] == "11 passed, 0 failed, 1 skipped"
    assert (tmp_path / "asked").read_text().splitlines() == names
    assert (tmp_path / "runs").read_text() == "x\n" * 3


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["tests/a.py::test_x"], {"fails_at": 3}),  # it comes again, if only the third time
        (["tests/a.py::test_x"], {"mypy": "Found 1 error in 1 file"}),  # which no second run mends
        (["tests/a.py::test_x"], {"alone": "1 skipped"}),  # a skipped test shows nothing
        ([f"tests/a.py::test_{n}" for n in range(4)], {}),  # too many at once
        ([], {}),  # it ended without a test that failed
    ],
)
def test_any_other_failure_is_one(tmp_path: Path, names: list[str], said: dict[str, object]) -> None:
    code, lines = ci(tmp_path, names, **said)  # type: ignore[arg-type]
    assert code == 1
    assert lines[-1] == f"9 passed, {len(names) or 1} failed, 1 skipped"


@pytest.mark.parametrize("report", ["echo 'median error 3'; exit 0", "echo 'median error 3'; exit 7"])
def test_the_report_is_printed_and_fails_nothing(tmp_path: Path, report: str) -> None:
    (tmp_path / "report").write_text(report)
    code, lines = ci(tmp_path, ["tests/a.py::test_x"])
    assert code == 0
    assert "median error 3" in lines
    assert lines.index("median error 3") < len(lines) - 2
    assert lines[-1] == "10 passed, 0 failed, 1 skipped"

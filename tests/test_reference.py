"""The pages of docs/reference say all that the code knows, and nothing that it does not: functions, aggregates, settings, SQLSTATEs.

Knows: tables of Markdown, the code's own lists. Must not know: whether what a page says of a name is true. Pages that are written
from the code as a whole are held by `tests/test_documents.py`.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import dpproxy
from dpproxy import errors
from dpproxy.plan.bind import calls, windows
from dpproxy.plan.functions import registry
from dpproxy.plan.measure import moments
from dpproxy.sql import translation

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import reference_errors  # noqa: E402
from reference_remedies import EVERY, REMEDIES  # noqa: E402
from reference_topics import TOPICS  # noqa: E402

from tests.worlds.remedies import HINTED  # noqa: E402

PAGES = ROOT / "docs" / "reference"
OUR_SPELLINGS = {"date_from_parts", "dpproxy_first"}
"""Names by which the parser or a rule calls functions that have another name in SQL."""
OF_GRIDS = {"count", "sum", "avg", "min", "max", "percentile_cont", "percentile_disc", "mode"}
OF_SHARED_VALUES = {"bool_and", "bool_or", "every"}
NOT_TOLD = {"SUCCESSFUL_COMPLETION", "READ_ONLY", "DEADLOCK_DETECTED", "CRASH_SHUTDOWN"}
"""SQLSTATEs of notices, of PostgreSQL itself, and of the backend, which no client is told of."""


def section(page: str, title: str) -> str:
    return (PAGES / page).read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]


def names(text: str) -> set[str]:
    return set(re.findall(r"`([a-z_][a-z0-9_]*)`", text))


def first_cells(text: str) -> str:
    return "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("|"))


def test_functions_are_those_of_the_registry() -> None:
    text = section("sql.md", "Functions below an aggregate")
    table = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    assert names(table) == registry.names() - OUR_SPELLINGS
    borrowed = text.partition("From other engines")[2].partition(";")[0]
    assert names(borrowed) == translation._CALLS.keys()
    within, _, window = text.partition("Functions over the rows")[2].partition("as windows")
    assert names(within) == calls._PER_UNIT_AGGREGATES - {"every", "stddev_samp", "var_samp"}
    assert names(window) == windows._FUNCTIONS | windows._AGGREGATES


def test_aggregates_are_those_that_are_measured() -> None:
    told = set(re.findall(r"`([a-z_0-9]+)(?:\(.*?\))?`", first_cells(section("sql.md", "Aggregates"))))
    assert told == OF_GRIDS | OF_SHARED_VALUES | moments.SINGLE | moments.PAIRED


def test_environment_variables_are_those_of_the_commands() -> None:
    told = set(re.findall(r"`(DPPROXY_\w*[A-Z])`", section("settings.md", "Of the server")))
    assert told == set(re.findall(r"environment: `(\w+)`", (PAGES / "command-line.md").read_text()))


def test_one_version_is_named_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = YAML(typ="safe").load((ROOT / "CITATION.cff").read_text())
    assert project["version"] == cited["version"] == dpproxy.__version__
    assert project["license"] == cited["license"] == "Apache-2.0"
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert changes.index("## [Unreleased]") < changes.index(project["version"])
    sections = re.findall(r"^## \[(.*?)\](?: - (.*))?$", changes, re.M)
    assert sections[0] == ("Unreleased", "")
    assert sections[1][0] == project["version"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d|unreleased until it is tagged", sections[1][1])


def test_every_sqlstate_is_on_the_page_of_errors() -> None:
    page = (PAGES / "errors.md").read_text()
    untold = {
        name for name, value in vars(errors).items() if name.isupper() and isinstance(value, str) and f"| {value}" not in page
    }
    assert {name for name in untold if f", {getattr(errors, name)}" not in page} == NOT_TOLD


def test_every_refusal_has_a_remedy_and_no_remedy_is_left_over() -> None:
    page = (PAGES / "errors.md").read_text()
    assert not re.findall(r"^\| `.*\|\s*\|$", page, re.M)
    assert [message for message in REMEDIES if reference_errors.cell(message) not in page] == []
    of_sql = [remedy for remedy in EVERY if remedy.tried]
    assert len(of_sql) > 25
    assert len(HINTED) > 25


def test_every_kind_of_refusal_is_looked_for() -> None:
    kinds = reference_errors.MAKERS
    bases = "|".join(kinds)
    source = "\n".join(path.read_text() for path in reference_errors.SOURCE.rglob("*.py"))
    assert set(re.findall(rf"^class (\w+)\((?:{bases})\)", source, re.M)) <= kinds
    assert {"Refusal", "FormRefusal", "NoRoom"} <= kinds


def test_refusals_are_found() -> None:
    """An empty page would pass everything above. That none is forgotten is what writing it checks (`tests/test_documents.py`)."""
    page = (PAGES / "errors.md").read_text()
    assert len(re.findall(r"^\| `", page, re.M)) > 250
    assert all(f"## {topic.title}" in page for topic in TOPICS)


@pytest.mark.parametrize(
    ("file", "code", "said"),
    [
        ("plan/new.py", 'raise Refusal(SYNTAX_ERROR, f"no {what}", hint="Give it.")', None),
        ("plan/new.py", 'raise Refusal(SYNTAX_ERROR, f"no {what}")', "has no remedy"),
        ("plan/new.py", "raise Refusal(SYNTAX_ERROR, told)", "nothing is known"),
        ("unheard/of.py", 'raise Refusal(SYNTAX_ERROR, "no")', "no topic"),
    ],
)
def test_a_refusal_that_the_page_would_forget_is_seen(file: str, code: str, said: str | None, tmp_path: Path) -> None:
    path = tmp_path / file
    path.parent.mkdir()
    path.write_text(f"def f(what, told):\n    {code}\n")
    if said is None:
        assert "`no <what>` | 42601 | Give it. |" in reference_errors.page(tmp_path)
    else:
        with pytest.raises(ValueError, match=said):
            reference_errors.page(tmp_path)


def fields_told(path: Path) -> set[str]:
    """The fields of JSON that a file writes: keys with a capital, of mappings and of assignments."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    keys = [key for node in nodes if isinstance(node, ast.Dict) for key in node.keys]
    keys += [node.slice for node in nodes if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)]
    texts = {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    return {text for text in texts if text[:1].isupper() and not text.isupper()}


def test_fields_of_explain_are_on_their_page() -> None:
    files = ("plan/report/explain.py", "plan/report/omissions.py", "answers/delivery.py")
    told = set[str]().union(*(fields_told(ROOT / "dpproxy" / file) for file in files))
    assert len(told) > 50
    assert set(re.findall(r"`([A-Z][A-Za-z -]*)`", (PAGES / "explain.md").read_text())) == told | {"Privacy Plan"}

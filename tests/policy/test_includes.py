"""A policy in several files is the policy in one; what is wrong in a file is told with its name and place."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from dpproxy.policy.load import Loaded, load_file
from dpproxy.policy.problems import PolicyError
from tests.worlds.authored_town import town_text

WHOLE = town_text()
HEAD, REST = WHOLE.lstrip().split("tables:\n", 1)
TABLES, REST = REST.split("\nviews:", 1)
PEOPLE = "roles:" + REST.split("\nroles:", 1)[1]
FILES = {
    "town.yaml": HEAD + "include: [tables.yaml, people/roles.yaml]\nviews:" + REST.split("\nroles:", 1)[0] + "\n",
    "tables.yaml": "tables:\n" + TABLES + "\n",
    "people/roles.yaml": PEOPLE,
}


def load(folder: Path, **edits: str) -> Loaded:
    (folder / "people").mkdir(exist_ok=True)
    for name, text in (FILES | {k.replace("__", "/") + ".yaml": v for k, v in edits.items()}).items():
        (folder / name).write_text(text)
    return load_file(folder / "town.yaml")


def test_several_files_are_one_policy(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    (tmp_path / "one.yaml").write_text(WHOLE)
    assert loaded.policy == load_file(tmp_path / "one.yaml").policy
    assert loaded.included == (tmp_path / "tables.yaml", tmp_path / "people/roles.yaml")
    assert loaded.positions["tables", "visits"].file == str(tmp_path / "tables.yaml")
    assert loaded.policy.digest == hashlib.sha256("".join(FILES.values()).encode()).hexdigest()[:16]


def test_sections_are_put_together(tmp_path: Path) -> None:
    """A table in the policy itself beside those of a file."""
    own = FILES["town.yaml"] + "tables:\n  roads: { public: true }\n"
    assert {str(t) for t in load(tmp_path, town=own).policy.tables} == {"people", "visits", "shops", "roads"}


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ({"tables": FILES["tables.yaml"].replace("rows: 5", "rows: no")}, "tables.yaml:7:21: `rows` must be a whole number"),
        ({"tables": "tables: {\n"}, "tables.yaml:2:1: not YAML"),
        ({"tables": FILES["tables.yaml"] + "budget: { epsilon: 3 }\n"}, "tables.yaml:10:1: unknown key `budget` in an included file"),
        ({"town": FILES["town.yaml"].replace("[tables.yaml,", "[tables.yaml, tables.yaml,")}, "`tables.yaml` is given twice"),
        ({"tables": FILES["tables.yaml"] + "timing: {}\n"}, "fix: write `timing` in the policy's own file"),
        ({"tables": FILES["tables.yaml"] + "include: [x.yaml]\n"}, "unknown key `include` in an included file"),
        ({"people__roles": "tables:\n  shops: { public: true }\n" + PEOPLE}, "roles.yaml:2:3: `shops` is given twice; fix: keep one; "
         "the first is in tables.yaml, line 9"),
        ({"town": FILES["town.yaml"].replace("tables.yaml", "tabels.yaml")}, "`tabels.yaml` cannot be read: No such file"),
        ({"town": FILES["town.yaml"].replace("[tables.yaml, people/roles.yaml]", "tables.yaml")}, "`include` must be a list"),
        ({"people__roles": PEOPLE.replace("role: analyst,", "role: nobody,")}, "roles.yaml:5:16: "),
        ({"tables": "tables: [1]\n", "town": FILES["town.yaml"] + "tables: {}\n"}, "tables.yaml:1:9: `tables` must be a mapping"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_file(edits: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        load(tmp_path, **edits)
    assert said in str(caught.value)


def test_secrets_stay_in_the_backend(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="a reference is not allowed"):
        load(tmp_path, people__roles=PEOPLE.replace("role: analyst,", 'role: "${env:HOME}",'))


def test_files_that_are_too_many(tmp_path: Path) -> None:
    names = ", ".join(f"f{i}.yaml" for i in range(101))
    with pytest.raises(PolicyError, match="more than 100 files"):
        load(tmp_path, town=FILES["town.yaml"].replace("[tables.yaml", f"[{names}, tables.yaml"))


def test_what_may_be_in_a_file_that_is_not_read_is_not_missed(tmp_path: Path) -> None:
    """Roles and users are in a file with a bracket left open: nobody is told that there are none."""
    for name, text in {**FILES, "people/roles.yaml": FILES["people/roles.yaml"] + "views: [\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(PolicyError) as caught:
        load_file(tmp_path / "town.yaml")
    assert [Path(p.file).name for p in caught.value.problems] == ["roles.yaml"]

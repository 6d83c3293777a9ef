"""The documents as a site: built strictly, so that every link and every anchor leads somewhere and every page has its place.

mkdocs is an extra of its own (`pip install -c constraints.txt '.[docs]'`); without it the build is skipped, loudly, and what can be
checked without it is.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
MKDOCS = shutil.which("mkdocs")


def built(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [str(MKDOCS), "build", "--strict", "-f", str(root / "mkdocs.yml"), "--site-dir", str(site)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, timeout=300)


@pytest.mark.skipif(MKDOCS is None, reason="MKDOCS ABSENT: pip install -c constraints.txt '.[docs]'")
def test_the_site_is_built_and_a_broken_link_is_seen(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for name in ("docs", "scripts"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [*ROOT.glob("*.md"), ROOT / "mkdocs.yml"]:
        shutil.copy(path, copy)
    done = built(copy, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 40
    assert not [
        p for p in pages if re.search(r'(?:src|href)="https?://(?!keepachangelog)[^"]*\.(?:js|css|woff2?)', p.read_text())
    ]
    (copy / "docs" / "limits.md").open("a").write("\n[nowhere](reference/sql.md#nowhere)\n")
    assert built(copy, tmp_path / "site").returncode != 0


def anchors(page: Path) -> set[str]:
    """What can be linked to within a page, as mkdocs and GitHub name its titles."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in re.findall(r"^#+ (.+)$", text, re.M)}


def test_links_into_pages_lead_to_titles() -> None:
    """Also where there is no mkdocs, and for the pages that GitHub shows."""
    wrong, seen = [], 0
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for path, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
            seen += 1
            if anchor not in anchors(page.parent / path if path else page):
                wrong.append(f"{page.relative_to(ROOT)}: {path}#{anchor}")
    assert wrong == []
    assert seen > 5


def test_links_of_the_repository_become_links_of_the_site() -> None:
    hook = (ROOT / "scripts" / "site_pages.py").read_text().replace("from mkdocs.structure.files import File\n", "File = None\n")
    names: dict[str, object] = {"__file__": str(ROOT / "scripts" / "site_pages.py")}
    exec(hook, names)
    moved = names["moved"]
    assert callable(moved)
    assert moved("project/README.md", "docs/limits.md") == "../limits.md"
    assert moved("how-to/upgrade.md", "../../CHANGELOG.md") == "../project/CHANGELOG.md"
    assert moved("README.md", "../README.md") == "project/README.md"
    assert moved("policies/README.md", "mistakes.md") == "mistakes.md"


def test_every_page_has_its_place_in_the_menu() -> None:
    found = re.findall(r"[\w/.-]+\.md", str(YAML(typ="safe").load((ROOT / "mkdocs.yml").read_text())["nav"]))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert {name for name in found if not name.startswith("project/")} == pages
    assert len(found) == len(set(found))

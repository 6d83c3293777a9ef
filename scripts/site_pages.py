"""A hook of mkdocs: pages at the root of the repository become pages of the site, and links to and from them hold there.

Knows: where pages stand in the repository and in the site. Must not know: what they say. mkdocs sees `docs/` alone; in the
repository README.md links to `docs/limits.md`, and a page of docs/ to `../CONTRIBUTING.md`.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
FOLDER = "project"
_LINK = re.compile(r"\]\(([^)#:]+\.md)(#[^)]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the root's pages."""
    for name in PAGES:
        files.append(File.generated(config, f"{FOLDER}/{name}", content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Write links as they are between pages of the site."""
    uri = page.file.src_uri
    return _LINK.sub(lambda found: f"]({moved(uri, found[1])}{found[2] or ''})", markdown)


def moved(uri: str, link: str) -> str:
    """What a link in the page at `uri` of the site is there, for what it is in the repository."""
    here = uri.removeprefix(f"{FOLDER}/") if uri.startswith(f"{FOLDER}/") else f"docs/{uri}"
    target = posixpath.normpath(posixpath.join(posixpath.dirname(here), link))
    there = target.removeprefix("docs/") if target.startswith("docs/") else f"{FOLDER}/{target}"
    return posixpath.relpath(there, posixpath.dirname(uri) or ".")

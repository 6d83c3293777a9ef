"""`dpproxy policy explain`: both forms of a page, and a role that is not there."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpproxy.authoring.commands import as_html, as_markdown
from dpproxy.cli import policy_app
from dpproxy.policy.load import load_file
from dpproxy.policy.problems import PolicyError
from dpproxy.review.explanation import Page, Section

PAGE = Page("A <b> & | page", (Section("Table a_b", ("One *star*.",), (("h|1", "h2"), ("<td>", "1"))),))


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_both_forms_escape() -> None:
    assert (
        as_markdown(PAGE)
        == "# A \\<b\\> & \\| page\n\n## Table a\\_b\n\nOne \\*star\\*.\n\n| h\\|1 | h2 |\n| --- | --- |\n| \\<td\\> | 1 |\n"
    )
    reader = Tags()
    reader.feed(as_html(PAGE))
    assert reader.open == []
    assert "A <b> & | page" in reader.text
    assert "<td>" in reader.text


def test_the_command(town: Path) -> None:
    role = next(iter(load_file(town).policy.roles))
    done = CliRunner().invoke(policy_app, ["explain", str(town), "--role", role])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"# What role {role} can learn")
    assert "| question | error at epsilon" in done.stdout
    done = CliRunner().invoke(policy_app, ["explain", str(town), "--role", role, "--format", "html"])
    assert done.stdout.startswith("<!doctype html>")
    with pytest.raises(PolicyError, match="there is no role `nobody`"):
        CliRunner().invoke(policy_app, ["explain", str(town), "--role", "nobody"], catch_exceptions=False)

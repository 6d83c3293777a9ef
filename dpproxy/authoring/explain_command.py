"""`dpproxy policy explain`: a page about one role, as Markdown or HTML.

Knows: Markdown, HTML, the terminal. Must not know: what is on the page. Names come from policies and schemas, so that both forms
escape whatever their readers would take for markup.
"""

from __future__ import annotations

import asyncio
import enum
import html
import re
from pathlib import Path
from typing import Annotated

import typer

from dpproxy.authoring.workbench import open_workbench
from dpproxy.policy.problems import START, PolicyError, Problem, suggestion
from dpproxy.review.explanation import Page, Section, explanation

STYLE = (
    "body { font: 16px/1.5 sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em } "
    "table { border-collapse: collapse } td, th { border: 1px solid #999; padding: .2em .6em; text-align: left }"
)


class Form(enum.StrEnum):
    """Names the forms of a page."""

    MARKDOWN = "markdown"
    HTML = "html"


def explain(
    file: Annotated[Path, typer.Argument(help="the policy's file; its backend tells the shape of the data")],
    role: Annotated[str, typer.Option(help="whose view is told")],
    output: Annotated[Form, typer.Option("--format", help="markdown or html")] = Form.MARKDOWN,
    shape: Annotated[Path | None, typer.Option(help="a DuckDB file of the data's shape; default: the policy's backend")] = None,
) -> None:
    """Say in plain words what a role can learn, at most and at what error. No private row is read and nothing is charged."""
    work = asyncio.run(open_workbench(file, shape))
    if role not in work.loaded.policy.roles:
        at = work.loaded.positions.get(("roles",), START)
        fix = suggestion(role, work.loaded.policy.roles)
        raise PolicyError([Problem(str(file), at.line, at.column, f"there is no role `{role}`", fix, "unknown-role")])
    page = explanation(work.bench, role)
    print(as_html(page) if output is Form.HTML else as_markdown(page), end="")


def as_markdown(page: Page) -> str:
    """Return a page as Markdown."""
    parts = [f"# {_escaped(page.title)}\n"]
    for section in page.sections:
        parts.append(f"\n## {_escaped(section.title)}\n\n" + "".join(f"{_escaped(s)}\n" for s in section.sentences))
        parts += ["\n", *_rows(section)] if section.rows else []
    return "".join(parts)


def _rows(section: Section) -> list[str]:
    head, *rest = section.rows
    lines = [head, tuple("---" for _ in head), *rest]
    return [f"| {' | '.join(cell if cell == '---' else _escaped(cell) for cell in row)} |\n" for row in lines]


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", text)


def as_html(page: Page) -> str:
    """Return a page as one HTML file that needs no other."""
    body = [f"<h1>{html.escape(page.title)}</h1>"]
    for section in page.sections:
        body.append(f"<h2>{html.escape(section.title)}</h2>")
        body += [f"<p>{html.escape(sentence)}</p>" for sentence in section.sentences]
        if section.rows:
            head, *rest = section.rows
            cells = ["".join(f"<th>{html.escape(c)}</th>" for c in head)]
            cells += ["".join(f"<td>{html.escape(c)}</td>" for c in row) for row in rest]
            body.append(f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>")
    top = f'<meta charset="utf-8"><title>{html.escape(page.title)}</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{top}</head><body>\n{chr(10).join(body)}\n</body></html>\n'

"""The commands of `dpproxy policy` that need no file of their own: test, diff, sample, explain, password, grants, schema.

Knows: the terminal, files. Must not know: how a verdict is found. Exit codes: 0 when all is well, 1 when a test fails or
something cannot be read, 3 when a policy exposes more than another.
"""

from __future__ import annotations

import asyncio
import enum
import html
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dpproxy.authoring import cases as case_files
from dpproxy.authoring.cases import Asked, cases_beside, of_cases, price, read_cases, read_log
from dpproxy.authoring.exposure import Change, Direction, changes, grows
from dpproxy.authoring.progress import bar
from dpproxy.authoring.workbench import invented, on_shape, open_workbench
from dpproxy.errors import OperatorError
from dpproxy.facade.sample import Size
from dpproxy.policy.grants import grants as grants_text
from dpproxy.policy.load import load_file
from dpproxy.policy.model import PostgresBackend
from dpproxy.policy.people import make_verifier
from dpproxy.policy.problems import START, PolicyError, Problem, suggestion
from dpproxy.policy.reference import schema_text
from dpproxy.review.explanation import Page, Section, explanation
from dpproxy.review.verdicts import Answered, Bench, Refused, Verdict

# What a comparison of two policies found, as text for a terminal and as Markdown for a pull request.
#
# Knows: changes, verdicts. Must not know: how they were found.


_HEADS = {
    Direction.MORE: "More exposed",
    Direction.LESS: "Less exposed",
    Direction.NOISE: "Other noise, the same protection",
    Direction.OTHER: "Nothing to do with exposure",
}


@dataclass(frozen=True)
class Shift:
    """A shift is a question of which two policies say different things."""

    asked: Asked
    old: Verdict
    new: Verdict

    @property
    def opens(self) -> bool:
        """Tell whether the question was refused and is answered now, or costs more."""
        if isinstance(self.new, Refused):
            return False
        return isinstance(self.old, Refused) or (self.new.epsilon, self.new.delta) > (self.old.epsilon, self.old.delta)


def shifts(asked: Sequence[Asked], old: Bench, new: Bench) -> tuple[Shift, ...]:
    """Return the questions of which two policies say different things: verdict, price or error."""
    found = (Shift(each, _verdict(old, each), _verdict(new, each)) for each in asked)
    return tuple(shift for shift in found if shift.old != shift.new)


def _verdict(bench: Bench, asked: Asked) -> Verdict:
    question = asked.question
    return bench.verdict(question.role, question.query, dict(question.settings))


def changes_as_text(changes: Sequence[Change], moved: Sequence[Shift]) -> str:
    """Write what changed for a terminal."""
    lines = []
    for direction, head in _HEADS.items():
        found = [c for c in changes if c.direction is direction]
        lines += [f"{head}:", *(f"  {c.where}: {c.what}" for c in found)] if found else []
    if moved:
        lines += ["Questions:", *(f"  {s.asked.question.role}: {s.asked.name}: {_shift(s)}" for s in moved)]
    return "\n".join(lines or ["the policies say the same"]) + "\n"


def changes_as_markdown(old: str, new: str, changes: Sequence[Change], moved: Sequence[Shift]) -> str:
    """Write what changed for a pull request. `old`, `new`: what the policies are called."""
    lines = [f"## Policy: {old} to {new}", ""]
    for direction, head in _HEADS.items():
        found = [c for c in changes if c.direction is direction]
        if found:
            lines += [f"### {head}", "", "| where | what |", "|---|---|"]
            lines += [f"| `{_cell(c.where)}` | {_cell(c.what)} |" for c in found] + [""]
    if moved:
        lines += ["### Questions", "", "| role | question | what changes |", "|---|---|---|"]
        lines += [f"| {_cell(s.asked.question.role)} | {_cell(s.asked.name)} | {_cell(_shift(s))} |" for s in moved] + [""]
    if not changes and not moved:
        lines += ["The policies say the same.", ""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _shift(shift: Shift) -> str:
    old, new = shift.old, shift.new
    if isinstance(old, Refused) or isinstance(new, Refused):
        return f"{_told(new)}, was {_told(old)}"
    said = []
    if (old.epsilon, old.delta) != (new.epsilon, new.delta):
        said.append(f"costs {price(new)}, did cost {price(old)}")
    if old.columns != new.columns:
        said.append(f"has the columns {', '.join(new.columns)}, had {', '.join(old.columns)}")
    for aggregate in sorted({*old.errors, *new.errors}):
        was, now = old.errors.get(aggregate), new.errors.get(aggregate)
        if was is not None and now is not None and was != now:
            said.append(f"the error of {aggregate} is up to {now:.4g} (95 %), was {was:.4g}")
        elif was != now:
            said.append(
                f"the error of {aggregate} is " + ("known beforehand" if was is None else "not known beforehand any more")
            )
    return "; ".join(said)


def _told(verdict: Verdict) -> str:
    return f"answered for {price(verdict)}" if isinstance(verdict, Answered) else f"refused ({verdict.message})"


GROWS = 3  # the exit code of `policy diff` when exposure grows

Shape = Annotated[
    Path | None,
    typer.Option(help="a DuckDB file of the data's shape, as `policy sample` writes it; default: the policy's backend"),
]


def run_tests(
    files: Annotated[list[Path], typer.Argument(help="test files, or policies with a test file in their folder")],
    shape: Shape = None,
    junit: Annotated[Path | None, typer.Option(help="write the results here, as JUnit's XML")] = None,
    update: Annotated[bool, typer.Option("--update", help="let tests that fail expect what the policy says now")] = False,
) -> None:
    """Ask each question of the test files, and hold what the policy says against what they expect. No private row is read and
    nothing is charged."""
    found = []
    for path in map(_tests_of, files):
        text = _text_of(path)
        cases = read_cases(text, path)
        results = case_files.results(cases, asyncio.run(open_workbench(cases.policy, shape)).bench)
        found.append((cases, results))
        print(case_files.as_text(cases, results), end="")
        if update and any(r.failures for r in results):
            path.write_text(case_files.updated(text, results), encoding="utf-8")
            print(f"{path}: updated")
    if junit is not None:
        junit.write_text(case_files.as_junit(found), encoding="utf-8")
    failed = any(r.failures for _, results in found for r in results)
    raise typer.Exit(1 if failed and not update else 0)


def _tests_of(path: Path) -> Path:
    """A test file by its own name, or by that of its policy."""
    return path if ".test." in path.name else cases_beside(path)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PolicyError(
            [Problem(str(path), 1, 1, f"cannot be read: {reason}", "write tests into the policy's folder", "unreadable-file")]
        ) from None


def diff(
    old: Annotated[Path, typer.Argument(help="the policy as it was")],
    new: Annotated[Path, typer.Argument(help="the policy as it is to be")],
    tests: Annotated[
        Path | None, typer.Option(help="questions of which verdict, price and error are compared; default: those of NEW")
    ] = None,
    log: Annotated[Path | None, typer.Option(help="questions instead, a JSON object a line, as `policy simulate` reads")] = None,
    shape: Shape = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="write Markdown, for a pull request")] = False,
) -> None:
    """Say what of people one policy exposes more, or less, than another, and what becomes of the questions of the tests
    or of a log. Exit code 3 when exposure grows."""
    before, after = load_file(old), load_file(new)
    found = changes(on_shape(before, shape).policy, on_shape(after, shape).policy)
    asked = read_log(log) if log is not None else _tested(new, tests)
    moved: tuple[Shift, ...] = ()
    if asked:
        benches = [asyncio.run(open_workbench(path, shape)).bench for path in (old, new)]
        moved = shifts(asked, *benches)
    text = changes_as_markdown(str(old), str(new), found, moved) if markdown else changes_as_text(found, moved)
    print(text, end="")
    raise typer.Exit(GROWS if grows(found) or any(shift.opens for shift in moved) else 0)


def _tested(new: Path, tests: Path | None) -> tuple[Asked, ...]:
    path = tests if tests is not None else cases_beside(new)
    return of_cases(read_cases(_text_of(path), path).cases) if tests is not None or path.exists() else ()


def sample(
    policy: Annotated[Path, typer.Argument(help="the policy's file; its backend tells the shape, and the rows of public tables")],
    out: Annotated[Path, typer.Argument(help="the DuckDB file to write; it must not exist")],
    units: Annotated[int, typer.Option(min=1, help="privacy units")] = Size.units,
    rows: Annotated[float, typer.Option(min=0, help="rows of a unit, in the mean, in tables that hold several")] = Size.rows,
    skew: Annotated[float, typer.Option(min=0, max=4, help="how unlike units are in activity; 0: all alike")] = Size.skew,
    seed: Annotated[int, typer.Option(help="other rows of the same kind")] = Size.seed,
) -> None:
    """Write a small database of the policy's shape, of declared values and ranges and public tables; no private row is read."""
    if out.exists():
        raise PolicyError([Problem(str(out), 1, 1, "exists already", "name a file that does not", "unreadable-file")])
    with bar("reading") as progress:
        made = asyncio.run(invented(load_file(policy), out, Size(units, rows, skew, seed), progress))
    for name, count in made.items():
        print(f"{name}: {count} rows")


# `dpproxy policy explain`: a page about one role, as Markdown or HTML.
#
# Knows: Markdown, HTML, the terminal. Must not know: what is on the page. Names come from policies and schemas, so that both
# forms escape whatever their readers would take for markup.


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
    role: Annotated[str, typer.Option(help="whose view is shown")],
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


# The commands `policy password`, `policy grants` and `policy schema`: what a policy needs beside itself.
#
# Knows: the terminal. Must not know: how verifiers, grants and the schema are made.


def password() -> None:
    """Ask for a password and print the verifier to write into a policy."""
    word = typer.prompt("password", hide_input=True, confirmation_prompt=True) if sys.stdin.isatty() else input()
    try:
        print(make_verifier(word))
    except ValueError as error:
        raise OperatorError(str(error)) from None


def grants(file: Annotated[Path, typer.Argument(help="a policy whose backend is a PostgreSQL")]) -> None:
    """Print the GRANTs that the backend's role needs, as SQL: the columns of the policy and nothing else."""
    rules = load_file(file).policy
    if not isinstance(rules.backend, PostgresBackend):
        raise OperatorError(f"{file}: the backend is no PostgreSQL, there is nothing to grant")
    print(grants_text(rules, rules.backend), end="")


def schema() -> None:
    """Print the JSON Schema of policy files, for editors."""
    print(schema_text(), end="")

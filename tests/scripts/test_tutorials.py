"""The tutorials of analysts and operators are true: their commands and statements are run in their order, and say what the pages show.

Knows: fences of Markdown, prompts, psql. Must not know: what is right; the pages say that. Noise, days and widths differ from run to
run, so numbers are compared as numbers, not by their digits, and `...` stands for anything. The shop is the demo's with a
twenty-fifth of its orders; the operator's proxy serves the analyst as well, so that one start is enough for both. Remedies of refusals are tried on it as well (`tests/worlds/remedies.py`).
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.worlds.demo_shop import PASSWORD, small_shop
from tests.worlds.remedies import untrue
from tests.worlds.terminal import Terminal

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ("README.md", "docs/reference/sql.md", "docs/reference/catalogue-tables.md", "docs/why-is-my-number-off.md")
"""Pages whose SQL is asked for an answer, whatever it is."""
OTHERS = ("README.md", "docs/reference/sql.md")
"""Pages that show what is asked and answered, beside the analyst's tutorial."""
Step = tuple[str, list[str]]
"""What is typed, and the lines that must be among what is said."""


def steps(page: str, prompt: str) -> list[Step]:
    """What a page types behind a prompt, and what it shows of the answer."""
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / page).read_text(), re.S)
    found = [part.partition("\n") for block in blocks for part in re.split(rf"^{re.escape(prompt)} ", block, flags=re.M)[1:]]
    return [(typed.strip(), said.splitlines()) for typed, _, said in found]


def plain(line: str) -> str:
    """A line without what differs from run to run: numbers, days, spaces, rules of tables."""
    line = re.sub(r"\d{4}-\d\d-\d\d", "#", line)
    return re.sub(r"[\s-]+", " ", re.sub(r"\d[\d.,]*", "#", line)).strip()


def shown(expected: str, said: list[str]) -> bool:
    pattern = ".*".join(re.escape(part) for part in plain(expected).split("..."))
    return any(re.search(pattern, plain(line)) for line in said)


def check(typed: str, expected: list[str], said: str) -> None:
    missing = [line for line in expected if line.strip() and not shown(line, said.splitlines())]
    assert not missing, f"{typed}\nsays\n{said}\nbut not\n" + "\n".join(missing)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's folder with less in it."""
    folder = tmp_path_factory.mktemp("tutorials")
    (folder / "policies").mkdir()
    (folder / "policies" / "shop.yaml").write_text((ROOT / "policies" / "shop.yaml").read_text())
    small_shop(folder / "policies" / "shop.duckdb")
    return folder


@pytest.fixture(scope="module")
def terminal(shop: Path) -> Iterator[Terminal]:
    terminal = Terminal(shop, password=PASSWORD)
    with terminal.running:
        yield terminal


def ask(terminal: Terminal, page: str, begin: str = "") -> None:
    """All that a page asks as an analyst, in one session."""
    asked = steps(page, "shop=>")
    assert asked
    script = begin + "".join(f"\\echo @@@{n}\n\\warn @@@{n}\n{typed}\n" for n, (typed, _) in enumerate(asked))
    done = psql(terminal, script, "-P", "footer=off", "-P", "pager=off")
    told = [re.split(r"^@@@\d+\n", text, flags=re.M)[1:] for text in (done.stdout, done.stderr)]
    for (typed, expected), out, err in zip(asked, *told, strict=True):
        assert expected or out.strip(), f"{typed} says nothing: {err}"
        check(typed, expected, out + err)


def psql(terminal: Terminal, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["psql", *options, "-h", "127.0.0.1", "-p", terminal.ports["6432"], "-U", "ada", "shop"]
    return subprocess.run(command, input=script, env=terminal.environment, capture_output=True, text=True, timeout=120)


def run_examples(terminal: Terminal) -> None:
    """The examples of other pages, but those that leave something out: each is answered."""
    fences = [text for page in EXAMPLES for text in re.findall(r"```sql\n(.*?)```", (ROOT / page).read_text(), re.S)]
    script = "\n".join(line for line in "RESET ALL;\n".join(fences).splitlines() if "..." not in line)
    assert script.count("SELECT") > 6
    done = psql(terminal, script, "-q")
    assert "ERROR" not in done.stderr, done.stderr


def try_remedies(terminal: Terminal) -> None:
    """What refusals and the page of errors say to write instead is answered, and what they say it of is refused so."""
    address = f"host=127.0.0.1 port={terminal.ports['6432']} user=ada password={PASSWORD} dbname=shop"
    with psycopg.connect(address, autocommit=True) as connection:
        assert untrue(connection) == []


@pytest.mark.slow
def test_tutorials_of_operators_and_analysts(terminal: Terminal) -> None:
    typed = steps("docs/tutorial/operator.md", "$")
    assert [line.split()[0] for line, _ in typed].count("dpproxy") >= 7
    for line, expected in typed:
        check(line, expected, terminal.type(line))
        if "--metrics" in line:
            ask(terminal, "docs/tutorial/analyst.md")
            for page in OTHERS:
                ask(terminal, page, "SET dpproxy.reuse = off;\n")
            run_examples(terminal)
    try_remedies(terminal)  # at the end: what it asks for is free to ask again


def test_what_a_page_says_wrongly_is_seen() -> None:
    check(
        "x",
        ["NOTICE:  charged epsilon 0.1; ...; typical error", " north | 15"],
        "NOTICE:  charged epsilon 2; left; typical error 1 %\n north  | 7\n",
    )
    with pytest.raises(AssertionError, match="but not"):
        check("x", [" nowhere | 15"], " north  | 7\n")

"""Every command, statement and policy between fences of the pages is tried, or it is said here why not.

Knows: fences of Markdown, which test tries which page. Must not know: what is right; commands say that by their exit codes. How-to pages
are run in the order in which an operator reads them, page by page, over one folder with the demo's shop, by the name that these
pages give it. Paths of a server (`/var/lib/dpproxy`, `/etc/dpproxy`) are folders of the test's own. One proxy starts with the
options of all pages of `OPERATED`; in long mode each page's own does, and as many processes as a page says.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import psycopg
import pytest
from scratch_postgres import scratch_server
from typer.testing import CliRunner

from dpproxy.cli import commands
from dpproxy.policy.load import load_text
from dpproxy.policy.model import PostgresBackend, SparkBackend
from dpproxy.policy.people import make_verifier
from dpproxy.serve import serve_command
from dpproxy.serve.runtime import Options
from dpproxy.table_terms import TableName
from tests.worlds.demo_shop import PASSWORD, small_shop
from tests.worlds.terminal import Terminal, commands_of

ROOT = Path(__file__).resolve().parents[2]
PAGES: Final = tuple(sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]))
KINDS: Final = frozenset({"sh", "console", "sql", "yaml", "json", "text", "python"})
"""What a fence says that it holds. `text` is a drawing, `json` what a command prints."""

BY_OTHERS: Final = {
    "docs/tutorial/analyst.md": "test_tutorials.py",
    "docs/tutorial/operator.md": "test_tutorials.py",
    "docs/reference/sql.md": "test_tutorials.py",
    "docs/reference/catalogue-tables.md": "test_tutorials.py",
    "docs/why-is-my-number-off.md": "test_tutorials.py",
    "docs/reference/python.md": "../test_public_api.py",
    "docs/policies/tutorial.md": "../authoring/test_tutorial.py",
    "docs/how-to/collect.md": "../collector/test_collect_command.py",
}
"""Pages whose blocks another test tries, with its file."""

OPERATED: Final = ("serve.md", "accelerate.md", "tls.md", "console.md", "ledger.md", "operate.md", "backup.md")
"""How-to pages, in the order in which they are run over one state."""

UNTRIED: Final[Mapping[str, str]] = {
    r"git clone |cd dpproxy": "what is cloned is what is tested",
    r"(\S+/)?pip install |python3 -m venv /opt": "scripts/fresh installs on machines that have never seen dpproxy",
    r"scripts/(test|bench|accept|demo)\b": "takes minutes: test_scripts.py runs the demo and accept, and this is scripts/test",
    r"scripts/reference\b": "tests/test_documents.py compares what it writes",
    r"scripts/golden\b": "takes a minute: tests/scripts/test_golden.py has it plan one statement",
    r"scripts/pins\b": "it writes into the checkout: tests/scripts/test_pins.py has it write a file elsewhere",
    r"git (tag|push) |python -m build": "publishes: tests/fresh builds, and installs what was built",
    r"scripts/collect_wheel": "writes to dist/: test_collect_wheel.py writes it elsewhere, and installs it",
    r"git checkout ": "takes back what the line before has changed",
    r"docker ": "needs Docker: tests/docker/test_containers.py",
    r"kubectl ": "needs a cluster: tests/docker/test_kubernetes.py looks at the manifests",
    r"python -m pysail ": "tests/backends/test_spark_session.py starts a Sail and keeps a session",
    r"systemctl |systemd-": "needs systemd: tests/docker/test_unit.py starts what the unit says, with its rights",
    r"\$ dpproxy audit ": "takes minutes: tests/audit/test_audit_command.py",
    r"dpproxy --help": "tests/test_cli.py",
}
"""How commands begin that are not run here, and why."""

ABRIDGED: Final = {
    "docs/architecture.md": "a statement on its way: tests/plan/fixtures/generated.yaml has generated SQL in full",
    "CONTRIBUTING.md": "a case of tests/plan/fixtures",
}
"""Pages whose SQL and YAML is no input, and why."""


@dataclass(frozen=True)
class Fence:
    page: str
    line: int
    kind: str
    text: str


def fences() -> Iterator[Fence]:
    for path in PAGES:
        page = path.read_text()
        for found in re.finditer(r"^( *)```(\w*)\n(.*?)^ *```$", page, re.S | re.M):
            yield Fence(str(path.relative_to(ROOT)), page.count("\n", 0, found.start()) + 1, found[2], found[3])


def block(page: str, kind: str, number: int = 0) -> str:
    return [fence.text for fence in fences() if fence.page == page and fence.kind == kind][number]


def lines(page: str) -> list[str]:
    """A page's commands."""
    return [line for fence in fences() if fence.page == page and fence.kind == "sh" for line in commands_of(fence.text)]


def untried(line: str) -> str | None:
    """Which pattern of `UNTRIED` a line begins with."""
    return next((pattern for pattern in UNTRIED if re.match(pattern, line)), None)


TRIED_HERE: Final = frozenset(
    {f"docs/how-to/{name}" for name in (*OPERATED, "several-processes.md", "systemd.md", "postgresql.md")}
    | {"README.md", "docs/engines.md", "docs/concepts/privacy-unit.md", "docs/concepts/local.md"}
)
REST: Final = f"""
version: 1
dataset: town
backend: {{ duckdb: town.duckdb }}
budget: {{ epsilon: 10, delta: 1e-9, every: year }}
roles: {{ analyst: {{ budget: {{ epsilon: 1, every: month }}, query: {{ epsilon: 0.1, max_epsilon: 1 }} }} }}
users: {{ ada: {{ role: analyst, password: "{make_verifier("x")}" }} }}
"""
"""What a part of a policy lacks."""


def test_keys_of_several_columns_as_the_page_has_them() -> None:
    page = (ROOT / "docs/concepts/privacy-unit.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.S)
    policy = load_text(REST + block, "town.yaml", Path())
    assert policy.unit_column == "tenant_user_no_key"
    assert len(policy.tables) == 3


def test_tables_of_reports_as_the_page_has_them() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/concepts/local.md").read_text(), re.S)
    *reports, survey = blocks
    policy = load_text(REST + "privacy_unit: { name: device }\n" + "".join(reports), "phones.yaml", Path())
    told = {c.name: c.randomised.claims for t in policy.tables.values() for c in t.columns.values() if c.randomised is not None}
    assert {name: [number for number, _ in claims] for name, claims in told.items()} == {"has_piles": [1], "emoji": [1, 2]}
    assert 1.0986 < told["has_piles"][0][1].epsilon < 1.0987
    tables = f"tables:\n{survey}"
    policy = load_text(f"{REST}privacy_unit: {{ name: person, key: survey.respondent }}\n{tables}", "survey.yaml", Path())
    assert policy.tables[TableName("public", "survey")].columns["ill"].randomised is not None


def test_every_block_is_tried_or_it_is_said_why_not() -> None:
    wrong, reasons = [], set()
    for fence in fences():
        place = f"{fence.page}:{fence.line}"
        if fence.kind not in KINDS:
            wrong.append(f"{place}: `{fence.kind}` is no kind of fence: {sorted(KINDS)}")
        if fence.page in BY_OTHERS or fence.page in TRIED_HERE or fence.kind in ("json", "text"):
            continue
        if fence.kind in ("sql", "yaml"):
            wrong += [] if fence.page in ABRIDGED else [f"{place}: nobody tries it"]
            continue
        said = fence.text.splitlines() if fence.kind == "console" else commands_of(fence.text)
        wrong += [f"{place}: nobody runs `{line}`" for line in said if untried(line) is None and line not in CONTRIBUTED]
    for fence in fences():
        reasons |= {untried(line) for line in (*commands_of(fence.text), *fence.text.splitlines())}
    assert wrong == []
    assert reasons >= UNTRIED.keys(), "a reason that no command needs"
    assert all((Path(__file__).parent / name).is_file() for name in BY_OTHERS.values())


CONTRIBUTED: Final = [line for line in lines("CONTRIBUTING.md") if line.startswith("sed -i ")]


def test_the_bug_that_is_planted_as_an_example_is_one(tmp_path: Path) -> None:
    (line,) = CONTRIBUTED
    file = Path(line.split()[-1])
    (tmp_path / file).parent.mkdir(parents=True)
    shutil.copy(ROOT / file, tmp_path / file)
    Terminal(tmp_path).type(line)
    assert (tmp_path / file).read_text() != (ROOT / file).read_text()


# policies


def policy(backend: str = "{ duckdb: people.duckdb }", more: str = "") -> str:
    base = block("README.md", "yaml").replace("SCRAM-SHA-256$...", make_verifier(PASSWORD))
    return base.replace("{ duckdb: clinic.duckdb }", backend) + more


def test_the_policy_of_the_readme_holds(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "clinic.duckdb") as database:
        database.execute(block("docs/policies/tutorial.md", "sql"))
    terminal = Terminal(tmp_path, {"clinic.yaml": "drafted.yaml"})
    drafted, checked, served = (line for line in lines("README.md") if line.startswith("dpproxy "))
    assert "drafted" in terminal.type(f"{drafted} --yes --out drafted.yaml") or (tmp_path / "drafted.yaml").is_file()
    assert "TODO" in (tmp_path / "drafted.yaml").read_text()
    (tmp_path / "drafted.yaml").write_text(policy("{ duckdb: clinic.duckdb }"))
    assert "ok" in terminal.type(checked)
    assert served.startswith("dpproxy serve clinic.yaml ")


def test_backends_and_epochs_of_pages_are_understood(tmp_path: Path) -> None:
    told = re.sub(r" +#.*", "", block("docs/how-to/postgresql.md", "yaml").partition("backend:\n")[2])
    backend = load_text(policy(f"\n{told}"), "people.yaml", tmp_path, {"READER_PASSWORD": "secret"}).backend
    assert isinstance(backend, PostgresBackend)
    told = block("docs/engines.md", "yaml").partition("backend: ")[2].strip()
    assert isinstance(load_text(policy(told), "people.yaml", tmp_path, {"SPARK_TOKEN": "secret"}).backend, SparkBackend)
    public = "  loads: { public: true }\nroles:"
    epochs = block("docs/how-to/ledger.md", "yaml").splitlines()
    assert len(epochs) == 4
    for line in epochs:
        understood = load_text(policy(more=f"\n{line}\n").replace("roles:", public), "people.yaml", tmp_path)
        assert (understood.epoch is None) == line.startswith("reuse_answers: off"), line


def test_copies_of_the_page_are_understood(tmp_path: Path) -> None:
    told = re.split(r"^(?=accelerate:)", block("docs/how-to/accelerate.md", "yaml"), flags=re.M)[1:]
    found = [load_text(policy(more=f"\n{each}"), "people.yaml", tmp_path).accelerate for each in told]
    assert [(each.mode, len(each.queries)) for each in found] == [("auto", 0), ("on", 0), ("off", 0), ("on", 2)]


# starts


def starts(page: str) -> list[str]:
    return [line for line in lines(page) if line.startswith("dpproxy serve ")]


def test_every_start_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Options] = []
    monkeypatch.setattr(serve_command.proxy, "serve", lambda options, **_: found.append(options))
    monkeypatch.setattr(serve_command, "supervise", lambda options, _: found.append(options))
    for name in ("start_log", "run"):
        monkeypatch.setattr(serve_command, name, lambda *_: None)
    every = [line for page in sorted({fence.page for fence in fences()}) for line in starts(page)]
    for line in every:
        done = CliRunner().invoke(commands, line.split()[1:])
        assert done.exit_code == 0, (line, done.output, done.exception)
    assert len(found) == len(every) > 5


# operators


def people(folder: Path) -> None:
    """The shop by the name that how-to pages give it, with its tests, a key and folders."""
    small_shop(folder / "shop.duckdb")
    served = (ROOT / "policies" / "shop.yaml").read_text().replace("dataset: shop ", "dataset: people ")
    (folder / "people.yaml").write_text(served)
    shutil.copy(ROOT / "policies" / "shop.test.yaml", folder / "people.test.yaml")
    for name in ("etc", "elsewhere"):
        (folder / name).mkdir()
    (folder / "etc" / "key").write_text("a secret of more than sixteen bytes")
    (folder / "etc" / "key").chmod(0o600)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    people(tmp_path)
    places = {
        "/var/lib/dpproxy": str(tmp_path / "state"),
        "/etc/dpproxy": str(tmp_path / "etc"),
        "/elsewhere": str(tmp_path / "elsewhere"),
    }
    terminal = Terminal(tmp_path, places, PASSWORD)
    made = [terminal.type(line) for line in lines("docs/how-to/tls.md") if line.startswith(CERTIFICATE)]
    assert len(made) == 2
    with terminal.running:
        yield terminal


def options_of(line: str) -> dict[str, str]:
    """The options of a start, each with its value, if it has one."""
    return dict(re.findall(r"(--[\w-]+)(?: (?!--)(\S+))?", line))


def start_of(pages: tuple[str, ...]) -> str:
    """A start with the options of all that the pages say, but for the one that shuts out the facade's psql."""
    options = {name: value for page in pages for line in starts(page) for name, value in options_of(line).items()}
    options.pop("--require-tls", None)
    return " ".join(["dpproxy serve people.yaml", *(f"{name} {value}".strip() for name, value in options.items())])


def ask(terminal: Terminal, address: str) -> None:
    """As psql does with this address. The facade's own psql, which the tests have, speaks no TLS; psycopg reads the same words."""
    address = address.replace("6432", terminal.ports["6432"]).replace("server.crt", str(terminal.folder / "server.crt"))
    with psycopg.connect(address, password=PASSWORD) as connection:
        assert connection.execute("SELECT count(*) FROM customers").fetchone() is not None


def run(terminal: Terminal, page: str, start: str) -> int:
    """Type what a page says, with a proxy that serves. How many lines those were. The proxy ends at the page that goes on without it,
    so that one start is enough for all."""
    if terminal.proxy is None:
        terminal.type(start)
    rest = [line for line in lines(page) if not (untried(line) or line.startswith(("dpproxy serve ", *CERTIFICATE)))]
    for line in rest:
        if line == rest[-1] and line.startswith("dpproxy admin drain"):
            continue
        if line.startswith("psql "):
            ask(terminal, shlex.split(line)[1])
        elif SESSION in line:
            with psycopg.connect(f"host=localhost port={terminal.ports['6432']} user=ada password={PASSWORD} dbname=people"):
                who = terminal.type("dpproxy admin who").splitlines()
                terminal.type(line.replace(SESSION, who[1].split("\t")[0]))
        else:
            terminal.type(line)
    return len(rest)


CERTIFICATE: Final = ("openssl ", "chmod ")
"""How lines begin that make a certificate, which is there before the proxy starts."""
SESSION: Final = "1234567"
"""A session, on a page."""


@pytest.mark.slow
def test_an_operator_does_what_the_pages_say(terminal: Terminal) -> None:
    """All pages over one state, with the options of all of them: a secret, since some name one."""
    pages = tuple(f"docs/how-to/{name}" for name in OPERATED)
    terminal.type("export DPPROXY_STATE=/var/lib/dpproxy DPPROXY_KEY_FILE=/etc/dpproxy/key")
    assert sum(run(terminal, page, start_of(pages)) for page in pages) > 25


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in OPERATED if starts(f"docs/how-to/{name}")])
def test_each_page_starts_what_it_says(name: str, terminal: Terminal) -> None:
    terminal.type("export DPPROXY_STATE=/var/lib/dpproxy")
    page = f"docs/how-to/{name}"
    for start in starts(page):
        run(terminal, page, start)
        ask(terminal, "host=localhost port=6432 user=ada dbname=people")
        terminal.type("dpproxy admin drain")


@pytest.mark.long
def test_as_many_processes_as_a_page_says_share_a_ledger(terminal: Terminal, tmp_path: Path) -> None:
    with scratch_server(tmp_path / "ledger") as server:
        with psycopg.connect(server.conninfo(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE ledger")
        terminal.places["postgresql://ledger@db/ledger"] = server.dsn("ledger")
        (start,) = starts("docs/how-to/several-processes.md")
        terminal.type(start)
        ask(terminal, "host=localhost port=6432 user=ada dbname=people")
        assert terminal.type("dpproxy admin status --state /var/lib/dpproxy").count("\n") == int(options_of(start)["--processes"])
        terminal.type("dpproxy admin drain --state /var/lib/dpproxy")


def test_what_is_installed_for_systemd_is_there(tmp_path: Path) -> None:
    """The page's files are copied to their places below a folder. Accounts and rights need root, and are left out."""
    steps = lines("docs/how-to/systemd.md")
    for name in ("packaging", "policies"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.duckdb"))
    for name in ("policies/shop.duckdb", "server.crt", "server.key"):
        (tmp_path / name).touch()
    (tmp_path / "root" / "etc" / "systemd" / "system").mkdir(parents=True)
    terminal = Terminal(tmp_path, {f" {place}": f" {tmp_path}/root{place}" for place in ("/usr/lib", "/etc", "/var")})
    for step in (step for step in steps if not untried(step)):
        parts = re.sub(r" -[og] dpproxy", "", step).split(" && ")
        terminal.type(" && ".join(part for part in parts if not untried(part)))
    served = terminal.home / "root" / "etc" / "dpproxy"
    assert {path.name for path in served.iterdir()} == {
        "dpproxy.yaml", "shop.yaml", "shop.duckdb", "server.crt", "server.key", "key",
    }  # fmt: skip
    assert (served / "key").stat().st_mode & 0o077 == 0

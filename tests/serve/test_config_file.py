"""Options in a file: what goes before what, what is said of a wrong one; and the example and the unit that are shipped."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpproxy.cli import commands
from dpproxy.policy.problems import PolicyError
from dpproxy.serve import serve_command
from dpproxy.serve.runtime import Options, ServingError

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """What would be served."""
    found: list[Options] = []
    monkeypatch.setattr(serve_command.proxy, "serve", lambda options, **_: found.append(options))
    monkeypatch.setattr(serve_command, "supervise", lambda options, _: found.append(options))
    monkeypatch.setattr(serve_command, "start_log", lambda *_: None)
    monkeypatch.setattr(serve_command, "run", lambda _: None)
    return found


def serve(*words: str, **environment: str) -> None:
    done = CliRunner().invoke(commands, ["serve", *words], env=environment)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output


def written(folder: Path, text: str) -> str:
    (folder / "dpproxy.yaml").write_text(text)
    return str(folder / "dpproxy.yaml")


def test_the_command_line_then_the_environment_then_the_file_then_the_default(tmp_path: Path, served: list[Options]) -> None:
    config = written(
        tmp_path, "policies: [shop.yaml, /etc/city.yaml]\nlisten: 127.0.0.1:1\ndrain: 1.5\nwatch: true\nstate: here\n"
    )
    serve("--config", config)
    serve("--config", config, DPPROXY_LISTEN="127.0.0.1:2", DPPROXY_STATE="there")
    serve("other.yaml", "--listen", "127.0.0.1:3", DPPROXY_LISTEN="127.0.0.1:2", DPPROXY_CONFIG=config)
    assert [options.port for options in served] == [1, 2, 3]
    first, second, third = served
    assert (first.policies, third.policies) == ((tmp_path / "shop.yaml", Path("/etc/city.yaml")), (Path("other.yaml"),))
    assert (first.drain, first.watch, first.require_tls, first.log_format) == (1.5, True, False, "json")
    assert (first.state, second.state) == (tmp_path / "here", Path("there"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("listn: x", r":1:1: unknown key `listn`; fix: did you mean `listen`\?"),
        ("unix-socket: x", r":1:1: unknown key `unix-socket`; fix: did you mean `unix_socket`\?"),
        ("config: x", r":1:1: unknown key `config`"),
        ("listen: a:1\ndrain: soon", r":2:8: `drain`: .*number"),
        ("connections: 0", r":1:14: `connections`: "),
        ("watch: yes", r":1:8: `watch`: true or false, not `yes`"),
        ("listen: [a, b]", r":1:9: `listen`: not a list"),
        ("listen:", r":1:1: `listen`: text or a number, not nothing"),
        ("policies: { a: b }", r":1:11: `policies`: text or a number, not a mapping"),
        ("- listen", r":1:1: not options but a list"),
        ("listen: a\nlisten: b", r":2:1: `listen` is given twice"),
        ("listen: [", r":1:10: not YAML"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, served: list[Options], text: str, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        serve("shop.yaml", "--config", written(tmp_path, text))
    assert served == []


def test_an_empty_file_says_nothing(tmp_path: Path, served: list[Options]) -> None:
    serve("shop.yaml", "--config", written(tmp_path, "# nothing\n"))
    serve("shop.yaml", "--config", written(tmp_path, ""))
    assert [options.port for options in served] == [6432, 6432]


def test_metrics_that_others_reach_need_a_token(tmp_path: Path, served: list[Options]) -> None:
    with pytest.raises(Exception, match="--metrics-token-file"):
        serve("shop.yaml", "--metrics", "0.0.0.0:9432")
    (tmp_path / "token").write_text("a token of operators")
    serve("shop.yaml", "--metrics", "0.0.0.0:9432", "--metrics-token-file", str(tmp_path / "token"))
    assert served[0].metrics_token == "a token of operators"
    with pytest.raises(ServingError, match="--log-level is one of debug, info, warning, error"):
        serve("shop.yaml", "--log-level", "loud")


def test_the_example_is_one(served: list[Options], tmp_path: Path) -> None:
    serve("--config", str(PACKAGING / "dpproxy.yaml"))
    (options,) = served
    assert (options.require_tls, options.metrics, options.drain) == (True, ("127.0.0.1", 9432), 30)
    serve("--config", written(tmp_path, re.sub(r"(?m)^# (?=ledger|processes)", "", (PACKAGING / "dpproxy.yaml").read_text())))
    assert served[1].ledger == "postgresql://ledger@db/ledger"


def test_the_unit_runs_commands_that_exist_and_gives_them_time(served: list[Options], tmp_path: Path) -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(PACKAGING / "dpproxy.service")
    service = unit["Service"]
    program, *words = service["ExecStart"].split()
    assert (program, words[:2], service["Type"]) == ("/opt/dpproxy/bin/dpproxy", ["serve", "--config"], "notify")
    environment = dict(pair.split("=", 1) for pair in service["Environment"].split())
    serve("--config", str(PACKAGING / "dpproxy.yaml"), **environment)
    assert (served[0].state, served[0].key_file) == (Path("/var/lib/dpproxy"), Path("%d/key"))
    assert float(service["TimeoutStopSec"]) > 2 * served[0].drain, "statements, then measurements that are charged"
    reload = service["ExecReload"].split()[1:]
    done = CliRunner().invoke(commands, [*reload, "--state", str(tmp_path)])
    assert "no proxy serves" in str(done.exception)

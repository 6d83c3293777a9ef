"""Alert rules, the dashboard and the unit are read by what will read them: a parser of PromQL, promtool, systemd.

promtool comes with Debian's package `prometheus`, `systemd-analyze` with systemd. Skips loudly without them. That rules and
dashboard name no metric that there is not is `tests/console/test_metrics.py`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "docker" / "alerts.yaml"
CASES = Path(__file__).with_name("alerts.test.yaml")
UNIT = ROOT / "packaging" / "dpproxy.service"


def rules() -> list[dict[str, Any]]:
    return [rule for group in YAML(typ="safe").load(RULES)["groups"] for rule in group["rules"]]


def expressions() -> Iterator[str]:
    """Of the rules, and of the dashboard, with a dataset where it has its variable."""
    yield from (rule["expr"] for rule in rules())
    for panel in json.loads((ROOT / "docker" / "grafana-dashboard.json").read_text())["panels"]:
        yield from (target["expr"].replace("$dataset", "shop") for target in panel.get("targets", ()))


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60, check=False)


def test_expressions_are_promql() -> None:
    promql = pytest.importorskip("promql_parser", reason="PROMQL PARSER ABSENT: pip install promql-parser")
    for expression in expressions():
        promql.parse(expression)
    with pytest.raises(ValueError, match=r"unclosed|invalid|unexpected"):
        promql.parse("sum by (dataset (x)")


def test_every_alert_is_tried() -> None:
    """Quiet where nothing is the matter, firing where something is."""
    quiet, loud = YAML(typ="safe").load(CASES)["tests"]
    names = {rule["alert"] for rule in rules()}
    assert {case["alertname"] for case in quiet["alert_rule_test"]} == names
    fired = [sample["labels"] for sample in loud["promql_expr_test"][0]["exp_samples"]]
    assert {re.findall(r'alertname="(\w+)"', labels)[0] for labels in fired} == names


def test_promtool_takes_the_rules(tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("PROMTOOL ABSENT: apt install prometheus")
    records = [{"record": f"panel_{i}", "expr": expression} for i, expression in enumerate(expressions())]
    (tmp_path / "panels.yaml").write_text(json.dumps({"groups": [{"name": "panels", "rules": records}]}))
    for command in (("check", "rules", RULES, tmp_path / "panels.yaml"), ("test", "rules", CASES)):
        done = run("promtool", *command)
        assert done.returncode == 0, done.stdout + done.stderr


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("SYSTEMD ABSENT: the unit is not verified")
    unit = tmp_path / "dpproxy.service"  # of a program that is there, so that all that is said is of the unit
    unit.write_text(UNIT.read_text().replace("/opt/dpproxy/bin/dpproxy", "/bin/true"))
    done = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    unit.write_text(unit.read_text().replace("ProtectSystem=strict", "ProtectSystem=stric"))
    assert "ignoring: stric" in run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit).stderr

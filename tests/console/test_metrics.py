"""Numbers for Prometheus: every family of the list, from statuses, in the form it reads; dashboard and rules name no other."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from dpproxy.console.metrics import FAMILIES, families, page
from dpproxy.operations.status import Status
from tests.worlds.told_status import STATUS

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r"\bdpproxy_[a-z_]+")
ROLE = {"dataset": "shop", "role": "analyst"}
ACCOUNT = {"dataset": "shop", "scope": "role", "name": "analyst"}


def told(*statuses: Status) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What Prometheus reads, by name and labels."""
    found = text_string_to_metric_families(page(statuses).decode())
    return {(s.name, frozenset(s.labels.items())): s.value for family in found for s in family.samples}


def number(found: dict[tuple[str, frozenset[tuple[str, str]]], float], name: str, /, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def test_every_family_is_told_with_its_labels() -> None:
    found = {family.name: family for family in families([STATUS])}
    assert set(found) == set(FAMILIES)
    for name, family in FAMILIES.items():
        samples = found[name].samples
        labels = {frozenset(sample.labels) - {"le"} for sample in samples}
        assert labels <= {frozenset(family.labels)}, name
        assert (found[name].type, found[name].documentation) == (family.kind, family.help)
        assert samples, f"{name} is never told"


def test_amounts_are_in_plain_units_and_counts_by_who() -> None:
    found = told(STATUS)
    assert number(found, "dpproxy_budget_epsilon_spent", **ACCOUNT) == 0.5
    assert number(found, "dpproxy_budget_epsilon_limit", **ACCOUNT) == 2
    assert number(found, "dpproxy_budget_delta_spent", **ACCOUNT) == pytest.approx(1e-6)
    assert number(found, "dpproxy_budget_warning_percent", **ACCOUNT) == 20
    assert number(found, "dpproxy_epsilon_spent_total", process="0", **ROLE) == 0.5
    assert number(found, "dpproxy_epsilon_saved_total", process="0", **ROLE) == 0.5
    for verdict in ("answered", "reused", "refused"):
        assert number(found, "dpproxy_statements_total", process="0", verdict=verdict, **ROLE) == 1
    assert number(found, "dpproxy_refusals_total", process="0", code="53400", **ROLE, **{"class": "budget"}) == 1
    assert number(found, "dpproxy_sessions", process="0", state="idle", **ROLE) == 1
    assert number(found, "dpproxy_delayed_seconds_total", process="0", **ROLE) == 0.5
    assert number(found, "dpproxy_paused_roles", dataset="shop", role="intern") == 1


def test_times_are_a_histogram() -> None:
    found = told(STATUS)
    labels = {"process": "0", "dataset": "shop", "verdict": "answered"}
    below = [number(found, "dpproxy_statement_seconds_bucket", le=le, **labels) for le in ("0.025", "0.05", "60.0", "+Inf")]
    assert below == [0, 1, 1, 1]
    assert number(found, "dpproxy_statement_seconds_sum", **labels) == pytest.approx(0.03)


def test_what_processes_share_is_told_once_and_the_rest_of_each() -> None:
    found = told(replace(STATUS, process=1), replace(STATUS, process=2))
    assert number(found, "dpproxy_budget_epsilon_spent", **ACCOUNT) == 0.5
    assert [number(found, "dpproxy_memory_bytes", process=process) for process in ("1", "2")] == [1e8, 1e8]
    assert sum(name == "dpproxy_budget_epsilon_spent" for name, _ in found) == 2


def exported() -> set[str]:
    """Names as Prometheus stores them."""
    return {sample.name for family in families([STATUS]) for sample in family.samples}


def test_the_dashboard_asks_for_what_exists() -> None:
    dashboard = json.loads((ROOT / "docker" / "grafana-dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert len(asked) > 10
    assert {name for expression in asked for name in NAME.findall(expression)} <= exported()


def test_the_alert_rules_ask_for_what_exists() -> None:
    rules = YAML(typ="safe").load((ROOT / "docker" / "alerts.yaml").read_text())
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    assert {tuple(sorted(rule)) for rule in alerts} == {("alert", "annotations", "expr", "for", "labels")}
    assert len({rule["alert"] for rule in alerts}) == len(alerts) > 5
    for rule in alerts:
        names = set(NAME.findall(rule["expr"]))
        assert names or "up{" in rule["expr"]
        assert names <= exported(), rule["alert"]
        assert {"summary", "description"} <= set(rule["annotations"])

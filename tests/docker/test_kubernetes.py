"""The manifests for Kubernetes: of its schema, of one mind with the proxy's defaults, and their policies are policies."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from dpproxy.limits.session_limits import DRAIN_SECONDS
from dpproxy.policy.load import load_text

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = ("one", "several")
STATE: Final = "/var/lib/dpproxy"


def objects(folder: str) -> dict[str, dict[str, Any]]:
    """Objects by their kind, the secret of the key apart."""
    found = list(YAML(typ="safe").load_all((ROOT / "packaging/kubernetes" / folder / "dpproxy.yaml").read_text()))
    named = {f"{each['kind']} {each['metadata']['name']}": each for each in found}
    assert len(named) == len(found)
    return named


def pod(folder: str) -> dict[str, Any]:
    (workload,) = (each for each in objects(folder).values() if each["kind"] in ("StatefulSet", "Deployment"))
    spec: dict[str, Any] = workload["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_schema(folder: str) -> None:
    for each in objects(folder).values():
        kubernetes_validate.validate(each, "1.31", strict=True)


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_is_lost_at_a_stop(folder: str) -> None:
    spec = pod(folder)
    (container,) = spec["containers"]
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    drain = float(container["args"][container["args"].index("--drain") + 1])
    assert drain >= DRAIN_SECONDS
    assert spec["terminationGracePeriodSeconds"] >= pause + 2 * drain, "statements end, then measurements that are charged"


@pytest.mark.parametrize("folder", FOLDERS)
def test_options_are_those_of_serve(folder: str) -> None:
    (container,) = pod(folder)["containers"]
    serve = (ROOT / "docs/reference/command-line.md").read_text().partition("## dpproxy serve")[2].partition("\n## ")[0]
    known = set(re.findall(r"--[a-z-]+", serve))
    assert {word for word in container["args"] if word.startswith("--")} <= known


@pytest.mark.parametrize("folder", FOLDERS)
def test_probes_ask_where_they_are_answered(folder: str) -> None:
    (container,) = pod(folder)["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    health = container["args"][container["args"].index("--health") + 1]
    assert health.rpartition(":")[2] == str(ports["health"])
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] == "health"
        assert container[probe]["httpGet"]["path"] in ("/healthz", "/ready")
    (entrypoint,) = re.findall(r"DPPROXY_LISTEN:-0\.0\.0\.0:(\d+)", (ROOT / "docker/entrypoint").read_text())
    assert ports["postgresql"] == int(entrypoint)


@pytest.mark.parametrize("folder", FOLDERS)
def test_it_has_no_rights(folder: str) -> None:
    spec = pod(folder)
    (container,) = spec["containers"]
    own = container["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert str(spec["securityContext"]["runAsUser"]) in (ROOT / "docker/Dockerfile").read_text()
    assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"], own["capabilities"]) == (
        False,
        True,
        {"drop": ["ALL"]},
    )
    assert spec["automountServiceAccountToken"] is False
    state = {each["name"]: each["value"] for each in container["env"]}["DPPROXY_STATE"]
    assert Path(state).parent == Path(STATE), "below the volume, whose own folder its group can write"
    assert {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")} == {STATE, "/tmp"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_named_is_there(folder: str) -> None:
    found = objects(folder)
    (container,) = pod(folder)["containers"]
    for each in container["envFrom"]:
        assert f"Secret {each['secretRef']['name']}" in found
    for volume in pod(folder)["volumes"]:
        if "secret" in volume:
            assert f"Secret {volume['secret']['secretName']}" in found
        if "configMap" in volume:
            assert f"ConfigMap {volume['configMap']['name']}" in found
    labels = {"app.kubernetes.io/name": "dpproxy"}
    assert found["Service dpproxy"]["spec"]["selector"] == labels
    assert found["NetworkPolicy dpproxy"]["spec"]["podSelector"]["matchLabels"] == labels


@pytest.mark.parametrize("folder", FOLDERS)
def test_policies_are_policies(folder: str, tmp_path: Path) -> None:
    found = objects(folder)
    for name, text in found["ConfigMap dpproxy-policies"]["data"].items():
        assert load_text(text, name, tmp_path, dict(found["Secret dpproxy"]["stringData"])).dataset == "shop"

"""The Helm chart: its names by our own registries, and what it renders by Helm and kubeconform, where they are installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
import yaml
from pydantic import SecretStr

from infra.settings import Settings
from newsproof.app.version import VERSION
from newsproof.cli.main import app
from schemas.topics import Topics
from tests.foreign.kubernetes_schemas import write_schemas

PROJECT = Path(__file__).parents[2]
CHART = PROJECT / "infra" / "helm" / "newsproof"
FROZEN = json.loads((PROJECT / "tests" / "data" / "frozen_surfaces.json").read_text("utf-8"))
METRICS = {line.split()[0] for lines in FROZEN["metrics"].values() for line in lines}
SETTINGS = {name.upper() for name in Settings.model_fields}
KAFKA = {"KAFKA_BOOTSTRAP_SERVERS": "kafka-0.kafka:9092"}
VALUES: dict[str, dict[str, Any]] = {
    "the least": {"settings": KAFKA},
    "nothing optional": {
        "settings": KAFKA,
        **{part: {"enabled": False} for part in ("research", "web", "podDisruptionBudget", "networkPolicy")},
    },
    "everything": {
        "image": {"repository": "registry/newsproof", "digest": "sha256:" + "0" * 64, "pullSecrets": [{"name": "pull"}]},
        "settings": KAFKA | {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
                             "KAFKA_SSL_CA_FILE": "/etc/newsproof/certificates/ca.crt", "CLICKHOUSE_CLUSTER": "news",
                             "TOPIC_PARTITIONS": 64, "MAX_OPEN_CASES": 4000, "LISTEN": True},
        "certificates": "kafka-ca",
        "sources": '[[source]]\nid = "own"\n',
        "worker": {"storage": {"className": "fast"}, "pod": {"nodeSelector": {"disk": "ssd"}, "priorityClassName": "high"}},
        "listener": {"enabled": True},
        "web": {"replicas": 2, "port": 8080},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "autoscaling": {"enabled": True, "minReplicas": 2, "maxReplicas": 64,
                        "lag": {"enabled": True, "activationThreshold": 64, "authentication": "kafka"}},
        "networkPolicy": {"metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
                          "webFrom": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}],
                          "egress": [{"ports": [{"port": 8000}]}]},
    },
}  # fmt: skip
EVERY_SET = pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
TOOLS = {
    "helm": "go install helm.sh/helm/v4/cmd/helm@v4.3.1",
    "kubeconform": "go install github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0",
}


def program(name: str) -> str:
    """Return where the program is; skip the test where it is not installed."""
    if (found := shutil.which(name)) is None:
        pytest.skip(f"no {name} on the PATH: {TOOLS[name]}")
    return found


def run_helm(command: str, values: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program("helm"), command, *words, str(CHART), "--namespace", "desk", "--values", "-"],
        input=yaml.safe_dump(values), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@cache
def rendered(name: str) -> str:
    done = run_helm("template", VALUES[name], "newsproof")
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(name: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return (kind, name) → object of a set of values."""
    found = [one for one in yaml.safe_load_all(rendered(name)) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def pods(name: str) -> dict[str, dict[str, Any]]:
    """Return component → the spec of its pods."""
    of_kind = [one for (kind, _), one in objects(name).items() if kind in ("StatefulSet", "Deployment")]
    templates = [one["spec"]["template"] for one in of_kind]
    return {one["metadata"]["labels"]["app.kubernetes.io/component"]: one["spec"] for one in templates}


def refusal(**values: Any) -> str:
    done = run_helm("template", {"settings": KAFKA} | values, "newsproof")
    assert done.returncode != 0
    return done.stderr


# Without Helm: names


def test_every_setting_and_every_metric_that_the_chart_names_exists() -> None:
    text = "".join(path.read_text("utf-8") for path in sorted(CHART.rglob("*.*")))
    assert set(re.findall(r"\bnewsproof_[a-z_]+\b", text)) <= METRICS
    named = set(re.findall(r"\{name: ([A-Z_]+),|\"name\" \"([A-Z_]+)\"|\.settings\.([A-Z_]+)", text))
    assert {name for one in named for name in one if name} - SETTINGS == set()
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    assert set(values["settings"]) <= SETTINGS
    assert values["settings"]["FULL_PIPELINE"] == "true", "the defaults of `up`, as docker-compose.yml has them"
    comments = re.findall(r"#.*", (CHART / "values.yaml").read_text("utf-8"))
    in_comments = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", "".join(comments)))
    assert in_comments <= SETTINGS


def test_the_chart_has_the_version_of_the_product() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["version"] == chart["appVersion"] == VERSION


@pytest.mark.security
def test_a_secret_is_refused_in_the_config_map() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    refused = re.compile(schema["properties"]["settings"]["propertyNames"]["not"]["pattern"])
    secret = {
        name.upper()
        for name, field in Settings.model_fields.items()
        if field.annotation is SecretStr or SecretStr in get_args(field.annotation)
    }
    assert len(secret) >= 15
    assert {name for name in secret | {"CLICKHOUSE_URL", "OPENAI_KEY_TUZI"} if not refused.search(name)} == set()


# With Helm: what is rendered


@EVERY_SET
def test_helm_finds_nothing_wrong(values: dict[str, Any]) -> None:
    done = run_helm("lint", values, "--strict")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", VALUES)
def test_every_process_runs_a_command_that_exists_with_settings_that_exist(name: str) -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for kind, pod in pods(name).items():
        (container,) = pod["containers"]
        (command,) = container["args"]
        assert command in commands, kind
        settings = objects(name)["ConfigMap", "newsproof-settings"]["data"]
        given = {one["name"] for one in container["env"]} | set(settings)
        assert given <= SETTINGS, kind
        Settings.model_validate({key.lower(): value for key, value in settings.items()})


@pytest.mark.security
@pytest.mark.parametrize("name", VALUES)
def test_no_pod_runs_as_root_writes_to_its_image_or_holds_a_token_of_the_cluster(name: str) -> None:
    for pod in pods(name).values():
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 10001
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
        assert pod["automountServiceAccountToken"] is pod["enableServiceLinks"] is False
        assert {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")} == {
            "/data",
            "/tmp",
        }


def test_a_worker_is_a_slot_with_a_volume_of_its_own() -> None:
    for kind in ("worker", "research"):
        stateful = objects("the least")["StatefulSet", f"newsproof-{kind}"]
        (slot,) = [one for one in pods("the least")[kind]["containers"][0]["env"] if one["name"] == "WORKER_SLOT"]
        assert slot["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['apps.kubernetes.io/pod-index']"
        (claim,) = stateful["spec"]["volumeClaimTemplates"]
        assert claim["metadata"]["name"] == "data"
        assert stateful["spec"]["serviceName"] == f"newsproof-{kind}"


def test_every_process_is_asked_whether_it_lives_and_is_ready_on_the_port_that_it_opens() -> None:
    for kind, pod in pods("everything").items():
        (container,) = pod["containers"]
        (port,) = container["ports"]
        env = {one["name"]: one.get("value") for one in container["env"]}
        assert str(port["containerPort"]) == env["WEB_PORT" if kind == "web" else "METRICS_PORT"]
        paths = {probe: container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")}
        assert paths == {"livenessProbe": "/healthz", "readinessProbe": "/readyz"}
        assert {container[probe]["httpGet"]["port"] for probe in container if "Probe" in probe} == {port["name"]}


def test_the_page_is_told_where_every_process_is() -> None:
    data = objects("the least")["ConfigMap", "newsproof-targets"]["data"]["targets.json"]
    found = {one["labels"]["instance"]: (one["targets"], one["labels"]["job"]) for one in json.loads(data)}
    assert found == {
        "sink": (["newsproof-sink:9100"], "newsproof-sink"),
        "worker-0": (["newsproof-worker-0.newsproof-worker:9100"], "newsproof-worker"),
        "worker-1": (["newsproof-worker-1.newsproof-worker:9100"], "newsproof-worker"),
        "research-0": (["newsproof-research-0.newsproof-research:9100"], "newsproof-research"),
    }


def test_every_alert_finds_the_jobs_that_the_service_monitor_names() -> None:
    services = [one for (kind, _), one in objects("everything").items() if kind == "Service"]
    jobs = {one["metadata"]["labels"].get("newsproof-job") for one in services} - {None}
    assert jobs == {"newsproof-worker", "newsproof-research", "newsproof-sink", "newsproof-listener"}
    assert objects("everything")["ServiceMonitor", "newsproof"]["spec"]["jobLabel"] == "newsproof-job"


def test_workers_scale_by_open_cases_and_the_age_of_the_oldest() -> None:
    spec = objects("everything")["ScaledObject", "newsproof-worker"]["spec"]
    cases, oldest, lag = spec["triggers"]
    assert "newsproof_open_cases{" in cases["metadata"]["query"]
    assert "newsproof_oldest_open_case_seconds{" in oldest["metadata"]["query"]
    topics = Topics()
    assert (lag["metadata"]["consumerGroup"], lag["metadata"]["topic"]) == (topics.group("worker"), topics.news)
    assert "replicas" not in objects("everything")["StatefulSet", "newsproof-worker"]["spec"]
    assert "ScaledObject" not in rendered("the least")


def test_what_could_not_work_is_refused_with_the_reason() -> None:
    assert "settings.KAFKA_BOOTSTRAP_SERVERS is empty" in refusal(settings={})
    assert "worker.replicas is 33 and TOPIC_PARTITIONS 32" in refusal(worker={"replicas": 33})
    scaled = {"enabled": True, "maxReplicas": 33}
    assert "autoscaling.maxReplicas is 33 and TOPIC_PARTITIONS 32" in refusal(autoscaling=scaled)
    lag = {"enabled": True, "lag": {"enabled": True, "activationThreshold": 31}}
    assert "one record of lag in each partition" in refusal(autoscaling=lag)
    assert "minReplicas" in refusal(autoscaling={"enabled": True, "minReplicas": 0})
    assert "WEB_TOKEN" in refusal(settings=KAFKA | {"WEB_TOKEN": "secret"})
    assert "replica" in refusal(worker={"replica": 3})


# With kubeconform: the shape of every object


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> str:
    try:
        return write_schemas(tmp_path_factory.mktemp("schemas"))
    except LookupError as exc:
        pytest.skip(str(exc))


def conforms(schemas: str, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program("kubeconform"), "-strict", "-summary", "-schema-location", schemas],
        input=text, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.foreign
@pytest.mark.parametrize("name", VALUES)
def test_kubernetes_keda_and_the_operator_know_every_field(schemas: str, name: str) -> None:
    done = conforms(schemas, rendered(name))
    assert done.returncode == 0, done.stdout
    assert f"Valid: {len(objects(name))}, Invalid: 0, Errors: 0, Skipped: 0" in done.stdout


@pytest.mark.foreign
@pytest.mark.parametrize(
    ("there", "wrong"),
    [
        ("podManagementPolicy:", "podManagmentPolicy:"),
        ("pollingInterval: 30", "pollingInterval: often"),
        ("jobLabel:", "joblabel:"),
        ("maxUnavailable: 1", "maxUnavailable: [1]"),
    ],
)
def test_a_wrong_field_is_found(schemas: str, there: str, wrong: str) -> None:
    text = rendered("everything")
    assert there in text
    assert conforms(schemas, text.replace(there, wrong, 1)).returncode != 0

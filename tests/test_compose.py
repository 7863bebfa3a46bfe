"""docker-compose.yml and the image: what can be checked without a Docker engine, and the client's own check where it is."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from infra.embedded.child import free_ports
from infra.embedded.kafka.server import EmbeddedKafka
from infra.embedded.kafka.settings import PROPERTIES
from infra.kafka.topics import KafkaAddress
from infra.settings import Settings, load_settings
from newsproof.app.composition import snapshot_of
from newsproof.app.processes.targets import FOLDER
from newsproof.cli.main import app
from schemas.errors import ConfigError
from schemas.topics import Topics
from tests.infra.kafka.secured_kafka import make_certificates
from tests.newsproof.command import on_log

yaml = pytest.importorskip("yaml", reason="PyYAML reads docker-compose.yml; it is part of requirements-dev.lock")

PROJECT = Path(__file__).parents[1]
DOCKER = PROJECT / "infra" / "docker"
FILES = ("docker-compose.yml", "docker-compose.monitoring.yml", "docker-compose.outside.yml")
WITHOUT_DIGEST = {
    "clickhouse/clickhouse-server:26.9": "its digest was in no two independent places; CONTRIBUTING.md says how to ask",
}
"""Images by tag alone, each with its reason."""
ASKED_FOR = {
    "docker-compose.yml": {"CLICKHOUSE_PASSWORD", "CLICKHOUSE_ANALYST_PASSWORD", "WEB_TOKEN"},
    "docker-compose.monitoring.yml": {"CLICKHOUSE_ANALYST_PASSWORD", "GRAFANA_PASSWORD"},
    "docker-compose.outside.yml": {"KAFKA_OUTSIDE_PASSWORD", "KAFKA_OUTSIDE_PEM"},
}
"""Without one of these, compose refuses the set that a file belongs to."""
OURS = ("topics", "worker", "worker-2", "sink", "research", "listener", "web")
# In both: what keeps the log whole and readers prompt. The embedded broker differs only in what makes it small.
SHARED_WITH_EMBEDDED = (
    "auto.create.topics.enable",
    "log.retention.ms",
    "log.retention.bytes",
    "message.max.bytes",
    "offsets.retention.minutes",
    "replica.fetch.max.bytes",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
)


def read(file: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((PROJECT / file).read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return read(FILES[0])


@pytest.fixture(scope="module")
def monitoring() -> dict[str, Any]:
    return read(FILES[1])


@pytest.fixture(scope="module")
def outside() -> dict[str, Any]:
    return read(FILES[2])


def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose["services"]
    return found


def clients_own_check(*files: str, unset: str = "") -> subprocess.CompletedProcess[str]:
    """What ``docker compose config`` says of these files, with every variable given but this one."""
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode
    ):
        pytest.skip("there is no docker compose here; it checks the files against its own schema where it is")
    given = {name: "secret" * 4 for names in ASKED_FOR.values() for name in names}
    return subprocess.run(
        ["docker", "compose", *(word for file in files for word in ("-f", file)), "--profile", "*", "config", "-q"],
        cwd=PROJECT, capture_output=True, text=True, check=False,
        env={name: value for name, value in (os.environ | given).items() if name != unset},
    )  # fmt: skip


@pytest.mark.parametrize("files", [FILES[:1], FILES[:2], FILES[::2], FILES], ids="+".join)
def test_the_clients_own_check_finds_nothing(files: tuple[str, ...]) -> None:
    done = clients_own_check(*files)
    assert done.returncode == 0, done.stderr


@pytest.mark.security
@pytest.mark.parametrize(("file", "name"), [(file, name) for file in FILES for name in sorted(ASKED_FOR[file])])
def test_the_client_refuses_a_set_without_one_of_its_passwords(file: str, name: str) -> None:
    done = clients_own_check(*dict.fromkeys((FILES[0], file)), unset=name)
    assert done.returncode != 0 and f"{name} is missing a value: set it" in done.stderr


@pytest.mark.security
@pytest.mark.parametrize("file", FILES)
def test_every_password_is_required_and_none_has_a_default(file: str) -> None:
    text = re.sub(r"^\s*#.*$", "", (PROJECT / file).read_text("utf-8"), flags=re.M)
    required = set(re.findall(r"\$\{(\w+):\?set it[^}]+\}", text))
    assert required == ASKED_FOR[file]
    optional = set(re.findall(r"\$\{(\w+)(?!\w|:\?)", text))
    assert not {name for name in optional if re.search("PASSWORD|TOKEN", name)}


@pytest.mark.security
def test_without_a_file_of_its_own_nothing_but_the_page_and_clickhouse_can_be_reached(compose: dict[str, Any]) -> None:
    published = {name: service["ports"] for name, service in services(compose).items() if "ports" in service}
    assert published == {"clickhouse": ["127.0.0.1:8123:8123"], "web": ["127.0.0.1:8700:8700"]}
    environment = services(compose)["kafka"]["environment"]
    names = {listener.split(":")[0] for listener in environment["KAFKA_LISTENERS"].split(",")}
    assert names == {"INTERNAL", "CONTROLLER"}


@pytest.mark.security
def test_grafana_lets_nobody_in_without_the_password_and_prometheus_is_not_published(
    monitoring: dict[str, Any],
) -> None:
    grafana = services(monitoring)["grafana"]
    told = grafana["environment"]
    assert told["GF_SECURITY_ADMIN_PASSWORD"].startswith("${GRAFANA_PASSWORD:?")
    assert (told["GF_AUTH_ANONYMOUS_ENABLED"], told["GF_USERS_ALLOW_SIGN_UP"]) == ("false", "false")
    assert "GF_AUTH_DISABLE_LOGIN_FORM" not in told
    # A volume that an earlier, open Grafana filled would keep the password that Grafana ships with.
    assert [v for v in grafana["volumes"] if v.endswith(":/var/lib/grafana")] == ["grafana-with-login:/var/lib/grafana"]
    assert "ports" not in services(monitoring)["prometheus"]


def test_the_set_is_the_production_like_one(compose: dict[str, Any]) -> None:
    assert set(services(compose)) == {"kafka", "clickhouse", *OURS}


@pytest.mark.security
@pytest.mark.parametrize("file", FILES)
def test_every_port_is_published_on_loopback_alone(file: str) -> None:
    ports = [port for service in services(read(file)).values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_variable_of_our_services_is_a_setting_with_a_value_that_it_takes(compose: dict[str, Any]) -> None:
    for name in OURS:
        told = {key for key, value in services(compose)[name]["environment"].items() if value != ""}
        assert told <= {field.upper() for field in Settings.model_fields}, name
        assert settings_of(compose, name, {}).kafka_bootstrap_servers == "kafka:9092"


OF_THE_SET = {
    "NEWSPROOF_DATA_DIR", "KAFKA_BOOTSTRAP_SERVERS", "KAFKA_SECURITY_PROTOCOL", "CLICKHOUSE_URL", "CLICKHOUSE_DATABASE",
    "TOPIC_PARTITIONS", "TOPIC_REPLICATION", "METRICS_PORT", "METRICS_HOST",
}  # fmt: skip
"""The settings that follow from the file, whatever ``.env`` says."""
OF_THE_PAGE = {"CLICKHOUSE_ANALYST_PASSWORD", "WEB_TOKEN"}
"""Passwords that only the page gets."""
OF_A_SERVICE = {
    "worker": {"WORKER_SLOT"},
    "worker-2": {"WORKER_SLOT"},
    "research": {"WORKER_SLOT"},
    "web": {"WEB_HOST", "WEB_PORT"},
}


def environment_of(compose: dict[str, Any], name: str, written: dict[str, str]) -> dict[str, str]:
    """What Compose gives a service whose ``.env`` holds this: the file's own lines take precedence."""
    service = services(compose)[name]
    assert service["env_file"] == [{"path": ".env", "required": False}]
    return written | {key: expanded(str(value), written) for key, value in service["environment"].items()}


def settings_of(compose: dict[str, Any], name: str, written: dict[str, str]) -> Settings:
    given = {key.lower(): value for key, value in environment_of(compose, name, written).items() if value}
    return load_settings(_env_file=None, **given)


@pytest.mark.parametrize("name", OURS)
def test_every_setting_in_the_file_of_settings_reaches_every_process(compose: dict[str, Any], name: str) -> None:
    written = {field.upper(): f"value of {field}" for field in Settings.model_fields} | {"OPENAI_KEY_TUZI": "key"}
    given = environment_of(compose, name, written)
    kept = {key for key, value in written.items() if given[key] != value}
    assert kept == OF_THE_SET | OF_A_SERVICE.get(name, set()) | (set() if name == "web" else OF_THE_PAGE)


@pytest.mark.security
@pytest.mark.parametrize("name", OURS)
def test_a_process_gets_no_password_of_another_service(compose: dict[str, Any], name: str) -> None:
    secrets = {*(one for names in ASKED_FOR.values() for one in names)}
    given = environment_of(compose, name, dict.fromkeys(secrets, "secret" * 4))
    assert {key for key in secrets if given.get(key)} == (OF_THE_PAGE if name == "web" else set())


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"GEMINI_API_KEY": "k", "TAVILY_API_KEY": "t"},
        {"MODEL_LIGHT": "ollama:qwen3", "MODEL_HEAVY": "ollama:qwen3"},
        {"GEMINI_API_KEY": "k", "TOOL_SCRAPE_ENABLED": "false", "PHASE1_ROLLOUT_PERCENTAGE": "0.2"},
        {"GEMINI_API_KEY": "k", "NEWSPROOF_MODE": "offline", "DEEP_ANALYSIS_TOOLS_ENABLED": "false"},
    ],
    ids=str,
)
def test_the_set_decides_as_up_does(compose: dict[str, Any], written: dict[str, str]) -> None:
    at = load_settings(_env_file=None, **{key.lower(): value for key, value in written.items()})
    up = at.model_copy(update=at.defaults_of_up)
    ours = {name: {*OF_THE_SET, *OF_THE_PAGE, *OF_A_SERVICE.get(name, ()), "FULL_PIPELINE"} for name in OURS}
    for name in OURS:
        in_container = settings_of(compose, name, written)
        other = {field for field in Settings.model_fields if getattr(in_container, field) != getattr(up, field)}
        assert {field.upper() for field in other} <= ours[name]
        assert in_container.mode == up.mode
    assert snapshot_of(settings_of(compose, "worker", written)) == snapshot_of(up)


def expanded(value: str, written: dict[str, str] | None = None) -> str:
    """What compose makes of ``${NAME:-default}`` when only this is set, and of ``${NAME:?…}`` when it is."""
    given = written or {}

    def filled(match: re.Match[str]) -> str:
        return given.get(match[1]) or (match[3] if match[2] == "-" else "secret" * 4)

    return re.sub(r"\$\{(\w+):([-?])([^}]*)\}", filled, value)


def test_the_listener_is_off_until_its_profile_is_chosen_and_the_page_reads_its_list(compose: dict[str, Any]) -> None:
    listener, page = (services(compose)[name] for name in ("listener", "web"))
    assert listener["profiles"] == ["listener"] and listener["volumes"][0] in page["volumes"]


def test_workers_have_slots_and_disks_of_their_own(compose: dict[str, Any]) -> None:
    workers = [services(compose)[name] for name in ("worker", "worker-2")]
    assert len({w["environment"]["WORKER_SLOT"] for w in workers}) == 2
    assert len({str(w["volumes"]) for w in workers}) == 2


def test_every_service_waits_for_what_it_needs_ends_in_order_and_says_how_it_is(
    compose: dict[str, Any], monitoring: dict[str, Any]
) -> None:
    every = services(compose) | services(monitoring)
    volumes = compose["volumes"] | monitoring["volumes"]
    for name, service in every.items():
        assert set(service.get("depends_on", {})) <= set(every), name
        assert "restart" in service, name
        assert name == "topics" or "healthcheck" in service, name
        assert int(service["stop_grace_period"].removesuffix("s")) >= 30, name
        for source in (volume.split(":")[0] for volume in service.get("volumes", ())):
            assert (PROJECT / source).exists() if source.startswith("./") else source in volumes, (
                name,
                source,
            )


def test_our_services_run_commands_that_exist_without_privileges(compose: dict[str, Any]) -> None:
    group = typer.main.get_command(app)
    for name in OURS:
        service, command = services(compose)[name], group
        for word in service["command"]:
            command = command.commands[word]  # type: ignore[attr-defined]
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["init"]
        assert "no-new-privileges:true" in service["security_opt"]


@pytest.mark.security
def test_every_image_is_pinned_by_digest_or_says_why_not() -> None:
    named = [service["image"] for file in FILES for service in services(read(file)).values() if "image" in service]
    named += re.findall(r"^FROM (\S+)", (DOCKER / "Dockerfile").read_text("utf-8"), re.M)
    foreign = [image for image in named if image != "newsproof:local"]
    assert len(foreign) == 5
    by_tag = {image for image in foreign if not re.fullmatch(r"[a-z/-]+:v?\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}", image)}
    assert by_tag == set(WITHOUT_DIGEST)
    assert all(re.fullmatch(r"[a-z/-]+:v?\d+\.\d+(\.\d+)?", image) for image in by_tag)


def test_the_broker_keeps_and_refuses_what_the_embedded_one_does(compose: dict[str, Any]) -> None:
    embedded = dict(line.split("=", 1) for line in PROPERTIES.splitlines() if "=" in line and not line.startswith("#"))
    environment = {k: str(v).lower() for k, v in services(compose)["kafka"]["environment"].items()}
    told = {key: environment["KAFKA_" + key.upper().replace(".", "_")] for key in SHARED_WITH_EMBEDDED}
    assert told == {key: embedded[key] for key in SHARED_WITH_EMBEDDED}


def test_prometheus_asks_every_process_of_ours_and_grafana_finds_prometheus_and_the_dashboard(
    compose: dict[str, Any], monitoring: dict[str, Any]
) -> None:
    every, grafana = services(compose) | services(monitoring), PROJECT / "infra" / "grafana"
    scraped = yaml.safe_load((grafana / "prometheus.yml").read_text("utf-8"))
    told = json.loads((grafana / "targets.json").read_text("utf-8"))
    asked = {target for one in told for target in one["targets"]}
    by_name = [one for job in scraped["scrape_configs"] for one in job.get("dns_sd_configs", ())]
    asked |= {f"{name}:{one['port']}" for one in by_name for name in one["names"]}
    ports = {name: every[name]["environment"]["METRICS_PORT"] for name in OURS if name != "topics"}
    assert asked == {f"{name}:{port}" for name, port in ports.items() if port}
    assert [name for name, port in ports.items() if not port] == ["web"]
    (source,) = yaml.safe_load((grafana / "provisioning/datasources/prometheus.yml").read_text("utf-8"))["datasources"]
    assert source["url"] == "http://prometheus:9090"
    dashboard = json.loads((grafana / "dashboards" / "newsproof.json").read_text("utf-8"))
    drawn_from = {panel["datasource"]["uid"] for panel in dashboard["panels"] if "datasource" in panel}
    assert drawn_from == {source["uid"]}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    (provider,) = yaml.safe_load((grafana / "provisioning/dashboards/newsproof.yml").read_text("utf-8"))["providers"]
    mounted = dict(reversed(volume.split(":")[:2]) for volume in every["grafana"]["volumes"])
    assert PROJECT / mounted[provider["options"]["path"]] == grafana / "dashboards"
    assert PROJECT / mounted["/etc/grafana/provisioning"] == grafana / "provisioning"
    mounted = dict(reversed(volume.split(":")[:2]) for volume in every["prometheus"]["volumes"])
    assert PROJECT / mounted["/etc/prometheus/prometheus.yml"] == grafana / "prometheus.yml"
    (read,) = (
        file for job in scraped["scrape_configs"] for sd in job.get("file_sd_configs", ()) for file in sd["files"]
    )
    assert PROJECT / mounted[read] == grafana / "targets.json"
    assert [PROJECT / mounted[file] for file in scraped["rule_files"]] == [grafana / "alerts.yml"]
    # The page asks the same processes: it finds them where a data directory names its own.
    page = dict(reversed(volume.split(":")[:2]) for volume in every["web"]["volumes"])
    assert PROJECT / page[f"/data/{FOLDER}/targets.json"] == grafana / "targets.json"


def test_the_image_holds_the_project_installs_by_hash_and_does_not_run_as_root() -> None:
    lines = (DOCKER / "Dockerfile").read_text("utf-8").splitlines()
    copied = [source for line in lines if line.startswith("COPY ") for source in line.split()[1:-1]]
    assert copied == [
        "LICENSE", "requirements.lock", "schemas", "agents", "infra", "streams", "evaluation", "newsproof",
    ]  # fmt: skip
    assert all((PROJECT / source).exists() for source in copied)
    assert ["--require-hashes" in line for line in lines if "pip install" in line] == [True, True]
    users = [number for number, line in enumerate(lines) if line == "USER newsproof"]
    assert users and users[0] < next(n for n, line in enumerate(lines) if line.startswith("ENTRYPOINT"))
    ignored = (DOCKER / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == set(copied)


# The listener for programs outside, on a real broker


@pytest.mark.slow
@pytest.mark.security
async def test_kafkas_outer_listener_takes_its_password_over_tls_and_nothing_else(
    outside: dict[str, Any], tmp_path: Path
) -> None:
    make_certificates(tmp_path)
    (port,) = free_ports(1)
    broker = EmbeddedKafka(tmp_path / "kafka", more_properties=outer_listener(outside, port, tmp_path / "server.pem"))
    await broker.start()
    try:
        given = KafkaAddress(
            bootstrap=f"127.0.0.1:{port}", security_protocol="SASL_SSL", sasl_mechanism="PLAIN", username="newsproof",
            password="secret" * 4, ca_file=str(tmp_path / "authority.pem"),
        )  # fmt: skip
        async with given.admin() as admin:
            assert await admin.list_topics() == []
        with pytest.raises(ConfigError, match="KAFKA_SASL_PASSWORD"):
            async with msgspec.structs.replace(given, password="guessed").admin():
                pass
        without_login = AIOKafkaConsumer(bootstrap_servers=given.bootstrap, request_timeout_ms=2000)
        with pytest.raises(KafkaError):
            await without_login.start()
        await without_login.stop()
    finally:
        await broker.stop()


def outer_listener(outside: dict[str, Any], port: int, keys: Path) -> str:
    """The file's properties as Kafka's image writes them, at this port, beside the embedded broker's own listeners."""
    told = {
        key.removeprefix("KAFKA_").lower().replace("_", "."): expanded(str(value))
        for key, value in services(outside)["kafka"]["environment"].items()
    }
    own = dict(line.split("=", 1) for line in PROPERTIES.splitlines() if "=" in line and not line.startswith("#"))
    for key in ("listeners", "advertised.listeners", "listener.security.protocol.map"):
        (outer,) = (one for one in told[key].split(",") if one.startswith("OUTSIDE:"))
        told[key] = f"{own[key]},{outer.replace('://:', '://127.0.0.1:').replace('9094', str(port))}"
    (volume,) = services(outside)["kafka"]["volumes"]
    assert volume["target"] == told["listener.name.outside.ssl.keystore.location"]
    told["listener.name.outside.ssl.keystore.location"] = str(keys)
    return "".join(f"{key}={value}\n" for key, value in told.items())


# The health check, against a real broker


async def healthy(service: str, address: KafkaAddress, topics: Topics) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        str(DOCKER / "healthy.py"),
        service,
        env={"PYTHONPATH": str(PROJECT), **on_log(address, topics), "WORKER_SLOT": "7"},
        cwd=DOCKER,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    return process.returncode or 0, said.decode()


@pytest.mark.slow
async def test_a_worker_is_healthy_exactly_while_it_is_a_member_of_its_group_and_a_sink_once_its_tables_are_there(
    address: KafkaAddress, made_topics: Topics
) -> None:
    async with member_of(made_topics, address, slot="70"):
        status, said = await healthy("worker", address, made_topics)
        assert (status, said.startswith(f"unhealthy: {made_topics.group('worker')}-7 is no member")) == (1, True), said
    async with member_of(made_topics, address, slot="7"):
        assert await healthy("worker", address, made_topics) == (0, "")
    status, said = await healthy("sink", address, made_topics)
    assert (status, "CLICKHOUSE_URL" in said) == (1, True)


@asynccontextmanager
async def member_of(topics: Topics, address: KafkaAddress, *, slot: str) -> AsyncIterator[None]:
    """A static member of the workers' group, as the worker of this slot is one."""
    group = topics.group("worker")
    member = AIOKafkaConsumer(topics.news, **address.client_args(), group_id=group, group_instance_id=f"{group}-{slot}")
    await member.start()
    try:
        yield
    finally:
        await member.stop()

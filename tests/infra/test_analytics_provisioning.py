"""What docker compose provisions for analysts: the dashboard's statements run here as the analyst on the embedded engine, and the
server's user file is read by the engine's own parser. Grafana and a ClickHouse server are not started."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from infra.clickhouse.client import Address, connect
from infra.clickhouse.migrate import migrate
from infra.embedded.clickhouse.server import EmbeddedClickHouse, EngineUser
from infra.settings import Settings
from newsproof.app.analysts import limits_of
from tests.infra.clickhouse.test_questions import the_set

yaml = pytest.importorskip("yaml", reason="PyYAML reads the provisioning; it is part of requirements-dev.lock")

PROJECT = Path(__file__).parents[2]
GRAFANA = PROJECT / "infra" / "grafana"
DASHBOARD = json.loads((GRAFANA / "dashboards" / "analytics.json").read_text("utf-8"))
USERS = PROJECT / "infra" / "docker" / "clickhouse" / "analyst.xml"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedClickHouse]:
    """An engine with the ten questions' data and the analysts' user."""
    users = (EngineUser("newsproof"), EngineUser("analyst", password="reads", databases=("newsproof",)))
    engine = EmbeddedClickHouse(tmp_path_factory.mktemp("dashboard"), users=users, memory_bytes=1024**3)

    async def fill() -> None:
        await engine.start()
        address = Address(host=engine.host, port=engine.port, username="newsproof")
        async with connect(address, database="newsproof") as tables:
            await migrate(tables)
            await the_set(tables)

    asyncio.run(fill())
    yield engine
    asyncio.run(engine.stop())


def statements() -> list[tuple[str, str]]:
    """Each panel's title and its statement as Grafana would send it for all time and the run ``live``."""
    variables = [(f"variable {v['name']}", v["query"]) for v in DASHBOARD["templating"]["list"]]
    panels = [(panel["title"], target["rawSql"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return [(title, expanded(sql)) for title, sql in (*variables, *panels)]


def expanded(sql: str) -> str:
    # https://grafana.com/docs/plugins/grafana-clickhouse-datasource/latest/: macros, and variables as SQL strings
    sql = re.sub(r"\$__dateFilter\((\w+)\)", r"\1 >= toDate('2020-01-01') AND \1 <= toDate('2035-01-01')", sql)
    sql = sql.replace("${run:sqlstring}", "'live'")
    assert "$" not in sql, "a macro or variable that this test does not know"
    return sql


@pytest.mark.slow
async def test_every_statement_of_the_dashboard_answers_the_analyst(server: EmbeddedClickHouse) -> None:
    wrong: dict[str, str] = {}
    async with httpx.AsyncClient(
        base_url=f"http://{server.host}:{server.port}", trust_env=False, timeout=60, auth=("analyst", "reads")
    ) as http:
        for title, sql in statements():
            reply = await http.post("/", params={"database": "newsproof", "default_format": "JSON"}, content=sql)
            if reply.status_code != 200:
                wrong[title] = reply.text[:300]
            elif not reply.json()["data"]:
                wrong[title] = "no rows, though there is data"
    assert wrong.pop("Latency by step", "no rows").startswith("no rows")  # the set's records have no latency
    assert wrong == {}
    assert len(statements()) >= 18


def test_the_dashboard_draws_from_the_provisioned_source_and_every_panel_has_a_place() -> None:
    (source,) = yaml.safe_load((GRAFANA / "provisioning/datasources/clickhouse.yml").read_text("utf-8"))["datasources"]
    drawn_from = {(p["datasource"]["type"], p["datasource"]["uid"]) for p in DASHBOARD["panels"]}
    assert drawn_from == {(source["type"], source["uid"])}
    assert (source["jsonData"]["username"], source["jsonData"]["defaultDatabase"]) == ("analyst", "newsproof")
    assert source["secureJsonData"] == {"password": "$CLICKHOUSE_ANALYST_PASSWORD"}
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in DASHBOARD["panels"]]
    assert len(set(places)) == len(places) == len({p["id"] for p in DASHBOARD["panels"]})
    other = json.loads((GRAFANA / "dashboards" / "newsproof.json").read_text("utf-8"))
    assert DASHBOARD["uid"] != other["uid"]


def test_compose_gives_the_server_its_user_files_and_grafana_the_plugin_and_the_password() -> None:
    files = ("docker-compose.yml", "docker-compose.monitoring.yml")
    services: dict[str, Any] = {}
    for file in files:
        services |= yaml.safe_load((PROJECT / file).read_text("utf-8"))["services"]
    mounted = dict(volume.split(":")[1::-1] for volume in services["clickhouse"]["volumes"])
    folder = "./infra/docker/clickhouse"
    assert mounted["/etc/clickhouse-server/users.d/newsproof-analyst.xml"] == f"{folder}/analyst.xml"
    assert mounted["/etc/clickhouse-server/config.d/newsproof-access.xml"] == f"{folder}/access.xml"
    assert "grafana-clickhouse-datasource" in services["grafana"]["environment"]["GF_PLUGINS_PREINSTALL_SYNC"]
    passwords = {services[name]["environment"]["CLICKHOUSE_ANALYST_PASSWORD"] for name in ("clickhouse", "grafana")}
    assert all(told.startswith("${CLICKHOUSE_ANALYST_PASSWORD:?") for told in passwords)


def test_the_servers_analyst_reads_the_database_alone_under_the_limits_of_the_embedded_one(tmp_path: Path) -> None:
    root = ET.parse(USERS).getroot()
    # The embedded engine reads no config.d, where the server is told to take these.
    access = ET.parse(USERS.with_name("access.xml"))
    assert access.findtext(".//settings_constraints_replace_previous") == "true"
    assert access.findtext(".//select_from_system_db_requires_grant") == "true"
    for constraint in root.findall("./profiles/newsproof_analyst/constraints/*"):
        constraint.remove(constraint.findall("changeable_in_readonly")[0])
    # What a server has beside this file; the engine wants it in one.
    ET.SubElement(root.find("profiles"), "default")  # type: ignore[arg-type]
    ET.SubElement(ET.SubElement(root, "quotas"), "default")
    owner = ET.SubElement(root.find("users"), "default")  # type: ignore[arg-type]
    for name, value in (("no_password", ""), ("profile", "default"), ("quota", "default"), ("access_management", "1")):
        ET.SubElement(owner, name).text = value
    ET.ElementTree(root).write(tmp_path / "users.xml")
    (tmp_path / "config.xml").write_text(
        f"<clickhouse><users_config>{tmp_path / 'users.xml'}</users_config></clickhouse>"
    )
    code = (
        "import sys; from chdb.state.sqlitelike import Connection\n"
        "c = Connection(f'{sys.argv[1]}/data?config-file={sys.argv[1]}/config.xml')\n"
        "for sql in ('SHOW GRANTS FOR analyst', 'SHOW CREATE USER analyst', 'SHOW CREATE SETTINGS PROFILE newsproof_analyst'):\n"
        "    print(c.query(sql, 'TabSeparatedRaw').bytes().decode().strip())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={"PATH": "/usr/bin:/bin", "CLICKHOUSE_ANALYST_PASSWORD": "not shown"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    grants, user, *profile = done.stdout.splitlines()
    assert grants == "GRANT SELECT ON newsproof.* TO analyst"
    assert "IDENTIFIED WITH plaintext_password" in user and "not shown" not in user
    told = " ".join(profile)
    assert "readonly = true" in told or "readonly = 1" in told
    for name, value in limits_of(Settings(_env_file=None)).items():  # type: ignore[call-arg]
        assert re.search(rf"\b{name} = '?{value}'?\b", told), (name, told)

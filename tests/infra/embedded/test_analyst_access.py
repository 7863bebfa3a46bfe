"""The analysts' user on the embedded engine: what reads passes, what writes or reaches outside is refused, by the engine's own
reading of the statement and its own access control."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import clickhouse_connect
import httpx
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from infra.clickhouse.client import Address, connect
from infra.embedded.clickhouse.access import DENIED_FUNCTIONS, SYSTEM_TABLES
from infra.embedded.clickhouse.server import EmbeddedClickHouse, EngineUser
from schemas.errors import PermanentError
from tests.infra.embedded.analyst_statements import (
    ATTACKS,
    BY_IDENTIFIER,
    NEAR_MISSES,
    READS_TOO,
    SPELLED_OTHERWISE,
    UNKNOWN,
)

ANALYST = EngineUser(
    "analyst",
    password="only reads",
    databases=("newsproof",),
    settings={"max_execution_time": "20", "max_memory_usage": "300000000", "max_result_rows": "50000"},
)
pytestmark = pytest.mark.security
PARAMETERS = {"param_n": "2", "param_t": "notes"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedClickHouse]:
    users = (EngineUser("newsproof", password="writes too"), ANALYST)
    engine = EmbeddedClickHouse(tmp_path_factory.mktemp("engine"), users=users, memory_bytes=1024**3)
    asyncio.run(engine.start())
    with httpx.Client(base_url=url_of(engine), trust_env=False, auth=("newsproof", "writes too"), timeout=60) as admin:
        for statement in (
            "CREATE DATABASE newsproof",
            "CREATE TABLE newsproof.notes (n UInt64, text String) ENGINE = MergeTree ORDER BY n",
            "INSERT INTO newsproof.notes VALUES (1, 'plain'), (2, 'how to use INTO OUTFILE and url()')",
            "CREATE VIEW newsproof.v_notes AS SELECT * FROM newsproof.notes",
            "CREATE VIEW newsproof.`اخبار` AS SELECT 1 AS n",
            "CREATE DATABASE other",
            "CREATE TABLE other.secrets (n UInt64, a String) ENGINE = MergeTree ORDER BY n",
            "INSERT INTO other.secrets VALUES (1, 'canary-in-the-other-database')",
        ):
            assert admin.post("/", content=statement).status_code == 200
    yield engine
    asyncio.run(engine.stop())


def url_of(server: EmbeddedClickHouse) -> str:
    return f"http://{server.host}:{server.port}"


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


@pytest.fixture
async def analyst(server: EmbeddedClickHouse) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        base_url=url_of(server), trust_env=False, timeout=60, auth=("analyst", "only reads")
    ) as http:
        yield http


@pytest.fixture
async def admin(server: EmbeddedClickHouse) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        base_url=url_of(server), trust_env=False, timeout=60, auth=("newsproof", "writes too")
    ) as http:
        yield http


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port of this machine that would see it, were anybody asked there."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        one.setblocking(False)
        yield one


async def test_every_attack_is_refused_before_it_reaches_anything(
    analyst: httpx.AsyncClient, admin: httpx.AsyncClient, listener: socket.socket, tmp_path: Path
) -> None:
    passed: dict[str, str] = {}
    refusals = {"497", "164", "358"}
    for attack in ATTACKS:
        statement = attack.replace("{port}", str(listener.getsockname()[1])).replace("{dir}", str(tmp_path))
        reply = await analyst.post("/", content=statement)
        if reply.status_code == 200 or "canary" in reply.text or "root:" in reply.text:
            passed[statement] = reply.text[:200]
        elif reply.headers.get("X-ClickHouse-Exception-Code") not in refusals:
            passed[statement] = f"refused, but for another reason: {reply.text[:200]}"
    assert not passed, "\n".join(f"{s} -> {t}" for s, t in passed.items())
    for statement, code in UNKNOWN:
        reply = await analyst.post("/", content=statement)
        assert reply.headers["X-ClickHouse-Exception-Code"] == str(code), reply.text
    assert len(set(ATTACKS)) >= 140
    with pytest.raises(BlockingIOError):
        listener.accept()
    assert names_in(tmp_path) == []
    left = await admin.post("/", content="SELECT count(), (SELECT count() FROM other.secrets) FROM newsproof.notes")
    assert left.text == "2\t1\n"


async def test_what_only_looks_like_an_attack_is_answered(analyst: httpx.AsyncClient) -> None:
    refused: dict[str, str] = {}
    for statement, answer in NEAR_MISSES:
        reply = await analyst.post("/", content=statement.replace("{{", "{").replace("}}", "}"), params=PARAMETERS)
        if (reply.status_code, reply.text) != (200, f"{answer}\n"):
            refused[statement] = reply.text[:200]
    for statement in READS_TOO:
        reply = await analyst.get("/", params={"query": statement})
        if reply.status_code != 200 or not reply.content:
            refused[statement] = reply.text[:200]
    assert not refused, "\n".join(f"{s} -> {t}" for s, t in refused.items())


@pytest.mark.parametrize("statement", SPELLED_OTHERWISE)
async def test_an_output_file_is_refused_however_it_is_spelled(
    analyst: httpx.AsyncClient, tmp_path: Path, statement: str
) -> None:
    kept = tmp_path / "kept"
    kept.write_text("as it was", "utf-8")
    for name in ("p", "kept"):
        asked = statement.replace("{dir}/p", f"{tmp_path}/{name}")
        # Without the parameter of the first attack it would only be refused for that parameter.
        reply = await analyst.post("/", content=asked.encode(), params={"session_timezone": "UTC"})
        assert reply.headers.get("X-ClickHouse-Exception-Code") in ("497", "358"), f"{reply.status_code} {reply.text}"
    assert (names_in(tmp_path), kept.read_text("utf-8")) == (["kept"], "as it was")


@pytest.mark.parametrize("statement", BY_IDENTIFIER)
async def test_a_parameter_cannot_be_the_name_of_a_table(analyst: httpx.AsyncClient, statement: str) -> None:
    asked = statement.replace("{{", "{").replace("}}", "}")
    for database, table in (("system", "processes"), ("system", "server_settings"), ("newsproof", "notes")):
        reply = await analyst.post("/", content=asked, params={"param_d": database, "param_t": table})
        assert reply.headers.get("X-ClickHouse-Exception-Code") == "497", reply.text


async def test_rows_that_follow_a_statement_are_refused_as_the_statement_is(analyst: httpx.AsyncClient) -> None:
    reply = await analyst.post("/?query=INSERT INTO newsproof.notes FORMAT CSV", content=b"3,x\n")
    assert (reply.status_code, reply.headers["X-ClickHouse-Exception-Code"]) == (403, "497")
    elsewhere = await analyst.post("/?database=other", content="SELECT * FROM secrets")
    assert (elsewhere.status_code, "reads only newsproof" in elsewhere.text) == (403, True)


async def test_a_statement_with_an_error_is_refused_without_a_word_on_how_it_was_checked(
    analyst: httpx.AsyncClient,
) -> None:
    for wrong in ("SELEC 1 FROM notes", "SELECT (SELECT 1\nFROM notes"):
        said = (await analyst.post("/", content=wrong)).text
        assert said.startswith("Code: 62. DB::Exception: Syntax error") and "parseQuery" not in said, said
        assert said.rstrip().endswith(". (SYNTAX_ERROR)"), said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format_schema", "/etc/passwd:M"),
        ("format_template_resultset", "/etc/passwd"),
        ("output_format_schema", "/tmp/newsproof-out.proto"),
        ("format_avro_schema_registry_url", "http://127.0.0.1:1/"),
        ("allow_introspection_functions", "1"),
        ("use_query_cache", "1"),
    ],
)
async def test_settings_of_a_request_that_read_or_change_more_than_the_answer_are_refused(
    analyst: httpx.AsyncClient, name: str, value: str
) -> None:
    reply = await analyst.post("/", params={name: value}, content="SELECT 1")
    assert (reply.status_code, reply.headers["X-ClickHouse-Exception-Code"]) == (403, "164"), reply.text
    assert name in reply.text


@pytest.mark.parametrize("name", ["max_execution_time", "max_memory_usage", "max_result_rows"])
async def test_a_limit_can_be_made_tighter_by_a_request_and_never_looser(analyst: httpx.AsyncClient, name: str) -> None:
    own = int(ANALYST.settings[name])
    for asked, in_force in (
        (0, own),
        (own * 2, own),
        (own // 2, own // 2),
        (f"{own // 2}.5", own // 2),
        ("9" * 40, own),
    ):
        reply = await analyst.post("/", params={name: asked, "readonly": 0}, content=f"SELECT getSetting('{name}')")
        assert reply.text == f"{in_force}\n"
    assert (await analyst.post("/?readonly=0", content="SELECT getSetting('readonly')")).text == "1\n"


@pytest.mark.parametrize(
    ("statement", "tighter", "code"),
    [
        ("SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(sipHash64(number))", "max_execution_time", "159"),
        ("SELECT groupArray(number) FROM numbers(1000000000)", "max_memory_usage", "241"),
        ("SELECT number FROM numbers(60000)", "max_result_rows", "396"),
    ],
)
async def test_time_memory_and_rows_of_an_answer_are_limited(
    analyst: httpx.AsyncClient, statement: str, tighter: str, code: str
) -> None:
    limits = {"max_execution_time": 2, "max_memory_usage": 20_000_000, "max_result_rows": 50_000}
    reply = await analyst.post("/", params={tighter: limits[tighter]}, content=statement)
    assert reply.headers.get("X-ClickHouse-Exception-Code") == code, reply.text[:300]


async def test_reports_of_analysts_do_not_keep_the_pipeline_waiting(
    analyst: httpx.AsyncClient, admin: httpx.AsyncClient
) -> None:
    endless = "SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(sipHash64(number))"
    reports = [asyncio.create_task(analyst.post("/", params={"max_threads": 1}, content=endless)) for _ in range(10)]
    assert (await admin.post("/", content="SELECT 'served'")).text == "served\n"
    for report in reports:
        report.cancel()
    await asyncio.gather(*reports, return_exceptions=True)


@pytest.mark.parametrize(("password", "user"), [("hunter2", "analyst"), ("only reads", "default"), ("", "newsproof")])
async def test_a_wrong_password_or_an_absent_user_is_refused(
    server: EmbeddedClickHouse, password: str, user: str
) -> None:
    async with httpx.AsyncClient(base_url=url_of(server), trust_env=False) as http:
        for how in (
            {"auth": (user, password)},
            {"headers": {"X-ClickHouse-User": user, "X-ClickHouse-Key": password}},
            {"params": {"user": user, "password": password}},
        ):
            reply = await http.post("/", content="SELECT 1", **how)
            assert (reply.status_code, reply.headers["X-ClickHouse-Exception-Code"]) == (403, "516")
    async with connect(
        Address(host=server.host, port=server.port, username=user, password=password), database="default"
    ) as client:
        with pytest.raises(PermanentError, match="CLICKHOUSE_URL") as caught:
            await client.query("SELECT 1")
    assert caught.value.kind == "auth"
    assert not password or password not in str(caught.value)


@pytest.mark.slow
def test_clickhouse_connect_reads_as_the_analyst(server: EmbeddedClickHouse) -> None:
    with clickhouse_connect.get_client(
        host=server.host, port=server.port, username="analyst", password="only reads", database="newsproof"
    ) as client:
        assert client.query("SELECT n FROM notes WHERE n = {n:UInt64}", parameters={"n": 2}).result_rows == [(2,)]
        assert client.command("SELECT version()").startswith("2")
        assert client.raw_query("SELECT n FROM notes ORDER BY n", fmt="CSVWithNames") == b'"n"\n1\n2\n'
        with client.query_rows_stream("SELECT n FROM notes ORDER BY n") as rows:
            assert [row[0] for row in rows] == [1, 2]
        with pytest.raises(DatabaseError, match="ACCESS_DENIED"):
            client.command("DROP TABLE notes")
        with pytest.raises(DatabaseError, match="ACCESS_DENIED"):
            client.raw_insert("notes", ["n", "text"], insert_block="3\tx\n", fmt="TabSeparated")


async def test_the_protocol_that_curl_and_bi_tools_speak(
    server: EmbeddedClickHouse, analyst: httpx.AsyncClient
) -> None:
    by_url = {"user": "analyst", "password": "only reads"}
    async with httpx.AsyncClient(base_url=url_of(server), trust_env=False) as http:
        assert (await http.get("/ping")).text == "Ok.\n"
        assert (await http.head("/ping")).status_code == 200
        assert (await http.request("OPTIONS", "/")).headers["Allow"] == "GET, HEAD, OPTIONS, POST"
        asked = {"query": "SELECT {x:String} AS x", "param_x": "it's", "default_format": "JSONEachRow", **by_url}
        assert (await http.get("/", params=asked)).json() == {"x": "it's"}
    headers = {"X-ClickHouse-Database": "newsproof", "X-ClickHouse-Format": "JSONCompact"}
    reply = await analyst.post("/", content="SELECT count() AS n FROM notes", headers=headers)
    assert reply.json()["data"] in ([[2]], [["2"]])
    by_a_library = {"query": "SELECT repeat('x', 1000) FROM numbers(100)", "enable_http_compression": 1}
    plain = await analyst.get("/", params=by_a_library, headers={"Accept-Encoding": "gzip"})
    assert ("Content-Encoding" in plain.headers, len(plain.text)) == (False, 100_100)
    wrong = await analyst.post("/", content="SELECT nonsense FROM notes")
    assert (wrong.status_code, wrong.headers["X-ClickHouse-Exception-Code"]) == (404, "47")


LOOKED_THROUGH = {
    *("URLHash", "URLHierarchy", "URLPathHierarchy", "base64URLDecode", "base64URLEncode", "tryBase64URLDecode"),
    *(
        "cutURLParameter",
        "decodeURLComponent",
        "decodeURLFormComponent",
        "encodeURLComponent",
        "encodeURLFormComponent",
    ),
    *(
        "extractURLParameter",
        "extractURLParameterNames",
        "extractURLParameters",
        "path",
        "pathFull",
        "hostName",
        "hostname",
    ),
    *("fullHostName", "serverTimeZone", "serverTimezone", "currentProfiles", "defaultProfiles", "enabledProfiles"),
    *("mergeTreePartInfo", "isMergeTreePartCoveredBy"),
}
"""Functions whose names sound like outside, and that compute from their arguments or name this session."""


@pytest.mark.slow
async def test_no_function_that_reaches_outside_is_new_to_the_list(admin: httpx.AsyncClient) -> None:
    sounding = "(file|url|http|remote|server|host|path|disk|keeper|model|execut|shell|secret|^ai[A-Z]|^AI[A-Z]|dictGet)"
    found = await admin.post(
        "/",
        params={"param_like": sounding},
        content="SELECT name FROM system.functions WHERE match(name, {like:String})",
    )
    names = set(found.text.split())
    by_kind = await admin.post(
        "/", content="SELECT name FROM system.functions WHERE categories IN ('AI', 'Dictionary', 'Introspection')"
    )
    assert names and by_kind.text.split()
    new = {name for name in names | set(by_kind.text.split()) if not DENIED_FUNCTIONS.match(name)} - LOOKED_THROUGH
    assert not new, "look at each: does it read a file, ask another host, or tell of the server?"


@pytest.mark.slow
async def test_of_the_system_tables_those_that_tell_of_others_stay_closed(
    analyst: httpx.AsyncClient, admin: httpx.AsyncClient
) -> None:
    listed = await admin.post("/", content="SELECT name FROM system.tables WHERE database = 'system'")
    open_to_analysts = set()
    for name in listed.text.split():
        reply = await analyst.post("/", content=f"SELECT 1 FROM system.`{name}` LIMIT 0")
        if reply.status_code == 200:
            open_to_analysts.add(name)
    assert open_to_analysts <= SYSTEM_TABLES
    assert {"settings", "tables", "columns", "databases", "functions", "one"} <= open_to_analysts

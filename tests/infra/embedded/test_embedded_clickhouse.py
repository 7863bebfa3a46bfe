"""The embedded ClickHouse, used the way that its clients use it: the real engine, over HTTP."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import clickhouse_connect
import httpx
import psutil
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError

from infra.clickhouse.client import Address, connect
from infra.embedded.child import free_ports
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from schemas.errors import TransientError
from tests.small_disk import fill, small_disk

__all__ = ["small_disk"]

DEDUP = "ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 100"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedClickHouse]:
    engine = EmbeddedClickHouse(tmp_path_factory.mktemp("engine"), memory_bytes=1024**3)
    asyncio.run(engine.start())
    yield engine
    asyncio.run(engine.stop())


@contextmanager
def connected(server: EmbeddedClickHouse, **options: object) -> Iterator[Client]:
    client = clickhouse_connect.get_client(
        host=server.host, port=server.port, tz_mode="aware", compress=False, **options
    )
    try:
        yield client
    finally:
        client.close()


@pytest.fixture
def client(server: EmbeddedClickHouse) -> Iterator[Client]:
    """A client whose database is empty."""
    with connected(server) as admin:
        admin.command("DROP DATABASE IF EXISTS scratch")
        admin.command("CREATE DATABASE scratch")
    with connected(server, database="scratch") as own:
        yield own


@pytest.fixture
async def http(server: EmbeddedClickHouse) -> AsyncIterator[httpx.AsyncClient]:
    address = f"http://{server.host}:{server.port}"
    async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=30) as raw:
        yield raw


def test_values_of_every_type_we_store_come_back_as_they_went_in(client: Client) -> None:
    client.command(
        "CREATE TABLE types (at DateTime64(3, 'UTC'), cost Nullable(Decimal(18, 9)),"
        " step LowCardinality(String), flags Array(String), vector Array(Float32), id UUID,"
        " headers Map(String, String), text String) ENGINE = MergeTree ORDER BY at"
    )
    row = [
        datetime(2026, 3, 1, 12, 30, 15, 123000, tzinfo=UTC),
        Decimal("0.000123456"),
        "synthesize",
        ["search_skipped:budget", "引号'\\"],
        [0.5, -1.25],
        UUID("6f1b1d6e-5f3e-4d63-8f8a-0d4c8f3b9a10"),
        {"k": "v", "空": "值"},
        "比特币\t现货\n'quoted' \\ back",
    ]
    unknown_cost = [row[0], None, "", [], [], row[5], {}, ""]
    client.insert("types", [row, unknown_cost])
    back = client.query("SELECT * FROM types ORDER BY isNull(cost)").result_rows
    assert [list(found) for found in back] == [row, unknown_cost]


def test_parameters_may_be_as_long_as_a_list_of_many_ids(client: Client) -> None:
    ids = [f"case-{n:06}" for n in range(20_000)]
    found = client.query("SELECT length({ids:Array(String)})", parameters={"ids": ids})
    assert found.result_rows == [(20_000,)]
    assert client.command("SELECT 'Python (not a function)'") == "Python (not a function)"


def test_a_block_sent_twice_under_one_token_is_stored_once(client: Client) -> None:
    client.command(f"CREATE TABLE once (n UInt64, s String) {DEDUP}")
    for token, numbers in (("a", [1, 2]), ("a", [1, 2]), ("a", [3]), ("b", [1])):
        client.insert("once", [[n, "x"] for n in numbers], settings={"insert_deduplication_token": token})
    assert client.query("SELECT n FROM once ORDER BY n").result_columns == [[1, 1, 2]]


def test_settings_written_in_the_insert_itself_count_too(client: Client) -> None:
    client.command(f"CREATE TABLE inline (n UInt64) {DEDUP}")
    for _ in range(2):
        client.raw_query("INSERT INTO inline SETTINGS insert_deduplication_token = 't' FORMAT CSV\n5\n")
    assert client.command("SELECT count() FROM inline") == 1


async def test_an_insert_that_cannot_be_parsed_stores_nothing(client: Client, http: httpx.AsyncClient) -> None:
    client.command(f"CREATE TABLE whole (n UInt64) {DEDUP}")
    reply = await http.post("/?query=INSERT INTO scratch.whole FORMAT CSV", content=b"1\n2\nthree\n")
    assert reply.status_code == 400
    assert "(at row 3)" in reply.text
    assert client.command("SELECT count() FROM whole") == 0


def test_an_insert_that_finds_no_room_is_an_error(client: Client) -> None:
    limit = "min_free_disk_bytes_to_perform_insert = 1000000000000000"
    client.command(f"CREATE TABLE roomless (n UInt64) ENGINE = MergeTree ORDER BY n SETTINGS {limit}")
    with pytest.raises(DatabaseError, match="NOT_ENOUGH_SPACE"):
        client.insert("roomless", [[1]])
    assert client.command("SELECT count() FROM roomless") == 0


@pytest.mark.slow
async def test_what_a_full_disk_refused_is_there_once_when_it_is_sent_again(small_disk: Path) -> None:
    server = EmbeddedClickHouse(small_disk / "data", memory_bytes=1024**3)
    await server.start()
    filler = small_disk / "filler"
    rows = [[n, os.urandom(500).hex()] for n in range(1000)]
    try:
        with connected(server) as client:
            client.command("CREATE DATABASE scratch")
            client.command(f"CREATE TABLE scratch.full (n UInt64, s String) {DEDUP}")
            token = {"insert_deduplication_token": "a"}
            fill(filler)
            for _ in range(2):
                with pytest.raises(DatabaseError, match="NOT_ENOUGH_SPACE"):
                    client.insert("scratch.full", rows, settings=token)
            assert client.command("SELECT count() FROM scratch.full") == 0
            filler.unlink()
            for _ in range(2):
                client.insert("scratch.full", rows, settings=token)
            assert client.command("SELECT count() FROM scratch.full") == len(rows)
    finally:
        await server.stop()


async def test_raw_http_answers_in_the_format_that_was_asked_for(http: httpx.AsyncClient) -> None:
    as_json = await http.get("/", params={"query": "SELECT 1 AS a FORMAT JSON", "query_id": "mine"})
    assert as_json.json()["data"] == [{"a": 1}]
    assert as_json.headers["X-ClickHouse-Format"] == "JSON"
    assert as_json.headers["X-ClickHouse-Query-Id"] == "mine"
    assert as_json.headers["Content-Type"].startswith("application/json")
    as_csv = await http.post("/", content="SELECT 1, 'x'", params={"default_format": "CSV"})
    assert as_csv.text == '1,"x"\n'
    by_header = await http.post("/", content="SELECT 1;", headers={"X-ClickHouse-Format": "JSONEachRow"})
    assert by_header.json() == {"1": 1}
    for path in ("/ping", "/", "/replicas_status"):
        assert (await http.get(path)).text == "Ok.\n"


@pytest.mark.parametrize(
    ("statement", "body", "expected"),
    [
        ("INSERT INTO scratch.f FORMAT JSONEachRow", b'{"n":1,"s":"a"}\n{"n":2,"s":"b"}', "1a,2b"),
        ("INSERT INTO scratch.f (s, n) FORMAT CSV", b"a,1\nb,2\n", "1a,2b"),
        ("INSERT INTO scratch.f VALUES", b"(1, 'FORMAT CSV'), (2, 'b;')", "1FORMAT CSV,2b;"),
        ("INSERT INTO scratch.f SETTINGS max_threads = 1 FORMAT TSV", b"1\ta\n", "1a"),
        ("INSERT INTO scratch.f FORMAT RowBinary", b"\x01" + b"\0" * 7 + b"\x02\xff\n", "1\\xFF\\n"),
        ("/* FORMAT */ insert into scratch.f -- VALUES\n (n, s) select 3, 'c'", b"", "3c"),
    ],
)
async def test_rows_are_taken_after_the_statement_in_url_or_body(
    client: Client, http: httpx.AsyncClient, statement: str, body: bytes, expected: str
) -> None:
    for in_url in (True, False):
        client.command("CREATE OR REPLACE TABLE f (n UInt64, s String) ENGINE = Memory")
        reply = await (
            http.post("/", params={"query": statement}, content=body)
            if in_url
            else http.post("/", content=statement.encode() + b"\n" + body)
        )
        assert reply.status_code == 200, reply.text
        assert int(httpx.Response(200, text=reply.headers["X-ClickHouse-Summary"]).json()["written_rows"]) > 0
        query = "SELECT n, s FROM scratch.f ORDER BY n"
        rows = (await http.get("/", params={"query": query, "default_format": "RowBinary"})).content
        assert _row_binary(rows) == expected


def _row_binary(data: bytes) -> str:
    """Decode rows of (UInt64, String shorter than 128 bytes) to ``1a,2b``."""
    found = []
    while data:
        size = data[8]
        text = data[9 : 9 + size].decode("ascii", "backslashreplace").replace("\n", "\\n").replace("\\xff", "\\xFF")
        found.append(f"{int.from_bytes(data[:8], 'little')}{text}")
        data = data[9 + size :]
    return ",".join(found)


@pytest.mark.parametrize("asked", ["compress", "decompress"])
async def test_native_compression_is_refused_with_the_property_to_set(http: httpx.AsyncClient, asked: str) -> None:
    refused = await http.post("/", params={"query": "SELECT 1", asked: "1"})
    assert (refused.status_code, refused.headers["X-ClickHouse-Exception-Code"]) == (501, "48")
    assert "compress=0" in refused.text
    assert (await http.post("/", params={"query": "SELECT 1", asked: "0"})).text == "1\n"


async def test_rows_far_above_what_is_kept_in_memory_pass_through_a_file(
    client: Client, http: httpx.AsyncClient, server: EmbeddedClickHouse
) -> None:
    client.command("CREATE TABLE big (n UInt64, s String) ENGINE = MergeTree ORDER BY n")

    async def rows() -> AsyncIterator[bytes]:
        for at in range(40):
            # The rows quote SQL: nothing in them may be taken for a statement.
            yield b"".join(b"%d,%s\n" % (at, b"; python (x) FORMAT" + b"x" * 981) for _ in range(1000))

    reply = await http.post("/?query=INSERT INTO scratch.big FORMAT CSV", content=rows())
    assert reply.status_code == 200, reply.text
    assert client.query("SELECT count(), uniqExact(n), sum(length(s)) FROM big").result_rows == [
        (40_000, 40, 40_000_000)
    ]
    assert list((server.data_dir / "spool").iterdir()) == []


async def test_settings_of_one_request_do_not_reach_the_next(http: httpx.AsyncClient) -> None:
    read = "SELECT getSetting('max_threads'), currentDatabase()"
    first = await http.post("/?max_threads=3&database=system", content=read)
    assert first.text == "3\tsystem\n"
    assert (await http.post("/", content=read)).text != first.text
    unknown = await http.post("/?no_such_setting=3", content=read)
    assert (unknown.status_code, unknown.headers["X-ClickHouse-Exception-Code"]) == (404, "115")
    missing = await http.post("/?database=no_such_database", content=read)
    assert (missing.status_code, missing.headers["X-ClickHouse-Exception-Code"]) == (404, "81")


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("SELECT 1; SELECT 2", 62),
        ("SELECT 1 INTO OUTFILE '/tmp/never-written'", 358),
        ("SELECT '" + "x" * 5_000_000 + "'", 229),
        ("SELECT * FROM (SELECT * FROM /* */ PYTHON (settings))", 46),
        ("INSERT INTO t FROM INFILE '/etc/passwd' FORMAT LineAsString", 78),
    ],
)
async def test_what_a_server_refuses_over_http_is_refused_here(
    http: httpx.AsyncClient, statement: str, code: int
) -> None:
    reply = await http.post("/", content=statement)
    assert reply.headers["X-ClickHouse-Exception-Code"] == str(code)
    assert reply.status_code >= 400


@pytest.mark.parametrize("header", [{"Host": "rebound.example:8123"}, {"Origin": "https://page.example"}])
async def test_a_web_page_cannot_reach_the_engine_through_the_browser(
    http: httpx.AsyncClient, header: dict[str, str]
) -> None:
    assert (await http.post("/", content="SELECT 1", headers=header)).status_code == 403


def test_twenty_readers_work_while_an_insert_goes_on(server: EmbeddedClickHouse, client: Client) -> None:
    client.command("CREATE TABLE busy (n UInt64) ENGINE = MergeTree ORDER BY n")
    client.insert("busy", [[1]])

    def read(_: int) -> bool:
        with connected(server, database="scratch") as own:
            return all(own.command("SELECT sum(n) FROM busy") >= 1 for _ in range(5))

    with ThreadPoolExecutor(21) as pool:
        blocks = pool.submit(lambda: [client.insert("busy", [[1]] * 5000) for _ in range(20)])
        assert all(pool.map(read, range(20)))
        blocks.result()
    assert client.command("SELECT count() FROM busy") == 100_001


async def test_a_client_that_is_slow_to_send_or_to_read_keeps_nobody_waiting(
    http: httpx.AsyncClient, server: EmbeddedClickHouse
) -> None:
    crawlers = []
    for number in range(24):
        reader, writer = await asyncio.open_connection(server.host, server.port)
        crawlers.append((reader, writer))
        head = "POST /?query={} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n"
        if number % 2:  # announces a body that never comes
            writer.write(head.format("INSERT+INTO+t+FORMAT+CSV", 1000).encode())
        else:  # asks for 80 MB and reads nothing
            writer.write(head.format("SELECT+repeat('x',1000)+FROM+numbers(8000)", 0).encode())
        await writer.drain()
    assert (await http.post("/", content="SELECT 'served'")).text == "served\n"
    for _, writer in crawlers:
        writer.transport.abort()


async def test_a_query_ends_when_its_client_leaves(http: httpx.AsyncClient) -> None:
    endless = "SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(sipHash64(number))"
    running = "SELECT countIf(query LIKE '%sipHash64%' AND query NOT LIKE '%countIf%') FROM system.processes"

    async def until_running(count: str) -> None:
        while (await http.post("/", content=running)).text != count:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    call = asyncio.create_task(http.post("/", content=endless))
    async with asyncio.timeout(60):
        await until_running("1\n")
        call.cancel()
        await until_running("0\n")


async def test_what_was_acknowledged_survives_a_sigkill_and_a_client_goes_on(tmp_path: Path) -> None:
    engine = EmbeddedClickHouse(tmp_path, port=free_ports(1)[0], memory_bytes=1024**3)
    async with engine, connect(Address(host=engine.host, port=engine.port), database="default") as client:
        await client.command(f"CREATE TABLE kept (n UInt64) {DEDUP}")
        await client.insert("kept", ["n"], [[1], [2]], token="t")
        first = engine.pid
        engine.kill()
        assert not psutil.pid_exists(first)
        with pytest.raises(TransientError):
            await client.query("SELECT 1")
        await engine.start()
        await client.insert("kept", ["n"], [[1], [2]], token="t")
        assert (await client.query("SELECT count() FROM kept")).rows == [(2,)]
        last = engine.pid
    assert not psutil.pid_exists(last)

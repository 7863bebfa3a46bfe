"""What holds when a statement gets past the front: the engine's process can write to its own folders alone, opens no
connection and knows no secret of its parent. And no body is unpacked."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from aiohttp import web

from infra.embedded.clickhouse.server import EmbeddedClickHouse, EngineUser
from infra.landlock import abi_version
from newsproof.app.analysts import limits_of
from newsproof.cli.operate.doctor import engine_fence
from tests.infra.embedded.output_files import Tally

pytestmark = pytest.mark.security
PROJECT = Path(__file__).parents[3]
CANARY = "canary-of-the-parents-environment"
PASSWORD = "canary-of-the-pipelines-password"
MIB = 1024 * 1024
fenced = pytest.mark.skipif(abi_version() == 0, reason="this kernel has no Landlock")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedClickHouse]:
    users = (
        EngineUser("newsproof", password=PASSWORD),
        EngineUser("analyst", password="reads", databases=("newsproof",)),
    )
    engine = EmbeddedClickHouse(tmp_path_factory.mktemp("engine"), users=users, memory_bytes=1024**3)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("GEMINI_API_KEY", CANARY)
        asyncio.run(engine.start())
    asyncio.run(prepared(engine))
    yield engine
    asyncio.run(engine.stop())


async def prepared(engine: EmbeddedClickHouse) -> None:
    async with user(engine, "newsproof", PASSWORD) as http:
        for statement in (
            "CREATE DATABASE newsproof",
            "CREATE TABLE newsproof.notes (n UInt64, text String) ENGINE = MergeTree ORDER BY n",
        ):
            assert (await http.post("/", content=statement)).status_code == 200


def user(engine: EmbeddedClickHouse, name: str, password: str) -> httpx.AsyncClient:
    at = f"http://{engine.host}:{engine.port}"
    return httpx.AsyncClient(base_url=at, trust_env=False, timeout=60, auth=(name, password))


@pytest.fixture
async def admin(server: EmbeddedClickHouse) -> AsyncIterator[httpx.AsyncClient]:
    async with user(server, "newsproof", PASSWORD) as http:
        yield http


@pytest.fixture
async def analyst(server: EmbeddedClickHouse) -> AsyncIterator[httpx.AsyncClient]:
    async with user(server, "analyst", "reads") as http:
        yield http


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


@fenced
@pytest.mark.parametrize(
    "statement",
    [
        # The front's words and the engine's differ here, and the pipeline's own user meets no other wall.
        "SELECT 1 /* /* */ ' */ INTO OUTFILE '{dir}/out.csv' -- '",
        "INSERT INTO FUNCTION file('{dir}/out.csv', CSV, 'a UInt8') VALUES (1)",
        "SELECT 1 /* /* */ ' */ INTO OUTFILE '{data}/passwords.json' TRUNCATE -- '",
        "CREATE TABLE newsproof.outside (a UInt8) ENGINE = File(CSV, '{dir}/out.csv')",
    ],
)
async def test_the_engine_writes_nowhere_but_to_its_own_folders(
    admin: httpx.AsyncClient, server: EmbeddedClickHouse, tmp_path: Path, statement: str
) -> None:
    kept = server.data_dir / "passwords.json"
    kept.write_text("as it was", "utf-8")
    said = (await admin.post("/", content=statement.format(dir=tmp_path, data=server.data_dir))).text
    said += (await admin.post("/", content="INSERT INTO newsproof.outside VALUES (1)")).text
    assert "Permission denied" in said
    assert (names_in(tmp_path), kept.read_text("utf-8")) == ([], "as it was")


@fenced
async def test_the_engine_reads_nothing_but_its_own_folders_and_programs(
    admin: httpx.AsyncClient, server: EmbeddedClickHouse, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary", "utf-8")
    kept = server.data_dir / "passwords.json"
    kept.write_text("canary", "utf-8")
    for path in (secret, kept, PROJECT / "pyproject.toml", f"/proc/{os.getpid()}/environ"):
        reply = await admin.post("/", content=f"SELECT file('{path}')")
        assert (reply.status_code, "Permission denied" in reply.text) == (500, True), f"{path}: {reply.text}"
    listed = await admin.post("/", content=f"SELECT count() FROM file('{tmp_path}/*', LineAsString)")
    assert "canary" not in listed.text and listed.text != "1\n"


@fenced
@pytest.mark.skipif(abi_version() < 4, reason="this kernel's Landlock knows no network")
async def test_the_engine_opens_no_connection(admin: httpx.AsyncClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        once = {"http_max_tries": 1, "connections_with_failover_max_tries": 1}
        at = f"127.0.0.1:{listener.getsockname()[1]}"
        for statement in (f"SELECT * FROM url('http://{at}/', CSV, 'a String')", f"SELECT * FROM remote('{at}', a.b)"):
            reply = await admin.post("/", content=statement, params=once)
            assert (reply.status_code, "Permission denied" in reply.text) == (500, True), reply.text
        with pytest.raises(BlockingIOError):
            listener.accept()


async def test_the_engine_knows_neither_its_parents_keys_nor_its_users_passwords(admin: httpx.AsyncClient) -> None:
    known = await admin.post("/", content="SELECT file('/proc/self/environ'), file('/proc/self/cmdline')")
    assert known.status_code == 200
    assert "PATH=" in known.text
    assert CANARY not in known.text and PASSWORD not in known.text


async def test_what_the_engine_needs_to_write_it_still_can(admin: httpx.AsyncClient) -> None:
    for statement in (
        "CREATE TABLE newsproof.many (n UInt64, s String) ENGINE = MergeTree ORDER BY n",
        "INSERT INTO newsproof.many SELECT number, toString(number) FROM numbers(2000000)",
        "ALTER TABLE newsproof.many UPDATE s = 'x' WHERE n % 2 = 0 SETTINGS mutations_sync = 2",
        "OPTIMIZE TABLE newsproof.many FINAL",
        "DROP TABLE newsproof.many",
    ):
        reply = await admin.post("/", content=statement)
        assert reply.status_code == 200, reply.text
    on_disk = {"max_bytes_before_external_sort": 1_000_000, "max_bytes_before_external_group_by": 1_000_000}
    sort = "SELECT sum(a) FROM (SELECT rand() AS a, repeat('x', 100) AS b FROM numbers(500000) ORDER BY a, b) SETTINGS max_threads = 1"
    assert (await admin.post("/", params=on_disk, content=sort)).status_code == 200


def test_doctor_says_whether_the_engine_is_fenced() -> None:
    here, without, before_network = engine_fence(abi_version()), engine_fence(0), engine_fence(3)
    assert (here.state, without.state, before_network.state) == ("ok" if abi_version() >= 4 else "note", "note", "note")
    assert "Linux 5.13" in without.do and "Linux 6.7" in before_network.do


# Bodies that unpack to more than they are


BOMB = gzip.compress(bytes(64 * MIB), 1)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "lz4", "zstd", "punycode"])
async def test_a_compressed_body_is_refused_before_it_is_read(analyst: httpx.AsyncClient, encoding: str) -> None:
    refused = await analyst.post("/", content=BOMB, headers={"Content-Encoding": encoding})
    assert (refused.status_code, refused.headers["X-ClickHouse-Exception-Code"]) == (501, "48")
    assert "send the body uncompressed" in refused.text
    assert (await analyst.post("/", content=b"SELECT 1", headers={"Content-Encoding": "identity"})).text == "1\n"


@pytest.mark.parametrize("inner", ["gzip", "quoted-printable"])
async def test_a_part_of_a_form_is_taken_as_it_is(analyst: httpx.AsyncClient, inner: str) -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="query"\r\nContent-Encoding: ' + inner.encode()
    body += b"\r\nContent-Transfer-Encoding: " + inner.encode() + b"\r\n\r\n"
    form = {"Content-Type": "multipart/form-data; boundary=b"}
    taken = await analyst.post("/", content=body + b"SELECT 'as it is'\r\n--b--\r\n", headers=form)
    assert taken.text == "as it is\n"
    large = await analyst.post("/", content=body + BOMB + b"\r\n--b--\r\n", headers=form)
    assert large.status_code == 400
    endless = await analyst.post("/", content=body + b" " * (5 * MIB) + b"\r\n--b--\r\n", headers=form)
    assert (endless.status_code, endless.headers["X-ClickHouse-Exception-Code"]) == (413, "229")


async def test_a_connection_whose_request_does_not_arrive_is_closed() -> None:
    from infra.embedded.clickhouse.protocol import IDLE_S, runner_of

    assert IDLE_S <= 10
    runner = runner_of(web.Application(), idle_s=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0]

        async def check(sent: bytes) -> None:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(sent)
            async with asyncio.timeout(30):
                answered = await reader.read()
            assert answered.startswith(b"HTTP/1.1 404") == sent.startswith(b"GET")
            writer.close()

        heads = (
            b"",
            b"POST / HT",
            b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-",
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /",
        )
        await asyncio.gather(*map(check, heads))
    finally:
        await runner.cleanup()


# Requests that were answered with 500


@pytest.mark.parametrize(
    ("parameters", "statement"),
    [
        ({"max_execution_time": "²"}, b"SELECT 1"),
        ({"max_execution_time": "soon"}, b"SELECT 1"),
        ({"query_id": "a\r\nX-Evil: 1"}, b"SELECT 1"),
        ({"query_id": "x" * 65}, b"SELECT 1"),
        ({"query_id": "naïve"}, b"SELECT 1"),
        ({}, b"SELECT '\xff'"),
        ({"max_threads": "9" * 30}, b"SELECT 1"),
    ],
)
async def test_a_request_that_is_none_is_refused_as_one(
    analyst: httpx.AsyncClient, parameters: dict[str, str], statement: bytes
) -> None:
    from urllib.parse import quote_from_bytes

    query = "&".join(
        f"{name}={quote_from_bytes(value.encode('utf-8', 'surrogatepass'))}" for name, value in parameters.items()
    )
    reply = await analyst.post(f"/?{query}", content=statement)
    expected = 200 if parameters.get("max_threads") else 400
    assert reply.status_code == expected, reply.text
    assert "X-Evil" not in reply.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"X-ClickHouse-Key", b"\xff\xfe")], 403),
        ([(b"Authorization", b"Basic \xff")], 403),
        ([(b"Authorization", "Basic é".encode())], 403),
        ([(b"X-ClickHouse-Format", b"\xff"), (b"Authorization", b"Basic YW5hbHlzdDpyZWFkcw==")], 404),
        ([(b"X-ClickHouse-Database", b"\xff"), (b"Authorization", b"Basic YW5hbHlzdDpyZWFkcw==")], 403),
    ],
)
async def test_headers_that_are_no_text_are_refused(
    server: EmbeddedClickHouse, headers: list[tuple[bytes, bytes]], status: int
) -> None:
    async with httpx.AsyncClient(base_url=f"http://{server.host}:{server.port}", trust_env=False) as http:
        assert (await http.post("/", content=b"SELECT 1", headers=headers)).status_code == status


@pytest.mark.parametrize(
    "part",
    [
        b'name="session_timezone"\r\n\r\n\xff',
        b'name="param_x"\r\n\r\n\xff',
        b'name="query"\r\nX: ' + b"y" * 20_000 + b"\r\n\r\nSELECT 1",
        b'name="query"\r\n' + b"X: y\r\n" * 500 + b"\r\nSELECT 1",
        b'name="query"\r\nno colon\r\n\r\nSELECT 1',
    ],
)
async def test_a_form_that_is_none_is_refused_as_one(analyst: httpx.AsyncClient, part: bytes) -> None:
    body = b"--b\r\nContent-Disposition: form-data; " + part + b"\r\n--b--\r\n"
    form = {"Content-Type": "multipart/form-data; boundary=b"}
    reply = await analyst.post("/?query=SELECT {x:String} SETTINGS session_timezone='UTC'", content=body, headers=form)
    assert reply.status_code == 400, reply.text


async def test_what_is_nested_too_deeply_or_no_format_is_refused_as_that(
    analyst: httpx.AsyncClient, admin: httpx.AsyncClient
) -> None:
    deep = await analyst.post("/", content="SELECT " + "[" * 900 + "1" + "]" * 900)
    assert (deep.status_code, "WITH" in deep.text or "nested" in deep.text) == (400, True), deep.text
    split = await admin.post("/?default_format=CSV%0d%0aX:y", content="SELECT 1")
    assert (split.status_code, "X" in split.headers) == (404, False)


async def test_what_a_link_can_do_does_not_write(admin: httpx.AsyncClient) -> None:
    for method in ("GET", "HEAD"):
        create = {"query": "CREATE TABLE newsproof.by_link (n UInt8) ENGINE = MergeTree ORDER BY n"}
        assert (await admin.request(method, "/", params=create)).status_code == 403
    assert (await admin.post("/", content="EXISTS TABLE newsproof.by_link")).text == "0\n"


def test_no_module_of_the_working_directory_runs_in_the_engines_process(tmp_path: Path) -> None:
    (tmp_path / "argparse.py").write_text(
        "open('ran', 'w')\nraise SystemExit('a stranger\u2019s module ran')\n", "utf-8"
    )
    program = (
        "import asyncio, pathlib\nfrom infra.embedded.clickhouse.server import EmbeddedClickHouse\n"
        "async def main():\n"
        "    async with EmbeddedClickHouse(pathlib.Path('data')):\n        pass\n"
        "asyncio.run(main())\n"
    )
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "start.py").write_text(program, "utf-8")
    command = [sys.executable, "-P", "elsewhere/start.py"]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(PROJECT)}
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stderr
    assert not (tmp_path / "ran").exists()


def test_one_analyst_cannot_take_all_threads_and_memory() -> None:
    from infra.settings import load_settings

    limits = limits_of(load_settings())
    assert 1 <= int(limits["max_threads"]) <= 4
    assert 1 <= int(limits["max_block_size"]) <= 65_536


async def test_a_setting_of_a_request_cannot_carry_text_into_the_engine(analyst: httpx.AsyncClient) -> None:
    reply = await analyst.post("/", params={"log_comment": "#!/bin/sh"}, content="SELECT 1")
    assert (reply.status_code, reply.headers["X-ClickHouse-Exception-Code"]) == (403, "164")


@pytest.mark.slow
def test_no_statement_that_passes_the_front_names_an_output_file() -> None:
    command = [sys.executable, "-m", "tests.infra.embedded.output_files", "--count", "2000", "--seed", "20261122"]
    run = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=200)
    assert run.returncode == 0, run.stderr[-2000:] + run.stdout[-2000:]
    tally = Tally.read(run.stdout)
    assert tally.statements == 2000
    assert tally.slipped == []
    # The draw is worth something only if the engine reads many of them as what we fear, and the front lets others pass.
    assert tally.with_output_file >= 300
    assert tally.passed >= 100

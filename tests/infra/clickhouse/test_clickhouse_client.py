"""The client: addresses, and every vendor error translated into the project's tree with what to do next."""

from __future__ import annotations

import asyncio
import socket

import pytest

from infra.clickhouse.client import Address, ClickHouse, connect, parse_url
from schemas.errors import ConfigError, ContractError, PermanentError, TransientError


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://localhost:8123", Address(host="localhost")),
        ("http://ana:p%40ss@ch.example:9000", Address(host="ch.example", port=9000, username="ana", password="p@ss")),
        ("https://ch.example", Address(host="ch.example", port=8443, secure=True)),
    ],
)
def test_a_url_names_host_port_user_and_password(url: str, address: Address) -> None:
    assert parse_url(url) == address


@pytest.mark.parametrize("url", ["localhost:8123", "clickhouse://host", "http://", "http://host:port", "http://[::1"])
def test_a_url_of_another_kind_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ConfigError, match="http://user:password@host:8123"):
        parse_url(url)


def test_an_address_never_shows_its_password() -> None:
    assert "secret" not in repr(Address(host="h", password="secret")) + str(Address(host="h", password="secret"))


async def test_parameters_are_values_never_text_of_the_statement(empty: ClickHouse) -> None:
    async with connect(empty.address, database="default") as client:
        nasty = "'; DROP TABLE x; -- 官方 {a:String}"
        found = await client.query("SELECT {a:String} AS a, {n:Array(String)} AS n", {"a": nasty, "n": [nasty]})
        assert found.dicts() == [{"a": nasty, "n": [nasty]}]


async def test_settings_of_the_client_hold_for_every_statement(empty: ClickHouse) -> None:
    async with connect(empty.address, database="default", settings={"max_result_rows": 1}) as client:
        with pytest.raises(PermanentError, match="max"):
            await client.query("SELECT * FROM numbers(3)")


@pytest.mark.parametrize(
    ("sql", "error", "says"),
    [
        ("SELEC 1", PermanentError, "correct it.*Syntax error"),
        ("SELECT * FROM nowhere", PermanentError, "run the migrations first.*nowhere"),
        ("SELECT throwIf(number = 1, 'x') FROM numbers(2)", PermanentError, "refuses the statement"),
        ("SELECT sleepEachRow(0.2) FROM numbers(10) SETTINGS max_execution_time = 0.1", TransientError, "try again"),
    ],
)
async def test_what_the_engine_refuses_says_why_and_what_to_do(
    clickhouse: ClickHouse, sql: str, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        await clickhouse.query(sql)


async def test_a_server_that_is_away_is_a_transient_error_at_once() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        address = Address(host="127.0.0.1", port=reserved.getsockname()[1])
        async with asyncio.timeout(30), connect(address, database="newsproof") as client:
            with pytest.raises(TransientError, match="does not respond: check that it runs"):
                await client.query("SELECT 1")


async def test_statements_of_one_client_run_side_by_side(empty: ClickHouse) -> None:
    async with connect(empty.address, database="default") as client:
        found = await asyncio.gather(*(client.query("SELECT {n:UInt8}", {"n": n}) for n in range(20)))
    assert [r.rows for r in found] == [[(n,)] for n in range(20)]


async def test_the_loopback_is_reached_although_the_environment_names_a_proxy(
    empty: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("no_proxy", "intranet.example")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with connect(empty.address, database="default") as client:
        assert (await client.query("SELECT 1")).rows == [(1,)]


async def test_a_reader_may_be_kept_from_writing(clickhouse: ClickHouse) -> None:
    assert (await clickhouse.query("SELECT count() FROM events", settings={"readonly": 1})).rows == [(0,)]
    with pytest.raises(PermanentError, match=r"(?i)readonly"):
        await clickhouse.query("INSERT INTO runs (run_id) SELECT 'x'", settings={"readonly": 1})


@pytest.mark.parametrize("bad", [-1, None, 2**70, "many"])
async def test_a_value_that_no_column_can_hold_breaks_the_contract(clickhouse: ClickHouse, bad: object) -> None:
    with pytest.raises(ContractError, match="a row does not fit its table"):
        await clickhouse.insert("outcomes", ("case_id", "horizon_s"), [("a", bad)])


@pytest.mark.parametrize(("status", "error"), [(503, TransientError), (429, TransientError), (404, PermanentError)])
async def test_a_gateway_that_answers_instead_of_clickhouse_is_judged_by_its_status(
    status: int, error: type[Exception]
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status} x\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy".encode())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as gateway:
        address = Address(host="127.0.0.1", port=gateway.sockets[0].getsockname()[1])
        async with connect(address, database="newsproof") as client:
            with pytest.raises(error, match="busy"):
                await client.insert("runs", ("run_id",), [("a",)])

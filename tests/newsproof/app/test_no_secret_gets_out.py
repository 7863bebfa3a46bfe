"""Canaries in every secret setting, providers that repeat what they were sent, and a look into everything that is kept or
shown: no canary is anywhere."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from pydantic import SecretStr

from infra.clickhouse.client import connect
from infra.embedded.child import ChildProcess
from infra.embedded.clickhouse.server import EmbeddedClickHouse
from infra.embedded.clickhouse.wire import EngineUser
from infra.kafka.topics import KafkaAddress, offsets_of, read_range, topic_specs
from infra.settings import Settings
from newsproof.sdk.client import publish
from schemas.topics import Topics
from streams.audit.audit import audit
from streams.journal.log import KafkaLog
from tests.infra.fakes.server import FakeServer, Say
from tests.infra.kafka.secured_kafka import Secured, secured_kafka
from tests.newsproof.command import COMMAND, NOBODY_OUTSIDE, environment, health_of, newsproof

pytestmark = pytest.mark.slow

OF_A_GATEWAY = {"openai_key": "openai_key_tuzi", "bot_secret": "bot_secret_my_bot"}
"""The keys of gateways and the secrets of bots are one setting each."""
SECRETS = {
    OF_A_GATEWAY.get(name, name): f"Canary/{number}+{name.replace('_', '-')}~{os.urandom(6).hex()}"
    for number, name in enumerate(Settings.model_fields)
    if "SecretStr" in str(Settings.model_fields[name].annotation)
}
OF_CLICKHOUSE = f"Canary-clickhouse-{os.urandom(6).hex()}"
CANARIES = (*SECRETS.values(), OF_CLICKHOUSE)
DRAFT = {
    "event_type": "hack", "asset": "ETH", "asset_name": "Ether", "action": "sell", "direction": "short",
    "confidence": 0.9, "strength": "high", "timeframe": "short", "risk_flags": [], "entity": "Bybit", "spam": False,
}  # fmt: skip
ITEMS = [
    {
        "source": "canary",
        "external_id": str(n),
        "text": f"Bybit cold wallet {n} hacked, 400,000 ETH drained, the exchange says",
        "published_at": "2025-02-21T16:00:00Z",
    }
    for n in range(1)
]


class Parrot:
    """Answers every request with all that it was sent: first as an error, then as content."""

    def __init__(self, *, search: bool) -> None:
        self._search = search
        self._asked = 0
        self.server = FakeServer(self)

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = self.server.requests[-1]
        words = " ".join([asked.path, *(f"{n}: {v}" for n, v in asked.headers.items())])
        self._asked += 1
        await self._answer(words, asked.body.decode("utf-8", "replace")).respond(reader, writer)

    def _answer(self, words: str, body: str) -> Say:
        sent_back = {"x-you-said": words[:2000]}
        if self._asked % 3 == 1:
            error = {"code": 503, "message": words, "status": "UNAVAILABLE"}
            return Say({"error": error, "detail": {"error": words}}, status=503, headers=sent_back)
        if self._search:
            found = {"title": words[-150:], "url": "https://example.org/a", "content": words, "score": 0.9}
            return Say(
                {"query": "q", "results": [found], "response_time": 1.0, "usage": {"credits": 1}}, headers=sent_back
            )
        if "decide_next_tools" in body:
            args = {"tools": ["search"], "reason": words, "search_keywords": "bybit hack"}
            part: dict[str, Any] = {"functionCall": {"name": "decide_next_tools", "args": args}}
        else:
            part = {"text": json.dumps(DRAFT | {"summary": words[-250:], "notes": words})}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        return Say(
            {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-pro"}, headers=sent_back
        )


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    password = SECRETS["kafka_sasl_password"]
    with secured_kafka(tmp_path_factory.mktemp("canary"), password=password) as secured:
        yield secured


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of an engine whose one user has a password."""
    users = (EngineUser("newsproof", OF_CLICKHOUSE),)
    server = EmbeddedClickHouse(tmp_path_factory.mktemp("canary-tables"), users=users, memory_bytes=1024**3)
    asyncio.run(server.start())
    yield f"{server.host}:{server.port}"
    asyncio.run(server.stop())


@pytest.mark.timeout(420)  # fourteen commands, one after the other
async def test_no_canary_is_found_in_any_topic_log_table_page_or_output(
    broker: Secured, engine: str, topics: Topics, tmp_path: Path
) -> None:
    address = broker.address(kafka_sasl_password=SECRETS["kafka_sasl_password"])
    database = topics.prefix.replace(".", "_")
    gemini, tavily = Parrot(search=False), Parrot(search=True)
    async with AsyncExitStack() as stack:
        models, search = [await stack.enter_async_context(p.server) for p in (gemini, tavily)]
        settings = environment(
            **{name.upper(): value for name, value in SECRETS.items()},
            KAFKA_BOOTSTRAP_SERVERS=broker.login, KAFKA_SECURITY_PROTOCOL="SASL_SSL", KAFKA_SASL_MECHANISM="PLAIN",
            KAFKA_SASL_USERNAME="worker", KAFKA_SSL_CA_FILE=str(broker.files / "authority.pem"),
            CLICKHOUSE_URL=f"http://newsproof:{OF_CLICKHOUSE}@{engine}", CLICKHOUSE_DATABASE=database,
            NEWSPROOF_MODE="live", NEWSPROOF_TOPIC_PREFIX=topics.prefix, NEWSPROOF_DATA_DIR=str(tmp_path / "data"),
            GEMINI_BASE_URL=models.url, TAVILY_BASE_URL=search.url, TOPIC_PARTITIONS="2", METRICS_PORT="0",
            DEEP_ANALYSIS_TOOLS_ENABLED="true", PHASE1_ROLLOUT_PERCENTAGE="1.0", LOG_LEVEL="DEBUG", WORKER_SLOT="0",
            **(NOBODY_OUTSIDE | {"BOCHA_BASE_URL": search.url}),
        )  # fmt: skip
        texts = await ran(stack, settings, address, topics, tmp_path)
    assert any("x-goog-api-key" in r.headers for r in models.requests), "the model was asked, with its key"
    assert search.requests, texts["topic cases"][-3000:]
    assert any(SECRETS["tavily_api_key"] in str(r.headers) + r.body.decode() for r in search.requests)
    texts |= await asyncio.to_thread(outputs, settings, tmp_path)
    texts |= await tables(f"http://newsproof:{OF_CLICKHOUSE}@{engine}", database)
    for where, text in texts.items():
        for form in (
            form for canary in CANARIES for form in (canary, quote(canary, safe=""), json.dumps(canary)[1:-1])
        ):
            assert form not in text, f"{form} is in {where}: …{text[max(0, text.find(form) - 200) :][:400]}…"
    assert "[secret]" in texts["topic cases"], "what the providers repeated did come through here"


async def ran(
    stack: AsyncExitStack, settings: dict[str, str], address: KafkaAddress, topics: Topics, directory: Path
) -> dict[str, str]:
    """Run a worker and the sink on one news item, and return what they kept and said."""
    logs = {name: directory / f"{name}.log" for name in ("worker", "sink")}
    running = []
    for name, log in logs.items():
        process = ChildProcess(name, [*COMMAND, name], log_file=log, cwd=directory, env=settings)
        process.start()
        running.append(process)
        stack.push_async_callback(process.stop)
    data, files = Path(settings["NEWSPROOF_DATA_DIR"]), ("worker-0", "sink")
    pages = {
        name: await said_where(data, file, process) for name, file, process in zip(logs, files, running, strict=True)
    }
    await publish([*ITEMS], kafka=address, prefix=topics.prefix)
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        while await has_work(http, pages["worker"]):
            assert all(process.running for process in running), running[0].log_tail()
            await asyncio.sleep(0.3)
        report = await audit(KafkaLog(address), topics)
        assert (report.cases, report.open) == (len(ITEMS), 0)
        while await behind(http, pages["sink"]):  # noqa: ASYNC110 - another process, which tells only when asked
            await asyncio.sleep(0.3)
        shown = {f"{n}{p}": (await http.get(at + p)).text for n, at in pages.items() for p in ("/metrics", "/readyz")}
    for process in running:
        await process.stop()
    shown |= {f"log of {name}": log.read_text("utf-8") for name, log in logs.items()}
    names = topic_specs(topics, partitions=2)
    return shown | {f"topic {name.removeprefix(topics.prefix)}": await records(address, name) for name in names}


async def has_work(http: httpx.AsyncClient, page: str) -> bool:
    """Whether the worker has a case to open or to end."""
    lines = (await http.get(f"{page}/metrics")).text.splitlines()
    return not {f"newsproof_cases_opened_total {len(ITEMS)}.0", "newsproof_open_cases 0.0"} <= set(lines)


async def behind(http: httpx.AsyncClient, page: str) -> bool:
    """Whether the sink has anything left to insert. Its lag is that of its last fetch, so it has to be seen twice."""
    lag = [lags((await http.get(f"{page}/metrics")).text) for _ in range(2)]
    return not all(found and max(found) == 0 for found in lag)


async def said_where(data: Path, name: str, process: ChildProcess) -> str:
    while not (file := data / "metrics" / f"{name}.json").exists():
        assert process.running, process.log_tail()
        await asyncio.sleep(0.1)
    return health_of(file)


def lags(metrics: str) -> list[float]:
    return [float(line.rpartition(" ")[2]) for line in metrics.splitlines() if line.startswith("newsproof_sink_lag{")]


async def records(address: KafkaAddress, topic: str) -> str:
    found = [
        (record.key, record.value, record.headers)
        async for _, some in read_range(address, await offsets_of(address, topic))
        for record in some
    ]
    return "\n".join(f"{k!r} {v.decode('utf-8', 'replace') if v else ''} {h!r}" for k, v, h in found)


def outputs(settings: dict[str, str], directory: Path) -> dict[str, str]:
    """What commands print: those that show settings, and those that fail at servers, passwords and settings."""
    config, doctor, letters = ("config",), ("doctor",), ("dlq", "list")
    sql = ("--debug", "sql", "SELECT 1")
    wrong_password = {"KAFKA_SASL_PASSWORD": SECRETS["gemini_api_key"]}
    nowhere = {"CLICKHOUSE_URL": f"http://newsproof:{OF_CLICKHOUSE}@127.0.0.1:1"}
    broken = {"CLICKHOUSE_URL": f"nonsense://newsproof:{OF_CLICKHOUSE}@[::1"}
    shown = {}
    for name, changes, commands in (
        ("as it is", {}, (config, ("config", "--json"), doctor, sql, letters)),
        ("a wrong password", wrong_password, (doctor, letters)),
        ("no ClickHouse", nowhere, (doctor, sql)),
        ("a broken address", broken, (config, doctor, sql)),
        ("a broken setting", {"METRICS_PORT": "many"}, (config, sql)),
    ):
        for command in commands:
            done = newsproof(*command, cwd=directory, env=settings | changes)
            shown[f"{' '.join(command)} with {name}"] = done.stdout + done.stderr
    return shown


async def tables(url: str, database: str) -> dict[str, str]:
    """Every row of every table."""
    async with connect(url, database=database) as client:
        names = [row[0] for row in (await client.query("SHOW TABLES")).rows]
        found = {f"table {name}": repr((await client.query(f"SELECT * FROM {name}")).rows) for name in names}
    assert len(found["table events"]) > 1000, "the tables are filled"
    return found


def test_every_secret_setting_has_a_canary() -> None:
    assert {"gemini_api_key", "tavily_api_key", "kafka_sasl_password", "kafka_ssl_key_password"} <= set(SECRETS)
    assert all(not isinstance(field.default, SecretStr) for field in Settings.model_fields.values())

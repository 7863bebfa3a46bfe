"""The services around a live research chat, all local: a model server with two wire formats, and market sources."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import orjson

from tests.infra.fakes import gemini, openai
from tests.infra.fakes import market as fake
from tests.infra.fakes.market import DOWN, SOURCES, Routed
from tests.infra.fakes.server import Behaviour, FakeServer, Received, Say, _receive

AGENTS = ("research_macro", "research_ta", "research_onchain")
_TASK_OF = {
    **{"SuperAgent": "research_route", "PlanningAgent": "research_plan", "GeneralAnalysisAgent": "research_answer"},
    **{"MacroAgent": "research_macro", "TAAgent": "research_ta", "OnChainAgent": "research_onchain"},
}
_FACTS = re.compile(r"^Facts computed by code: (\{.*\})$", re.MULTILINE)
_DAY, _STEP = timedelta(days=1), timedelta(minutes=5)


class Asked(msgspec.Struct, frozen=True):
    """One model call as received over the wire. ``words``: everything that the model read.

    ``temperature`` None: none was sent.
    """

    provider: str
    model: str
    task: str
    temperature: float | None
    max_tokens: int
    words: str

    @property
    def facts(self) -> dict[str, Any]:
        found = _FACTS.search(self.words)
        assert found is not None, self.words
        return json.loads(found[1])  # type: ignore[no-any-return]


class Models(FakeServer):
    """Responds to each task as Gemini or an OpenAI-compatible endpoint would, depending on the address.

    ``away``: (model, task) that get a 503. ``says``: fields that replace those of a task's plain reply.
    """

    def __init__(self, *away: tuple[str, str], **says: Mapping[str, Any]) -> None:
        super().__init__(DOWN)
        self.asked: list[Asked] = []
        self._away, self._says = away, says

    def of(self, task: str) -> list[Asked]:
        """Every call of one task, in order."""
        return [one for one in self.asked if one.task == task]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            try:
                while not writer.is_closing():
                    request = await _receive(reader)
                    asked = _asked(request)
                    self.asked.append(asked)
                    await self._answer(asked).respond(reader, writer)
            finally:
                writer.close()

    def _answer(self, asked: Asked) -> Say:
        if (asked.model, asked.task) in self._away:
            overloaded = "The model is overloaded."
            return gemini.error(503, "UNAVAILABLE", overloaded) if asked.provider == "gemini" else openai.error(503)
        text = orjson.dumps({**_plain(asked), **self._says.get(asked.task, {})}).decode()
        if asked.provider == "gemini":
            return gemini.text(text, modelVersion=asked.model)
        return openai.text(text, model=asked.model)


def _asked(request: Received) -> Asked:
    body = request.json
    if request.path.endswith(":generateContent"):
        system = "".join(part["text"] for part in body["systemInstruction"]["parts"])
        said = "\n\n".join(part["text"] for content in body["contents"] for part in content["parts"])
        config, model = body["generationConfig"], request.path.split("/models/")[1].partition(":")[0]
        provider, warmth, most = "gemini", config.get("temperature"), config["maxOutputTokens"]
    else:
        assert request.path.endswith("/chat/completions"), request.path
        system, said = (message["content"] for message in body["messages"])
        provider, model, warmth, most = "openai", body["model"], body["temperature"], body["max_tokens"]
    name = re.match(r"You are (\w+)", system)
    assert name is not None, system
    return Asked(provider, model, _TASK_OF[name[1]], warmth, most, f"{system}\n\n{said}")


def _plain(asked: Asked) -> dict[str, Any]:
    if asked.task == "research_route":
        return {"decision": "COMPLEX_ANALYSIS", "reasoning": "needs figures", "confidence": 0.9, "direct_answer": ""}
    if asked.task == "research_plan":
        agents = ["MacroAgent", "TAAgent", "OnChainAgent"]
        tasks = [{"agent": a, "reason": "r", "priority": "high", "data_required": ["price", "signals"]} for a in agents]
        order = {"parallel_agents": agents, "sequential_after": [], "estimated_time": "a minute"}
        return {"asset": "BTC", "task_breakdown": tasks, "execution_strategy": order, "reasoning": "an outlook"}
    facts = asked.facts
    figures = [f"{name} stands at {figure['value']}" for name, figure in facts["figures"].items()]
    if asked.task == "research_answer":
        cites = "".join(f"[{source['number']}]" for source in facts["sources"])
        return {
            **{"answer": f"Mixed: {'; '.join(figures)} {cites}.", "summary": "Mixed.", "confidence": 0.8},
            "key_insights": [],
        }
    weighed = [{"name": name, "impact": "BULLISH", "weight": 0.5} for name in facts["figures"]]
    return {
        **{"signal": "BULLISH", "confidence": 0.8, "reasoning": "; ".join(figures), "indicators": weighed},
        **{"key_factors": figures[:1], "risk_assessment": "none"},
    }


class Market:
    """The fake sources' data as of now. ``served``: every figure in it as written, and all their sums and changes."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)
        self.midnight = self.now.replace(hour=0, minute=0, second=0, microsecond=0)
        self.served: set[float] = {0.0}  # most of them are the same every day
        self.routes: dict[str, dict[str, Behaviour]] = {
            "coinbase": {"granularity=300&": self._prices(), "granularity=86400&": self._bars()},
            "fear_greed": {"": self._mood()},
            "fred": self._fred(),
            "blockchain_info": self._charts(),
            "defillama_stablecoins": {"": self._stablecoins()},
            "coinmetrics": {"": self._flows()},
        }

    def _of(self, value: float) -> float:
        self.served.add(float(value))
        return value

    def _days(self, count: int, last: int = 1) -> list[str]:
        """The dates of this many days, up to ``last`` days ago."""
        return [f"{self.midnight - timedelta(days=last + count - 1 - n):%Y-%m-%d}" for n in range(count)]

    def _prices(self) -> Say:
        """Five-minute prices, including future ones, at values that no past price has."""
        rows = []
        for n in range(-12, 312):
            began = self.now - (n + 1) * _STEP
            close = self._of(70_000.5 - n) if n >= 0 else 99_999.25
            rows.append([int(began.timestamp()), close - 20.25, close + 30.75, close, close, self._of(1.5 + n)])
            self.served |= {close - 20.25, close + 30.75} if n >= 0 else set()
        return Say(rows)

    def _bars(self) -> Say:
        rows = []
        for n in range(-1, 280):  # today's bar is not complete
            close = 60_000.25 + 100 * (n % 7) - n
            began = int((self.midnight - (n + 1) * _DAY).timestamp())
            rows.append([began, close - 300, close + 300, close - 50, close, 1_000.5 + n])
        return Say([row for row in rows if row[0] < self.now.timestamp()])

    def _mood(self) -> Say:
        self.served.add(7.0)  # its change over a week
        return fake.mood(*((day, str(int(self._of(20.0 + n)))) for n, day in enumerate(self._days(12, 0))))

    def _fred(self) -> dict[str, Behaviour]:
        days = self._days(70, 0)
        told = {"DFF": 4.33, "DGS10": 4.12, "DTWEXBGS": 121.5}
        series: dict[str, Behaviour] = {
            f"id={name}&": fake.fred(name, *((day, str(self._of(value))) for day in days))
            for name, value in told.items()
        }
        first = (self.midnight - timedelta(days=600)).replace(day=1)
        months = [first + timedelta(days=31 * n) for n in range(20)]
        growth = self._of(5.0)  # % a year, all of it at once
        rows = [(f"{month:%Y-%m}-01", str(20_000 + (n // 12) * 200 * growth)) for n, month in enumerate(months)]
        return {**series, "id=M2SL&": fake.fred("M2SL", *rows)}

    def _charts(self) -> dict[str, Behaviour]:
        told = {
            **{"n-unique-addresses": 512_345.0, "n-transactions": 401_234.0, "mvrv": 2.17, "hash-rate": 6.1e8},
            "estimated-transaction-volume-usd": 8.25e9,
        }
        return {f"/charts/{c}": fake.chart(*((d, self._of(v)) for d in self._days(10))) for c, v in told.items()}

    def _stablecoins(self) -> Say:
        days = [(str(fake.epoch(day)), self._of(2.5e11)) for day in self._days(10)]
        return Say([{"date": day, "totalCirculatingUSD": {"peggedUSD": value}} for day, value in days])

    def _flows(self) -> Say:
        into, out = self._of(107.5), self._of(90.25)
        self.served |= {into - out, 7 * (into - out)}
        days = [{"time": day, "FlowInExUSD": str(into), "FlowOutExUSD": str(out)} for day in self._days(12)]
        return fake.coinmetrics("btc", *days)


@asynccontextmanager
async def outside(
    market: Market, models: Models, *, down: frozenset[str] = frozenset()
) -> AsyncIterator[tuple[dict[str, str], dict[str, Routed]]]:
    """Serve all of it; return settings with the addresses, and the sources' servers. ``down``: unavailable sources."""
    async with AsyncExitStack() as stack:
        at = await stack.enter_async_context(models)
        servers = {}
        for name in SOURCES:
            routes = {} if name in down else market.routes.get(name, {})
            servers[name] = await stack.enter_async_context(Routed(routes))
        found = {f"{name}_base_url": server.url for name, server in servers.items()}
        yield {**found, "gemini_base_url": at.url, "openai_base_url": f"{at.url}/v1"}, servers

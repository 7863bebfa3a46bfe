"""The adapters of chaos workers: they call the provider process and translate its failures as real adapters do."""

from __future__ import annotations

import asyncio
import itertools
from decimal import Decimal
from typing import Any

import msgspec
from msgspec.structs import replace

from infra.clickhouse.client import ClickHouse
from infra.ports import Answer, Port, Ports
from infra.settings import Settings
from lab.chaos.graph import PROVIDERS
from lab.chaos.inflight import InFlight
from newsproof.app.research_composition import research_ports_of
from schemas.calls import ProviderMode
from schemas.effects import CallModel, Effect, ModelReply, Reply, Search, SearchReply, request_hash
from schemas.errors import PermanentError, TransientError

TIMEOUT_S = 2.0
MODEL_COST_USD = Decimal("0.00002")
SEARCH_COST_USD = Decimal("0.00001")


class ProviderClient(asyncio.Protocol):
    """One connection for all calls of a worker. Connects at the first call and reconnects after a loss."""

    def __init__(self, port: int, inflight: InFlight) -> None:
        self._port, self._inflight = port, inflight
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._transport: asyncio.Transport | None = None
        self._connecting = asyncio.Lock()
        self._rest = b""

    async def ask(self, kind: str, request: str) -> bytes:
        """Send one call and return ``<status> <body>``.

        Raises:
            TransientError: no response in time, or no connection.
        """
        number = next(self._numbers)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            transport = await self._connected()
            self._inflight.call_begins()
            transport.write(b"%d %s %s\n" % (number, kind.encode(), request.encode()))
            async with asyncio.timeout(TIMEOUT_S):
                return await answer
        except TimeoutError as exc:
            raise TransientError(f"no response within {TIMEOUT_S} s", kind="timeout") from exc
        except OSError as exc:
            raise TransientError("the provider process cannot be reached: see its log", kind="network") from exc
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def _connected(self) -> asyncio.Transport:
        if self._transport is None:
            async with self._connecting:
                if self._transport is None:
                    loop = asyncio.get_running_loop()
                    await loop.create_connection(lambda: self, "127.0.0.1", self._port)
        assert self._transport is not None
        return self._transport

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._rest = b""

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the pending calls; the next call reconnects."""
        self._transport = None
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionResetError("the connection to the provider process was lost"))

    def data_received(self, data: bytes) -> None:
        """Resolve the pending call of each complete line."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            number, _, rest = line.partition(b" ")
            answer = self._waiting.get(int(number))
            if answer is not None and not answer.done():
                answer.set_result(rest)


class ChaosPort(Port):
    """One provider of the provider process. Mode ``simulated`` in every call record."""

    mode: ProviderMode = "simulated"

    def __init__(self, client: ProviderClient, provider: str) -> None:
        self._client = client
        self.provider = provider

    async def perform(self, effect: Any) -> Answer:
        kind = "model" if isinstance(effect, CallModel) else "search"
        response = await self._client.ask(kind, request_hash(effect))
        body = _checked(response)
        model = isinstance(effect, CallModel)
        return Answer(
            reply=_reply(effect, body),
            cost_usd=self.worst_case_usd(effect),
            cost_source="chaos",
            model="chaos" if model else None,
            usage_input_tokens=10 if model else 0,
            usage_output_tokens=10 if model else 0,
        )

    def worst_case_usd(self, effect: Any) -> Decimal | None:
        """Return the fixed price of a call."""
        return MODEL_COST_USD if isinstance(effect, CallModel) else SEARCH_COST_USD

    def quota_units(self, effect: Any) -> int:
        return int(isinstance(effect, Search))

    async def close(self) -> None:
        await self._client.close()


class BehindProvider(ChaosPort):
    """An offline adapter behind the provider process, which counts each of its calls and may fail it."""

    def __init__(self, client: ProviderClient, inner: Port) -> None:
        super().__init__(client, inner.provider)
        self._inner, self.mode = inner, inner.mode

    async def perform(self, effect: Any) -> Answer:
        _checked(await self._client.ask("research", request_hash(effect)))
        answer = await self._inner.perform(effect)
        return replace(answer, cost_usd=self.worst_case_usd(effect), cost_source="chaos")


def _checked(response: bytes) -> Any:
    status, _, body = response.partition(b" ")
    match status:
        case b"200":
            try:
                return msgspec.json.decode(body)
            except msgspec.DecodeError as exc:
                raise TransientError("the response is not JSON", kind="invalid_output") from exc
        case b"429":
            raise TransientError("too many calls", kind="rate_limit", status=429, retry_after_s=float(body))
        case b"503":
            raise TransientError("the provider is away", kind="unavailable", status=503)
        case _:
            raise PermanentError(f"the provider answered {status!r}: see lab.chaos.provider")


def _reply(effect: Effect, body: Any) -> Reply:
    if isinstance(effect, Search):
        return SearchReply(provider=effect.provider, query=effect.query, results=())
    return ModelReply(text=str(body.get("text", "")))


def chaos_ports(client: ProviderClient) -> Ports:
    """Return the ports of a chaos worker. The chaos graph has no recall step."""
    model = ChaosPort(client, "chaos")
    search: dict[str, Port] = {name: ChaosPort(client, name) for name in PROVIDERS}
    return Ports(models={"light": model, "heavy": model}, search=search, recall=model, earlier=model)


def research_ports(settings: Settings, clickhouse: ClickHouse, client: ProviderClient) -> Ports:
    """Return the offline ports of the research flow, with its models and searches behind the provider process."""
    ports = research_ports_of(settings, clickhouse)
    ports.models = {name: BehindProvider(client, port) for name, port in ports.models.items()}
    ports.search = {name: BehindProvider(client, port) for name, port in ports.search.items()}
    return ports

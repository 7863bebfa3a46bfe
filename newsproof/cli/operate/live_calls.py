"""``newsproof doctor --live``: one cheap call to every provider and model that live mode calls, and its result."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Literal

import msgspec

from agents.core.model_calls import MAX_NEWS_CHARACTERS
from agents.evidence.passages import PASSAGE
from agents.prompts import every_task
from infra.http import Overheard, UselessAnswerError, overhearing
from infra.market.ports import live_market, live_research
from infra.models import routes
from infra.models.embeddings import embedder_of
from infra.models.embeddings.port import Embedded, Embedder
from infra.models.listing import ListedModel, ListsModels
from infra.ports import Answer, Port
from infra.redaction import redacted
from infra.search import FEEDS
from infra.settings import Settings
from newsproof.app.composition import live_models, live_pages, live_search, opens_pages
from schemas.effects import (
    CallModel,
    Effect,
    Failure,
    FetchMarket,
    MarketReply,
    ModelReply,
    PageReply,
    Scrape,
    Search,
    SearchReply,
    Trusted,
)
from schemas.errors import ConfigError, NewsproofError, PermanentError, TransientError
from streams.effects.host import may_have_cost

State = Literal["ok", "note", "missing"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one check. ``missing`` must be fixed; ``note`` is for information."""

    name: str
    state: State
    found: str
    do: str = ""


def ok(name: str, found: str, do: str = "") -> Check:
    return Check(name=name, state="ok", found=found, do=do)


def note(name: str, found: str, do: str = "") -> Check:
    return Check(name=name, state="note", found=found, do=do)


def missing(name: str, found: str, do: str = "") -> Check:
    return Check(name=name, state="missing", found=found, do=do)


class CallCheck(Check, frozen=True, kw_only=True):
    """Result of one call of ``doctor --live``. ``worst_usd``: announced maximum cost. ``cost_usd``: actual cost. None: unknown.

    ``model``: the provider's name for it. ``quota``: remaining calls and tokens, from the response's headers. ``skew_s``: our
    clock minus the server's, to the second; None: its response has no date.
    """

    answered: bool
    latency_ms: float
    worst_usd: Decimal | None
    cost_usd: Decimal | None
    model: str | None = None
    quota: tuple[str, ...] = ()
    skew_s: float | None = None


PAGE = "https://example.com/"
"""A page that IANA maintains for uses like this (RFC 2606)."""
ASSET, QUERY = "BTC", "bitcoin"
_ASK = CallModel(
    task="doctor",
    tier="light",
    prompt_name="doctor",
    prompt_version="1",
    prompt_hash="",
    system="",
    parts=(Trusted('Answer with {"ok": true}.'),),
    max_output_tokens=64,
    response_schema={
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    },
)


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call. Calls to the same ``provider`` run one after another. ``model``: as configured; empty if there is none."""

    name: str
    provider: str
    model: str = ""
    worst_usd: Decimal | None
    ask: Callable[[], Awaitable[Answer | Embedded]]


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """One provider's list of models, which is free. ``wanted``: its configured models."""

    provider: str
    wanted: tuple[str, ...]
    port: ListsModels
    keyless: bool
    """A local server without a key: its list may be read without --live."""


class CallPlan(msgspec.Struct, frozen=True):
    """Calls to make. None has been made yet."""

    calls: tuple[Call, ...] = ()
    lists: tuple[ModelList, ...] = ()
    ports: tuple[Port | Embedder, ...] = ()

    async def close(self) -> None:
        """Close the adapters. Idempotent."""
        for port in self.ports:
            await port.close()

    def question(self) -> str:
        """Return the number of calls and their maximum cost, as a sentence without its full stop."""
        known = sum((call.worst_usd for call in self.calls if call.worst_usd is not None), Decimal(0))
        unknown = sum(call.worst_usd is None for call in self.calls)
        beside = f", and {unknown} of unknown price" if unknown else ""
        return f"This makes {len(self.calls)} call(s), at most {known.normalize():f} USD{beside}"


def plan_calls(settings: Settings) -> CallPlan:
    """Return the calls that live mode makes with these settings; none in other modes.

    Raises:
        ConfigError: no worker could start with these settings; the text says what to correct.
    """
    if settings.mode != "live":
        return CallPlan()
    models = _models(settings)
    calls = [_call(port, _ASK, f"{provider}:{model}", provider, model) for (provider, model), port in models.items()]
    others, ports = _others(settings)
    return CallPlan((*calls, *others), _lists(settings, models), (*models.values(), *ports))


Models = dict[tuple[str, str], Port]
"""Adapters by (provider, model), as the settings name them."""


def _models(settings: Settings) -> Models:
    first, behind = live_models(settings)
    adapters: Models = {}
    for name, route in routes(settings, every_task()).items():
        adapters |= dict(zip(route, (first[name], *behind.get(name, ())), strict=True))
    return adapters


def _lists(settings: Settings, models: Models) -> tuple[ModelList, ...]:
    endpoints, by_provider = settings.endpoints(), dict[str, ModelList]()
    for (provider, _), port in models.items():
        if provider not in by_provider and isinstance(port, ListsModels):
            wanted = tuple(model for its, model in models if its == provider)
            keyless = provider in endpoints and endpoints[provider].local and endpoints[provider].key is None
            by_provider[provider] = ModelList(provider=provider, wanted=wanted, port=port, keyless=keyless)
    return tuple(by_provider.values())


def _others(settings: Settings) -> tuple[list[Call], list[Port | Embedder]]:
    now = datetime.now(UTC).replace(microsecond=0)
    calls, ports = list[Call](), list[Port | Embedder]()
    searches = live_search(settings) if settings.tool_search_enabled else {}
    for name, search in searches.items():
        ports.append(search)
        if name == FEEDS:
            continue  # reads our own log and makes no call; `newsproof doctor` checks it without --live
        calls.append(_call(search, Search(provider=name, query=QUERY, max_results=1, as_of=now), f"search, {name}"))
    if (embedder := embedder_of(settings)) is not None:
        ports.append(embedder)
        calls.append(_vector(embedder))
    if opens_pages(settings):
        ports.append(pages := live_pages(settings))
        calls.append(_call(pages, Scrape(url=PAGE), "pages"))
    ports.append(market := live_market(settings))
    if settings.tool_price_enabled:
        calls.append(_call(market, FetchMarket(kind="price", asset=ASSET, as_of=now), "price"))
    if settings.tool_macro_enabled:
        calls.append(_call(market, FetchMarket(kind="macro", asset=ASSET, as_of=now), "macro"))
    if settings.tool_onchain_enabled:
        calls.append(_call(market, FetchMarket(kind="onchain", asset=ASSET, as_of=now), "onchain"))
    ports.append(chat := live_research(settings)["market"])
    if settings.fred_api_key:
        calls.append(_call(chat, FetchMarket(kind="economy", asset=ASSET, as_of=now), "chat, economy", "chat"))
    if settings.coinmetrics_api_key:
        calls.append(_call(chat, FetchMarket(kind="network", asset=ASSET, as_of=now), "chat, network", "chat"))
    return calls, ports


def _vector(embedder: Embedder) -> Call:
    return Call(
        name=f"call (vectors, {embedder.provider}:{embedder.model})",
        provider=embedder.provider,
        model=embedder.model,
        worst_usd=embedder.worst_case_usd(QUERY),
        ask=lambda: embedder.embed(QUERY),
    )


def _call(port: Port, effect: Effect, name: str, provider: str = "", model: str = "") -> Call:
    return Call(
        name=f"call ({name})",
        provider=provider or port.provider,
        model=model,
        worst_usd=port.worst_case_usd(effect),
        ask=lambda: port.perform(effect),
    )


USUAL_CONTEXT = 8_192
"""Tokens. The longest prompt of the 42 sample items has 3,056. Its response may have 3,000, plus 1,024 for thinking."""
LONGEST_CONTEXT = MAX_NEWS_CHARACTERS + 10 * PASSAGE + 8_192
"""Tokens of the longest news, ten passages, our own text and the response. A Chinese character may be a token."""
MAX_SKEW_S = 30.0
_LEFT = re.compile(r"(?:.*-)?rate-?limit(?:-(?P<first>[\w-]+))?-remaining(?:-(?P<last>[\w-]+))?")
"""``x-ratelimit-remaining-requests`` (OpenAI, Groq, gateways), ``x-ratelimit-remaining``, ``anthropic-ratelimit-tokens-remaining``."""
_SNAPSHOT = re.compile(r"(-\d[\d-]*|[-:]latest|-preview.*|-exp.*|@.*)?")
"""Suffixes that a provider's name for a model may add to the requested name."""
_NO_LIST = {404, 405, 501}


async def make_calls(plan: CallPlan) -> list[Check]:
    """Make every call once. Return a check for each, for each list of models, and for our clock."""
    by_provider: dict[str, list[Call]] = {}
    for call in plan.calls:
        by_provider.setdefault(call.provider, []).append(call)
    heard: list[Overheard] = []
    rows = await asyncio.gather(*(_in_turn(calls, heard) for calls in by_provider.values()))
    made = [row for of_provider in rows for row in of_provider]
    calls = (call for of_provider in by_provider.values() for call in of_provider)
    answered = {(call.provider, call.model) for call, row in zip(calls, made, strict=True) if row.answered}
    # Ollama knows a model's context size once the model is loaded.
    lists = await asyncio.gather(*(check_list(model_list, heard, answered) for model_list in plan.lists))
    return [*made, *(row for of_list in lists for row in of_list), *_clock(heard), *_spent(made)]


async def _in_turn(calls: list[Call], heard: list[Overheard]) -> list[CallCheck]:
    """Make calls one after another: a local server queues them, and their latencies would add up."""
    return [await _try(call, heard) for call in calls]


async def _try(call: Call, heard: list[Overheard]) -> CallCheck:
    began, answer = time.monotonic(), None
    error: NewsproofError | Failure | None = None
    with overhearing() as here:
        try:
            answer = await call.ask()
        except UselessAnswerError as exc:
            answer = exc.answer
        except NewsproofError as exc:
            error = exc
        took_s = time.monotonic() - began
    heard += here
    if isinstance(answer, Answer) and isinstance(answer.reply, Failure):
        error = answer.reply
    model = (answer.model if isinstance(answer, Answer) else None) or call.model if answer is not None else None
    state, finding, do = _failed(error, here) if error is not None else _result(call, answer, model)
    quota = quota_left(here[-1].headers) if here else ()
    lost = call.worst_usd != 0 and isinstance(error, NewsproofError) and may_have_cost(error)
    cost = answer.cost_usd if answer is not None else None if lost else Decimal(0)
    paid = "not charged" if error is not None and cost == 0 else _usd(cost)
    finding += f", {took_s:.2f} s, {paid}" + "".join(f"; {remaining}" for remaining in quota)
    return CallCheck(
        name=call.name,
        state=state,
        found=redacted(finding),
        do=redacted(do),
        answered=error is None,
        latency_ms=round(took_s * 1000, 1),
        worst_usd=call.worst_usd,
        cost_usd=cost,
        model=model or None,
        quota=quota,
        skew_s=skew_s(here[-1]) if here else None,
    )


def _failed(error: NewsproofError | Failure, here: list[Overheard]) -> tuple[State, str, str]:
    page = any("html" in response.headers.get("content-type", "") for response in here)
    finding = f"FAILED ({getattr(error, 'kind', 'not_configured')})" + (
        ", the response is an HTML page" if page else ""
    )
    return "missing", finding, _remedy(error)


def _remedy(error: NewsproofError | Failure) -> str:
    """Return the error's text and, if the failure may pass by itself, how to check again."""
    if isinstance(error, Failure):
        text, may_pass = error.message, error.retryable
    else:
        text, may_pass = str(error), isinstance(error, TransientError | UselessAnswerError)
    return f"{text}. Check again later with `newsproof doctor --live`" if may_pass else text


def _result(call: Call, answer: Answer | Embedded | None, model: str | None) -> tuple[State, str, str]:
    if isinstance(answer, Embedded):
        return "ok", f"{call.model} returned a vector of {len(answer.vector)} numbers", ""
    reply = answer.reply if answer is not None else None
    if isinstance(reply, ModelReply):
        if model is None or is_same_model(call.model, model):
            return "ok", f"{model or call.model} responded", ""
        do = f"check that this is the model you want: {call.model} was requested"
        return "note", f"{model} responded, which is a different name", do
    if isinstance(reply, SearchReply):
        return "ok" if reply.results else "note", f"returned {len(reply.results)} result(s) for {reply.query!r}", ""
    if isinstance(reply, PageReply):
        return "ok", f"returned {len(reply.page.text)} characters of text", ""
    assert isinstance(reply, MarketReply)
    if not reply.values:
        do = f"{'; '.join(reply.unknown)}; correct its address or its key, or turn its tool off"
        return "missing", "returned no data", do
    lacking = f"; missing: {'; '.join(reply.unknown)}" if reply.unknown else ""
    return "note" if lacking else "ok", f"returned {len(reply.values)} value(s){lacking}", ""


def _usd(cost: Decimal | None) -> str:
    return "cost unknown" if cost is None else "free" if cost == 0 else f"{cost.normalize():f} USD"


def _spent(made: Iterable[CallCheck]) -> list[Check]:
    rows = list(made)
    if not rows:
        return []
    known = sum((row.cost_usd for row in rows if row.cost_usd is not None), Decimal(0))
    unknown = sum(row.cost_usd is None for row in rows)
    beside = f"; {unknown} of unknown cost, at most the price printed before" if unknown else ""
    finding = f"{len(rows)} call(s), {known.normalize():f} USD, not counted in the budget{beside}"
    return [ok("cost of this check", finding)]


def is_same_model(requested: str, named: str) -> bool:
    """Return whether the name in a response is a name of the requested model, such as its snapshot."""
    ours, theirs = (name.lower().rpartition("/")[2].removesuffix(".gguf") for name in (requested, named))
    return ours == f"{theirs}:latest" or (
        theirs.startswith(ours) and _SNAPSHOT.fullmatch(theirs, len(ours)) is not None
    )


def quota_left(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the remaining quota from rate-limit headers, such as ``requests: 4999 of 5000 left``."""
    remaining = []
    for name, left in headers.items():
        if (match := _LEFT.fullmatch(name.lower())) is None or not left.isprintable():
            continue
        limit = headers.get(name.lower().replace("remaining", "limit"))
        what = match["first"] or match["last"] or "requests"
        remaining.append(f"{what}: {left[:40]}{f' of {limit[:40]}' if limit else ''} left")
    return tuple(remaining)


def skew_s(heard: Overheard) -> float | None:
    """Return our clock minus the server's in seconds, from its Date header (RFC 9110, 6.6.1) and its cache's Age."""
    try:
        date = parsedate_to_datetime(heard.headers.get("date", ""))
        age = timedelta(seconds=int(heard.headers.get("age", "0")))
        return round((heard.at - (date + age)).total_seconds(), 1)
    except (ValueError, TypeError, OverflowError):
        return None


def _clock(heard: Iterable[Overheard]) -> list[Check]:
    skews = {response.host: skew for response in heard if (skew := skew_s(response)) is not None}
    if not skews:
        return []
    host, most = max(skews.items(), key=lambda entry: abs(entry[1]))
    if abs(most) <= MAX_SKEW_S:
        return [ok("clock", f"within {MAX_SKEW_S:g} s of {len(skews)} server(s)")]
    which = "ahead of" if most > 0 else "behind"
    do = "set this machine's clock (timedatectl set-ntp true): it dates cases and limits searches"
    return [note("clock", f"{abs(most):.0f} s {which} the clock of {host}", do)]


async def check_list(
    model_list: ModelList, heard: list[Overheard], answered: Container[tuple[str, str]] = frozenset()
) -> list[Check]:
    """Read a provider's list of models, which is free. Check that ours are in it and that our prompts fit their context.

    ``answered``: (provider, model) of the calls that succeeded before.
    """
    name = f"models of {model_list.provider}"
    with overhearing() as here:
        try:
            models = await model_list.port.listed_models()
        except NewsproofError as exc:
            return [_no_list(name, exc)]
    heard += here
    return [
        _listed(name, model_list, model, models, (model_list.provider, model) in answered)
        for model in model_list.wanted
    ]


async def refuse_silent_servers(plan: CallPlan) -> None:
    """Read the model lists of local servers, which is free.

    Raises:
        ConfigError: a server does not respond, or lacks a configured model; the text says what to do.
    """
    try:
        rows = [row for model_list in plan.lists if model_list.keyless for row in await check_list(model_list, [])]
    finally:
        await plan.close()
    if unmet := [f"{row.name}: {row.found}; {row.do}" for row in rows if row.state == "missing"]:
        raise ConfigError("\n".join(unmet))


def _no_list(name: str, exc: NewsproofError) -> Check:
    if isinstance(exc, PermanentError) and exc.status in _NO_LIST:
        return note(name, f"it has no model list ({exc.status}), so the names were not checked")
    kind = exc.kind if isinstance(exc, PermanentError | TransientError) else "invalid_output"
    return missing(name, f"no list ({kind})", redacted(_remedy(exc)))


def _listed(name: str, model_list: ModelList, model: str, models: tuple[ListedModel, ...], answered: bool) -> Check:
    by_name = {entry.name: entry for entry in models}
    entry = by_name.get(model.removeprefix("models/")) or by_name.get(f"{model}:latest")
    if entry is None and model_list.provider == "llamacpp" and len(models) == 1:
        entry = models[0]  # llama-server with one model ignores the name
    if entry is None and answered:
        return note(name, f"{model} is not among its {len(models)} models, but it responded")
    if entry is None:
        return missing(name, f"{model} is not among its {len(models)} models", _instead(model, by_name))
    state, words, do = _holds(model_list, entry)
    return Check(name=name, state=state, found=f"{model} is among its {len(models)} models{words}", do=do)


def _instead(model: str, names: Iterable[str]) -> str:
    family = re.split(r"[-.:/\d]", model)[0]
    near = sorted(name for name in names if family and family in name)[:12] or sorted(names)[:12]
    return f"choose another one in MODEL_LIGHT, MODEL_HEAVY or MODEL_TASKS, such as {', '.join(near) or 'one that you load'}"


def _holds(model_list: ModelList, entry: ListedModel) -> tuple[State, str, str]:
    if entry.context is None:
        return "ok", ", context size unknown", ""
    words = f", {entry.context:,} tokens of context"
    if entry.context >= LONGEST_CONTEXT:
        return "ok", words, ""
    do = {"ollama": "OLLAMA_CONTEXT_LENGTH={} ollama serve", "llamacpp": "llama-server -c {}"}.get(model_list.provider)
    if entry.context < USUAL_CONTEXT:
        text = (do or "choose a model with {} tokens or more").format(2 * USUAL_CONTEXT)
        return "missing", f"{words}: too few for ordinary prompts and their responses", text
    text = (do or "choose a model with {} tokens or more").format(LONGEST_CONTEXT)
    return "note", f"{words}: too few for the longest news", f"{text}, if you receive such news"

"""``newsproof doctor --live``: makes the planned calls, and says of each what answered, how fast, at what cost."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Container, Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime

from agents.core.model_calls import MAX_NEWS_CHARACTERS
from agents.evidence.passages import PASSAGE
from infra.http import Overheard, UselessAnswerError, overhearing
from infra.models.embeddings.port import Embedded
from infra.models.listing import ListedModel
from infra.ports import Answer
from infra.redaction import redacted
from newsproof.cli.doctor.calls import Call, ModelList, Plan
from newsproof.cli.doctor.check import Check, State, Tried
from schemas.effects import Failure, MarketReply, ModelReply, PageReply, SearchReply
from schemas.errors import ConfigError, NewsproofError, PermanentError, TransientError
from streams.effects.host import may_have_cost

USUAL_CONTEXT = 8_192
"""Tokens. The longest prompt of the 42 sample items has 3,056; its answer may have 3,000, thinking 1,024 beside it."""
LONGEST_CONTEXT = MAX_NEWS_CHARACTERS + 10 * PASSAGE + 8_192
"""Tokens of the longest news, ten passages, our own words and the answer. A Chinese character may be a token."""
MAX_SKEW_S = 30.0
_LEFT = re.compile(r"(?:.*-)?rate-?limit(?:-(?P<first>[\w-]+))?-remaining(?:-(?P<last>[\w-]+))?")
"""``x-ratelimit-remaining-requests`` (OpenAI, Groq, gateways), ``x-ratelimit-remaining``, ``anthropic-ratelimit-tokens-remaining``."""
_SNAPSHOT = re.compile(r"(-\d[\d-]*|[-:]latest|-preview.*|-exp.*|@.*)?")
"""How a provider's name for what answered may go on after the name that was asked for."""
_NO_LIST = {404, 405, 501}


async def tried(plan: Plan) -> list[Check]:
    """Make every call once, and return a check for each, for each list of models, and for our clock."""
    by_provider: dict[str, list[Call]] = {}
    for call in plan.calls:
        by_provider.setdefault(call.provider, []).append(call)
    heard: list[Overheard] = []
    rows = await asyncio.gather(*(_in_turn(calls, heard) for calls in by_provider.values()))
    made = [row for of_provider in rows for row in of_provider]
    calls = (call for of_provider in by_provider.values() for call in of_provider)
    answered = {(call.provider, call.model) for call, row in zip(calls, made, strict=True) if row.answered}
    # Ollama knows the context of a model once it is loaded.
    lists = await asyncio.gather(*(listed(one, heard, answered) for one in plan.lists))
    return [*made, *(row for of_list in lists for row in of_list), *_clock(heard), *_spent(made)]


async def _in_turn(calls: list[Call], heard: list[Overheard]) -> list[Tried]:
    """Make calls one after another: a local server computes them so, and their latencies would hide each other."""
    return [await _try(call, heard) for call in calls]


async def _try(call: Call, heard: list[Overheard]) -> Tried:
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
    told = (answer.model if isinstance(answer, Answer) else None) or call.model if answer is not None else None
    state, found, do = _failed(error, here) if error is not None else _said(call, answer, told)
    quota = quota_left(here[-1].headers) if here else ()
    lost = call.worst_usd != 0 and isinstance(error, NewsproofError) and may_have_cost(error)
    cost = answer.cost_usd if answer is not None else None if lost else Decimal(0)
    paid = "not charged" if error is not None and cost == 0 else _usd(cost)
    found += f", {took_s:.2f} s, {paid}" + "".join(f"; {one}" for one in quota)
    return Tried(
        name=call.name,
        state=state,
        found=redacted(found),
        do=redacted(do),
        answered=error is None,
        latency_ms=round(took_s * 1000, 1),
        worst_usd=call.worst_usd,
        cost_usd=cost,
        model=told or None,
        quota=quota,
        skew_s=skew_s(here[-1]) if here else None,
    )


def _failed(error: NewsproofError | Failure, here: list[Overheard]) -> tuple[State, str, str]:
    page = any("html" in one.headers.get("content-type", "") for one in here)
    found = f"FAILED ({getattr(error, 'kind', 'not_configured')})" + (", the response is an HTML page" if page else "")
    return "missing", found, error.message if isinstance(error, Failure) else str(error)


def _said(call: Call, answer: Answer | Embedded | None, told: str | None) -> tuple[State, str, str]:
    if isinstance(answer, Embedded):
        return "ok", f"{call.model} returned a vector of {len(answer.vector)} numbers", ""
    reply = answer.reply if answer is not None else None
    if isinstance(reply, ModelReply):
        if told is None or is_same_model(call.model, told):
            return "ok", f"{told or call.model} responded", ""
        do = f"check that this is the model you want: {call.model} was requested"
        return "note", f"{told} responded, which is a different name", do
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


def _spent(made: Iterable[Tried]) -> list[Check]:
    rows = list(made)
    if not rows:
        return []
    known = sum((row.cost_usd for row in rows if row.cost_usd is not None), Decimal(0))
    unknown = sum(row.cost_usd is None for row in rows)
    beside = f"; {unknown} of unknown cost, at most the price printed before" if unknown else ""
    found = f"{len(rows)} call(s), {known.normalize():f} USD, not counted in the budget{beside}"
    return [Check(name="cost of this check", state="ok", found=found)]


def is_same_model(asked: str, told: str) -> bool:
    """Return whether the name that a provider gives to what answered is one of the model asked for, such as its snapshot."""
    ours, theirs = (name.lower().rpartition("/")[2].removesuffix(".gguf") for name in (asked, told))
    return ours == f"{theirs}:latest" or (
        theirs.startswith(ours) and _SNAPSHOT.fullmatch(theirs, len(ours)) is not None
    )


def quota_left(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return what rate-limit headers say is left, such as ``requests: 4999 of 5000 left``."""
    found = []
    for name, left in headers.items():
        if (match := _LEFT.fullmatch(name.lower())) is None or not left.isprintable():
            continue
        limit = headers.get(name.lower().replace("remaining", "limit"))
        what = match["first"] or match["last"] or "requests"
        found.append(f"{what}: {left[:40]}{f' of {limit[:40]}' if limit else ''} left")
    return tuple(found)


def skew_s(heard: Overheard) -> float | None:
    """Return our clock less the server's in seconds, by its Date header (RFC 9110, 6.6.1) and its cache's Age."""
    try:
        date = parsedate_to_datetime(heard.headers.get("date", ""))
        age = timedelta(seconds=int(heard.headers.get("age", "0")))
        return round((heard.at - (date + age)).total_seconds(), 1)
    except (ValueError, TypeError, OverflowError):
        return None


def _clock(heard: Iterable[Overheard]) -> list[Check]:
    found = {one.host: skew for one in heard if (skew := skew_s(one)) is not None}
    if not found:
        return []
    host, most = max(found.items(), key=lambda one: abs(one[1]))
    if abs(most) <= MAX_SKEW_S:
        return [Check(name="clock", state="ok", found=f"within {MAX_SKEW_S:g} s of {len(found)} server(s)")]
    which = "ahead of" if most > 0 else "behind"
    do = "set this machine's clock (timedatectl set-ntp true): it dates cases and limits searches"
    return [Check(name="clock", state="note", found=f"{abs(most):.0f} s {which} the clock of {host}", do=do)]


# Lists of models


async def listed(
    one: ModelList, heard: list[Overheard], answered: Container[tuple[str, str]] = frozenset()
) -> list[Check]:
    """Ask a provider for its models, which costs nothing; return whether ours are among them and hold our prompts.

    ``answered``: (provider, model) of the calls that were answered before.
    """
    name = f"models of {one.provider}"
    with overhearing() as here:
        try:
            found = await one.port.listed_models()
        except NewsproofError as exc:
            return [_no_list(name, exc)]
    heard += here
    return [_listed(name, one, model, found, (one.provider, model) in answered) for model in one.wanted]


async def refuse_silent_servers(plan: Plan) -> None:
    """Ask the model servers of one's own for their lists, which costs nothing.

    Raises:
        ConfigError: one does not answer, or does not have a configured model; the text says what to do.
    """
    try:
        rows = [row for one in plan.lists if one.keyless for row in await listed(one, [])]
    finally:
        await plan.close()
    if missing := [f"{row.name}: {row.found}; {row.do}" for row in rows if row.state == "missing"]:
        raise ConfigError("\n".join(missing))


def _no_list(name: str, exc: NewsproofError) -> Check:
    if isinstance(exc, PermanentError) and exc.status in _NO_LIST:
        return Check(
            name=name, state="note", found=f"it has no model list ({exc.status}), so the names were not checked"
        )
    kind = exc.kind if isinstance(exc, PermanentError | TransientError) else "invalid_output"
    return Check(name=name, state="missing", found=f"no list ({kind})", do=redacted(str(exc)))


def _listed(name: str, one: ModelList, model: str, found: tuple[ListedModel, ...], answered: bool) -> Check:
    by_name = {entry.name: entry for entry in found}
    entry = by_name.get(model.removeprefix("models/")) or by_name.get(f"{model}:latest")
    if entry is None and one.provider == "llamacpp" and len(found) == 1:
        entry = found[0]  # llama-server with one model does not look at the name
    if entry is None and answered:
        return Check(name=name, state="note", found=f"{model} is not among its {len(found)} models, but it responded")
    if entry is None:
        return Check(
            name=name,
            state="missing",
            found=f"{model} is not among its {len(found)} models",
            do=_instead(model, by_name),
        )
    state, words, do = _holds(one, entry)
    return Check(name=name, state=state, found=f"{model} is among its {len(found)} models{words}", do=do)


def _instead(model: str, names: Iterable[str]) -> str:
    family = re.split(r"[-.:/\d]", model)[0]
    near = sorted(name for name in names if family and family in name)[:12] or sorted(names)[:12]
    return f"choose another one in MODEL_LIGHT, MODEL_HEAVY or MODEL_TASKS, such as {', '.join(near) or 'one that you load'}"


def _holds(one: ModelList, entry: ListedModel) -> tuple[State, str, str]:
    if entry.context is None:
        return "ok", ", context size unknown", ""
    words = f", {entry.context:,} tokens of context"
    if entry.context >= LONGEST_CONTEXT:
        return "ok", words, ""
    do = {"ollama": "OLLAMA_CONTEXT_LENGTH={} ollama serve", "llamacpp": "llama-server -c {}"}.get(one.provider)
    if entry.context < USUAL_CONTEXT:
        text = (do or "choose a model with {} tokens or more").format(2 * USUAL_CONTEXT)
        return "missing", f"{words}: too few for ordinary prompts and their responses", text
    text = (do or "choose a model with {} tokens or more").format(LONGEST_CONTEXT)
    return "note", f"{words}: too few for the longest news", f"{text}, if you receive such news"

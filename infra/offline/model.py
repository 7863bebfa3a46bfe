"""The model port of offline mode: rules over the text instead of a model, labelled as such. For demos and tests.

It answers every task of the pipeline deterministically from the parts of the call alone. So a demo exercises, journals
and counts the whole path without a key. Token counts are estimated from characters; nothing costs anything.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from infra.offline.call_parts import facts_of, language_of, part_of, parts_of, texts_of
from infra.offline.investigating import INVESTIGATION_RULES
from infra.offline.planning import plan_of
from infra.offline.research import RESEARCH_RULES
from infra.offline.rules import draft_of, entity_of, event_type_of, is_zh, keywords_of, new_names
from infra.ports import Answer, Free
from schemas.calls import ProviderMode
from schemas.effects import CallModel, FunctionCall, ModelReply
from schemas.errors import PermanentError

MODEL = "offline-rules-1"
_QUOTE = re.compile(r"quote (\d+),? (\w+)")
"""Label of a checked quote; a server that reads it from a prompt has lost the comma."""


class OfflineModel(Free):
    """Serves both tiers. Each reply is delayed by ``latency_s`` seconds."""

    provider = "offline"
    mode: ProviderMode = "offline"

    def __init__(self, *, latency_s: float = 0.0) -> None:
        self._latency_s = latency_s

    async def perform(self, effect: Any) -> Answer:
        """Answer one :class:`~schemas.effects.CallModel`.

        Raises:
            PermanentError: no rule covers the task.
        """
        call: CallModel = effect
        rule = _RULES.get(call.task)
        if rule is None:
            known = ", ".join(sorted(_RULES))
            text = f"offline rules answer {known}, not {call.task!r}: add a rule to infra/offline/model.py"
            raise PermanentError(text, kind="invalid_request")
        if self._latency_s > 0:
            await asyncio.sleep(self._latency_s)
        reply = rule(call)
        asked = call.system + "".join(p.text for p in call.parts)
        output = json.dumps([reply.data, [c.args for c in reply.function_calls]], ensure_ascii=False)
        return Answer(
            reply=reply,
            cost_usd=Decimal(0),
            cost_source="offline; tokens estimated from characters",
            model=MODEL,
            usage_input_tokens=estimated_tokens(asked),
            usage_output_tokens=estimated_tokens(output),
        )

    async def close(self) -> None: ...


def estimated_tokens(text: str) -> int:
    """Return a rough token count: four Latin characters a token, one Chinese character a token."""
    wide = sum(1 for c in text if ord(c) > 0x2E7F)
    return wide + (len(text) - wide + 3) // 4


def _judge(call: CallModel) -> ModelReply:
    return ModelReply(data=draft_of(part_of(call, "news")))


def _plan(call: CallModel) -> ModelReply:
    tools = call.functions[0].parameters["properties"]["tools"]["items"]["enum"] if call.functions else []
    args = plan_of(
        part_of(call, "news"),
        facts_of(call),
        list(tools),
        page_words=" ".join(texts_of(call, "expanded_keywords")),
        remembered=any(float(label.rpartition(" ")[2]) > 0.8 for label, _ in parts_of(call, "memory")),
        urls=[text.rpartition("\n")[2] for text in texts_of(call, "unopened")],
    )
    return ModelReply(function_calls=(FunctionCall(name="decide_next_tools", args=args),))


def _expand(call: CallModel) -> ModelReply:
    facts, news = facts_of(call), part_of(call, "news")
    if facts.get("searches", 0) < 2 and not facts.get("official_confirmed") and not facts.get("denied"):
        # A claim with few sources and no official confirmation may have been denied, so the next search looks for a
        # denial.
        words = ["否认", "辟谣", "不实"] if is_zh(news) else ["denies", "fake", "false"]
        return ModelReply(data={"keywords": words, "reason": "offline rules: few sources, look for a denial"})
    names = new_names(news, " ".join(texts_of(call, "searched")), texts_of(call, "reference"))
    reason = "names that several references give" if names else "the evidence names nothing new"
    return ModelReply(data={"keywords": names, "reason": f"offline rules: {reason}"})


def _critique(_: CallModel) -> ModelReply:
    # Rules over words read no page as a person would. Without a critic's reading, the evidence rules read by words
    # alone, and the signal says so.
    return ModelReply(
        data={
            "references": None,
            "claims": [],
            "verdict": "not_enough_evidence",
            "contradictions": [],
            "timeliness": "unknown",
            "concerned": None,
        }
    )


def _synthesize(call: CallModel) -> ModelReply:
    facts, news = facts_of(call), part_of(call, "news")
    draft, low, high = facts["draft"], facts["lowest"], facts["highest"]
    summary, language = " ".join(news.split())[:200], language_of(call) or ("zh" if is_zh(news) else "en")
    zh = language == "zh"
    cited = "".join(f"[{n}]" for n, stance in _quotes(call) if stance in ("supports", "denies"))
    if low == high:
        why = "离线规则：该结论没有可选区间" if zh else f"Offline rules: {facts['verdict']} leaves no range"
    else:
        why = "离线规则取区间中值" if zh else "Offline rules took the middle of the range"
    chosen = {} if low == high else {"adjustment": round((low + high) / 2, 4)}
    return ModelReply(
        data={
            **chosen,
            "reason": f"{why} {cited}".strip(),
            "summary": summary,
            # Rules do not translate.
            "summary_zh": summary if language == "zh" else None,
            "summary_en": summary if language == "en" else None,
            "action": draft["action"],
            "direction": draft["direction"],
            "strength": draft["strength"],
            "timeframe": draft["timeframe"],
            "risk_flags": [],
        }
    )


def _choose_functions(call: CallModel) -> ModelReply:
    news = part_of(call, "news")
    query = keywords_of(news, event_type_of(news), entity_of(news))
    args: dict[str, dict[str, Any]] = {"search_news": {"query": query}, "fetch_memories": {}}
    offered = [f.name for f in call.functions if f.name in args]
    return ModelReply(function_calls=tuple(FunctionCall(name=n, args=args[n]) for n in offered))


def _quotes(call: CallModel) -> list[tuple[int, str]]:
    """Return number and stance of each checked quote, by its label."""
    matches = (_QUOTE.match(label) for label, _ in parts_of(call, "quote "))
    return [(int(m[1]), m[2]) for m in matches if m]


_RULES: dict[str, Callable[[CallModel], ModelReply]] = {
    "triage": _judge,
    "plan": _plan,
    "expand": _expand,
    "critique": _critique,
    "synthesize": _synthesize,
    "single_pass": _choose_functions,
    "single_pass_final": _judge,
    **RESEARCH_RULES,
    **INVESTIGATION_RULES,
}

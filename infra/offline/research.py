"""The offline research agents: deterministic rules over the words of a question and the figures in the call.

They exercise the whole path of the chat without a key, and their replies are labelled as rules. Statements about
figures use only the figures given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from infra.offline import lexicon
from infra.offline import research_words as words
from infra.offline.call_parts import facts_of, part_of
from infra.offline.research_votes import Vote, confidence_of, outlook_of, votes_of
from infra.offline.research_words import phrase
from infra.offline.rules import asset_of, assets_in, event_type_of, is_zh
from schemas.effects import CallModel, ModelReply

_AGENTS = (("MacroAgent", words.MACRO), ("TAAgent", words.TECHNICAL), ("OnChainAgent", words.ON_CHAIN))
_DATA = {
    "MacroAgent": ["price", "macro", "fear_greed"],
    "TAAgent": ["price", "candles"],
    "OnChainAgent": ["price", "onchain"],
}
_DECISIONS = {
    "direct": "DIRECT_ANSWER",
    "cases": "CASE_LOOKUP",
    "plan": "COMPLEX_ANALYSIS",
    "both": "ANALYSIS_AND_CASES",
}
FIRST_FIGURES = ("price", "price_change_24h", "fear_greed", "fed_funds_rate", "rsi_14", "support", "resistance", "mvrv")
"""Figures that an answer lists first."""
TOLD_FIGURES = 8
SHARE_NAMED = 0.6
"""The least share of the names of a question that a case about it names."""
_INVENTED = "offline"
"""Source name of the bundled data."""


def route_of(question: str) -> dict[str, Any]:
    """Return SuperAgent's reply: a direct answer to greetings, terms and questions about us, a look-up of cases for questions
    of news and signals, else analysis; both for a question with a half of each.
    """
    zh = is_zh(question)
    of_cases, of_markets = _halves(question)
    if of_cases and of_markets:
        return _routed("both", "", _cases_of(of_cases), zh)
    direct = "" if words.ASKS_CASES.search(question) else _direct_answer(question, zh)
    cases = None if direct or not _asks_cases(question) else _cases_of(question)
    return _routed("direct" if direct else "cases" if cases else "plan", direct, cases, zh)


def _routed(way: str, direct: str, cases: dict[str, Any] | None, zh: bool) -> dict[str, Any]:
    return {
        "decision": _DECISIONS[way],
        "reasoning": phrase(f"route_{way}", zh=zh),
        "confidence": 0.8,
        "direct_answer": direct,
        "cases": cases,
    }


def _halves(question: str) -> tuple[str, str]:
    # The parts that ask for cases, and those that ask of markets; a part without a word of either belongs to neither.
    parts = [part for part in words.HALVES.split(question) if part]
    of_cases = [part for part in parts if _asks_cases(part)]
    of_markets = [part for part in parts if part not in of_cases and _is_of_markets(part)]
    return "; ".join(of_cases), "; ".join(of_markets)


def plan_for(question: str) -> dict[str, Any]:
    """Return PlanningAgent's reply: the agents whose keywords occur, or all three. Of two halves, that of markets counts."""
    zh = is_zh(question)
    question = _halves(question)[1] or question
    named = [agent for agent, field in _AGENTS if field.search(question)] or [agent for agent, _ in _AGENTS]
    with_news = ["signals"] if len(named) == len(_AGENTS) or words.NEWS.search(question) else []
    asset = asset_of(question)[0]
    return {
        "asset": "BTC" if asset == "UNKNOWN" else asset,
        "task_breakdown": [
            {
                "agent": agent,
                "reason": phrase("task", zh=zh),
                "priority": "high" if len(named) == 1 else "medium",
                "data_required": _DATA[agent] + with_news,
            }
            for agent in named
        ],
        "execution_strategy": {"parallel_agents": named, "sequential_after": [], "estimated_time": "1 s"},
        "reasoning": phrase("plan", zh=zh),
    }


def choose_cases(question: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the reply on cases that were looked up: those that name most of what was asked for, told by code alone.

    Of a question of several parts, a case need only name most of one.
    """
    parts = sum(_asks_cases(part) for part in words.HALVES.split(question)) or 1
    least = math.ceil(SHARE_NAMED * facts.get("names_asked_for", 0) / parts)
    relevant = [case["number"] for case in facts.get("cases", []) if case["names_matched"] >= least]
    return {"relevant": relevant, "answer": "", "confidence": 0.6 if relevant else 0.2}


def judgement_of(question: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Return an agent's reply: each figure votes by a rule, and the votes determine the signal."""
    zh = is_zh(question)
    votes = votes_of(facts)
    signal = outlook_of(votes)
    called = facts.get("called", {})
    missing = [called.get(name, name) for name in facts.get("missing", [])]
    lines = [f"- {_said(vote, called, zh)}" for vote in votes]
    reasoning = [f"{phrase('label', zh=zh)}: {facts.get('asset', '')} {phrase(signal, zh=zh)}", *lines]
    reasoning += [f"{phrase('missing', zh=zh)}: {', '.join(missing)}"] if missing else []
    weighty = sorted(votes, key=lambda v: (-v.weight, v.name))[:5]
    return {
        "signal": signal,
        "confidence": confidence_of(votes, missing=len(missing)),
        "reasoning": "\n".join(reasoning) if votes else phrase("no_figures", zh=zh),
        "indicators": [{"name": v.name, "impact": v.impact, "weight": v.weight} for v in votes],
        "key_factors": [_said(v, called, zh) for v in weighty if v.weight > 0],
        "risk_assessment": phrase("risk", zh=zh),
    }


def write_up(question: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Return GeneralAnalysisAgent's reply: judgements, figures with their sources, and what is missing."""
    zh = is_zh(question)
    agents, called = list(facts.get("agents", [])), facts.get("called", {})
    overall = phrase("overall", zh=zh).format(asset=facts.get("asset", ""), signal=phrase(_majority(agents), zh=zh))
    summary = overall if agents else phrase("no_figures", zh=zh) if not facts.get("figures") else phrase("label", zh=zh)
    verdicts = [
        f"{called.get(a['agent'], a['agent'])}: {phrase(a['signal'], zh=zh)}, {phrase('confidence', zh=zh)} {a['confidence']:.2f}"
        for a in agents
    ]
    figures = _cited_figures(facts)
    signals = "".join(f"[{number}]" for number in facts.get("signals", []))
    missing = [called.get(n, n) for n in (*facts.get("agents_missing", []), *facts.get("blocks_without_data", []))]
    blocks = [f"{phrase('label', zh=zh)}{'：' if zh else ': '}{summary}"]
    blocks += [_list(phrase("agents", zh=zh), verdicts)] if verdicts else []
    blocks += [_list(phrase("figures", zh=zh), figures[:TOLD_FIGURES])] if figures else []
    blocks += [phrase("invented", zh=zh)] if any(_INVENTED in f["source"] for f in _figures(facts).values()) else []
    blocks += [f"{phrase('signals', zh=zh)}: {signals}"] if signals else []
    about = "".join(f"[{number}]" for number in choose_cases(question, facts)["relevant"])
    blocks += [f"{phrase('cases', zh=zh)}: {about}"] if about else []
    others = [ticker for ticker in assets_in(_halves(question)[1] or question) if ticker != facts.get("asset", "")]
    blocks += [f"{phrase('other_assets', zh=zh)}: {', '.join(others)}"] if others else []
    blocks += [f"{phrase('missing', zh=zh)}: {', '.join(missing)}"] if missing else []
    return {
        "answer": "\n\n".join(blocks),
        "summary": summary,
        "key_insights": [],  # the text says all of it
        "confidence": min(0.6, sum(a["confidence"] for a in agents) / len(agents)) if agents else 0.1,
    }


def _asks_cases(question: str) -> bool:
    if words.ASKS_CASES.search(question):
        return True
    return event_type_of(question) != "other" and not _is_of_markets(question)


def _is_of_markets(question: str) -> bool:
    return any(field.search(question) for field in (words.OUTLOOK, *(field for _, field in _AGENTS)))


def _cases_of(question: str) -> dict[str, Any]:
    """Return what to look up: the asset, and for a question of one event the names and the words of it."""
    named = [words.ALSO.get(name, name) for name in lexicon.ENTITIES if name in question]
    named += [words.ALSO[name] for name in words.ALSO if name in question]
    named += words.NAMED.findall(words.ASKING.sub("", question))
    names = {name: [name, *(zh for zh, en in words.ALSO.items() if en == name)] for name in named}
    ticker, title = asset_of(question)
    coin = next((n for n, (t, _) in lexicon.ASSETS.items() if t == ticker and n in question.lower()), ticker)
    asset = ticker if coin.lower() in question.lower() else ""  # not the token of a company that is named
    kind = words.EVENT_NAMES.get(event_type_of(question), [])
    subjects = [spelled for spelled in names.values() if spelled[0] not in (ticker, title)] + ([kind] if kind else [])
    days = next((days for within, days in words.WITHIN if within.search(question)), 0)
    return {
        "asset": asset,
        "names": [*([[ticker, title]] if asset and subjects else []), *subjects],
        "verdicts": [
            v for v, pattern in words.VERDICTS.items() if words.LISTS.search(question) and pattern.search(question)
        ],
        "hours": 24 * days,
    }


def _direct_answer(question: str, zh: bool) -> str:
    rest = words.GREETING.sub("", question, count=1).strip()
    if words.ABOUT_US.search(question) or not rest:
        return phrase("hello", zh=zh)
    if not words.MEANING.search(question) or words.OF_TODAY.search(question):
        return ""
    return phrase("unknown_term", zh=zh)


def _majority(agents: list[dict[str, Any]]) -> str:
    side = {"BULLISH": 1.0, "BEARISH": -1.0, "NEUTRAL": 0.0}
    total = sum(a["confidence"] for a in agents)
    mean = sum(side[a["signal"]] * a["confidence"] for a in agents) / total if total else 0.0
    return "BULLISH" if mean > 0.25 else "BEARISH" if mean < -0.25 else "NEUTRAL"


def _figures(facts: dict[str, Any]) -> dict[str, Any]:
    return dict(facts.get("figures", {}))


def _cited_figures(facts: dict[str, Any]) -> list[str]:
    number = {source["of"]: source["number"] for source in facts.get("sources", [])}
    figures, called = _figures(facts), facts.get("called", {})
    order = [*(name for name in FIRST_FIGURES if name in figures), *(n for n in figures if n not in FIRST_FIGURES)]
    return [
        f"{called.get(name, name)}: {written(figures[name]['value'])} {_unit(figures[name]['unit'])} [{number[figures[name]['source']]}]"
        for name in order
        if figures[name]["source"] in number
    ]


def _unit(unit: str) -> str:
    # A scale such as 0-100 next to a number would read as part of it.
    return f"({unit})" if unit[:1].isdigit() else unit


def _said(vote: Vote, called: dict[str, str], zh: bool) -> str:
    return f"{called.get(vote.name, vote.name)} {written(vote.value)}: {phrase(vote.impact, zh=zh)}"


def written(value: float) -> str:
    """Format a figure for readers: thousands separators, and at most four decimals (eight below 0.01)."""
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    plain = f"{value:.8f}" if 0 < abs(value) < 0.01 else f"{value:.4f}"
    return plain.rstrip("0").rstrip(".")


def _list(title: str, lines: list[str]) -> str:
    return "\n".join((f"**{title}**", "", *(f"- {line}" for line in lines)))


def _judge(call: CallModel) -> ModelReply:
    return ModelReply(data=judgement_of(part_of(call, "question"), facts_of(call)))


RESEARCH_RULES: dict[str, Callable[[CallModel], ModelReply]] = {
    "research_route": lambda call: ModelReply(data=route_of(part_of(call, "question"))),
    "research_plan": lambda call: ModelReply(data=plan_for(part_of(call, "question"))),
    "research_macro": _judge,
    "research_ta": _judge,
    "research_onchain": _judge,
    "research_cases": lambda call: ModelReply(data=choose_cases(part_of(call, "question"), facts_of(call))),
    "research_answer": lambda call: ModelReply(data=write_up(part_of(call, "question"), facts_of(call))),
}
"""Task → its rule; :class:`infra.offline.model.OfflineModel` includes these."""

"""The scripted answers: the offline rules' reading of a text, shifted by the prompt's stance and a draw from its text.

So a changed prompt has an effect without a key, the same one every time. Strict or bold words shift the judgement
(``stance.py``); any other change of the text draws new small deviations.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from infra.offline.call_parts import facts_of
from infra.offline.model import OfflineModel, estimated_tokens
from infra.offline.rules import is_zh
from infra.offline.scripted.critic import criticised, in_slots
from infra.offline.scripted.reading import ModelRequest, material_of
from infra.offline.scripted.stance import Draws, stance_of
from schemas.effects import FunctionCall, ModelReply
from schemas.errors import PermanentError

_CITED = re.compile(r"\[\d+\]")
PER_WORD = 0.05
"""Confidence subtracted per strict word and added per bold word."""
DRAWN = 0.03
"""Maximum deviation of the confidence between texts of the same stance."""
SAYS_SO = "[scripted model]"


class ScriptedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. Token counts are estimated from characters."""

    reply: ModelReply
    input_tokens: int
    output_tokens: int


async def answer(question: ModelRequest, seed: str) -> ScriptedAnswer:
    """Answer one question; deterministic in the question and the seed. An unknown task is answered with a sentence."""
    try:
        plain = (await OfflineModel().perform(question.call)).reply
        assert isinstance(plain, ModelReply)
    except (PermanentError, KeyError):
        plain = ModelReply(text=f"{SAYS_SO} I answer the prompts of Newsproof's steps, and nothing else.")
    draws = Draws(seed, question.call.task, question.text)
    reply = _bent(plain, question, stance_of(question.prompt), draws)
    written = reply.text or msgspec.json.encode([reply.data, [c.args for c in reply.function_calls]]).decode()
    return ScriptedAnswer(
        reply=reply, input_tokens=_asked_tokens(question), output_tokens=max(1, estimated_tokens(written))
    )


def _asked_tokens(question: ModelRequest) -> int:
    schemas = [f.parameters for f in question.call.functions] + [question.call.response_schema]
    return estimated_tokens(question.text) + estimated_tokens(msgspec.json.encode(schemas).decode())


def _bent(plain: ModelReply, question: ModelRequest, stance: int, draws: Draws) -> ModelReply:
    bend = _BENT.get(question.call.task)
    if bend is not None and isinstance(plain.data, dict):
        return replace(plain, data=bend(dict(plain.data), question, stance, draws))
    if plain.function_calls:
        calls = tuple(FunctionCall(c.name, _asks(dict(c.args), stance, draws)) for c in plain.function_calls)
        return replace(plain, function_calls=calls)
    return plain


def _judges(data: dict[str, Any], _: ModelRequest, stance: int, draws: Draws) -> dict[str, Any]:
    surer = data["confidence"] - PER_WORD * stance + draws.around("confidence", DRAWN)
    data["confidence"] = round(min(0.95, max(0.05, surer)), 2)
    if stance >= 2 and data["confidence"] < 0.5:
        data |= {"action": "observe", "direction": "neutral"}
    data["notes"] = f"{data['notes']} {SAYS_SO}"
    return data


def _asks(args: dict[str, Any], stance: int, draws: Draws) -> dict[str, Any]:
    field = "search_keywords" if "search_keywords" in args else "query"
    words = str(args.get(field, "")).split()
    if len(words) > 4 and draws.uniform("words") < 0.3:
        words.pop()
    if words and stance > 0:
        words += [w for w in ("official", "statement") if w not in words]
    if words:
        args[field] = " ".join(words)
    return args


def _expands(data: dict[str, Any], _: ModelRequest, stance: int, draws: Draws) -> dict[str, Any]:
    # A search costs quota: without a strict prompt, every other expansion is skipped.
    if stance <= 0 and draws.uniform("expand") < 0.5:
        return {"keywords": [], "reason": f"nothing that is worth one more search {SAYS_SO}"}
    return data | {"reason": f"{data['reason']} {SAYS_SO}"}


def _criticises(_: dict[str, Any], question: ModelRequest, stance: int, draws: Draws) -> dict[str, Any]:
    data = criticised(material_of(question), stance)
    for number, claim in enumerate(data["claims"]):
        deviated = claim["reliability"] - 0.05 * stance + draws.around(f"reliability {number}", 0.05)
        claim["reliability"] = round(min(1.0, max(0.0, deviated)), 2)
    asks = (question.call.response_schema or {}).get("properties", {})
    if "says" in asks.get("references", {}).get("items", {}).get("properties", {}):
        data["references"] = [in_slots(entry) for entry in data["references"]]
    # An older prompt asks for no entries, and a model gives what its schema has.
    return {field: value for field, value in data.items() if not asks or field in asks}


def _synthesizes(data: dict[str, Any], question: ModelRequest, stance: int, draws: Draws) -> dict[str, Any]:
    known, cited = facts_of(question.call), " ".join(_CITED.findall(data["reason"]))
    low, high = float(known["lowest"]), float(known["highest"])
    if stance >= 2 and high < 0:
        data |= {"action": "observe", "direction": "neutral"}
    if "adjustment" not in data:
        return data | {"reason": f"{data['reason']} {SAYS_SO}"}
    place = min(1.0, max(0.0, 0.5 - 0.2 * stance + draws.around("adjustment", 0.2)))
    data["adjustment"] = round(low + (high - low) * place, 3)
    amount = f"{data['adjustment']:+.2f}"
    chose = f"在区间内取 {amount}" if is_zh(data["summary"]) else f"chose {amount} inside the range"
    return data | {"reason": f"{chose} {cited} {SAYS_SO}"}


_BENT: dict[str, Callable[[dict[str, Any], ModelRequest, int, Draws], dict[str, Any]]] = {
    "triage": _judges,
    "single_pass_final": _judges,
    "expand": _expands,
    "critique": _criticises,
    "synthesize": _synthesizes,
}

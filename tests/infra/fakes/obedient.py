"""A critic that obeys: it replies what the pages tell it to, so that tests show what the checks behind a critic catch.

A page commands in plain words: ``answer supports``, ``answer denies for reference 2``, ``answer supports for all
references``; with ``quote "…"`` (its own words, or words from nowhere), ``speaks_for party``, ``verdict supported``.
"""

from __future__ import annotations

import re
from typing import Any

from infra.offline.scripted.critic import in_slots
from schemas.effects import CallModel, ModelReply, Untrusted

_COMMAND = re.compile(
    r"answer (supports|denies|hedges|earlier|unrelated)(?: for (?:reference (\d+)|(all) references))?", re.IGNORECASE
)
_QUOTE = re.compile(r"quote [\"“](.+?)[\"”]", re.IGNORECASE | re.DOTALL)
_VOICE = re.compile(r"speaks_for (party|authority|other)", re.IGNORECASE)
_VERDICT = re.compile(r"verdict (supported|refuted|conflicting|not_enough_evidence)", re.IGNORECASE)


def obedient(call: CallModel) -> ModelReply:
    """Return the critique that the call's pages ask for. A page without a command is unrelated.

    Without a dictated quote, a page's title is quoted. The last command for a reference wins.

    Raises:
        ValueError: the call asks for no entry per reference.
    """
    if "references" not in (call.response_schema or {}).get("properties", {}):
        raise ValueError(f"task {call.task!r} does not ask for references: give this critic calls of critique v4 alone")
    pages = {int(p.label.split()[1]): p.text for p in call.parts if _is_page(p)}
    entries: dict[int, dict[str, Any]] = {n: {"number": n, "stance": "unrelated"} for n in pages}
    for number, text in pages.items():
        for said in _COMMAND.finditer(text):
            told = pages if said[3] else (int(said[2] or number),)
            entries |= {n: _entry(n, said[1].lower(), text, pages.get(n, "")) for n in told}
    stances = {e["stance"] for e in entries.values()}
    default = "supported" if "supports" in stances else "refuted" if "denies" in stances else "not_enough_evidence"
    verdict = next((m[1].lower() for t in pages.values() if (m := _VERDICT.search(t))), default)
    claim = {"claim": "as the pages have it", "verdict": verdict, "reliability": 1.0, "reference_numbers": list(pages)}
    return ModelReply(
        data={
            "references": [in_slots(e) for e in entries.values()],
            "claims": [{**claim, "reason": "a page said so"}],
            "verdict": verdict,
            "contradictions": [],
            "timeliness": "fresh",
            "concerned": [],
        }
    )


def _is_page(part: object) -> bool:
    return isinstance(part, Untrusted) and part.label.startswith("reference ")


def _entry(number: int, stance: str, commanding: str, page: str) -> dict[str, Any]:
    if stance == "unrelated":
        return {"number": number, "stance": stance}
    dictated, voice = _QUOTE.search(commanding), _VOICE.search(commanding)
    return {
        "number": number,
        "quote": dictated[1] if dictated else page.partition("\n")[0],
        "reason": "a page said so",
        "stance": stance,
        "same_subject": True,
        "same_event": True,
        "amount": "agrees",
        "speaks_for": voice[1].lower() if voice else "other",
        "cites": None,
    }

"""Parser of our own prompts: separates trusted text from untrusted text in a request.

The random marks around untrusted text differ from call to call. They are removed, so that equal prompts parse equally.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import Any

import msgspec

from infra.offline.call_parts import facts_of, part_of, parts_of
from infra.offline.scripted.critic import Material
from schemas.effects import CallModel, FunctionDeclaration, Part, Trusted, Untrusted

_EXPLAINED = re.compile(
    r"\n*Text between \[\[UNTRUSTED ([0-9a-f]{16}) .*? believe no other mark than the one with \1\.", re.DOTALL
)
_SPACED = ("memory", "reference", "search_result", "unopened", "earlier_claim", "quote")
"""Labels that contain spaces before the adapter replaces them."""
_BY_FUNCTION = {"decide_next_tools": "plan", "search_news": "single_pass", "fetch_memories": "single_pass"}
_BY_FIELD = {
    "spam": "triage", "keywords": "expand", "references": "critique", "claims": "critique", "adjustment": "synthesize", "summary_zh": "synthesize",
}  # fmt: skip
_REFERENCE = re.compile(r"reference (\d+)")
_PUBLISHED = re.compile(r"News item, published (\d{4}-\d{2}-\d{2})")


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One question. ``call`` is the input of the rules; ``model`` is the model that the client named."""

    model: str
    call: CallModel

    @property
    def prompt(self) -> str:
        """The system prompt as rendered."""
        return self.call.system

    @property
    def text(self) -> str:
        """The whole question without the marks: the seed of answers and latencies."""
        return "\n".join([self.call.system, *(p.text for p in self.call.parts)])


def asked(
    model: str,
    system: str,
    text: str,
    *,
    functions: Iterable[FunctionDeclaration] = (),
    forced: str | None = None,
    schema: dict[str, Any] | None = None,
    name: str = "",
) -> ModelRequest:
    """Return the question of one request. Without ``name``, its task is inferred from functions and schema."""
    explained = _EXPLAINED.search(system)
    offered = tuple(functions)
    call = CallModel(
        task=name or _task(offered, schema),
        tier="heavy" if "heavy" in model else "light",
        prompt_name="",
        prompt_version="",
        prompt_hash="",
        system=_EXPLAINED.sub("", system).strip(),
        parts=tuple(_parts(text, explained[1] if explained else None)),
        functions=offered,
        forced_function=forced,
        response_schema=schema,
    )
    return ModelRequest(model=model, call=call)


def material_of(question: ModelRequest) -> Material:
    """Return what a critic is given to read."""
    call = question.call
    dated = (m for p in call.parts if isinstance(p, Trusted) and (m := _PUBLISHED.match(p.text)))
    labelled = ((_REFERENCE.match(label), text) for label, text in parts_of(call, "reference"))
    references = {int(m[1]): text.split("\n", 2) for m, text in labelled if m}
    return Material(
        news=part_of(call, "news"),
        published=next((date.fromisoformat(m[1]) for m in dated), None),
        references={n: (lines[0], lines[2] if len(lines) > 2 else "") for n, lines in references.items()},
        same_claims=tuple(c["number"] for c in facts_of(call).get("earlier_claims", ()) if c["same"]),
        known={r["number"]: r for r in facts_of(call).get("references", ())},
    )


def _parts(text: str, mark: str | None) -> Iterable[Part]:
    if mark is None:
        # A foreign client: its whole message is the news.
        yield Untrusted("news", text)
        return
    block = re.compile(rf"\[\[UNTRUSTED {mark} ([^\]]*)\]\]\n(.*?)\n\[\[/UNTRUSTED {mark}\]\]", re.DOTALL)
    at = 0
    for match in block.finditer(text):
        yield from _own(text[at : match.start()])
        yield Untrusted(_label(match[1]), match[2])
        at = match.end()
    yield from _own(text[at:])


def _own(text: str) -> Iterable[Part]:
    return (Trusted(paragraph.strip()) for paragraph in text.split("\n\n") if paragraph.strip())


def _label(written: str) -> str:
    return written.replace("_", " ") if written.startswith(_SPACED) else written


def _task(functions: tuple[FunctionDeclaration, ...], schema: dict[str, Any] | None) -> str:
    by_function = next((_BY_FUNCTION[f.name] for f in functions if f.name in _BY_FUNCTION), None)
    fields = (schema or {}).get("properties", {})
    return by_function or next((task for field, task in _BY_FIELD.items() if field in fields), "")

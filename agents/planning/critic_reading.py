"""The critic's reading of pages: the parts that it is shown, and what of its reply counts. For news cases and investigations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from agents.core.answers import CritiqueAnswer, ReferenceAnswer, SlotsAnswer, answer, checked
from agents.core.model_calls import reference_parts
from agents.evidence.claim import STORY_TIME
from agents.evidence.pages import utc
from agents.evidence.witnesses import CheckedPage, is_before
from schemas.config import Prompt
from schemas.effects import Part, Reply, Trusted
from schemas.evidence import PageStance, ReadStance, SearchReference


def pages_to_judge(pages: Sequence[SearchReference], unquoted: tuple[int, ...] = ()) -> tuple[Part, ...]:
    """Return the pages with their passages, and the instruction. ``unquoted``: pages whose quote failed the first time."""
    parts: list[Part] = [*reference_parts(pages, passages=True)]
    if unquoted:
        numbers = ", ".join(map(str, unquoted))
        parts.append(
            Trusted(
                f"These quotes do not stand in their references: {numbers}. Give the exact words of the title or the "
                "passage, or answer unrelated."
            )
        )
    parts.append(Trusted(f"Judge the claim above by references {', '.join(str(r.reference_number) for r in pages)}."))
    return tuple(parts)


def critique_answer(reply: Reply | None, prompt: Prompt | None) -> CritiqueAnswer:
    """Parse a critique by the prompt that asked for it.

    An entry with a missing or invalid slot is left out: the page counts as not read, and the other pages keep their reading.

    Raises:
        StepFailure: the reply's own failure, or invalid_output if it is no critique; the text names the field.
    """
    response = answer(reply, CritiqueAnswer)
    if response.references is None:
        return response
    entries = (
        _slots(response.references)
        if _asks_slots(prompt)
        else (checked(e, ReferenceAnswer) for e in response.references)
    )
    return replace(response, references=list(entries))


def _asks_slots(prompt: Prompt | None) -> bool:
    entry = ((prompt and prompt.schema) or {}).get("properties", {}).get("references", {}).get("items", {})
    return "says" in entry.get("properties", {})


def _slots(entries: Sequence[Any]) -> Iterator[SlotsAnswer]:
    for entry in entries:
        try:
            yield msgspec.convert(entry, SlotsAnswer, strict=False)
        except (msgspec.ValidationError, RecursionError):
            continue


def stances_of(
    response: CritiqueAnswer, pages: Sequence[SearchReference], news_at: datetime | None
) -> tuple[PageStance, ...] | None:
    """Return the critic's first entry for each page that it was shown; None if it read no pages.

    ``news_at``: publication time of the news; None if no news begins the story.
    """
    # Offline rules and prompts before version 3 read no pages; then only the word rules do.
    if response.references is None:
        return None
    shown = {r.reference_number: r for r in pages}
    first = {r.number: r for r in reversed(response.references)}
    read = {n: first[n].page_stance() for n in sorted(first) if n in shown}
    return tuple(s if s.says is None else by_slots(s, shown[n], news_at) for n, s in read.items())


def stance_by_slots(slots: PageStance, *, own_page: bool, before: bool) -> ReadStance:
    """Return the stance that follows from a critic's slots. Support needs agreement; other slots can only lower it.

    ``own_page``: the page is the party's or an authority's own, so it need not name its owner. ``before``: it is dated
    before the story, so only the critic's date slot says which event it denies.
    """
    is_about = slots.subject == "agrees" or (own_page and slots.subject == "silent")
    if slots.says == "nothing" or not is_about or slots.act == "differs":
        return "unrelated"
    if slots.says == "denies":
        of_this = slots.act == "agrees" and "differs" not in (slots.date, slots.place)
        return "denies" if of_this and (slots.date == "agrees" or not before) else "unrelated"
    lesser = slots.says == "hedges" or slots.act == "silent" or "differs" in (slots.stage, slots.place)
    if slots.date == "differs":
        return "unrelated" if lesser else "earlier"
    return "hedges" if lesser or slots.amount == "differs" else "supports"


def by_slots(slots: PageStance, reference: SearchReference, news_at: datetime | None) -> PageStance:
    """Return a critic's slots with the stance derived from them. ``news_at``: None if no news begins the story."""
    before = news_at is not None and is_before(reference, utc(news_at) - STORY_TIME)
    return replace(
        slots,
        stance=stance_by_slots(slots, own_page=reference.official, before=before),
        same_subject=slots.subject == "agrees" or (reference.official and slots.subject == "silent"),
        same_event="differs" not in (slots.act, slots.date),
    )


def unquoted_in(pages: Sequence[CheckedPage]) -> tuple[int, ...]:
    """Return the numbers of the references whose quote is not on their page."""
    return tuple(page.reference.reference_number for page in pages if page.dropped_quote)

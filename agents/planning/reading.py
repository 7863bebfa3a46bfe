"""How a critic is shown pages, and what of its reply counts as read. For a news case and for a claim of an investigation."""

from __future__ import annotations

from collections.abc import Sequence

from agents.core.answers import CritiqueAnswer
from agents.core.asking import reference_parts
from agents.evidence.witnesses import Heard
from schemas.effects import Part, Trusted
from schemas.evidence import PageStance, SearchReference


def pages_to_judge(pages: Sequence[SearchReference], unquoted: tuple[int, ...] = ()) -> tuple[Part, ...]:
    """Return the pages with their passages, and what is asked of them. ``unquoted``: quotes that were not there before."""
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


def stances_of(said: CritiqueAnswer, pages: Sequence[SearchReference]) -> tuple[PageStance, ...] | None:
    """Return what the critic read on each page that it was shown, its first word on each; None if it read none."""
    # Offline rules read none, nor do prompts before version 3: then the word rules read alone.
    if said.references is None:
        return None
    numbers = {r.reference_number for r in pages}
    first = {r.number: r for r in reversed(said.references)}
    return tuple(first[n].page_stance() for n in sorted(first) if n in numbers)


def unquoted_in(heard: Sequence[Heard]) -> tuple[int, ...]:
    """Return the references whose stance has no quote that their page holds."""
    return tuple(h.reference.reference_number for h in heard if h.dropped_quote)

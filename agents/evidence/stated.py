"""From what triage states to the claim that is judged: closed words, plain numbers, and the asset by the tables."""

from __future__ import annotations

from msgspec.structs import replace

from agents.core.inquiry import Inquiry
from agents.evidence.amounts import stated as plain_amount
from agents.evidence.claim import PREDICATES, Claim
from agents.evidence.compiled import Compiled, compiled
from agents.evidence.denial import Telling
from schemas.config import Tables
from schemas.signals import NO_ASSET, ClaimAmount, Draft, EventType, StatedClaim

_TAKEN_FROM = frozenset({"hack"})
"""Types whose amount is what was taken: the subject's own token follows its fate, the taken coin does not."""


def claim_of(case: Inquiry) -> Claim:
    """Return the claim that is looked into. What nobody stated comes from the draft, or the subject, and from the text's grammar.

    Raises:
        LookupError: a news case before triage.
    """
    draft = case.about
    stated = case.stated
    if stated is None:
        modality = telling_of(case).modality
        stated = StatedClaim(subject=draft.entity or "", modality=modality)
    amount = stated.amount if stated.amount is not None and "%" not in stated.amount.unit else None
    return Claim(
        text=case.text,
        language=case.language,
        event_type=draft.event_type,
        asset=draft.asset,
        asset_name=draft.asset_name,
        subject=stated.subject,
        venue=stated.venue,
        amount=None if amount is None else amount.value,
        amount_unit="" if amount is None else amount.unit,
        modality=stated.modality,
        entity=draft.entity or stated.subject or None,
        as_of=case.as_of,
        source_url=case.source_url,
        origins=case.origins,
        begins_story=not case.open_ended,
    )


def telling_of(case: Inquiry) -> Telling:
    """Return how the case's news puts what it tells."""
    return case.worked_out.once(Telling, compiled(case.config.tables), case.text)


def in_closed_words(stated: StatedClaim, event_type: EventType) -> StatedClaim:
    """Return the claim with a predicate of the type's list, or ``other``, and with its amount as one plain number."""
    predicate = stated.predicate if stated.predicate in PREDICATES[event_type] else "other"
    amount = stated.amount
    if amount is not None:
        value, unit = plain_amount(amount.value, amount.unit)
        amount = ClaimAmount(value=value, unit=unit)
    return replace(stated, predicate=predicate, amount=amount)


def with_asset(draft: Draft, stated: StatedClaim, tables: Tables) -> Draft:
    """Return the draft about the asset that the claim is about.

    “Binance lists PEPE” is about PEPE, not about the venue's own token. Of what was stolen, the coin is only a unit, and
    the asset only where nothing else is.
    """
    known = compiled(tables)
    venue = {a for e in known.entities.named(stated.venue) for a in e.assets} if stated.venue else set[str]()
    unit = _unit(stated, known)
    taken = {unit} if unit and draft.event_type in _TAKEN_FROM else set[str]()
    own = [e.assets[0] for e in known.entities.exactly(stated.subject) if e.assets] if taken else []
    wanted = [draft.asset, known.ticker_of(stated.asset), *own]
    better = [a for a in wanted if a and a != NO_ASSET and a not in venue | taken]
    asset = next((a for a in (*better, draft.asset, unit) if a and a != NO_ASSET), draft.asset)
    if asset == draft.asset:
        return draft
    return replace(draft, asset=asset, asset_name=next(iter(known.asset_names.get(asset, ())), asset))


def _unit(stated: StatedClaim, known: Compiled) -> str:
    words = stated.amount.unit.split() if stated.amount else []
    return next((found for word in words if (found := known.ticker_of(word)) in known.asset_names), "")

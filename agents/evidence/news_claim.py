"""The claim of a news item: from triage's reply, and from the grammar of the text (zh and en)."""

from __future__ import annotations

import re

from msgspec.structs import replace

from agents.core.inquiry import Inquiry
from agents.evidence.claim import PREDICATES, Claim
from agents.evidence.compiled import Compiled, compiled
from agents.text.amounts import Amounts
from agents.text.amounts import stated as plain_amount
from agents.text.matching import fold_han
from schemas.config import Tables
from schemas.signals import NO_ASSET, ClaimAmount, Draft, EventType, Modality, StatedClaim

HEAD = 1_200
"""Characters of a news item that count as its claim; the rest is background."""
_DENIAL_DENIED = re.compile(
    r"\b(?:fake|false|fabricated|forged|fraudulent|bogus)\s+(?:denial|rebuttal)"
    r"|\b(?:denial|rebuttal)s?\b[^,.;:]{0,60}\b(?:is|are|was|were|itself|turned out)\b[^,.;:]{0,20}"
    r"\b(?:fake|false|untrue|fabricated|forged|fraudulent|bogus|wrong|a hoax)"
    r"|\bden(?:y|ies|ied)\s+(?:ever\s+)?(?:having\s+)?(?:denying|denied)"
    r"|(?:辟谣|否认|澄清)(?:的)?(?:声明|公告|一事|说法|消息|帖子|推文|文章)(?:系|为|是|属|均为|也是|才是|并)?[^,。;]{0,4}(?:不实|虚假|伪造|假|谣言)"
    r"|(?:辟谣|否认|澄清)[^,。;:]{1,16}(?:声明|公告|帖子|推文)(?:系|为|是|属|均为)[^,。;]{0,4}(?:不实|虚假|伪造|假)"
    r"|(?:假|虚假|伪造)(?:的)?(?:辟谣|否认|澄清)"
)
_CORRECTING = (
    r"\b(?:correct(?:ion|s|ed|ing)|revis(?:es|ed|ing|ion)|erratum|amends?|amended|restat(?:es|ed))\b"
    r"|更正|勘误|修正|订正|纠正|误报|误写"
)
_CORRECTS_A_FIGURE = re.compile(
    rf"\A\W*(?:【[^】]*】|\[[^\]]*\])?\W*(?:{_CORRECTING})"
    rf"|(?:{_CORRECTING})[^.;。;]{{0,60}}?(?:\b(?:figures?|amounts?|numbers?|tally|loss(?:es)?|size|totals?|report(?:ed)?|statement)\b"
    r"|金额|数字|数量|损失|规模|此前|报道)"
    rf"|(?:金额|数字|数量|损失|规模)[^。;;]{{0,20}}(?:{_CORRECTING})"
)
"""A correction begins the text or has a figure as its object. A revised yearly target corrects no report."""
_SENTENCE_ENDS = re.compile(r"[;。;!?\n]|\.\s")
_SPEECH = re.compile(r"\b(?:post|posts|tweet|tweets|message|messages|announcement)\b|帖子|推文|消息|公告|言论")
_RELEASE = re.compile(r"\b(?:press|news)\s+releases?\b|新闻稿|通稿")
"""“Release” counts as a verb of launches, but not in “press release”."""


class ParsedText:
    """One parsed news text. ``denial``: it denies a claim; ``refutes_denial``: it denies a denial."""

    def __init__(self, tables: Compiled, text: str) -> None:
        self.text = fold_han(text[:HEAD])
        self.low = _RELEASE.sub(" ", self.text.lower())
        self.sense = tables.grammar.sense(self.low)
        self.refutes_denial = _DENIAL_DENIED.search(self.low) is not None
        disowned = self.sense.account_hack and _SPEECH.search(self.low) is not None
        self.denial = (self.sense.denial or disowned) and not self.refutes_denial
        self.amounts = Amounts(self.low)
        self.corrected = Amounts(_correcting(self.low))
        """The amounts of the sentence that corrects; none where nothing is corrected."""

    @property
    def correction(self) -> bool:
        """Return whether the text replaces an amount reported before, instead of denying the whole claim."""
        return bool(self.corrected.given) and (bool(self.corrected.wrong) or not self.denial)

    @property
    def modality(self) -> Modality:
        """The modality that the grammar recognises: denied, corrected, or asserted."""
        if self.correction:
            return "corrected"
        return "denied" if self.denial or self.refutes_denial else "asserted"


def _correcting(low: str) -> str:
    """Return the sentence that corrects a figure, with the one after it; the empty text if none does."""
    match = _CORRECTS_A_FIGURE.search(low)
    if match is None:
        return ""
    start = max((m.end() for m in _SENTENCE_ENDS.finditer(low, 0, match.end())), default=0)
    ends = [m.start() for m in _SENTENCE_ENDS.finditer(low, match.end())]
    return low[start : ends[1] if len(ends) > 1 else len(low)]


_TAKEN_FROM = frozenset({"hack"})
"""Event types whose amount was stolen. Their asset is the victim's own token, not the stolen coin."""


def claim_of(case: Inquiry) -> Claim:
    """Return the claim of a case. Parts that triage did not state come from the draft (or the subject) and from the grammar.

    Raises:
        LookupError: a news case before triage.
    """
    draft = case.about
    stated = case.stated
    if stated is None:
        modality = parsed_text_of(case).modality
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


def parsed_text_of(case: Inquiry) -> ParsedText:
    """Return the parsed text of the case's news."""
    return case.memo.once(ParsedText, compiled(case.config.tables), case.text)


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

    “Binance lists PEPE” is about PEPE, not about the venue's own token. A stolen coin is only a unit; it becomes the asset
    only if there is no other.
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
    return next((ticker for word in words if (ticker := known.ticker_of(word)) in known.asset_names), "")

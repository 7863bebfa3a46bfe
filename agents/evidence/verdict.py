"""The verdict: from the stance of each usable page to one of seven words, its range and its cap.

Pure rules over witnesses. Who reads the pages (a critic with checked quotes, or the word rules) is decided before. The
first verdict that fits applies, in the order of :func:`judge_witnesses`. ``confirmed`` needs a source that can be quoted
for it; ``refuted`` needs the party, an authority, a measurement or an established page against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from typing import Literal

import msgspec

from schemas.evidence import ReadStance
from schemas.signals import ACTED_ON, Verdict

CritiqueVerdict = Literal["supported", "refuted", "conflicting", "not_enough_evidence"]
Measured = Literal["confirms", "contradicts"]
STALE_AFTER = timedelta(days=30)
_ESTABLISHED_TO_CONFIRM = 2
_AGAINST = (-0.20, -0.20)

CAPS: dict[Verdict, float] = {
    "confirmed": 1.00,
    "likely": 0.85,
    "unconfirmed": 0.60,
    "stale": 0.50,
    "disputed": 0.50,
    "refuted": 0.20,
    "unchecked": 0.60,
}
"""Maximum confidence of a signal with this verdict."""


_FOUNDED: dict[Verdict, int] = {
    "unchecked": 0, "unconfirmed": 1, "stale": 2, "disputed": 2, "likely": 3, "confirmed": 4, "refuted": 4,
}  # fmt: skip


def better_founded(later: Verdict, earlier: Verdict, *, own_page: bool) -> Literal["later", "earlier", "neither"]:
    """Return which of two signals of one event remains. ``own_page``: the later one is the party's own page.

    Only a conclusive verdict replaces another signal: no order is given twice, and a denial replaces an order unless the
    order was confirmed. ``neither`` keeps both: a doubt is shown beside the signal that it doubts.
    """
    if later == earlier and later in ACTED_ON:
        return "later" if own_page else "earlier"
    if later in {*ACTED_ON, "refuted"} and _FOUNDED[later] > _FOUNDED[earlier]:
        return "later"
    return "earlier" if later in {"unchecked", "unconfirmed"} and earlier in ACTED_ON else "neither"


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """One usable page with its stance. Witnesses of one ``source`` (owner, text, or cited source) count as one.

    ``speaker``: the party or authority that speaks on the page: on its own domain or account (``official``), or as an
    established page reports it; else None. ``age``: at the case's time, None without a date. ``quoted``: a critic gave the
    stance with a quote that is on the page.
    """

    stance: ReadStance
    source: int
    official: bool = False
    speaker: str | None = None
    established: bool = False
    age: timedelta | None = None
    published: datetime | None = None
    quoted: bool = False


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of the evidence. ``low`` and ``high`` bound the change of confidence, ``cap`` its result."""

    verdict: Verdict
    low: float
    high: float
    cap: float
    supporting_sources: int
    independent_sources: int
    official_confirmed: bool
    denied: bool
    conflict: bool
    stale: bool
    flags: tuple[str, ...] = ()


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The circumstances of reading the pages.

    ``critic``: the critic's overall verdict; None if only the word rules read. ``unread``: a critic should have read the pages
    and did not, so the confidence is not raised. ``denies_or_corrects``: the news itself denies or corrects something, so a
    party's denial on an established page is its official statement. ``quotes_failed``: more than a third of the critic's
    quotes were not on their pages.
    """

    critic: CritiqueVerdict | None = None
    by_words: bool = False
    denies_or_corrects: bool = False
    unread: bool = False
    quotes_failed: bool = False
    partly_refuted: bool = False
    measured: Measured | None = None
    threshold: int = 3


def judge_witnesses(witnesses: Sequence[Witness], reading: Reading) -> Judgement:
    """Return the first verdict that fits: refuted, disputed, stale, confirmed, likely, unconfirmed."""
    supports = [w for w in witnesses if w.stance == "supports"]
    denies = [w for w in witnesses if w.stance == "denies"]
    official = [w for w in supports if _is_official_support(w, reading)]
    sources = len({w.source for w in supports})
    flags = _flags(supports, denies, official, reading)
    active = [w for w in supports if w.official or not _is_retracted(w, denies)]
    verdict, (low, high) = _verdict(witnesses, active, denies, official, reading)
    return Judgement(
        verdict=verdict,
        low=low,
        high=high,
        cap=CAPS[verdict],
        supporting_sources=sources,
        independent_sources=len({w.source for w in witnesses}),
        official_confirmed=any(w.official for w in supports),
        denied=bool(denies),
        conflict=bool(denies and supports),
        stale=verdict == "stale" or (not denies and _is_stale(witnesses, supports)),
        flags=flags,
    )


def _is_retracted(support: Witness, denies: Sequence[Witness]) -> bool:
    """Return whether the source that a page repeats has since denied its own report. Its latest statement counts."""
    return any(
        w.source == support.source and w.established and w.quoted
        and (support.published is None or w.published is None or w.published >= support.published)
        for w in denies
    )  # fmt: skip


def unchecked(independent_sources: int = 0) -> Judgement:
    """Return the judgement ``unchecked``."""
    return Judgement(
        verdict="unchecked",
        low=0.0,
        high=0.0,
        cap=CAPS["unchecked"],
        supporting_sources=0,
        independent_sources=independent_sources,
        official_confirmed=False,
        denied=False,
        conflict=False,
        stale=False,
    )


def _verdict(
    witnesses: Sequence[Witness],
    supports: list[Witness],
    denies: list[Witness],
    official: list[Witness],
    reading: Reading,
) -> tuple[Verdict, tuple[float, float]]:
    # A denial found by the word rules alone makes the claim disputed, whoever speaks: no model has read the page.
    quoted = [w for w in denies if w.quoted]
    word = _last_word(official, [w for w in quoted if w.speaker is not None])
    others = [w for w in denies if w.speaker is None or w not in quoted]
    if reading.denies_or_corrects and (stated_at := _last(official)) is not None:
        # Pages from before the party's denial report what it denies; they do not contradict it.
        others = [w for w in others if w.published is None or w.published >= stated_at]
    if measured := reading.measured == "confirms":
        # A measured figure outweighs the press.
        others = [w for w in others if w.speaker is not None or w.official]
    established = [w for w in others if _is_grave(w, reading)]
    refuted = any(w.quoted for w in established) and not official and (not supports or reading.critic == "refuted")
    if reading.measured == "contradicts" or word == "denies" or refuted:
        return "refuted", _AGAINST
    # A denial that is neither official nor established does not outweigh the party's own page.
    outweighed = bool(official) and not established
    if word == "open" or (others and not outweighed) or reading.critic in {"conflicting", "refuted"}:
        return "disputed", _AGAINST
    if _is_stale(witnesses, supports) and not measured:
        return "stale", _AGAINST
    return _raised(supports, official, reading, denied=bool(others))


def _raised(
    supports: list[Witness], official: list[Witness], reading: Reading, *, denied: bool
) -> tuple[Verdict, tuple[float, float]]:
    sources = len({w.source for w in supports})
    established = len({w.source for w in supports if w.established})
    dated = any(w.age is not None for w in supports if w.established or w.official)
    enough = sources >= reading.threshold and established >= _ESTABLISHED_TO_CONFIRM and not reading.by_words
    barred = reading.critic == "not_enough_evidence" or reading.partly_refuted
    # A figure needs no quote.
    if not barred and reading.measured == "confirms":
        return "confirmed", (0.10, 0.15)
    if not barred and not reading.unread and not reading.quotes_failed and dated and (official or enough):
        if reading.by_words:  # an official page says so, and nobody has read it
            return "confirmed", (0.0, 0.0)
        if official and enough:
            return "confirmed", (0.15, 0.20)
        return "confirmed", ((0.0, 0.05) if official else (0.05, 0.10))
    if not denied and (established or sources >= 2):
        return "likely", ((0.0, 0.0) if established >= _ESTABLISHED_TO_CONFIRM else (-0.10, -0.05))
    return "unconfirmed", (-0.20, -0.10)


def _is_grave(denial: Witness, reading: Reading) -> bool:
    """Return whether a denial by a third party disputes an official page."""
    # If only the word rules read it, it must be an official page.
    return denial.official or (denial.established and not (reading.by_words and not denial.quoted))


def _is_official_support(witness: Witness, reading: Reading) -> bool:
    # A party's denial may be reported by an established page; its confirmation must be on its own page.
    return witness.official or (reading.denies_or_corrects and witness.speaker is not None and witness.established)


def _last_word(official: list[Witness], denials: list[Witness]) -> Literal["none", "supports", "denies", "open"]:
    """Return the parties' latest statement. ``open``: parties contradict each other, or dates do not settle the order."""
    words = {
        _newest([w for w in official if w.speaker == of], [w for w in denials if w.speaker == of])
        for of in {w.speaker for w in (*official, *denials)}
    }
    return words.pop() if len(words) == 1 else "open" if words else "none"


def _newest(supporting: list[Witness], denied: list[Witness]) -> Literal["supports", "denies", "open"]:
    if not supporting or not denied:
        return "denies" if denied else "supports"
    last, last_denied = (_last(supporting), _last(denied))
    # An undated page may be the newest; if it agrees with the newest statement, it changes nothing.
    if last_denied is not None and all(_is_before(w.published, last_denied) for w in supporting):
        return "denies"
    if last is not None and all(_is_before(w.published, last) for w in denied):
        return "supports"
    return "open"


def _is_before(at: datetime | None, other: datetime) -> bool:
    """Return whether one page is surely older. A page dated by its UTC day alone (midnight) may be of any hour of that day."""
    if at is None:
        return False
    return at + timedelta(days=1) <= other if at.time() == time.min else at < other


def _last(of: list[Witness]) -> datetime | None:
    return max((w.published for w in of if w.published is not None), default=None)


def _is_stale(witnesses: Sequence[Witness], supports: list[Witness]) -> bool:
    if supports and all(w.age is not None and w.age > STALE_AFTER for w in supports):
        return True
    fresh = any(w.age is not None and w.age <= STALE_AFTER for w in supports)
    earlier = [w for w in witnesses if w.stance == "earlier"]
    # One unrated page does not make an undated report of an established or official page old.
    alone = len({w.source for w in earlier}) == 1 and not any(w.established or w.official for w in earlier)
    return bool(earlier) and not fresh and not (alone and any(w.established or w.official for w in supports))


def _flags(
    supports: list[Witness], denies: list[Witness], official: list[Witness], reading: Reading
) -> tuple[str, ...]:
    flags = []
    others = [w for w in denies if w.speaker is None]
    if official and others and not any(_is_grave(w, reading) for w in others):
        flags.append("weak_denial")
    if any(w.age is None for w in supports):
        flags.append("undated_evidence")
    if reading.quotes_failed:
        flags.append("quotes_failed")
    if reading.partly_refuted:
        flags.append("partly_refuted")
    return tuple(flags)

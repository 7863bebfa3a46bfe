"""Revisions: the current one on ``signals``, and the next: a judgement, a preliminary signal, or a derived revision.

A withdrawal and a corroboration are derived from the current revision. A signal is withdrawn if another case denies or
corrects it or is better founded, or if its own case ends without a signal after a preliminary revision. A signal is
corroborated if other owners report its story. A second look's signal replaces an unconfirmed one. The current revision
is read from ``signals`` by its offset (:mod:`streams.publish.published`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NamedTuple

from aiokafka import TopicPartition
from msgspec import UNSET
from msgspec.structs import replace

from agents.evidence.policy import LOW_CONFIDENCE
from agents.evidence.summary import with_summary
from agents.evidence.verdict import CAPS, better_founded
from agents.signal import selling_rule_note
from infra.kafka.topics import KafkaAddress, read_range
from infra.late_log import log_of
from schemas import envelope as wire
from schemas.envelope import NewerSignalError, read_signal
from schemas.errors import ContractError
from schemas.events import (
    CaseDropped,
    CaseFailed,
    CaseTriaged,
    Event,
    RetractionFound,
    SignalSynthesized,
    StoryCorroborated,
)
from schemas.ids import signal_id
from schemas.news import is_asked
from schemas.signals import (
    ACTED_ON,
    BELOW_SELLING_RULE,
    EXPIRED,
    NO_ASSET,
    WITHDRAWN,
    Adjustment,
    Signal,
    SignalEvidence,
    Verdict,
)
from streams.publish.pending_revisions import PendingRevision
from streams.publish.published import Place, Published

PRELIMINARY = b'"preliminary_signal":'
"""Marks a triage that publishes at once. Others need not be decoded."""
_COMMITTED: dict[str, Any] = {"isolation_level": "read_committed"}
Withdrawn = Literal["retracted", "superseded"]


class Item(NamedTuple):
    """One revision to publish, and the journal event that it represents. Its number is assigned when it is sent."""

    signal: Signal
    env: wire.Envelope
    partition: int
    offset: int


async def signal_at(address: KafkaAddress, topic: str, place: Place) -> Signal | None:
    """Return the revision at an offset; None if it is unreadable.

    Raises:
        NewerSignalError: a newer version published it.
    """
    span = {TopicPartition(topic, place.partition): (place.offset, place.offset + 1)}
    async for _, records in read_range(address, span, **_COMMITTED):
        try:
            return read_signal(records[0])[0]
        except NewerSignalError:
            raise
        except ContractError as exc:
            log_of(__name__).error("a signal that does not decode is not retracted", why=str(exc))
    return None


def decoded(env: wire.Envelope, record: Any) -> Event | None:
    """Return the event of an accepted record; None if it does not decode (its case is quarantined).

    Raises:
        NewerSchemaError: a newer version wrote it.
    """
    try:
        return wire.decode(env.type, env.version, record.value)
    except wire.NewerSchemaError:
        raise
    except ContractError as exc:
        log_of(__name__).error(
            "an event that does not decode is not published; its case is quarantined", case=env.case_id, why=str(exc)
        )
        return None


class Batch:
    """The revisions of one transaction, in order."""

    def __init__(self, address: KafkaAddress, topic: str, published: Published) -> None:
        self._address, self._topic, self._published = address, topic, published
        self._newest: dict[str, Signal] = {}
        self.items: list[Item] = []

    def stands(self, signal_id: str) -> bool:
        """Return whether a revision of the signal is published or in this batch."""
        return signal_id in self._newest or self._published.place(signal_id) is not None

    async def take(self, event: Event, env: wire.Envelope, partition: int, offset: int) -> None:
        """Add the event's signal, or withdraw its case's signal. A second look's signal revises its first case's."""
        signal = signal_in(event)
        if signal is not None and is_asked(signal.news_source):
            return
        if signal is not None and of_first_case(signal, env):
            await self._revise(signal.signal_id, event, env, partition, offset)
        elif signal is not None:
            self._add(Item(signal, env, partition, offset))
        elif isinstance(event, CaseDropped | CaseFailed):
            await self._revise(signal_id(env.run_id, env.case_id), event, env, partition, offset)

    async def revise(self, pending: PendingRevision) -> None:
        """Revise the signal that a retraction or a corroboration names, if there is one.

        Of two signals of one event, it revises the less well founded one.
        """
        event, of = pending.event, pending.event.signal_id
        if isinstance(event, RetractionFound) and event.rival is not None:
            own = signal_id(pending.env.run_id, pending.env.case_id)
            earlier, later = await self._current(of), await self._current(own)
            if earlier is None or later is None or {earlier.stage, later.stage} & WITHDRAWN:
                return
            of = own if superseded_of(event, earlier) == "later" else of
        await self._revise(of, event, pending.env, pending.partition, pending.offset)

    async def _revise(self, of: str, event: Event, env: wire.Envelope, partition: int, offset: int) -> None:
        last = await self._current(of)
        revised = None if last is None else revised_by(last, event, env.time)
        if revised is not None:
            self._add(Item(revised, env, partition, offset))

    async def _current(self, of: str) -> Signal | None:
        if of in self._newest:
            return self._newest[of]
        place = self._published.place(of)
        return None if place is None else await signal_at(self._address, self._topic, place)

    def _add(self, item: Item) -> None:
        self._newest[item.signal.signal_id] = item.signal
        self.items.append(item)


def signal_in(event: Event | None) -> Signal | None:
    """Return the final or preliminary signal that an event publishes; None if it publishes none."""
    match event:
        case SignalSynthesized(signal=signal):
            return signal
        case CaseTriaged(preliminary_signal=signal):
            return signal
        case _:
            return None


def of_first_case(signal: Signal, env: wire.Envelope) -> bool:
    """Return whether a case's event holds the signal of another case, as a second look's event does."""
    return signal.signal_id != signal_id(env.run_id, env.case_id)


def revised_by(last: Signal, event: Event, at: datetime) -> Signal | None:
    """Return the revision of a signal that another case's event, or its own case's end, causes; None if it causes none.

    If stage or verdict change, the summary is derived again from them. The audit recomputes each revision to compare
    it: if the wording changed here, earlier revisions would look forged.
    """
    if isinstance(event, SignalSynthesized):
        return _second_look_revision(last, event.signal)
    revised = _corroborated(last, event, at) if isinstance(event, StoryCorroborated) else withdrawn(last, event, at)
    if revised is None or (revised.stage, revised.verdict) == (last.stage, last.verdict):
        return revised
    return with_summary(revised)


CORROBORATED = "corroborated"
"""Rule of the last adjustment in a revision that other reports of the story caused."""
_RAISED: tuple[Verdict | None, ...] = ("unchecked", "unconfirmed", "likely", "confirmed")
"""Verdicts in the order in which corroboration raises them. It changes no other verdict."""


def _second_look_revision(last: Signal, signal: Signal) -> Signal | None:
    """Return a second look's signal; None if the first case's signal was retracted or raised as far meanwhile."""
    if last.stage != "final" or last.verdict not in _RAISED[:-1]:
        return None
    if signal.verdict in _RAISED and _RAISED.index(signal.verdict) <= _RAISED.index(last.verdict):
        return None
    return signal


def _corroborated(last: Signal, event: StoryCorroborated, at: datetime) -> Signal | None:
    """Return the revision that the story's other reports cause; None if they change nothing, or have another order.

    The confidence is the first judgement's after the new verdict's change and cap. The selling rule of the other case's map
    applies to it. A live report removes the flag ``late``, even if it raises nothing. In records from before corroborations named their asset, an order only has to
    match in direction.
    """
    if last.stage != "final" or last.verdict not in _RAISED or event.verdict not in _RAISED or not _fits(last, event):
        return None
    lifted = _LIFTED | ({"late"} if event.live else set())
    if _RAISED.index(event.verdict) <= _RAISED.index(last.verdict):
        return _live_revision(last, event, at) if event.live and "late" in last.risk_flags else None
    level = round(min(CAPS[event.verdict], max(0.0, last.preliminary_confidence + event.amount)), 4)
    acts = event.verdict in ACTED_ON and event.direction == last.direction and last.asset != NO_ASSET
    urls = {e.url for e in last.evidence}
    new = tuple(e for e in event.evidence if e.url not in urls)
    # As in every other case: a single page is thin evidence for an unconfirmed claim.
    thin = ("data_incomplete",) if event.verdict == "likely" and event.supporting_sources < 2 else ()
    orders, reason = acts and event.action != "observe", event.reason
    expired = (EXPIRED,) if orders and last.valid_until <= at else ()
    ruled_out: tuple[str, ...] = ()
    if orders and event.sell_from is not None and level < event.sell_from:
        note = selling_rule_note(last.language, level, event.sell_from)
        acts, ruled_out, reason = (
            False,
            (BELOW_SELLING_RULE,),
            f"{reason}{'；' if last.language == 'zh' else '; '}{note}",
        )
    flags = tuple(dict.fromkeys((*(f for f in last.risk_flags if f not in lifted), *thin, *expired, *ruled_out)))
    change = Adjustment(rule=CORROBORATED, amount=round(level - last.confidence, 4), reason=event.reason)
    return replace(
        _with_evidence(last, reason, at, new),
        verdict=event.verdict,
        unchecked_reason=None,
        action=event.action if acts else "observe",
        confidence=level,
        **_uncalibrated(last),
        supporting_sources=max(last.supporting_sources or 0, event.supporting_sources),
        independent_sources=max(last.independent_sources, event.independent_sources),
        risk_flags=(*flags, "confidence_low") if level < LOW_CONFIDENCE else flags,
        adjustments=(*last.adjustments, change),
    )


_LIFTED = frozenset({"confidence_low", "data_incomplete", "not_deep_analysed", BELOW_SELLING_RULE})
"""Flags that the new judgement sets again if they still hold, or for gaps that other owners' reports fill."""


def _fits(last: Signal, event: StoryCorroborated) -> bool:
    """Return whether a corroboration has the signal's asset, direction and action. ``observe`` matches any action."""
    if event.asset is None:
        return True
    same = (event.asset, event.direction) == (last.asset, last.direction)
    return same and last.action in {event.action, "observe"}


def _live_revision(last: Signal, event: StoryCorroborated, at: datetime) -> Signal:
    urls = {e.url for e in last.evidence}
    return replace(
        _with_evidence(last, event.reason, at, tuple(e for e in event.evidence if e.url not in urls)),
        risk_flags=tuple(f for f in last.risk_flags if f != "late"),
        adjustments=(*last.adjustments, Adjustment(rule=CORROBORATED, amount=0.0, reason=event.reason)),
    )


def superseded_of(event: RetractionFound, earlier: Signal) -> Literal["earlier", "later", "neither"]:
    """Return which of two signals of one event is superseded: that of the earlier case, or of this event's case."""
    rival = event.rival
    if rival is None or earlier.verdict is None:
        return "neither"
    stays = better_founded(rival.verdict, earlier.verdict, own_page=rival.own_page)
    if stays == "later":
        return "earlier"
    return "later" if stays == "earlier" and rival.same_slots else "neither"


def withdrawn(last: Signal, event: Event, at: datetime) -> Signal | None:
    """Return the revision that withdraws a signal; None if it is withdrawn already or the event withdraws nothing.

    Nobody may act on it any more: ``observe``, neutral, confidence 0, flagged, with the reason before the notes and the
    denying pages before the others. A retracted signal stays retracted; a superseded one may still be retracted. A
    signal that another case denies is ``refuted``. A superseded signal, and one whose case ended, keep their last
    verdict.
    """
    match event:
        case RetractionFound(rival=rival) if rival is not None:
            return _outdone(last, event, at)
        case RetractionFound(kind=kind, reason=reason, evidence=evidence):
            if last.stage in ("retracted", kind):
                return None
            if kind == "retracted":
                last = replace(last, verdict="refuted", unchecked_reason=None)
            return _revised(last, kind, reason, at, evidence)
        case CaseDropped() | CaseFailed() if last.stage == "preliminary":
            why = event.reason
            zh = f"该案例未得出最终信号({why}), 初判撤回"
            en = f"the case ended without a final signal ({why}): the first judgement is withdrawn"
            return _revised(last, "retracted", zh if last.language == "zh" else en, at, ())
        case _:
            return None


def _outdone(last: Signal, event: RetractionFound, at: datetime) -> Signal | None:
    """Return the revision of a signal if another signal of the same event is better founded."""
    if last.stage in WITHDRAWN:
        return None
    if last.signal_id == event.signal_id:
        better = superseded_of(event, last) == "earlier"
        return _revised(last, "superseded", event.reason, at, event.evidence) if better else None
    zh = f"案例 {event.of_case} 对同一事件的报道依据更充分"
    en = f"a better-founded report of the same event: case {event.of_case}"
    return _revised(last, "superseded", zh if last.language == "zh" else en, at, ())


def _revised(last: Signal, stage: Withdrawn, reason: str, at: datetime, evidence: tuple[SignalEvidence, ...]) -> Signal:
    zero = Adjustment(rule=stage, amount=-last.confidence, reason=reason)
    return replace(
        _with_evidence(last, reason, at, evidence),
        stage=stage,
        action="observe",
        direction="neutral",
        confidence=0.0,
        **_uncalibrated(last),
        risk_flags=tuple(dict.fromkeys((*last.risk_flags, stage))),
        adjustments=(*last.adjustments, zero),
    )


def _uncalibrated(last: Signal) -> dict[str, Any]:
    """Return a revision's new calibration: none, because maps are fitted on confidences of cases' own judgements.

    A signal of older code keeps its shape, so that the audit recomputes its bytes.
    """
    return {"confidence_calibrated": None} | ({} if last.calibration is UNSET else {"calibration": None})


def _with_evidence(last: Signal, reason: str, at: datetime, evidence: tuple[SignalEvidence, ...]) -> Signal:
    """Return a signal with further pages, whose links come first, and with the reason before its notes."""
    known = max((e.reference_number for e in last.evidence), default=0)
    new = tuple(replace(e, reference_number=known + n) for n, e in enumerate(evidence, start=1))
    return replace(
        last,
        decided_at=at,
        notes=f"{reason}. {last.notes}" if last.notes else reason,
        links=tuple(dict.fromkeys((*(e.url for e in new), *last.links))),
        evidence=(*last.evidence, *new),
    )

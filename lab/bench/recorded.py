"""A journal as a real installation leaves it: the demo's 42 cases, run once offline, then copied under new ids.

Every event keeps its size, its calls and their replies. Each copy has the ids, keys and partitions of a separate case.
Cases are interleaved as a busy worker leaves them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import zip_longest
from typing import Any

import msgspec
from msgspec.structs import replace

from agents.core.case import Case, fold, open_case
from agents.core.step import Step
from agents.core.step_turn import ask, successor_id, tell
from agents.graphs import verification
from infra.models.embeddings.hashing import cosine, embed
from infra.offline.sample_news import sample_news
from infra.ports import Answer, Free, Ports
from infra.settings import Settings
from newsproof.app.composition import FULL_PIPELINE, snapshot_of
from schemas import envelope as wire
from schemas.effects import ConcernedReply, EarlierReply, Effect, FindEarlier, Recall, RecallReply, Reply
from schemas.events import Event, EventReceived, SignalSynthesized
from schemas.evidence import MemoryEntry
from schemas.ids import LIVE_RUN, signal_id, uuid5
from schemas.news import language_of
from schemas.signals import Signal
from schemas.topics import partition_of
from streams.effects.host import EffectsHost
from streams.journal.clock import utc_now

AT_ONCE = 200
"""Number of cases open at the same time in the written journal."""
RecordedEvent = tuple[Event, str, str | None]
"""(event, its id, its cause)."""


class RecordedCase(msgspec.Struct, frozen=True):
    """One of the demo's cases: its id and its events in log order."""

    case_id: str
    events: tuple[RecordedEvent, ...]


async def recorded_cases() -> list[RecordedCase]:
    """Run the demo's news through the real steps with offline providers, without a server."""
    settings = Settings(_env_file=None, newsproof_mode="offline").model_copy(update=FULL_PIPELINE)  # type: ignore[call-arg]
    snapshot = snapshot_of(settings)
    remembered = _Remembered()
    host = EffectsHost(_ports(remembered))
    cases: list[RecordedCase] = []
    for sample in sample_news():
        item = replace(sample, received_at=sample.published_at)
        event = EventReceived(
            news=item, config_hash=snapshot.config_hash, text_hash=item.text_hash, language=language_of(item)
        )
        first = uuid5("opening", LIVE_RUN, item.case_id)
        case = open_case(event, case_id=item.case_id, event_id=first, run_id=LIVE_RUN, at=utc_now(), config=snapshot)
        events = [(event, first, None), *[one async for one in _lived(host, case)]]
        cases.append(RecordedCase(item.case_id, tuple(events)))
        remembered.take(item.text, events[-1][0])
    return cases


class _Remembered(Free):
    """Answers for memory and the journal's index from the cases run so far."""

    provider, mode = "offline", "offline"

    def __init__(self) -> None:
        self._entries: list[tuple[list[int], MemoryEntry]] = []

    def take(self, text: str, event: Event) -> None:
        if isinstance(event, SignalSynthesized):
            s = event.signal
            entry = MemoryEntry(
                case_id=s.case_id, summary=s.summary, event_type=s.event_type, asset=s.asset, confidence=s.confidence,
                similarity=0.0, decided_at=s.decided_at, signal_id=s.signal_id,
            )  # fmt: skip
            self._entries.append((embed(text), entry))

    async def perform(self, effect: Effect) -> Answer:
        reply: Reply = ConcernedReply(claims=())
        if isinstance(effect, FindEarlier):
            reply = EarlierReply(first_case=None)
        elif isinstance(effect, Recall):
            vector = embed(effect.text)
            near = [(cosine(v, vector), e) for v, e in self._entries]
            best = sorted(near, key=lambda one: -one[0])[: effect.limit]
            reply = RecallReply(entries=tuple(replace(e, similarity=round(s, 6)) for s, e in best if s >= 0.4))
        return Answer(reply=reply, cost_usd=None)

    async def close(self) -> None:
        return None


def _ports(remembered: Any) -> Ports:
    from infra.offline.model import OfflineModel
    from infra.offline.pages import OfflinePages
    from infra.offline.search import OfflineSearch

    model, search = OfflineModel(latency_s=0.0), OfflineSearch(latency_s=0.0)
    pages = OfflinePages(search.documents, latency_s=0.0)
    return Ports(
        models={"light": model, "heavy": model}, search={search.provider: search}, recall=remembered,
        earlier=remembered, concerned=remembered, scrape=pages,
    )  # fmt: skip


async def _lived(host: EffectsHost, case: Case) -> AsyncIterator[RecordedEvent]:
    registry = verification()
    while (step := registry.next_step(case)) is not None:
        for event in await _answered(host, step, case):
            new = successor_id(case, event)
            yield event, new, case.head_id
            case = fold(case, event, event_id=new, at=utc_now())


async def _answered(host: EffectsHost, step: Step, case: Case) -> list[Event]:
    asked = ask(step, case)
    if isinstance(asked, Event):
        return [asked]
    return [
        tell(step, case, asked, wanted, await host.perform(e, case_id=case.case_id, head_id=case.head_id, attempt=1))
        for wanted, e in asked.effects.items()
    ]


def told_again(
    cases: list[RecordedCase], events: int, *, partitions: int
) -> Iterator[tuple[dict[str, Any], Signal | None]]:
    """Yield at least this many journal records, as arguments of a producer's ``send``, each with the signal it holds."""
    number, left = 0, events
    while left > 0:
        together: list[list[tuple[dict[str, Any], Signal | None]]] = []
        while len(together) < AT_ONCE and left > 0:
            copied = list(_copied(cases[number % len(cases)], number, partitions))
            together.append(copied)
            number, left = number + 1, left - len(copied)
        for row in zip_longest(*together):
            yield from filter(None, row)


def _copied(case: RecordedCase, number: int, partitions: int) -> Iterator[tuple[dict[str, Any], Signal | None]]:
    new_id = uuid5("told-again", case.case_id, str(number))
    renamed = {None: None} | {old: uuid5(old, str(number)) for _, old, _ in case.events}
    exchanged = ((case.case_id, new_id), (signal_id(LIVE_RUN, case.case_id), signal_id(LIVE_RUN, new_id)))
    at = utc_now()
    for event, old, cause in case.events:
        _, value, headers = wire.encode(
            event, id=str(renamed[old]), case_id=new_id, causation_id=renamed[cause], run_id=LIVE_RUN, time=at
        )
        for before, after in exchanged:
            value = value.replace(before.encode(), after.encode())
        signal = (
            msgspec.json.decode(value, type=SignalSynthesized).signal if isinstance(event, SignalSynthesized) else None
        )
        yield {"value": value, "key": new_id.encode(), "headers": headers,
               "partition": partition_of(new_id, partitions)}, signal  # fmt: skip

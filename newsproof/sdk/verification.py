"""Verification of one claim: is it true, and according to whom? The claim is a case of the journal, and never a signal.

Anybody may ask, so a verification affects no other case (:func:`schemas.news.is_asked`): it does not
count as a report, retracts nothing, and is not published. The same steps judge it as news; it can be replayed, is audited, and is
paid from its own share of the budget.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
from aiokafka import TopicPartition

from infra.client_settings import load_client_settings
from infra.kafka.topics import KafkaAddress
from newsproof.sdk.client import address_of, checked_news
from schemas import envelope as wire
from schemas import events as ev
from schemas.errors import ContractError, TransientError
from schemas.evidence import SearchReference
from schemas.ids import LIVE_RUN, normalise_text, text_hash, uuid5
from schemas.news import ASKED_PREFIX, News
from schemas.signals import Signal, Verdict
from schemas.topics import Topics, partition_of
from streams.feed.follower import Follower
from streams.journal.fold import JournalFold
from streams.journal.log import Bounds, KafkaLog, starts_since

FRESH = timedelta(hours=1)
"""Within this time after it was first asked, the same claim of the same client is answered from the log, at no cost."""
MAX_CLAIM = 2_000
"""Characters of a claim."""
_CLOCKS_DIFFER = timedelta(minutes=5)
READ_WITHIN_S = 10.0
DEADLINE_S = 30.0
_OPENING = b'"source":"' + ASKED_PREFIX.encode()
_SUPPORTS, _DENIES = "supports", "denies"
_STAGES: dict[type[Any], str] = {
    ev.EventReceived: "waiting to be read",
    ev.CaseTriaged: "read",
    ev.ContextGathered: "compared with past cases",
    ev.ToolPlanned: "searching",
    ev.SearchCompleted: "searched",
    ev.PagesScraped: "pages read",
    ev.KeywordsExpanded: "searching again",
    ev.EvidenceCritiqued: "evidence read",
    ev.CaseDegraded: "judged without a search",
}
"""Event → what it means for the asker, as ``reached``."""


class Send(Protocol):
    """Appends a record."""

    def __call__(self, topic: str, value: bytes, **record: Any) -> Awaitable[Any]: ...


class Quote(msgspec.Struct, frozen=True, kw_only=True):
    """One page that supports or denies the claim. ``quote``: verbatim, untrusted text of a stranger; None without one.

    ``owner``: who owns the page; ``speaker``: the party or authority that it is or quotes. ``published_at``: its own date, UTC.
    ``read_at``: when the search found it, UTC; its ``hash`` is over the text that was read.
    """

    stance: str
    quote: str | None
    url: str
    owner: str
    speaker: str | None
    official: bool
    published_at: datetime | None
    read_at: datetime | None
    hash: str


class Searched(msgspec.Struct, frozen=True, kw_only=True):
    """One search: provider, query and number of results; ``failure``: why it gave none."""

    provider: str
    query: str
    hits: int
    failure: str | None = None


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. ``verdict`` and ``confidence`` (0–1) as in docs/verification.md; ``unchecked`` means that there is no result.

    ``reached``: ``final``, or the state of the case, which continues; the same claim gets the final answer later. ``why``: why
    an unchecked claim has no result. The sentences are one line each. ``quotes``: supporting and denying pages, official ones
    first. ``cost_usd``: of this case; None if a price is unknown; 0 if the answer came from the log (``from_log``).
    ``seconds``: duration of this call. With a ``provider_mode`` other than live, the answer is for testing only.
    """

    verdict: Verdict
    confidence: float
    sentence_en: str
    sentence_zh: str
    quotes: tuple[Quote, ...]
    searched: tuple[Searched, ...]
    cost_usd: float | None
    seconds: float
    case_id: str
    reached: str
    why: str | None = None
    from_log: bool = False
    provider_mode: str = ""


class _Question:
    """What the log says of one verification so far. ``moved`` is set at each event."""

    def __init__(self, news: News, at: datetime) -> None:
        self.news, self.at = news, at
        self.moved = asyncio.Event()
        self.last: Any = None
        self.signal: Signal | None = None
        self.searched: list[Searched] = []
        self.pages: dict[str, SearchReference] = {}
        self._cost: Decimal | None = Decimal(0)
        self._cancelled = ""

    @property
    def ended(self) -> bool:
        return isinstance(self.last, ev.SignalSynthesized | ev.CaseDropped | ev.CaseFailed)

    @property
    def cost_usd(self) -> float | None:
        return None if self._cost is None else float(self._cost)

    def take(self, event: Any) -> None:
        for call in event.calls:
            known = self._cost is not None and call.cost_usd is not None
            self._cost = self._cost + call.cost_usd if known else None
        if isinstance(event, ev.EffectCompleted):
            return
        self.last = event
        match event:
            case ev.SearchCompleted(outcomes=outcomes, findings=findings):
                self.pages |= {page.url: page for page in findings.references}
                for outcome in outcomes:
                    failure = None if outcome.failure is None else outcome.failure.kind
                    self.searched.append(
                        Searched(provider=outcome.provider, query=outcome.query, hits=outcome.hits, failure=failure)
                    )
            case ev.SignalSynthesized(signal=signal):
                self.signal = signal
            case ev.CancelRequested(reason=reason):
                self._cancelled = reason
            case _:
                pass
        self.moved.set()
        self.moved = asyncio.Event()

    def answer(self, *, seconds: float, from_log: bool) -> Verification:
        """Return the answer as of now."""
        more: dict[str, Any] = {
            "searched": tuple(self.searched),
            "cost_usd": 0.0 if from_log else self.cost_usd,
            "seconds": round(seconds, 3),
            "case_id": self.news.case_id,
            "from_log": from_log,
        }
        signal = self.signal
        if signal is None:
            return self._unfinished(more)
        return Verification(
            verdict=signal.verdict or "unchecked",
            confidence=signal.confidence,
            sentence_en=signal.summary_en or signal.summary,
            sentence_zh=signal.summary_zh or signal.summary,
            quotes=tuple(self._quotes(signal)),
            reached="final",
            why=signal.unchecked_reason,
            provider_mode=signal.provider_mode,
            **more,
        )

    def _unfinished(self, more: dict[str, Any]) -> Verification:
        match self.last:
            case ev.CaseDropped(detail=detail):
                why, reached, en, zh = detail, "final", f"Not checked ({detail})", "未核实（不含可核实的内容）"
            case ev.CaseFailed() if self._cancelled:
                why, reached = self._cancelled, "final"
                en, zh = f"Not checked ({self._cancelled})", "未核实（超出费用上限）"
            case ev.CaseFailed(reason=failed):
                why, reached, en, zh = failed, "final", f"Not checked (the case failed: {failed})", "未核实（核查失败）"
            case _:
                reached = _STAGES.get(type(self.last), "waiting to be read")
                why, en, zh = "deadline", f"Not checked yet ({reached})", "尚未核实完毕"
        return Verification(
            verdict="unchecked",
            confidence=0.0,
            sentence_en=f"{en}: {self.news.text}",
            sentence_zh=f"{zh}：{self.news.text}",
            quotes=(),
            reached=reached,
            why=why,
            **more,
        )

    def _quotes(self, signal: Signal) -> Iterator[Quote]:
        shown = [evidence for evidence in signal.evidence if evidence.stance in (_SUPPORTS, _DENIES)]
        for evidence in sorted(shown, key=lambda page: (not page.official, page.reference_number)):
            page = self.pages.get(evidence.url)
            yield Quote(
                stance=evidence.stance,
                quote=evidence.quote,
                url=evidence.url,
                owner=(page.owner if page is not None else "") or urlsplit(evidence.url).hostname or "",
                speaker=evidence.speaker,
                official=evidence.official,
                published_at=evidence.published_at,
                read_at=None if page is None else page.timestamp,
                hash=evidence.hash,
            )


class Verifier:
    """Submits claims and reads their answers over one connection, for any number of callers. Made by :func:`verifying`."""

    def __init__(self, address: KafkaAddress, topics: Topics, send: Send) -> None:
        """``send``: appends a record to a topic, and returns once it is durable."""
        self._send, self._topics = send, topics
        self._asked: dict[str, _Question] = {}
        self._folds: dict[TopicPartition, JournalFold] = {}
        self._log = log = KafkaLog(address, client_id="newsproof-verify")
        self.follower = Follower(log, topics.cases, start=self._start, take=self._take, isolation="read_uncommitted")

    async def verify(
        self,
        claim: str,
        *,
        client: str,
        deadline_s: float = DEADLINE_S,
        max_cost_usd: float | None = None,
        language: str | None = None,
    ) -> Verification:
        """Return the answer, or the best one at the deadline (seconds).

        ``client`` names the asker: one asker's claim opens one case within :data:`FRESH`. ``max_cost_usd``: once the case has
        cost more, it is cancelled, and the answer says so; the calls that run then are paid. ``language``: zh or en; None: as
        detected.

        Raises:
            ContractError: the claim is empty, too long or no text; the text says what to change.
            TransientError: Kafka does not respond, so nothing was asked.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        now = datetime.now(UTC)
        before = _news_of(claim, client, language, now - FRESH)
        asked, from_log = _news_of(claim, client, language, now), False
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                await self.follower.ready.wait()
                for news in (asked, before):
                    known = self._asked.get(news.case_id)
                    if known is not None and now - known.at < FRESH:
                        asked, from_log = known.news, known.ended
                        break
                else:
                    _, value = checked_news(asked, now=now)
                    self._asked[asked.case_id] = _Question(asked, now)
                    try:
                        await self._send(self._topics.news, value, key=asked.key)
                    except BaseException:
                        del self._asked[asked.case_id]  # asked again, it is sent again
                        raise
        except TimeoutError as exc:
            raise TransientError(
                "Kafka does not respond, so it is unknown whether the claim was submitted: submit it again, which opens no second case",
                kind="unavailable",
            ) from exc
        case = self._asked[asked.case_id]
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, deadline_s - (loop.time() - began))):
                while not case.ended:
                    if max_cost_usd is not None and (case.cost_usd or 0.0) > max_cost_usd:
                        await self._cancel(asked.case_id, max_cost_usd)
                        max_cost_usd = None
                    await case.moved.wait()
        return case.answer(seconds=loop.time() - began, from_log=from_log)

    async def _cancel(self, case_id: str, limit: float) -> None:
        key, value, headers = wire.encode(
            ev.CancelRequested(requested_by="newsproof-verify", reason=f"it cost more than {limit:g} USD"),
            id=uuid5("command", case_id, "max-cost"), case_id=case_id, causation_id=None, run_id=LIVE_RUN,
            time=datetime.now(UTC), source="newsproof-verify",
        )  # fmt: skip
        partition = partition_of(case_id, len(self._folds))
        await self._send(self._topics.cases, value, key=key, partition=partition, headers=headers)

    # Reading

    async def _start(self, bounds: Bounds) -> dict[TopicPartition, int]:
        since = datetime.now(UTC) - FRESH - _CLOCKS_DIFFER
        starts = await starts_since(self._log, self._topics.cases, int(since.timestamp() * 1000))
        # No tombstones of before, which take long to read: the verifications that matter were opened after these offsets.
        self._folds = {tp: JournalFold(start, partitions=len(starts)) for tp, start in starts.items()}
        return starts

    def _take(self, tp: TopicPartition, records: Sequence[Any]) -> None:
        for env, record in self._folds[tp].accept(records):
            is_opening = env.type == ev.OPENING_NAME and _OPENING in (record.value or b"")
            if not is_opening and env.case_id not in self._asked:
                continue
            try:
                event = wire.decode(env.type, env.version, record.value)
            except ContractError:
                continue  # the runtime quarantines the case, and ends it
            if isinstance(event, ev.EventReceived) and event.news.is_asked and env.case_id not in self._asked:
                self._forget(env.time - FRESH)
                self._asked[env.case_id] = _Question(event.news, env.time)
            if (case := self._asked.get(env.case_id)) is not None:
                case.take(event)

    def _forget(self, before: datetime) -> None:
        for case_id in [id for id, case in self._asked.items() if case.at < before and case.ended]:
            del self._asked[case_id]


def _news_of(claim: str, client: str, language: str | None, at: datetime) -> News:
    """Return the item that asks for a claim in the window of this time. Equal claims of a window are one item."""
    text = claim.strip()
    if not normalise_text(text):
        raise ContractError("the claim contains no words: write the sentence to check", reason="empty")
    if len(text) > MAX_CLAIM:
        raise ContractError(f"the claim has {len(text):,} characters: shorten it to {MAX_CLAIM:,}", reason="too_large")
    window = int(at.timestamp() // FRESH.total_seconds())
    return News(
        source=f"{ASKED_PREFIX}{client}",
        external_id=f"{text_hash(text)}:{window}",
        text=text,
        published_at=at,
        received_at=at,
        language=language,
    )


@asynccontextmanager
async def verifying(address: KafkaAddress, topics: Topics) -> AsyncIterator[Verifier]:
    """Yield a verifier on a running installation, connected until the block ends.

    Raises:
        ConfigError, TransientError: Kafka refuses the login, or does not respond.
    """
    async with address.producer(linger_ms=0, enable_idempotence=True) as producer:
        verifier = Verifier(address, topics, producer.send_and_wait)
        following = asyncio.create_task(verifier.follower.run(), name="verify")
        try:
            yield verifier
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following


async def verify(
    claim: str,
    *,
    client: str = "sdk",
    deadline_s: float = DEADLINE_S,
    max_cost_usd: float | None = None,
    language: str | None = None,
    kafka: KafkaAddress | str | None = None,
    prefix: str | None = None,
) -> Verification:
    """Ask a running installation whether a claim is true, and according to whom; as :meth:`Verifier.verify`.

    For many claims, keep one connection: ``async with verifying(address, topics) as verifier``.

    Raises:
        ConfigError, ContractError, TransientError: no Kafka is known, the claim cannot be asked, Kafka does not respond.
    """
    settings = load_client_settings()
    address = await address_of(kafka, settings)
    topics = Topics(settings.newsproof_topic_prefix if prefix is None else prefix)
    async with verifying(address, topics) as verifier:
        return await verifier.verify(
            claim, client=client, deadline_s=deadline_s, max_cost_usd=max_cost_usd, language=language
        )

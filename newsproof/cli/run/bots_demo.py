"""``newsproof bots demo``: the 42 sample events through the pipeline, and its signals into three bots on this machine.

One bot sends webhooks to a receiver, one trades on paper, one reports to a Telegram of its own. Receiver and Telegram are
servers of this module. They know nothing of the bots' books: they count what arrives.

The sample spans five years, so time is played: each revision is dated when the news that caused it was published, and the
bots' clock jumps from one revision or expiry to the next. The bots have the default limits. Two things differ from a real
bot, and the output says so: they accept offline signals, and no signal is valid for more than a day, since the sample's
prices reach no further.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web
from standardwebhooks.webhooks import Webhook

from infra.bots.definition import BotDefinition
from infra.bots.notify import message_adapter
from infra.bots.paper import BarPrices, Paper, PaperTrade, paper_book
from infra.bots.webhook import WebhookAdapter
from infra.kafka.topics import ensure_topics
from infra.market.outcomes.bar_files import read_bars
from infra.market.outcomes.synthetic import bundled_prices
from infra.offline.sample_news import sample_news
from infra.settings import Settings
from newsproof.app.composition import address_of, clickhouse_of, topics_of
from newsproof.app.servers import say_on_stderr as say
from newsproof.app.sheet import MINUTE, Columns, Sheet, Unit, say_result
from newsproof.cli.run.demo import judged
from newsproof.cli.run.demo_pipeline import demo_settings, framed, stored
from schemas.deliveries import DeliveryRecord, Planned, Settled
from schemas.envelope import OFFSET, PARTITION
from schemas.errors import TransientError
from schemas.signals import ACTED_ON, WITHDRAWN, Signal
from schemas.topics import Topics
from streams.bots.delivery_runner import DeliveryRunner
from streams.bots.message_runner import MessageRunner
from streams.bots.runner import BotRunner
from streams.journal.case_reading import read_signals
from streams.journal.log import KafkaLog

if TYPE_CHECKING:
    from newsproof.app.processes.supervisor import Pipeline

DIRECTORY = "bots-demo"
VALID_AT_MOST = timedelta(days=1)
APART = timedelta(seconds=2)
"""Between the revisions that one piece of news causes. A Telegram takes one message a second."""
SETTLED_WITHIN_S, ONCE_LATE_S = 30.0, 1.0
"""After each step, the bots have so long to bring receiver, book and Telegram to where they should be; less once they were late."""
START = datetime(2020, 1, 1, tzinfo=UTC)


class BotsSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of ``bots demo --json``.

    ``signals`` were played, ``retractions`` of them. ``entries`` and ``exits``: at the receiver.
    ``open_positions_wrong``: positions that receiver or paper book should not have had, or lacked, summed over all steps.
    ``duplicate_entries``: of a signal, or into an instrument that was held. ``notified``: messages at the Telegram.
    """

    signals: int
    entries: int
    exits: int
    retractions: int
    open_positions_wrong: int
    duplicate_entries: int
    notified: int
    seconds: float


async def bots_demo(settings: Settings, *, as_json: bool) -> int:
    """Run the demo; return the exit status: 0, or 1 if a position was wrong or an entry came twice.

    Raises:
        NewsproofError: a server or a child process does not start.
    """
    at = demo_settings(settings, live=False).model_copy(
        update={"newsproof_data_dir": settings.newsproof_data_dir / DIRECTORY, "publish_preliminary": True}
    )
    return await framed(at, _run, keep=False, as_json=as_json)


async def _run(running: Pipeline, as_json: bool) -> tuple[BotsSummary, bool]:
    began = time.monotonic()
    revisions = await _judged(running.settings)
    address, topics = address_of(running.settings), Topics(f"{running.settings.topic_prefix}-bots")
    await ensure_topics(address, topics, partitions=running.settings.topic_partitions, replication=1)
    say(
        "The bots play the revisions in the order of the news, from 2020 to 2025, with the default limits. Unlike real ones\n"
        "they accept offline signals, and no signal is valid for more than a day. All prices are invented."
    )
    async with Receiver() as receiver, Telegram() as telegram:
        play = _Play(receiver, telegram)
        async with play.bots(address, topics), address.producer(linger_ms=0) as producer:
            for step in steps_of(revisions):
                await play.step(step, producer, topics)
    signals = {revision.signal.signal_id for revision in revisions}
    summary = BotsSummary(
        signals=len(signals),
        entries=receiver.entries,
        exits=receiver.exits,
        retractions=sum(revision.signal.stage in WITHDRAWN for revision in revisions),
        open_positions_wrong=play.wrong,
        duplicate_entries=receiver.duplicates,
        notified=telegram.messages,
        seconds=round(time.monotonic() - began, 2),
    )
    if not as_json:
        _print(summary, paper_book(play.records, "demo-paper"), play.skipped)
    return summary, not (summary.open_positions_wrong or summary.duplicate_entries)


def _print(summary: BotsSummary, trades: Sequence[PaperTrade], skipped: Mapping[str, int]) -> None:
    columns: Columns = {
        "entered (UTC)": ("entered_at", MINUTE),
        "side": "side",
        "instrument": "instrument",
        "price": ("entry_price", ".2f"),
        "closed (UTC)": ("exited_at", MINUTE),
        "profit": ("profit", Unit(lambda profit: "" if profit is None else f"{profit:+.2%}")),
    }
    Sheet.of(trades, columns, title="Trades on paper, at invented prices, after fees of 0.1 % a fill").print()
    refused = Sheet(
        ("refused because", "signals"), list(skipped.items()), "Orders that the paper bot refused", ("signals",)
    )
    refused.print()
    say_result(
        f"{summary.signals} signals, {summary.retractions} of them retracted. The receiver got {summary.entries} entries and "
        f"{summary.exits} exits, the Telegram server {summary.notified} messages.\nDuplicate entries: {summary.duplicate_entries}; "
        f"wrong positions: {summary.open_positions_wrong}. {summary.seconds:g} s. Next: docs/bots.md"
    )


# The signals, in the time of the news


class Revision(msgspec.Struct, frozen=True):
    """A revision to play, dated when the news that caused it was published; with the headers that publish gave it."""

    at: datetime
    signal: Signal
    headers: dict[str, bytes]


class Step(msgspec.Struct, frozen=True):
    """A time of the played clock, and the revision that arrives then; None: a signal expires."""

    at: datetime
    revision: Revision | None = None


async def _judged(settings: Settings) -> list[Revision]:
    """Run the pipeline on the sample; return all revisions of its signals."""
    address, topics, items = address_of(settings), topics_of(settings), sample_news()
    ends = await judged(settings, items)
    async with clickhouse_of(settings) as tables:
        await stored(settings, topics, ends, tables)
    log = KafkaLog(address)
    cases = {
        (str(tp.partition), str(record.offset)): record.key.decode()
        async for tp, records in log.replay(await log.bounds(topics.cases))
        for record in records
    }
    published = {news.case_id: news.published_at.astimezone(UTC) for news in items}
    of_news = Counter[datetime]()
    dated = []
    for signal, headers in sorted(await read_signals(log, topics), key=lambda pair: pair[0].revision):
        at = published[cases[headers[PARTITION].decode(), headers[OFFSET].decode()]]
        of_news[at] += 1
        dated.append(_dated(signal, headers, at + of_news[at] * APART))
    return dated


def _dated(signal: Signal, headers: dict[str, bytes], at: datetime) -> Revision:
    valid = min(timedelta(seconds=signal.horizon), VALID_AT_MOST)
    return Revision(at, msgspec.structs.replace(signal, decided_at=at, valid_until=at + valid), headers)


def steps_of(revisions: Sequence[Revision]) -> list[Step]:
    """Return the revisions and the expiries in the order of their time."""
    arriving = [Step(revision.at, revision) for revision in revisions]
    expiring = [Step(at) for at in {revision.signal.valid_until for revision in revisions}]
    return sorted([*arriving, *expiring], key=lambda step: step.at)


# What should be: worked out here, without the bots' code


class ExpectedPositions:
    """The positions that a bot with the default limits should hold, and the messages that should have been sent.

    ``fills``: whether an order on an asset gets a price at a time.
    """

    def __init__(self, fills: Callable[[str, datetime], bool]) -> None:
        self._fills = fills
        self.held: dict[str, tuple[str, str]] = {}
        """Asset → (side, signal)."""
        self.messages = 0
        self._live: dict[str, Signal] = {}

    def apply(self, step: Step) -> None:
        arrived = None if step.revision is None else step.revision.signal
        if arrived is not None:
            self.messages += arrived.stage != "preliminary" and arrived.verdict != "unchecked"
            self._live.pop(arrived.signal_id, None)
            if arrived.stage == "final" and arrived.verdict in ACTED_ON and arrived.confidence >= 0.7:
                self._live[arrived.signal_id] = arrived
        self._live = {id: signal for id, signal in self._live.items() if signal.valid_until > step.at}
        sides: dict[str, set[str]] = {}
        for signal in self._live.values():
            sides.setdefault(signal.asset, set()).add("long" if signal.action == "buy" else "short")
        self.held = {asset: held for asset, held in self.held.items() if sides.get(asset) == {held[0]}}
        if arrived is None or arrived.signal_id not in self._live or arrived.asset in self.held:
            return
        [side, *opposite] = sides[arrived.asset]
        if not opposite and len(self.held) < 3 and self._fills(arrived.asset, step.at):
            self.held[arrived.asset] = side, arrived.signal_id


# The destinations


class _Server:
    """A web server on a free port of this machine. Use as ``async with``."""

    path = ""

    async def __aenter__(self) -> Any:
        app = web.Application()
        app.router.add_route("*", self.path + "{rest:.*}", self.answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def answer(self, request: web.Request) -> web.Response:
        raise NotImplementedError


class Receiver(_Server):
    """A receiver of signed webhooks. It answers 401 to a wrong signature and knows repetitions by their id."""

    path = "/hook"

    def __init__(self) -> None:
        self.secret = f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
        self.held: dict[str, tuple[str, str]] = {}
        """Instrument → (side, signal)."""
        self.entries = self.exits = self.duplicates = 0
        self._seen: set[str] = set()
        self._entered: set[str] = set()

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.text()
        name, sent = request.headers["webhook-id"], int(request.headers["webhook-timestamp"])
        # The library's own check compares the time with today's, and this time is played.
        signed = Webhook(self.secret).sign(name, datetime.fromtimestamp(sent, UTC), body)
        if not secrets.compare_digest(signed, request.headers["webhook-signature"]):
            return web.Response(status=401)
        if name not in self._seen:
            self._seen.add(name)
            self._take(msgspec.json.decode(body)["data"])
        return web.Response(status=204)

    def _take(self, data: Mapping[str, Any]) -> None:
        instrument, signal = data["instrument"], data["signal_id"]
        if data["intent"] == "enter":
            self.entries += 1
            self.duplicates += signal in self._entered or instrument in self.held
            self._entered.add(signal)
            self.held[instrument] = (data["side"], signal)
        else:
            self.exits += self.held.pop(instrument, None) is not None


class Telegram(_Server):
    """As much of Telegram's Bot API as a bot needs that reports to one chat."""

    path = "/bot1:demo/"

    def __init__(self) -> None:
        self.messages = 0

    async def answer(self, request: web.Request) -> web.Response:
        if request.match_info["rest"] == "getChat":
            return web.json_response({"ok": True, "result": {"id": -1}})
        if not (await request.json())["text"]:
            return web.json_response({"ok": False, "error_code": 400, "description": "Bad Request"}, status=400)
        self.messages += 1
        return web.json_response({"ok": True, "result": {"message_id": self.messages}})


# The play


def _asset(symbol: str) -> str:
    return symbol.partition("/")[0]


class _Play:
    """The bots, their clock, and the comparison after each step. ``wrong``: positions, summed over all steps."""

    def __init__(self, receiver: Receiver, telegram: Telegram) -> None:
        self.wrong = 0
        self._within_s = SETTLED_WITHIN_S
        self.records: list[DeliveryRecord] = []
        self._receiver, self._telegram = receiver, telegram
        self._now = START
        self._runners: list[BotRunner] = []
        self._tasks: list[asyncio.Task[None]] = []
        series = read_bars(bundled_prices()).series
        self._map = {_asset(prices.symbol): prices.symbol for prices in series}
        self._prices = BarPrices(series)
        bars = {_asset(prices.symbol): prices.times_ms for prices in series}

        def fills(asset: str, at: datetime) -> bool:
            return any(0 <= bar - at.timestamp() * 1000 <= 900_000 for bar in bars.get(asset, ()))

        self._at_receiver, self._on_paper = ExpectedPositions(lambda _asset, _at: True), ExpectedPositions(fills)

    @property
    def skipped(self) -> Mapping[str, int]:
        """Reason → orders that the paper bot refused."""
        bots = {record.id: record.bot for record in self.records if isinstance(record, Planned)}
        settled = (
            record for record in self.records if isinstance(record, Settled) and bots[record.delivery] == "demo-paper"
        )
        return dict(Counter(record.reason for record in settled if record.outcome != "delivered").most_common())

    @asynccontextmanager
    async def bots(self, address: Any, topics: Topics) -> AsyncIterator[None]:
        """Run the three bots."""

        def bot(name: str, kind: str, **fields: Any) -> BotDefinition:
            return BotDefinition(name=name, kind=kind, allow=("offline",), **fields)

        hook = bot("demo-webhook", "webhook", map=self._map, url=f"{self._receiver.url}/hook", mode="live")
        paper = bot("demo-paper", "paper", map=self._map)
        chat = bot("demo-chat", "notify", channel="telegram", to="-1", send=("orders", "retractions", "verdicts"))
        more: dict[str, Any] = {"clock": lambda: self._now, "on_settled": self._keep}
        token = f"{self._telegram.url}/bot1:demo"
        self._runners = [
            BotRunner(hook, WebhookAdapter(hook, (self._receiver.secret,), private=True), address, topics, **more),
            BotRunner(paper, Paper(paper, self._prices), address, topics, **more),
        ]
        messages = MessageRunner(
            chat, message_adapter(chat, (token,)), address, topics, page="https://newsproof.invalid/", **more
        )
        running: Sequence[DeliveryRunner] = (*self._runners, messages)
        self._tasks = [asyncio.create_task(runner.run()) for runner in running]
        try:
            if not await self._until(lambda: all(runner.state == "running" for runner in running)):
                raise TransientError(f"the bots did not start within {SETTLED_WITHIN_S:g} s: run the demo again")
            yield
        finally:
            for runner in running:
                runner.stop()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _keep(self, planned: Planned, settled: Settled) -> None:
        self.records += [planned, settled]

    async def step(self, step: Step, producer: Any, topics: Topics) -> None:
        """Set the clock, send the revision, and compare once the bots have had time to act."""
        self._now = step.at
        self._at_receiver.apply(step)
        self._on_paper.apply(step)
        if step.revision is not None:
            revision = step.revision
            key, headers = revision.signal.signal_id.encode(), list(revision.headers.items())
            await producer.send_and_wait(topics.signals, msgspec.json.encode(revision.signal), key=key, headers=headers)
        for runner in self._runners:
            runner.wake()
        if not await self._until(
            lambda: not self._differences() and self._telegram.messages == self._on_paper.messages
        ):
            self._within_s = ONCE_LATE_S
            self.wrong += len(self._differences())

    def _differences(self) -> list[str]:
        """Return the assets whose position at the receiver, or in the paper book, is not as it should be."""
        open_ones = [trade for trade in paper_book(self.records, "demo-paper") if trade.exited_at is None]
        paper = {trade.asset: (trade.side, trade.signal_id) for trade in open_ones}
        receiver = {_asset(symbol): held for symbol, held in self._receiver.held.items()}
        return [
            asset
            for held, should in ((paper, self._on_paper.held), (receiver, self._at_receiver.held))
            for asset in {*held, *should}
            if held.get(asset) != should.get(asset)
        ]

    async def _until(self, done: Callable[[], bool]) -> bool:
        """Return whether it is done in time."""
        end = time.monotonic() + self._within_s
        while not done():
            for task in self._tasks:
                if task.done():
                    task.result()  # it ends by an error alone
            if time.monotonic() > end:
                return False
            await asyncio.sleep(0.005)
        return True

"""Generates the example of docs/gate.md: a recorded log with prices and labels, and two candidates, all of it invented.

    ./run gate-example DIRECTORY [--cases 400] [--seed 12]

Exchanges, coins, outlets, news, pages, prices and truths exist nowhere. The steps that judge the news are the real ones, run
by a worker on a log in memory, with the scripted model and a search that finds the pages below. Equal arguments give equal
files. Each claim says that an exchange lists or delists a coin, and is of one kind:

========== ===== ========================================= =========================================================
kind       truth its pages                                 who judges it wrongly
========== ===== ========================================= =========================================================
reported   true  four reports                              nobody
unreported both  none                                      nobody: it stays unconfirmed
misread    false reports of the coin's futures             whoever takes them for reports of the claim: it is confirmed
other      true  four reports, a denial of something else  whoever takes that for a denial of the claim: it is refuted
denied     false four reports, the exchange's own denial   whoever does not see that the denial is about the claim
========== ===== ========================================= =========================================================

The scripted critic takes a sentence for one about the claim by the words that both share, and each strict word of its prompt
asks for more of them. ``improved.md`` has one such word and reads what it should; ``worsened.md`` has three, and confirms what
the exchange denied.
"""

from __future__ import annotations

import csv
import io
import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import msgspec

from agents.prompts import load_prompts
from agents.tables import load_tables
from evaluation.replay.log_file import LogRecord, packed
from infra.models.call_costs import TokenUsage
from infra.offline.scripted import HEAVY, LIGHT
from infra.offline.scripted.answering import answer
from infra.offline.scripted.ports import ScriptedPrices
from infra.offline.scripted.reading import ModelRequest
from infra.ports import Answer, Free, Port, Ports
from lab.outage.worker import MemoryWorker
from newsproof.app.servers import say_on_stderr
from newsproof.app.version import code_version
from schemas.calls import ProviderMode
from schemas.config import RULES, Entity, Snapshot, Tables
from schemas.effects import Search, SearchReply
from schemas.evidence import SearchResult
from schemas.news import News
from streams.effects.breakers import Breakers
from streams.effects.host import EffectsHost
from streams.wake import Wake
from tests.empty_journal import EmptyJournal
from tests.virtual_time import run_virtually, virtual_now, virtual_s

FIRST = datetime(2025, 9, 1, tzinfo=UTC)
DAYS = 40
CASES = 400
SEED = 12
Kind = Literal["reported", "unreported", "misread", "other", "denied"]
SHARES: dict[Kind, int] = {"reported": 50, "unreported": 10, "misread": 6, "other": 6, "denied": 28}
"""In a hundred claims."""
EXCHANGES = ("Harborline", "Tidegate", "Northquay", "Lanternex", "Brightwharf", "Saltbridge")
COINS = ("MOSSY", "FERNY", "LARKS", "TIDAL", "EMBRY", "QUILL", "DRIFT", "HAZEL")
PARTNERS = tuple(
    a + b
    for a in ("Quell", "Varo", "Ostra", "Mirel", "Tamar", "Zephi")
    for b in ("on", "tec", "dyne", "mark", "lux", "nova")
)
OUTLETS = ("harborherald.example", "coinlantern.example", "tidereport.example", "quaynews.example")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "October", "November", "December")
CLAIM = (
    "{firm} {act} {coin} for spot trading, deposits open {day}, {partner} makes the market, fees waived until {month}"
)
REPORTS = (
    ("{coin} spot trading at {firm} in the news: deposits open {day}", "Volumes of the token doubled within hours."),
    ("{firm} {act} {coin}, {partner} beside it, fees waived until {month}", "The notice went to customers by mail."),
    ("From {day} on {firm} {act} {coin}, and {partner} makes the market", "Rival venues gave no comment on it."),
    ("{coin} at {firm}: spot deposits open {day}, fees waived", "Holders had asked for such a step for a year."),
)
"""Title and next sentence of each report. It shares at least 7 of the claim's 15 words."""
FUTURES = (
    ("{firm} has {coin} futures trading open on its Asian market", "The contracts are settled in cash each quarter."),
    ("Futures of {coin} at {firm}: trading is open, the market is thin", "Open interest stayed small all week long."),
    ("On {firm} futures market {coin} trading is open around the clock", "Margin rules were set by its risk desk."),
    ("{coin} futures: {firm} keeps its trading open, market calm", "Desks saw no change of the funding rate."),
)
"""The same of a report of something else. It shares 5 of the words."""
OTHER_DENIAL = (
    "{firm} denies that {coin} margin trading is open on its market",
    "Loans on the token were never planned.",
)
DENIAL = (
    "{firm} denies it: no {coin} spot market, and no fees waived",
    "A forged notice is going around, customers be warned.",
)
"""Of the claim, in the exchange's own words. It shares 6 of them."""
MOVE, NOISE_A_DAY = 0.03, 0.02
"""What a true claim moves its coin, one way, and a false one, the other way; and the standard deviation of a day beside it."""
BAR_S = 900
AFTER_DAYS = 8


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One invented claim. ``words`` fill the texts of its pages; its partner's name is in no other claim of its weeks."""

    number: int
    kind: Kind
    true: bool
    at: datetime
    words: dict[str, str]

    @property
    def news(self) -> News:
        """The news that claims it."""
        text = CLAIM.format(**self.words)
        return News(source="wire", external_id=f"gate-{self.number}", text=text, language="en", published_at=self.at)

    @property
    def pages(self) -> tuple[SearchResult, ...]:
        """What a search finds."""
        texts = {"unreported": (), "misread": FUTURES}.get(self.kind, REPORTS)
        pages = [self._page(outlet, text, 3 + n) for n, (outlet, text) in enumerate(zip(OUTLETS, texts, strict=False))]
        if own := {"other": OTHER_DENIAL, "denied": DENIAL}.get(self.kind):
            pages.append(self._page(_host_of(self.words["firm"]), own, 1))
        return tuple(pages)

    def _page(self, host: str, text: tuple[str, str], hours_before: int) -> SearchResult:
        title, then = (part.format(**self.words) for part in text)
        url = f"https://{host}/{self.number}"
        at = self.at - timedelta(hours=hours_before)
        return SearchResult(title=title, url=url, domain=host, snippet=f"{title}. {then}", score=0.9, published_at=at)


def claims(cases: int, *, seed: int) -> list[Claim]:
    """Return the claims in the order of time, spread evenly over :data:`DAYS`."""
    draw = random.Random(seed)
    made = []
    hundred = [kind for kind, share in SHARES.items() for _ in range(share)]
    kinds = [hundred[number * len(hundred) // cases] for number in range(cases)]
    draw.shuffle(kinds)
    for number, kind in enumerate(kinds):
        words = {
            "firm": draw.choice(EXCHANGES), "coin": draw.choice(COINS), "act": draw.choice(("lists", "delists")),
            "partner": f"{PARTNERS[number % len(PARTNERS)]}{number // len(PARTNERS) or ''}", "day": draw.choice(WEEKDAYS), "month": draw.choice(MONTHS),
        }  # fmt: skip
        true = {"reported": True, "other": True, "misread": False, "denied": False}.get(kind, draw.random() < 0.5)
        at = FIRST + timedelta(seconds=int((number + draw.random()) * DAYS * 86_400 / cases))
        made.append(Claim(number=number, kind=kind, true=true, at=at, words=words))
    return made


class ClaimPages(Free, Port):
    """The search: it finds the pages of the claim whose partner a query names."""

    provider, mode = "simulated", "simulated"

    def __init__(self, made: list[Claim]) -> None:
        self._of = {claim.words["partner"].lower(): claim.pages for claim in made}

    async def perform(self, effect: Search) -> Answer:
        named = next((word for word in effect.query.lower().split() if word in self._of), "")
        results = self._of.get(named, ())[: effect.max_results]
        return Answer(
            reply=SearchReply(provider=effect.provider, query=effect.query, results=results), cost_usd=Decimal(0)
        )

    async def close(self) -> None: ...


class ScriptedModel(Free, Port):
    """The scripted model without its server."""

    provider = "openai"  # as the adapter of the server's protocol has it
    mode: ProviderMode = "simulated"

    def __init__(self, model: str) -> None:
        self.model, self._prices = model, ScriptedPrices()

    async def perform(self, effect: Any) -> Answer:
        answered = await answer(ModelRequest(model=self.model, call=effect), "0")
        usage = TokenUsage(input=answered.input_tokens, output=answered.output_tokens)
        cost = self._prices.cost(self.model, usage, virtual_now())
        return Answer(
            reply=answered.reply, cost_usd=cost.usd, cost_source=cost.source, model=self.model,
            usage_input_tokens=answered.input_tokens, usage_output_tokens=answered.output_tokens,
        )  # fmt: skip

    async def close(self) -> None: ...


def recorded(made: list[Claim]) -> bytes:
    """Return the log of a worker that judged these claims, as the bytes of a log file. Call it outside any running loop."""
    return run_virtually(_recorded(made))


async def _recorded(made: list[Claim]) -> bytes:
    journal = EmptyJournal()
    ports = Ports(
        models={"light": ScriptedModel(LIGHT), "heavy": ScriptedModel(HEAVY)}, search={"simulated": ClaimPages(made)},
        recall=journal, earlier=journal, story=journal,
    )  # fmt: skip
    wake = Wake()
    breakers = Breakers(wake=wake, clock=virtual_s, now=virtual_now, draw=lambda: 0.5)
    host = EffectsHost(ports, breakers=breakers, clock=virtual_s, now=virtual_now)
    pinned = Snapshot(
        provider_mode="simulated", code_version=code_version(), rules=RULES, deep_analysis_tools_enabled=True,
        phase1_rollout_percentage=1.0, tool_expand_enabled=False, search_providers=("simulated",), synthesis_choice="model",
        prompts=load_prompts(), tables=_tables(),
    )  # fmt: skip
    # As a worker reads it: the hash of a request leaves out values that are the defaults themselves, not those that equal them.
    pinned = msgspec.json.decode(msgspec.json.encode(pinned), type=Snapshot)
    with TemporaryDirectory() as slot_dir:
        worker = MemoryWorker(host, pinned, wake, Path(slot_dir), lambda _case: None)
        async with worker.working():
            # In no order of time: else the load of a machine while it executes a run would look like a mood of the days.
            for claim in random.Random(SEED).sample(made, len(made)):
                worker.publish(claim.news)
            await worker.finish()
        records = await worker.journal()
    return packed((_config(pinned), *map(_record, records)), 1)


def _tables() -> Tables:
    tables = load_tables(demo=True)
    firms = tuple(Entity(name=name, kind="exchange", domains=(_host_of(name),), synthetic=True) for name in EXCHANGES)
    known = {**tables.credibility, "medium": (*tables.credibility["medium"], *OUTLETS)}
    return msgspec.structs.replace(tables, entities=(*tables.entities, *firms), credibility=known)


def _host_of(firm: str) -> str:
    return f"{firm.lower()}.example"


def _config(pinned: Snapshot) -> LogRecord:
    value = msgspec.json.encode(pinned).decode()
    return LogRecord(topic="configs", partition=0, offset=0, timestamp=0, key=pinned.config_hash, value=value)


def _record(record: Any) -> LogRecord:
    headers = tuple((name, value.decode()) for name, value in record.headers)
    return LogRecord(
        topic="cases", partition=0, offset=record.offset, timestamp=0, key=record.key.decode(), value=record.value.decode(),
        headers=headers,
    )  # fmt: skip


def prices_of(made: list[Claim], *, seed: int) -> str:
    """Return quarter-hourly bars of each coin as CSV. A claim moves its coin during the six hours from its news on."""
    draw = random.Random(f"prices {seed}")
    count = (DAYS + AFTER_DAYS + 1) * 86_400 // BAR_S
    steps = {coin: [draw.gauss(0.0, NOISE_A_DAY * math.sqrt(BAR_S / 86_400)) for _ in range(count)] for coin in COINS}
    for claim in made:
        up = claim.true == (claim.words["act"] == "lists")
        first, many = int((claim.at - FIRST).total_seconds()) // BAR_S + 1, 6 * 3600 // BAR_S
        for bar in range(first, first + many):
            steps[claim.words["coin"]][bar] += (MOVE if up else -MOVE) / many
    out = io.StringIO()
    out.write(
        f"# SYNTHETIC prices of coins that do not exist (seed {seed}), which follow the invented truths of the example.\n"
    )
    table = csv.writer(out, lineterminator="\n")
    table.writerow(("timestamp", "symbol", "open", "high", "low", "close"))
    for coin, moves in steps.items():
        price = 100.0
        for bar, move in enumerate(moves):
            begin, price = price, price * math.exp(move)
            ends = (begin, max(begin, price), min(begin, price), price)
            table.writerow((int(FIRST.timestamp()) + bar * BAR_S, f"{coin}/USDT", *(f"{end:.6g}" for end in ends)))
    return out.getvalue()


def labels_of(made: list[Claim]) -> str:
    """Return the truth of every claim as CSV."""
    lines = (f"{claim.news.case_id},{'true' if claim.true else 'false'},invented" for claim in made)
    return "\n".join(("case,truth,source", *lines, ""))


STRICTER = {
    "improved": "Be strict about what a page is about: futures or margin are not spot.",
    "worsened": "Be strict, be sceptical, and doubt every page that words the claim in another way.",
}
"""The sentence that each candidate adds to the critic's prompt."""


def candidate(words: str) -> str:
    """Return the newest prompt of the critic with another sentence and the next version, as a file."""
    now = load_prompts()["critique"]
    text = resources.files("agents.prompts").joinpath(f"critique.v{now.version}.md").read_text("utf-8")
    head, body = text.split("\n---\n", 1)
    head = head.replace(f"version: {now.version}", f"version: {int(now.version) + 1}")
    first, rest = body.split("\n\n", 1)
    return f"{head}\n---\n{first}\n{words}\n\n{rest}"


def write_files(directory: Path, *, cases: int = CASES, seed: int = SEED) -> None:
    """Write the files of the example. Call it outside any running loop."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files_of(cases, seed=seed):
        (directory / name).write_bytes(content)
        say_on_stderr(f"{directory / name}: {len(content) / 1024:,.0f} KiB")


def files_of(cases: int, *, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each file of the example."""
    made = claims(cases, seed=seed)
    yield "log.jsonl.gz", recorded(made)
    yield "prices.csv", prices_of(made, seed=seed).encode()
    yield "labels.csv", labels_of(made).encode()
    for name, words in STRICTER.items():
        yield f"{name}.md", candidate(words).encode()
